//! Builds and runs the fuzz targets of `fuzz/` on the pinned stable toolchain. What `cargo fuzz` does
//! with a nightly one: libFuzzer from `libfuzzer-sys`, edges counted by LLVM's `SanitizerCoverage`.
//!
//! Only the core is instrumented, so that the fuzzer is led by the core's branches and not by those
//! of its libraries or of the checks: this program stands in for the compiler and adds the flags.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::Outcome;

/// Set while this program stands in for the compiler.
const STANDS_IN: &str = "SHARDWISE_FUZZ_COMPILER";

const INSTRUMENTED: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
];

/// Bounds of one execution. The longest input is far beyond any request by hand.
const BOUNDS: &[&str] = &["-timeout=10", "-rss_limit_mb=512", "-max_len=65536"];

/// Bytes of a target's kept corpus.
const KEPT: usize = 40_000;

const SECONDS: &str = "10";

/// When the build has this program stand in for the compiler: its exit code.
pub fn compiler() -> Option<ExitCode> {
    std::env::var_os(STANDS_IN)?;
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (compiler, arguments) = words.split_first()?;
    let core =
        arguments.windows(2).any(|pair| matches!(pair, [a, b] if a == "--crate-name" && b == "shardwise"));
    let mut command = Command::new(compiler);
    command.args(arguments);
    if core {
        command.args(INSTRUMENTED);
    }
    let ended = command.status().ok()?;
    Some(if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `cargo xtask fuzz [TARGET...] [--seconds N] [--seed N] [--keep]`; seed 0 means another every time.
pub fn run(root: &Path, words: &[&str]) -> Outcome {
    let mut words = words.iter();
    let (mut named, mut seconds, mut seed, mut keep) = (Vec::new(), SECONDS, "0", false);
    while let Some(&word) = words.next() {
        match word {
            "--seconds" => seconds = words.next().ok_or("--seconds wants a number")?,
            "--seed" => seed = words.next().ok_or("--seed wants a number")?,
            "--keep" => keep = true,
            _ => named.push(word.to_owned()),
        }
    }
    let fuzz = root.join("fuzz");
    let known = targets(&fuzz)?;
    if let Some(strange) = named.iter().find(|name| !known.contains(*name)) {
        return Err(format!("no target {strange}; there are {}", known.join(", ")).into());
    }
    let chosen = if named.is_empty() { known } else { named };
    let work = root.join("target/fuzz");
    build(&fuzz, &work)?;
    fs::create_dir_all(work.join("found"))?;
    fs::write(work.join("dictionary"), dictionary(root)?)?;

    println!(
        "{:<12} {:>12} {:>10} {:>8} {:>10} {:>10}",
        "target", "executions", "a second", "edges", "features", "peak MB"
    );
    let mut total = 0;
    for target in &chosen {
        let place = Place::new(&fuzz, &work, target)?;
        total += place.fuzz(seconds, seed)?;
        if keep {
            place.keep()?;
        }
    }
    println!("{:<12} {total:>12}", "total");
    Ok(())
}

/// The targets, by their files.
fn targets(fuzz: &Path) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(fuzz.join("targets"))? {
        names.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn build(fuzz: &Path, work: &Path) -> Outcome {
    let ended = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "--locked", "--bins"])
        .arg("--manifest-path")
        .arg(fuzz.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(work)
        .env("RUSTC_WRAPPER", std::env::current_exe()?)
        .env(STANDS_IN, "1")
        .status()?;
    if ended.success() { Ok(()) } else { Err("the fuzz targets do not build".into()) }
}

/// Every name of a field and every word that a request may hold, for changes of bytes.
fn dictionary(root: &Path) -> Outcome<String> {
    fn collect(value: &Value, words: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, below) in map {
                    if let ("properties", Some(fields)) = (key.as_str(), below.as_object()) {
                        words.extend(fields.keys().cloned());
                    }
                    if let ("const", Some(word)) = (key.as_str(), below.as_str()) {
                        words.insert(word.to_owned());
                    }
                    collect(below, words);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
            _ => {}
        }
    }
    let mut words = BTreeSet::new();
    for verb in ["calibrate", "compare"] {
        let text = fs::read_to_string(root.join(format!("schema/{verb}.request.json")))?;
        collect(&serde_json::from_str(&text)?, &mut words);
    }
    let lines: Vec<String> = words.iter().map(|word| format!("\"\\\"{word}\\\"\"")).collect();
    Ok(lines.join("\n") + "\n")
}

/// Where one target's things lie.
struct Place<'a> {
    target: &'a str,
    program: PathBuf,
    dictionary: PathBuf,
    /// The corpus that is part of the repository: a list of texts.
    kept: PathBuf,
    /// The same, a file for each.
    seeds: PathBuf,
    /// What runs here found beside it.
    grown: PathBuf,
    found: PathBuf,
}

