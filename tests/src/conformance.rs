//! The conformance cases; `tests/conformance/README.md` says what a runner does with them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
