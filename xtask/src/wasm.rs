//! The WASM module: compiled, bound, optimised, measured.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::{Compression, write::GzEncoder};
use wasm_bindgen_cli_support::Bindgen;

use crate::{Outcome, data, first};

/// A module of the package, and the bytes after gzip that it must stay below.
struct Kept {
    file: &'static str,
    limit: usize,
}

/// The whole core. It follows while the page is already used, and must at least not grow.
const WHOLE: Kept = Kept { file: "shardwise_bg.wasm", limit: 318_000 };
/// What the page loads before it shows its first plan.
const FIRST: Kept = Kept { file: "shardwise_first_bg.wasm", limit: 150_000 };

/// Builds `wasm/pkg`: `shardwise.js`, both modules and the types.
pub fn build(root: &Path) -> Outcome {
    let package = root.join("wasm");
    let pkg = package.join("pkg");
    compile(root)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    if pkg.exists() {
        fs::remove_dir_all(&pkg)?;
    }
    let linked = target.join("wasm32-unknown-unknown/wasm/shardwise_wasm.wasm");
    Bindgen::new()
        .input_path(&linked)
        .out_name("shardwise")
        .web(true)?
        .omit_default_module_path(false)
        .typescript(true)
        .remove_producers_section(true)
        .generate(&pkg)?;
    fs::copy(root.join("schema/types.ts"), pkg.join("types.d.ts"))?;
    let bound = fs::read(pkg.join(WHOLE.file))?;
    fs::write(pkg.join(FIRST.file), first::cut(root, &bound, &fs::read(linked)?)?)?;
    let mut whole = data::module(&bound)?;
    data::join(&mut whole)?;
    fs::write(pkg.join(WHOLE.file), whole.emit_wasm())?;
    for module in [WHOLE, FIRST] {
        optimise(&package, &pkg.join(module.file))?;
        measure(&pkg, &module)?;
    }
    Ok(())
}

fn compile(root: &Path) -> Outcome {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args([
        "rustc",
        "--quiet",
        "--package",
        "shardwise-wasm",
        "--target",
        "wasm32-unknown-unknown",
        "--profile",
        "wasm",
        "--",
    ]);
    run(command.args(data::APART.map(|option| format!("-Clink-arg={option}"))))
}

/// What `wasm-opt` is asked for. Functions that lie beside their like compress better, so they are
/// ordered by their names before these are dropped; hints of alignment, which no engine heeds, compress
/// better where all are alike; Rust keeps the lowest addresses free.
const OPTIONS: [&str; 6] = [
    "-Oz",
    "--dealign",
    "--low-memory-unused",
    "--reorder-functions-by-name",
    "--strip-debug",
    "--strip-producers",
];

/// `wasm-opt` of the npm package `binaryen`, at the version of wasm/package-lock.json.
fn optimise(package: &Path, module: &Path) -> Outcome {
    let optimiser = package.join("node_modules/.bin/wasm-opt");
    if !optimiser.exists() {
        run(Command::new("npm").current_dir(package).args(["ci", "--silent"]))?;
    }
    run(Command::new(optimiser).args(OPTIONS).arg(module).arg("-o").arg(module))
}

fn measure(pkg: &Path, &Kept { file, limit }: &Kept) -> Outcome {
    let bytes = fs::read(pkg.join(file))?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&bytes)?;
    let zipped = gzip.finish()?.len();
    println!("{file}: {} bytes, {zipped} gzipped (limit {limit})", bytes.len());
    if zipped < limit {
        Ok(())
    } else {
        Err(format!("{file}: {zipped} bytes gzipped, the limit is {limit}").into())
    }
}

fn run(command: &mut Command) -> Outcome {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}
