//! The words that requests and answers may hold, for the glossary: every enum of the schemas.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// What stands before the generated half.
const HEADING: &str = "## Words of requests and answers\n";

/// The glossary with its second half written anew.
pub fn rendered<'a>(kept: &str, schemas: impl Iterator<Item = &'a Value>) -> Option<String> {
    let (written, _) = kept.split_once(HEADING)?;
    let mut enums = BTreeMap::new();
    for schema in schemas {
        let definitions = schema["$defs"].as_object().into_iter().flatten();
        enums.extend(definitions.filter(|(_, of)| words(of).is_some()));
    }
    let mut out = [written, HEADING].concat();
    for (name, of) in enums {
        let _ = writeln!(out, "\n**{name}**: {}\n", line(of));
        for word in words(of).into_iter().flatten() {
            let _ = writeln!(out, "- `{}`: {}", word["const"].as_str().unwrap_or_default(), line(word));
        }
    }
    Some(out)
}

/// The words of an enum, each with its description.
fn words(of: &Value) -> Option<&Vec<Value>> {
    of["oneOf"].as_array().filter(|words| words.iter().all(|word| word["const"].is_string()))
}

fn line(of: &Value) -> String {
    of["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
