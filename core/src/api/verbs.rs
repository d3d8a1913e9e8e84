//! Text in, text out: the form every face shares, byte for byte.

use core::fmt::Display;

use super::calibrate::{CalibrateRequest, calibrate};
use super::compare::{CompareRequest, compare};
use super::listing::{catalog, describe_model};
use super::request::{CatalogRequest, DescribeModelRequest, EstimateRequest, PlanRequest};
use super::{estimate, plan};
use crate::error::{Error, ErrorCode, Result};
use crate::read::{FromJson, from_text};
use crate::write::{ToJson, to_text};

/// The verbs, in alphabetical order.
pub const VERBS: &[&str] = &["calibrate", "catalog", "compare", "describe_model", "estimate", "plan"];

/// More bytes than any request has; a hostile text is refused before it is read.
const LONGEST: usize = 8 << 20;

/// Answers a request given as JSON text with JSON text.
///
/// ```
/// let answer = shardwise::call("describe_model", r#"{"model": "llama-3.1-8b"}"#).unwrap();
/// assert!(answer.contains("8030261248"));
/// let e = shardwise::call("estimate", r#"{"modle": "llama-3.1-8b"}"#).unwrap_err();
/// assert_eq!(e.field, "modle");
/// ```
///
/// # Errors
/// An unknown verb, or a request that cannot be read.
pub fn call(verb: &str, request: &str) -> Result<String> {
    answer(verb, request).map(|answer| answer.json())
}

/// The same as [`call`], as text for a person.
///
/// # Errors
/// As [`call`].
pub fn call_text(verb: &str, request: &str) -> Result<String> {
    answer(verb, request).map(|answer| answer.prose())
}

/// The same as [`call`], never failing: `{"answer": ..}` or `{"error": ..}`.
#[must_use]
pub fn call_json(verb: &str, request: &str) -> String {
    match call(verb, request) {
        Ok(answer) => ["{\"answer\":", &answer, "}"].concat(),
        Err(error) => ["{\"error\":", &error.json(), "}"].concat(),
    }
}

/// What can be printed both ways.
trait Print {
    fn json(&self) -> String;
    fn prose(&self) -> String;
}

impl<T: ToJson + Display> Print for T {
    fn json(&self) -> String {
        to_text(self)
    }

    fn prose(&self) -> String {
        self.to_string()
    }
}

fn answer(verb: &str, request: &str) -> Result<Box<dyn Print>> {
    Ok(match verb {
        "calibrate" => Box::new(calibrate(&read::<CalibrateRequest>(request)?)?),
        "catalog" => Box::new(catalog(&read::<CatalogRequest>(request)?)?),
        "compare" => Box::new(compare(&read::<CompareRequest>(request)?)?),
        "describe_model" => Box::new(describe_model(&read::<DescribeModelRequest>(request)?)?),
        "estimate" => Box::new(estimate(&read::<EstimateRequest>(request)?)?),
        "plan" => Box::new(plan(&read::<PlanRequest>(request)?)?),
        _ => {
            let given = format_args!("\"{verb}\"");
            return Err(Error::new("verb", ErrorCode::UnknownName, given, VERBS.join(", ")));
        }
    })
}

fn read<T: FromJson>(text: &str) -> Result<T> {
    if text.len() > LONGEST {
        let given = format_args!("{} bytes", text.len());
        return Err(Error::new("", ErrorCode::OutOfRange, given, "a request of at most 8 MiB"));
    }
    from_text(text)
}
