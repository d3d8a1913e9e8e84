//! Every fault the core can find: its words, and that no line that raises one lacks a case.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use shardwise::{Error, ErrorCode};
use shardwise_tests::conformance::{refusals, said};
use shardwise_tests::library;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn every_refusal_says_the_kept_words() {
    let mut seen = 0;
    for file in refusals().unwrap() {
        for case in &file.cases {
            assert_eq!(said(&case.verb, &case.request), case.said, "{} {}", case.verb, case.request);
            assert!(case.said != "accepted", "{} {}", case.verb, case.request);
            seen += 1;
        }
        assert_eq!(fs::read_to_string(&file.path).unwrap(), file.text(), "{}", file.path.display());
    }
    assert!(seen >= 200, "only {seen} refusals found");
}

fn fault(verb: &str, request: &str) -> Error {
    shardwise::call(verb, request).err().unwrap_or_else(|| panic!("accepted: {verb} {request}"))
}

/// What a field of that path may be, by the schema: none where there is no such field.
fn described<'a>(schema: &'a Value, at: &'a Value, path: &str) -> Option<&'a Value> {
    if let Some(name) = at["$ref"].as_str() {
        return described(schema, schema.pointer(name.trim_start_matches('#'))?, path);
    }
    let end = match path.strip_prefix('[') {
        Some(inside) => inside.find(']').map(|i| i + 2),
        None => path[1..].find(['.', '[']).map(|i| i + 1),
    };
    let (name, rest) = path.split_at(end.unwrap_or(path.len()));
    let inner = match name.strip_prefix('[') {
        Some(_) => Some(&at["items"]).filter(|items| !items.is_null()),
        None => at["properties"].get(name.trim_start_matches('.')),
    };
    let within =
        inner.and_then(|inner| if rest.is_empty() { Some(inner) } else { described(schema, inner, rest) });
    within.or_else(|| {
        let mut ways = ["anyOf", "oneOf"].iter().filter_map(|key| at[key].as_array()).flatten();
        ways.find_map(|way| described(schema, way, path))
    })
}

#[test]
fn a_fault_names_a_field_of_the_request() {
    let mut seen = 0;
    for case in refusals().unwrap().iter().flat_map(|file| &file.cases) {
        let error = fault(&case.verb, &case.request);
        let path = match (error.code, error.field.rsplit_once('.')) {
            (ErrorCode::Syntax, _) => continue,
            (ErrorCode::UnknownField, Some((object, _))) => object,
            (ErrorCode::UnknownField, None) => continue,
            _ => &error.field,
        };
        // A model's config has the fields that its library gives it.
        if path.is_empty() || path == "verb" || path.contains("model.") {
            continue;
        }
        let file = root().join(format!("schema/{}.request.json", case.verb));
        let schema: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let path = format!(".{path}");
        assert!(described(&schema, &schema, &path).is_some(), "{path} of {} {}", case.verb, case.request);
        seen += 1;
    }
    assert!(seen > 300, "only {seen} seen");
}

/// A place in the source that raises faults, as `FILE:LINE`.
type Site = (String, u32);

/// The functions that raise a fault in their caller's name, and the file to which one is private.
fn raisers(sources: &[(String, String)]) -> Vec<(String, Option<&str>)> {
    const TRACKS: &str = "#[cfg_attr(feature = \"origins\", track_caller)]";
    let mut raisers = Vec::new();
    for (file, text) in sources {
        for after in text.split(TRACKS).skip(1) {
            let (before, from) = after.split_once("fn ").unwrap();
            let name = from.split(['(', '<']).next().unwrap().to_owned();
            raisers.push((name, (!before.contains("pub")).then_some(file.as_str())));
        }
    }
    raisers
}

