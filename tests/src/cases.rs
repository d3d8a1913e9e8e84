//! The worked cases of the buyers' guides: each a claim, a request, and what the core answers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;
use serde_json::Value;

/// One claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its letter.
    pub id: String,
    /// What the guide says.
    pub claim: String,
    /// The guide's own arithmetic, and what is to be seen in the answer.
    pub sum: String,
    /// Whether memory and step terms are shown too.
    #[serde(default)]
    pub opened: bool,
}

/// A request with its verb.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The verb.
    pub verb: String,
    /// The request.
    pub request: Value,
}

/// Where the cases lie.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cases")
}

/// Every claim, in the order of its letter.
pub fn claims() -> io::Result<Vec<Claim>> {
    Ok(serde_json::from_str(&fs::read_to_string(folder().join("claims.json"))?)?)
}

impl Claim {
    /// Its request; none where there is no machine to ask about.
    pub fn request(&self) -> io::Result<Option<Request>> {
        let path = folder().join(format!("{}.json", self.id.to_lowercase()));
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&fs::read_to_string(path)?)?))
    }

    /// What the core answers, as text.
    pub fn answer(&self) -> io::Result<Option<String>> {
        let Some(asked) = self.request()? else { return Ok(None) };
        let text = shardwise::call_text(&asked.verb, &asked.request.to_string())
            .map_err(|e| io::Error::other(format!("case {}: {e}", self.id)))?;
        let term = |line: &&str| line.starts_with("memory: ") || line.starts_with("step: ");
        let kept: Vec<&str> =
            text.lines().filter(|line| self.opened || !term(line)).map(str::trim_end).collect();
        Ok(Some(kept.join("\n")))
    }
}

/// The whole page.
pub fn page() -> io::Result<String> {
    let mut out = String::from(
        "# Worked cases\n\nFigures that practitioners' guides to cost-efficient training quote, held against what \
         shardwise answers. They are claims, not measurements, and nothing is fitted to them. Where a guide's own \
         arithmetic does not hold, the sum is shown. Each request lies in `tests/data/cases/`; `cargo run -p \
         shardwise-tests --bin cases-update` writes this page anew.\n",
    );
    for claim in claims()? {
        let _ = write!(out, "\n## {}\n\n> {}\n\n{}\n", claim.id, claim.claim, claim.sum);
        if let Some(answer) = claim.answer()? {
            let _ = write!(out, "\n```text\n{}\n```\n", answer.trim_matches('\n'));
        }
    }
    Ok(out)
}
