//! The WASM module: compiled, bound, optimised, measured.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::{Compression, write::GzEncoder};
use wasm_bindgen_cli_support::Bindgen;

use crate::Outcome;

/// What a page should load: bytes of the module after gzip.
const GOAL: usize = 150_000;
/// What it loads with the outlook, the ledger, the search and calibration is twice that; until it shrinks it
/// must at least not grow.
const LIMIT: usize = 316_000;

/// Builds `wasm/pkg`: `shardwise.js`, `shardwise_bg.wasm` and their types.
pub fn build(root: &Path) -> Outcome {
    let package = root.join("wasm");
    let pkg = package.join("pkg");
    compile(root)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    if pkg.exists() {
        fs::remove_dir_all(&pkg)?;
    }
    Bindgen::new()
        .input_path(target.join("wasm32-unknown-unknown/wasm/shardwise_wasm.wasm"))
        .out_name("shardwise")
        .web(true)?
        .omit_default_module_path(false)
        .typescript(true)
        .remove_producers_section(true)
        .generate(&pkg)?;
    fs::copy(root.join("schema/types.ts"), pkg.join("types.d.ts"))?;
    let module = pkg.join("shardwise_bg.wasm");
    optimise(&package, &module)?;
    measure(&module)
}

fn compile(root: &Path) -> Outcome {
    run(Command::new(env!("CARGO")).current_dir(root).args([
        "build",
        "--quiet",
        "--package",
        "shardwise-wasm",
        "--target",
        "wasm32-unknown-unknown",
        "--profile",
        "wasm",
    ]))
}

/// What `wasm-opt` is asked for. Functions that lie beside their like compress better, so they are
/// ordered by their names before these are dropped; Rust keeps the lowest addresses free.
const OPTIONS: [&str; 5] =
    ["-Oz", "--low-memory-unused", "--reorder-functions-by-name", "--strip-debug", "--strip-producers"];

/// `wasm-opt` of the npm package `binaryen`, at the version of wasm/package-lock.json.
fn optimise(package: &Path, module: &Path) -> Outcome {
    let optimiser = package.join("node_modules/.bin/wasm-opt");
    if !optimiser.exists() {
        run(Command::new("npm").current_dir(package).args(["ci", "--silent"]))?;
    }
    run(Command::new(optimiser).args(OPTIONS).arg(module).arg("-o").arg(module))
}

fn measure(module: &Path) -> Outcome {
    let bytes = fs::read(module)?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&bytes)?;
    let zipped = gzip.finish()?.len();
    println!("wasm: {} bytes, {zipped} gzipped (goal {GOAL}, limit {LIMIT})", bytes.len());
    if zipped < LIMIT { Ok(()) } else { Err(format!("{zipped} bytes gzipped, the limit is {LIMIT}").into()) }
}

fn run(command: &mut Command) -> Outcome {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}
