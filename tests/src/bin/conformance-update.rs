//! Writes the answers of the conformance cases anew. Read the difference before you commit it.

use std::fs;
use std::io;

use shardwise_tests::conformance::{cases, drawn, drawn_path, refusals, said};
use shardwise_tests::library;

/// Verbs whose answer as text is kept beside the JSON.
const WITH_PROSE: [&str; 5] = ["calibrate", "catalog", "compare", "estimate", "plan"];

fn main() -> io::Result<()> {
    let cases = cases()?;
    for case in &cases {
        fs::write(&case.answer, shardwise::call_json(&case.verb, &case.request))?;
        match shardwise::call_text(&case.verb, &case.request) {
            Ok(text) if WITH_PROSE.contains(&case.verb.as_str()) => fs::write(&case.prose, text)?,
            _ => {}
        }
    }
    let mut refused = 0;
    for mut file in refusals()? {
        for case in &mut file.cases {
            case.said = said(&case.verb, &case.request);
        }
        refused += file.cases.len();
        fs::write(&file.path, file.text())?;
    }
    let mut library = library::refusals()?;
    for case in &mut library {
        case.said = library::refused(&case.kind, &case.changes).to_string();
    }
    fs::write(library::path(), library::text(&library))?;
    refused += library.len();
    let mut lines = String::new();
    let mut drawn = drawn()?;
    for case in &mut drawn {
        case.digest = case.answered();
        lines.push_str(&case.line());
    }
    fs::write(drawn_path(), lines)?;
    println!("{} answers, {refused} refusals and {} digests written", cases.len(), drawn.len());
    Ok(())
}
