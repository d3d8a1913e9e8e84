//! The conformance cases; `tests/conformance/README.md` says what a runner does with them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The verb.
    pub verb: String,
    /// The request, as text.
    pub request: String,
    /// File of the answer's JSON text.
    pub answer: PathBuf,
    /// File of the answer as text for a person; not every case has one.
    pub prose: PathBuf,
}

/// A request that is refused, and what is said of it.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The verb.
    pub verb: String,
    /// The request, as text.
    pub request: String,
    /// The kept `CODE: MESSAGE`.
    pub said: String,
}

/// The refusals of one file.
#[derive(Clone, Debug)]
pub struct Refusals {
    /// The file.
    pub path: PathBuf,
    /// In its order.
    pub cases: Vec<Refusal>,
}

impl Refusals {
    /// The file's text.
    pub fn text(&self) -> String {
        let block = |r: &Refusal| format!("{} {}\n    {}\n", r.verb, r.request, r.said);
        self.cases.iter().map(block).collect::<Vec<_>>().concat()
    }
}

/// A request drawn at random, and the digest of its answer.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The verb.
    pub verb: String,
    /// The kept digest.
    pub digest: String,
    /// The request, as text.
    pub request: String,
}

impl Drawn {
    /// Its line in the file.
    pub fn line(&self) -> String {
        format!("{} {} {}\n", self.verb, self.digest, self.request)
    }

    /// Digest of what the core answers now: the first 16 digits of its text's SHA-256.
    pub fn answered(&self) -> String {
        let sum = Sha256::digest(shardwise::call_json(&self.verb, &self.request));
        let first = sum.iter().take(8).fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        format!("{first:016x}")
    }
}

/// Where the drawn requests are kept.
pub fn drawn_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/drawn.txt")
}

/// The drawn requests.
///
/// # Errors
/// The file cannot be read.
pub fn drawn() -> io::Result<Vec<Drawn>> {
    let text = fs::read_to_string(drawn_path())?;
    let mut cases = Vec::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        if let (Some(verb), Some(digest), Some(request)) = (words.next(), words.next(), words.next()) {
            cases.push(Drawn { verb, digest, request });
        }
    }
    Ok(cases)
}

/// What the core says now, as the files keep it.
pub fn said(verb: &str, request: &str) -> String {
    match shardwise::call(verb, request) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => {
            format!("{}: {error}", serde_json::to_value(error.code).unwrap_or_default()).replacen('"', "", 2)
        }
    }
}

/// All files of refusals, in the order of their names.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn refusals() -> io::Result<Vec<Refusals>> {
    let mut files = Vec::new();
    for path in sorted(&Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/errors"))? {
        let text = fs::read_to_string(&path)?;
        let mut cases = Vec::new();
        for line in text.lines() {
            match line.strip_prefix("    ") {
                Some(said) => cases.last_mut().map(|r: &mut Refusal| said.clone_into(&mut r.said)),
                None => line.split_once(' ').map(|(verb, request)| {
                    let (verb, request) = (verb.to_owned(), request.to_owned());
                    cases.push(Refusal { verb, request, said: String::new() });
                }),
            };
        }
        files.push(Refusals { path, cases });
    }
    Ok(files)
}

/// All cases, in the order of their names.
///
/// # Errors
/// The folder cannot be read.
pub fn cases() -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for folder in sorted(&Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/cases"))? {
        let verb = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for file in sorted(&folder)? {
            let name = file.to_string_lossy();
            if let Some(stem) = name.strip_suffix(".json").filter(|stem| !stem.ends_with(".answer")) {
                cases.push(Case {
                    verb: verb.clone(),
                    request: fs::read_to_string(&file)?,
                    answer: PathBuf::from(format!("{stem}.answer.json")),
                    prose: PathBuf::from(format!("{stem}.answer.txt")),
                });
            }
        }
    }
    Ok(cases)
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>()?;
    entries.sort();
    Ok(entries)
}
