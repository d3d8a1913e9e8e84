//! Build steps of shardwise: `cargo xtask wasm`, `schema [--check]`, `api [--check]`, `package`, `fuzz` and
//! `update`.

mod api;
mod data;
mod first;
mod fuzz;
mod glossary;
mod package;
mod schema;
mod typescript;
mod update;
mod wasm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask wasm             builds wasm/pkg and checks the sizes of its modules
       cargo xtask schema           writes schema/ and the words of docs/glossary.md
       cargo xtask schema --check   fails when schema/ is not what the types say
       cargo xtask api              writes core/api.txt, the core's public interface
       cargo xtask api --check      fails when core/api.txt is not what the sources say
       cargo xtask package          packs the published crates, builds them alone and on the oldest
                                    dependencies, reads licences and duplicates
       cargo xtask update           writes all that is generated: schema/, Python's types, the kept
                                    answers, docs/cases.md and docs/accuracy.md
       cargo xtask fuzz [TARGET...] [--seconds N] [--seed N] [--keep]
                                    runs the fuzz targets, 10 s each; --keep adds what they found to
                                    the kept corpus";

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    if let Some(code) = fuzz::compiler() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["wasm"] => wasm::build(&root()),
        ["schema"] => schema::write(&root()),
        ["schema", "--check"] => schema::check(&root()),
        ["fuzz", words @ ..] => fuzz::run(&root(), words),
        ["api"] => api::write(&root()),
        ["api", "--check"] => api::check(&root()),
        ["package"] => package::check(&root()),
        ["update"] => update::everything(&root()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("error: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
