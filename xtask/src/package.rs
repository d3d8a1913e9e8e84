//! What a stranger gets from a registry: that the packages stand alone, on the oldest versions they
//! ask for, under licences that allow it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Outcome;

/// Licences of dependencies, each read once by a person: permissive, all of them.
const LICENCES: [&str; 18] = [
    "(MIT OR Apache-2.0) AND Unicode-3.0",
    "0BSD OR MIT OR Apache-2.0",
    "Apache-2.0",
    "Apache-2.0 OR BSL-1.0",
    "Apache-2.0 OR MIT",
    "Apache-2.0 WITH LLVM-exception",
    "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
    "BSD-2-Clause OR Apache-2.0 OR MIT",
    "BSD-3-Clause",
    "MIT",
    "MIT OR Apache-2.0",
    "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
    "MIT OR Zlib OR Apache-2.0",
    "MIT/Apache-2.0",
    "Unicode-3.0",
    "Unlicense OR MIT",
    "Unlicense/MIT",
    "Zlib",
];

/// Crates that are built in two versions, and why that cannot be helped here.
const TWICE: [(&str, &str); 2] = [
    ("hashbrown", "tools that read WASM are a version behind"),
    ("syn", "serde's derive and this project's are a version apart"),
];

/// Every check, the cheap ones first.
pub fn check(root: &Path) -> Outcome {
    toolchain(root)?;
    licences(root)?;
    duplicates(root)?;
    runtime_dependencies(root)?;
    packages(root)?;
    oldest(root)
}

/// The toolchain with which everything is tested is the oldest that is promised.
fn toolchain(root: &Path) -> Outcome {
    let value = |file: &str, key: &str| -> Outcome<String> {
        let text = fs::read_to_string(root.join(file))?;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
        Ok(line.ok_or_else(|| format!("{file} has no {key}"))?.trim_matches('"').to_owned())
    };
    let (promised, tested) = (value("Cargo.toml", "rust-version")?, value("rust-toolchain.toml", "channel")?);
    if tested == format!("{promised}.0") {
        return Ok(());
    }
    Err(format!("rust-version {promised} is promised, {tested} is tested").into())
}

fn licences(root: &Path) -> Outcome {
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let out = Command::new(env!("CARGO")).current_dir(root).args(arguments).output()?;
    let metadata: Value = serde_json::from_slice(&out.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let strange: Vec<String> = packages
        .iter()
        .filter(|package| !package["source"].is_null())
        .filter(|package| !package["license"].as_str().is_some_and(|licence| LICENCES.contains(&licence)))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    println!("licences: {} packages", packages.len());
    if strange.is_empty() {
        Ok(())
    } else {
        Err(format!("licences to read first: {}", strange.join(", ")).into())
    }
}

fn duplicates(root: &Path) -> Outcome {
    let arguments =
        ["tree", "--workspace", "--duplicates", "--depth", "0", "--edges", "normal,build", "--locked"];
    let out = Command::new(env!("CARGO")).current_dir(root).args(arguments).output()?;
    let text = String::from_utf8(out.stdout)?;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let name = line.split(' ').next().unwrap_or_default();
        if !TWICE.iter().any(|(known, _)| *known == name) {
            return Err(format!("{name} is built in two versions: unify them, or say here why not").into());
        }
    }
    Ok(())
}

/// The npm package and the wheel need nothing but themselves.
fn runtime_dependencies(root: &Path) -> Outcome {
    let npm: Value = serde_json::from_str(&fs::read_to_string(root.join("wasm/package.json"))?)?;
    if !npm["dependencies"].is_null() {
        return Err("wasm/package.json has run-time dependencies".into());
    }
    let wheel = fs::read_to_string(root.join("python/pyproject.toml"))?;
    if wheel.lines().any(|line| line == "dependencies = []") {
        return Ok(());
    }
    Err("python/pyproject.toml has run-time dependencies".into())
}

/// Packs the published crates and builds them from what was packed.
fn packages(root: &Path) -> Outcome {
    let arguments = ["package", "--quiet", "--locked", "--allow-dirty"];
    let published = ["--package", "shardwise-derive", "--package", "shardwise"];
    run(Command::new(env!("CARGO")).current_dir(root).args(arguments).args(published))
}

/// Builds what was packed with the oldest versions of the dependencies that it asks for.
fn oldest(root: &Path) -> Outcome {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let home = target.join("oldest");
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    fs::create_dir_all(&home)?;
    let version = env!("CARGO_PKG_VERSION");
    for name in ["shardwise", "shardwise-derive"] {
        let packed = target.join(format!("package/{name}-{version}"));
        run(Command::new("cp").arg("-r").arg(packed).arg(home.join(name)))?;
        fs::remove_file(home.join(name).join("Cargo.lock"))?;
    }
    fs::write(
        home.join("Cargo.toml"),
        "[workspace]\nresolver = \"3\"\nmembers = [\"shardwise\", \"shardwise-derive\"]\n\n\
         [patch.crates-io]\nshardwise-derive = { path = \"shardwise-derive\" }\n",
    )?;
    let cargo = || {
        let mut command = Command::new(env!("CARGO"));
        // The option is unstable, what it does is not: it picks versions.
        command.current_dir(&home).env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", home.join("target"));
        command
    };
    run(cargo().args(["update", "--quiet", "-Z", "direct-minimal-versions"]))?;
    run(cargo().args(["check", "--quiet", "--package", "shardwise", "--all-features", "--locked"]))
}

fn run(command: &mut Command) -> Outcome {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}
