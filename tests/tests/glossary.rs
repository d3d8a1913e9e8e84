//! The glossary knows every line of an answer. Its words of requests are generated.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use shardwise_tests::conformance::cases;

/// Names of terms and of the instants of memory.
fn lines(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let named = fields.get("formula").or_else(|| fields.get("allocated").filter(|a| a.is_object()));
            if let (Some(_), Some(Value::String(name))) = (named, fields.get("name")) {
                out.insert(name.clone());
            }
            fields.values().for_each(|field| lines(field, out));
        }
        Value::Array(items) => items.iter().for_each(|item| lines(item, out)),
        _ => {}
    }
}

#[test]
fn every_line_of_an_answer_is_explained() {
    let glossary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/glossary.md");
    let glossary = fs::read_to_string(glossary).unwrap();
    let mut names = BTreeSet::new();
    for case in cases().unwrap() {
        lines(&serde_json::from_str(&fs::read_to_string(&case.answer).unwrap()).unwrap(), &mut names);
    }
    assert!(names.len() > 60, "only {} lines found", names.len());
    let missing: Vec<&String> =
        names.iter().filter(|name| !glossary.contains(&format!("**{name}**"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
