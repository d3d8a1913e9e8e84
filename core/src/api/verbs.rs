//! Text in, text out: the form every face shares, byte for byte.

use core::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::request::{CatalogRequest, DescribeModelRequest, EstimateRequest, PlanRequest};
use super::{estimate, plan};
use crate::cluster::Catalog;
use crate::error::{Error, ErrorCode, Result};

/// The verbs, in alphabetical order.
pub const VERBS: &[&str] = &["catalog", "describe_model", "estimate", "plan"];

/// Deeper nesting than any request has; a hostile text is refused before it is parsed into types.
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
    dispatch(verb, request, &Json)
}

/// The same as [`call`], as text for a person.
///
/// # Errors
/// As [`call`].
pub fn call_text(verb: &str, request: &str) -> Result<String> {
    dispatch(verb, request, &Prose)
}

/// The same as [`call`], never failing: `{"answer": ..}` or `{"error": ..}`.
#[must_use]
pub fn call_json(verb: &str, request: &str) -> String {
    match call(verb, request) {
        Ok(answer) => format!("{{\"answer\":{answer}}}"),
        Err(e) => format!("{{\"error\":{}}}", e.to_json()),
    }
}

trait Print {
    fn print<T: Serialize + Display>(&self, answer: &T) -> Result<String>;
}

struct Json;

impl Print for Json {
    fn print<T: Serialize + Display>(&self, answer: &T) -> Result<String> {
        serde_json::to_string(answer)
            .map_err(|e| Error::new("", ErrorCode::Syntax, e, "an answer that JSON can hold"))
    }
}

struct Prose;

impl Print for Prose {
    fn print<T: Serialize + Display>(&self, answer: &T) -> Result<String> {
        Ok(answer.to_string())
    }
}

fn dispatch<P: Print>(verb: &str, request: &str, out: &P) -> Result<String> {
    match verb {
        "catalog" => {
            let request: CatalogRequest = read(request)?;
            let catalog = Catalog::embedded();
            if request.catalog.is_empty() {
                out.print(catalog.rows())
            } else {
                out.print(catalog.with_overrides(request.catalog).map_err(|e| e.under("catalog"))?.rows())
            }
        }
        "describe_model" => {
            out.print(&read::<DescribeModelRequest>(request)?.model.resolve("model")?.summary())
        }
        "estimate" => out.print(&estimate(&read::<EstimateRequest>(request)?)?),
        "plan" => out.print(&plan(&read::<PlanRequest>(request)?)?),
        _ => Err(Error::new("verb", ErrorCode::UnknownName, format!("\"{verb}\""), VERBS.join(", "))),
    }
}

/// Reads a request; a fault names the path of the field.
fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    if text.len() > LONGEST {
        return Err(Error::new(
            "",
            ErrorCode::OutOfRange,
            format!("{} bytes", text.len()),
            "a request of at most 8 MiB",
        ));
    }
    let value: Value =
        serde_json::from_str(text).map_err(|e| Error::new("", ErrorCode::Syntax, e, "JSON text"))?;
    serde_path_to_error::deserialize(value)
        .map_err(|e| fault(&e.path().to_string(), &e.into_inner().to_string()))
}

/// Turns serde's message into a typed error: `unknown field `x`, expected one of ..`,
/// `missing field `x``, `unknown variant `x`, expected ..`, `invalid type: .., expected ..`.
fn fault(path: &str, message: &str) -> Error {
    let path = if path == "." { "" } else { path };
    let quoted = message.split('`').nth(1).unwrap_or_default();
    let expected = message.split_once("expected ").map_or("", |(_, rest)| rest);
    let allowed = expected.trim_start_matches("one of ").replace('`', "");
    let join = |name: &str| {
        if path.is_empty() || path == name || path.ends_with(&format!(".{name}")) {
            if path.is_empty() { name.to_owned() } else { path.to_owned() }
        } else {
            format!("{path}.{name}")
        }
    };
    if message.starts_with("unknown field") {
        Error::new(
            join(quoted),
            ErrorCode::UnknownField,
            "a field of that name",
            format!("the fields {allowed}"),
        )
    } else if message.starts_with("missing field") {
        Error::new(join(quoted), ErrorCode::MissingField, "nothing", "a value: the field has no default")
    } else if message.starts_with("unknown variant") {
        Error::new(path, ErrorCode::UnknownName, format!("\"{quoted}\""), allowed)
    } else if let Some((_, rest)) = message.split_once("invalid type: ") {
        let given = rest.split(", expected").next().unwrap_or(rest);
        Error::new(path, ErrorCode::WrongType, given, in_words(expected))
    } else if let Some((_, rest)) = message.split_once("invalid value: ") {
        let given = rest.split(", expected").next().unwrap_or(rest);
        Error::new(path, ErrorCode::OutOfRange, given, in_words(expected))
    } else {
        Error::new(path, ErrorCode::WrongType, message, "a value of the field's type")
    }
}

/// What a person calls the type that serde expected.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        _ if expected.starts_with("struct ") => "an object",
        other => other,
    }
}

impl Error {
    /// The error as JSON text, its message included.
    #[must_use]
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Full<'a> {
            #[serde(flatten)]
            error: &'a Error,
            message: String,
        }
        serde_json::to_string(&Full { error: self, message: self.to_string() })
            .unwrap_or_else(|_| String::from("{\"field\":\"\",\"code\":\"syntax\"}"))
    }
}