impl<'a> Place<'a> {
    fn new(fuzz: &Path, work: &Path, target: &'a str) -> Outcome<Self> {
        let place = Self {
            target,
            program: work.join("release").join(target),
            dictionary: work.join("dictionary"),
            kept: fuzz.join("corpus").join(format!("{target}.json")),
            seeds: work.join("seeds").join(target),
            grown: work.join("grown").join(target),
            found: work.join("found").join(format!("{target}-")),
        };
        fs::create_dir_all(&place.grown)?;
        if place.seeds.exists() {
            fs::remove_dir_all(&place.seeds)?;
        }
        fs::create_dir_all(&place.seeds)?;
        let kept: Vec<String> = serde_json::from_str(&fs::read_to_string(&place.kept)?)?;
        for (i, text) in kept.iter().enumerate() {
            fs::write(place.seeds.join(format!("{i:04}")), text)?;
        }
        Ok(place)
    }

    /// Runs it for so many seconds: how many executions there were.
    fn fuzz(&self, seconds: &str, seed: &str) -> Outcome<u64> {
        let output = Command::new(&self.program)
            .args([&self.grown, &self.seeds])
            .args(BOUNDS)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-seed={seed}"))
            .arg(format!("-dict={}", self.dictionary.display()))
            .arg(format!("-artifact_prefix={}", self.found.display()))
            .args(["-print_final_stats=1", "-reload=0"])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let last: Vec<&str> = said.lines().filter(|line| !line.starts_with('#')).collect();
            eprintln!("{}", last.get(last.len().saturating_sub(60)..).unwrap_or_default().join("\n"));
            return Err(
                format!("{} failed; the input lies beside {}", self.target, self.found.display()).into()
            );
        }
        let figure = |name: &str| -> u64 {
            let at = |line: &str| {
                line.strip_prefix(name).and_then(|rest| rest.trim_matches([' ', ':']).parse().ok())
            };
            said.lines().rev().find_map(at).unwrap_or_default()
        };
        let executions = figure("stat::number_of_executed_units");
        let done = said.lines().rev().find(|line| line.contains("DONE")).unwrap_or_default();
        let after =
            |word: &str| done.split_whitespace().skip_while(|w| *w != word).nth(1).unwrap_or("?").to_owned();
        println!(
            "{:<12} {executions:>12} {:>10} {:>8} {:>10} {:>10}",
            self.target,
            figure("stat::average_exec_per_sec"),
            after("cov:"),
            after("ft:"),
            figure("stat::peak_rss_mb"),
        );
        Ok(executions)
    }

    /// Adds to the kept inputs the shortest of those that together reach all that was reached.
    fn keep(&self) -> Outcome {
        let merged = self.grown.with_extension("merged");
        if merged.exists() {
            fs::remove_dir_all(&merged)?;
        }
        fs::create_dir_all(&merged)?;
        let ended = Command::new(&self.program)
            .args(["-set_cover_merge=1"])
            .args(BOUNDS)
            .args([&merged, &self.seeds, &self.grown])
            .output()?;
        if !ended.status.success() {
            return Err(format!("{}: the corpus could not be merged", self.target).into());
        }
        let mut texts: BTreeSet<String> = serde_json::from_str(&fs::read_to_string(&self.kept)?)?;
        let mut size: usize = texts.iter().map(String::len).sum();
        let mut more = Vec::new();
        for entry in fs::read_dir(&merged)? {
            // What is no text no target reads.
            more.extend(String::from_utf8(fs::read(entry?.path())?).ok());
        }
        more.sort_by_key(String::len);
        for text in more {
            if size + text.len() > KEPT {
                break;
            }
            size += if texts.contains(&text) { 0 } else { text.len() };
            texts.insert(text);
        }
        let lines: Vec<String> = texts
            .iter()
            .map(|text| Ok(format!("  {}", serde_json::to_string(text)?)))
            .collect::<Outcome<_>>()?;
        fs::write(&self.kept, format!("[\n{}\n]\n", lines.join(",\n")))?;
        println!("{:<12} {} inputs kept", "", texts.len());
        Ok(())
    }
}