fn sources(folder: &Path, out: &mut Vec<(String, String)>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            out.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Every call of a raiser outside of comments, of tests and of the raisers themselves.
fn sites() -> BTreeSet<Site> {
    let mut files = Vec::new();
    sources(&root().join("core/src"), &mut files);
    let raisers = raisers(&files);
    let mut sites = BTreeSet::new();
    for (file, text) in &files {
        if file.ends_with("/tests.rs") {
            continue;
        }
        let mut tracked = false;
        let mut inside = None;
        for (i, line) in text.lines().enumerate() {
            if line.trim() == "#[cfg(test)]" {
                break;
            }
            let code = line.trim_start();
            if code.starts_with("//") {
                continue;
            }
            tracked |= code.contains("track_caller");
            let depth = line.len() - code.len();
            if tracked && code.contains("fn ") {
                (tracked, inside) = (false, Some(depth));
            }
            if inside.is_some() {
                inside = inside.filter(|&from| code != "}" || depth > from);
                continue;
            }
            let calls = |(name, only): &(String, Option<&str>)| {
                if only.is_some_and(|only| only != file) {
                    return false;
                }
                let call = format!("{name}(");
                code.match_indices(&call).any(|(at, _)| {
                    let before = &code[..at];
                    let whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
                    // Of all functions called `new`, the fault's.
                    whole && !before.ends_with("fn ") && (name != "new" || before.ends_with("Error::"))
                })
            };
            if raisers.iter().any(calls) {
                sites.insert((file.clone(), u32::try_from(i).unwrap() + 1));
            }
        }
    }
    sites
}

/// Refusals too long for a file of cases.
fn too_long() -> [(&'static str, String, &'static str); 2] {
    let steps = vec![r#"{"at": 0, "nodes": 1}"#; 100_001].join(", ");
    [
        ("plan", " ".repeat(9 << 20), "request: got 9437184 bytes; allowed: a request of at most 8 MiB"),
        (
            "estimate",
            format!(
                r#"{{"model": "gpt2", "cluster": "H100", "seq_len": 8, "run": {{"steps": 9e5, "faults":
                   {{"trace": {{"steps": [{steps}], "length": 100}}}}}}}}"#
            ),
            "run.faults.trace.steps: got a list of 100001; allowed: a list of 0 to 100000",
        ),
    ]
}

#[test]
fn what_is_too_long_is_refused() {
    for (verb, request, said) in too_long() {
        assert_eq!(fault(verb, &request).to_string(), said);
    }
}

#[test]
fn every_refusal_of_the_library_says_the_kept_words() {
    let cases = library::refusals().unwrap();
    assert!(cases.len() > 100, "only {} refusals found", cases.len());
    for library::Refusal { kind, changes, said } in cases {
        assert_eq!(library::refused(&kind, &changes).to_string(), said, "{kind} {changes}");
    }
}

/// Raised only if something else were broken.
const UNREACHABLE: [(&str, &str); 2] = [
    // The request's own machines, recipe and batch are always among what the search may choose.
    ("core/src/api/plan.rs", "machines, a recipe and a batch"),
    // A request's measured times were checked where it was read.
    ("core/src/calibrate.rs", "in_range(&field, o.measured"),
];

#[test]
fn every_line_that_raises_a_fault_has_a_case() {
    let sites = sites();
    assert!(sites.len() > 240, "only {} sites found", sites.len());
    let mut raised: BTreeSet<Site> = BTreeSet::new();
    let mut seen = |e: &Error| {
        raised.insert((e.origin().file().to_owned(), e.origin().line()));
    };
    for case in refusals().unwrap().iter().flat_map(|file| &file.cases) {
        seen(&fault(&case.verb, &case.request));
    }
    for (verb, request, _) in too_long() {
        seen(&fault(verb, &request));
    }
    for case in library::refusals().unwrap() {
        seen(&library::refused(&case.kind, &case.changes));
    }
    let text = |(file, line): &Site| {
        let text = fs::read_to_string(root().join(file)).unwrap();
        text.lines().nth(*line as usize - 1).unwrap_or_default().trim().to_owned()
    };
    let bare: Vec<String> = sites
        .difference(&raised)
        .filter(|site| !UNREACHABLE.iter().any(|(file, says)| *file == site.0 && text(site).contains(says)))
        .map(|site| format!("{}:{} {}", site.0, site.1, text(site)))
        .collect();
    assert!(bare.is_empty(), "{} lines of {} have no case:\n{}", bare.len(), sites.len(), bare.join("\n"));
}
