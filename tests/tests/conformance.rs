//! Replays the conformance cases through the Rust face.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use shardwise::api::{CompareRequest, DescribeModelRequest, EstimateRequest, compare, estimate};
use shardwise_tests::conformance::{Case, cases, drawn};

/// Fails on the first difference, with what stands around it: an answer is too long to print whole.
fn same(path: &Path, given: &str, kept: &str) {
    let at = given.bytes().zip(kept.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(80)..text.len().min(at + 80)]).into_owned()
    };
    assert!(given == kept, "{}\n given {}\n kept  {}", path.display(), around(given), around(kept));
}

#[test]
fn every_case_gives_the_kept_bytes() {
    let cases = cases().unwrap();
    assert!(cases.len() >= 50, "only {} cases found", cases.len());
    for case in &cases {
        let kept = fs::read_to_string(&case.answer).unwrap();
        let given = shardwise::call_json(&case.verb, &case.request);
        same(&case.answer, &given, &kept);
    }
}

#[test]
fn requests_drawn_at_random_keep_their_answers() {
    let drawn = drawn().unwrap();
    assert!(drawn.len() >= 300, "only {} requests", drawn.len());
    for (i, case) in drawn.iter().enumerate() {
        assert_eq!(case.answered(), case.digest, "line {} of drawn.txt, {}", i + 1, case.verb);
    }
}

/// The answer by serde's own reader and writer, where the request can be read.
fn by_serde<R: DeserializeOwned, A: Serialize>(
    case: &Case,
    verb: impl Fn(&R) -> Result<A, shardwise::Error>,
) -> Option<String> {
    let request: R = serde_json::from_str(&case.request).ok()?;
    verb(&request).ok().map(|answer| serde_json::to_string(&answer).unwrap())
}

#[test]
fn serde_reads_and_prints_the_same() {
    let mut seen = 0;
    for case in cases().unwrap() {
        let typed = match case.verb.as_str() {
            "estimate" => by_serde(&case, |r: &EstimateRequest| estimate(r)),
            "compare" => by_serde(&case, |r: &CompareRequest| compare(r)),
            "describe_model" => by_serde(&case, |r: &DescribeModelRequest| {
                r.model.resolve("model").map(|model| model.summary())
            }),
            _ => None,
        };
        if let Some(typed) = typed {
            same(&case.answer, &shardwise::call(&case.verb, &case.request).unwrap(), &typed);
            seen += 1;
        }
    }
    assert!(seen >= 25, "only {seen} answers compared");
}

#[test]
fn every_case_with_prose_gives_the_kept_text() {
    let mut seen = 0;
    for case in cases().unwrap().iter().filter(|case| case.prose.exists()) {
        let kept = fs::read_to_string(&case.prose).unwrap();
        let given = shardwise::call_text(&case.verb, &case.request).unwrap();
        same(&case.prose, &given, &kept);
        seen += 1;
    }
    assert!(seen >= 15, "only {seen} texts found");
}

#[test]
fn faults_name_a_field_and_what_is_allowed() {
    let faults: Vec<_> =
        cases().unwrap().into_iter().filter_map(|c| shardwise::call(&c.verb, &c.request).err()).collect();
    assert!(faults.len() >= 20, "only {} faults found", faults.len());
    for fault in faults {
        assert!(!fault.allowed.is_empty(), "{fault:?}");
    }
}
