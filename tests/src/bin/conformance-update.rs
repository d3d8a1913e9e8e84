//! Writes the answers of the conformance cases anew. Read the difference before you commit it.

use std::fs;
use std::io;

use shardwise_tests::conformance::cases;

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
    println!("{} answers written", cases.len());
    Ok(())
}
