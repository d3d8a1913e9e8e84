//! What is said of a request that cannot be read: which field, what was given, what is allowed.
//! An infeasible plan is not an error; it is an answer.

use core::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::write::{ToJson, object, to_text};

/// The kind of fault found in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, shardwise_derive::ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The text is not JSON at all.
    Syntax,
    /// The field holds a value of another type.
    WrongType,
    /// No field of that name exists here.
    UnknownField,
    /// A field that has no default was left out.
    MissingField,
    /// The value lies outside the range of the field.
    OutOfRange,
    /// The name is not in the catalogue or vocabulary.
    UnknownName,
    /// Two fields contradict each other.
    Conflict,
}

/// A fault in a request. Its text names the field, what was given and what is allowed, and is
/// the same in Rust, Python and the browser.
///
/// ```
/// let error = shardwise::call("plan", r#"{"modle": "gpt2"}"#).unwrap_err();
/// assert_eq!(error.field, "modle");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Fault>);

/// What an [`Error`] says. It lies behind a pointer because results are passed on at many hundred
/// places, most of which never see a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field, as in `layout.tensor_parallel`.
    pub field: String,
    /// The kind of fault.
    pub code: ErrorCode,
    /// What was given, shortened.
    pub given: String,
    /// What is allowed there.
    pub allowed: String,
    #[cfg(feature = "origins")]
    origin: Origin,
}

/// The line of the source that raised a fault. Two faults that say the same are equal wherever
/// they were raised.
#[cfg(feature = "origins")]
#[derive(Clone, Copy, Debug)]
struct Origin(&'static core::panic::Location<'static>);

#[cfg(feature = "origins")]
impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(feature = "origins")]
impl Eq for Origin {}

impl Error {
    #[cfg_attr(feature = "origins", track_caller)]
    pub(crate) fn new(
        field: impl Into<String>,
        code: ErrorCode,
        given: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self::boxed(field.into(), code, &given, allowed.into())
    }

    #[cold]
    #[inline(never)]
    #[cfg_attr(feature = "origins", track_caller)]
    fn boxed(field: String, code: ErrorCode, given: &dyn fmt::Display, allowed: String) -> Self {
        Self(Box::new(Fault {
            field: shorten(field),
            code,
            given: shorten(given.to_string()),
            allowed,
            #[cfg(feature = "origins")]
            origin: Origin(core::panic::Location::caller()),
        }))
    }

    /// The line of the source that raised it, for the test that every such line has a case.
    #[cfg(feature = "origins")]
    #[must_use]
    pub fn origin(&self) -> &'static core::panic::Location<'static> {
        self.origin.0
    }

    /// The error as JSON text: its fields, and the whole as a sentence.
    #[must_use]
    pub fn to_json(&self) -> String {
        to_text(self)
    }

    /// The same fault seen from one level further out: `nodes` under `cluster` is `cluster.nodes`.
    #[must_use]
    #[cold]
    #[inline(never)]
    pub(crate) fn under(mut self, parent: &str) -> Self {
        let dot =
            if self.field.is_empty() || self.field.starts_with('[') || parent.is_empty() { "" } else { "." };
        self.0.field = [&shorten(parent.to_owned()), dot, &self.field].concat();
        self
    }

    /// The same fault within an entry of a list.
    #[must_use]
    #[cold]
    #[inline(never)]
    pub(crate) fn entry(self, list: &str, index: usize) -> Self {
        self.under(&entry(list, index))
    }

    /// The same fault where what is checked as `from` was given as `to`.
    #[must_use]
    #[cold]
    #[inline(never)]
    pub(crate) fn moved(mut self, from: &str, to: &str) -> Self {
        if let Some(rest) = self.field.strip_prefix(from) {
            self.0.field = [to, rest].concat();
        }
        self
    }
}

impl core::ops::Deref for Error {
    type Target = Fault;

    fn deref(&self) -> &Fault {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() { "request" } else { &self.field };
        if self.given.is_empty() {
            write!(f, "{field}: {}", self.allowed)
        } else {
            write!(f, "{field}: got {}; allowed: {}", self.given, self.allowed)
        }
    }
}

impl std::error::Error for Error {}

/// The fields, and the whole as a sentence.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> core::result::Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Error", 5)?;
        out.serialize_field("field", &self.field)?;
        out.serialize_field("code", &self.code)?;
        out.serialize_field("given", &self.given)?;
        out.serialize_field("allowed", &self.allowed)?;
        out.serialize_field("message", &self.to_string())?;
        out.end()
    }
}

impl ToJson for Error {
    fn write(&self, out: &mut String) {
        let Fault { field, code, given, allowed, .. } = &**self;
        object(
            out,
            &[
                ("field", Some(field)),
                ("code", Some(code)),
                ("given", Some(given)),
                ("allowed", Some(allowed)),
                ("message", Some(&self.to_string())),
            ],
        );
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Error {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequestError".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let code = generator.subschema_for::<ErrorCode>();
        let text = |says: &str| serde_json::json!({ "type": "string", "description": says });
        schemars::json_schema!({
            "description": "A fault in a request.",
            "type": "object",
            "properties": {
                "field": text("Path of the field, as in `layout.tensor_parallel`."),
                "code": code,
                "given": text("What was given, shortened."),
                "allowed": text("What is allowed there."),
                "message": text("The whole as a sentence."),
            },
            "required": ["field", "code", "given", "allowed", "message"],
        })
    }
}

/// The crate's result.
pub type Result<T> = core::result::Result<T, Error>;

/// Long or hostile input is not echoed whole.
fn shorten(given: String) -> String {
    const KEEP: usize = 120;
    if given.chars().count() <= KEEP {
        return given;
    }
    given.chars().take(KEEP).chain("...".chars()).collect()
}

/// `Ok` when `low <= value <= high`, else an error that names the field and the range.
#[cfg_attr(feature = "origins", track_caller)]
pub(crate) fn in_range(field: &str, value: f64, low: f64, high: f64) -> Result<f64> {
    if value >= low && value <= high {
        Ok(value)
    } else {
        let allowed = ["a number from ", &bound(low), " to ", &bound(high)].concat();
        Err(Error::new(field, ErrorCode::OutOfRange, value, allowed))
    }
}

/// `Ok` when a list is not too short and not too long.
#[cfg_attr(feature = "origins", track_caller)]
pub(crate) fn entries(field: &str, given: usize, low: usize, high: usize) -> Result<()> {
    if (low..=high).contains(&given) {
        return Ok(());
    }
    let allowed = ["a list of ", &low.to_string(), " to ", &high.to_string()].concat();
    Err(Error::new(field, ErrorCode::OutOfRange, format_args!("a list of {given}"), allowed))
}

/// A bound as one says it: large powers of ten by their exponent.
fn bound(bound: f64) -> String {
    let (mut rest, mut exponent) = (bound, 0);
    while rest >= 10.0 && exponent < 99 {
        rest /= 10.0;
        exponent += 1;
    }
    if exponent > 6 && rest < 1.0 + 1e-9 { format!("1e{exponent}") } else { bound.to_string() }
}

/// The path of an entry of a list.
#[cold]
#[inline(never)]
pub(crate) fn entry(list: &str, index: usize) -> String {
    [list, "[", &index.to_string(), "]"].concat()
}
