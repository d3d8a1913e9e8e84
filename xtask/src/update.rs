//! Writes anew all that follows from the core's types and figures.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, api, schema};

/// Everything generated, in the order in which one follows from another.
pub fn everything(root: &Path) -> Outcome {
    schema::write(root)?;
    api::write(root)?;
    // `./check python` makes this environment: the generator formats what it writes.
    run(root, ".venv/bin/python", &["python/tools/generate_types.py"])?;
    for (bin, arguments) in
        [("conformance-update", &[][..]), ("cases-update", &[]), ("accuracy", &["--document", "docs"])]
    {
        let cargo = ["run", "--quiet", "--release", "--package", "shardwise-tests", "--bin", bin, "--"];
        run(root, env!("CARGO"), &[&cargo, arguments].concat())?;
    }
    Ok(())
}

fn run(root: &Path, program: &str, arguments: &[&str]) -> Outcome {
    let status = Command::new(program).args(arguments).current_dir(root).status()?;
    if status.success() { Ok(()) } else { Err(format!("{program} {}: {status}", arguments.join(" ")).into()) }
}
