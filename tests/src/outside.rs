//! What must hold of the answer to any bytes from outside, whatever they say: the fuzz targets and
//! the tests of extremes ask it.

use std::fmt::{Debug, Display};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shardwise::api::{
    CalibrateRequest, CatalogRequest, CompareRequest, DescribeModelRequest, EstimateRequest, PlanRequest,
    calibrate, catalog, compare, describe_model, estimate, plan,
};
use shardwise::{Error, ErrorCode};

/// Asks a verb and checks all that is promised of its answer; gives the answer.
///
/// The same request gives the same bytes, also by way of the types and of serde's reader and
/// writer; every figure is finite; JSON out is JSON, and prints as it came; an error names a field
/// and what is allowed.
///
/// # Errors
/// The error that the verb gave, itself checked.
///
/// # Panics
/// If a promise is broken.
pub fn ask(verb: &str, request: &str) -> Result<String, Error> {
    let answer = shardwise::call(verb, request);
    match &answer {
        Ok(text) => {
            let value: Value = serde_json::from_str(text).expect("an answer is JSON");
            assert!(value.is_object(), "an answer is an object: {text}");
            assert_eq!(&value.to_string(), text, "the answer prints as it came");
            if not_finite(request).is_none() {
                assert_eq!(not_finite(text), None, "in the answer to {request}");
            }
        }
        Err(error) => sound(error, request),
    }
    match verb {
        "calibrate" => typed(request, &answer, |r: &CalibrateRequest| calibrate(r)),
        "catalog" => typed(request, &answer, |r: &CatalogRequest| catalog(r)),
        "compare" => typed(request, &answer, |r: &CompareRequest| compare(r)),
        "describe_model" => typed(request, &answer, |r: &DescribeModelRequest| describe_model(r)),
        "estimate" => typed(request, &answer, |r: &EstimateRequest| estimate(r)),
        "plan" => typed(request, &answer, |r: &PlanRequest| plan(r)),
        _ => {}
    }
    answer
}

/// Asks once more by way of the types, and for a person.
fn typed<R: DeserializeOwned, A: Serialize + Debug + Display>(
    request: &str,
    answer: &Result<String, Error>,
    verb: impl Fn(&R) -> Result<A, Error>,
) {
    // As a value first: of a field given twice the last counts, and serde's types refuse it.
    let Ok(value) = serde_json::from_str::<Value>(request) else {
        let error = answer.as_ref().expect_err("what serde_json cannot read");
        assert!(matches!(error.code, ErrorCode::Syntax | ErrorCode::OutOfRange), "{error}");
        return;
    };
    let read: R = match serde_json::from_value(value) {
        Ok(read) => read,
        Err(fault) => {
            assert!(answer.is_err(), "serde refuses it: {fault}: {request}");
            return;
        }
    };
    match (verb(&read), answer) {
        (Ok(typed), Ok(text)) => {
            assert_eq!(not_finite(&outside_quotes(&format!("{typed:?}"))), None, "in a figure for {request}");
            let again = serde_json::to_string(&typed).expect("an answer prints");
            assert!(again == *text, "other bytes the second time:\n{again}\n{text}");
            let prose = typed.to_string();
            assert!(!prose.trim().is_empty(), "no text for {request}");
            if not_finite(request).is_none() {
                assert_eq!(not_finite(&prose), None, "in the text for {request}");
            }
        }
        // Serde reads an object also from the list of its fields; the core's own reader does not.
        (_, Err(error)) if error.given == "a list" && error.allowed == "an object" => {}
        (Err(a), Err(b)) => assert_eq!(&a, b, "another error the second time"),
        (Ok(_), Err(error)) => panic!("the types take what the text does not: {error}: {request}"),
        (Err(error), Ok(_)) => panic!("the text takes what the types do not: {error}: {request}"),
    }
}

/// What is promised of an error.
///
/// # Panics
/// If it is broken.
pub fn sound(error: &Error, request: &str) {
    assert!(!error.allowed.is_empty(), "what is allowed: {error:?}");
    assert!(!error.field.is_empty() || whole(error.code), "which field: {error:?} of {request}");
    assert!(error.given.chars().count() <= 123, "input is not echoed whole: {error:?}");
    let text = error.to_json();
    let value: Value = serde_json::from_str(&text).expect("an error is JSON");
    assert_eq!(value.to_string(), text);
    assert_eq!(serde_json::to_string(error).expect("an error prints"), text);
    assert_eq!(value["message"], Value::String(error.to_string()));
}

/// Whether such a fault may be one of the whole request.
fn whole(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Syntax | ErrorCode::WrongType | ErrorCode::OutOfRange)
}

/// The words by which Rust prints what is not a finite number, where they stand alone.
#[must_use]
pub fn not_finite(text: &str) -> Option<&str> {
    ["NaN", "inf"].into_iter().find_map(|word| {
        text.match_indices(word).find_map(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            let apart = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            (apart(before) && apart(after)).then(|| {
                let start = (at.saturating_sub(60)..=at).find(|&i| text.is_char_boundary(i)).unwrap_or(at);
                &text[start..at + word.len()]
            })
        })
    })
}

/// The text without its quoted parts.
fn outside_quotes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if !quoted => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_is_seen() {
        assert_eq!(not_finite("x: -inf,"), Some("x: -inf"));
        assert_eq!(not_finite("Seconds(NaN)"), Some("Seconds(NaN"));
        assert_eq!(not_finite("inference on InfiniBand, nan, info"), None);
        assert_eq!(outside_quotes(r#"a "inf \" inf" b"#), "a  b");
    }
}
