//! JSON text to the core's types: one reader for requests and for the embedded files. A fault
//! carries the path of its field.
//!
//! Written by hand, over tables that [`shardwise_derive::FromJson`] makes, because a general
//! deserialiser compiles into a program for each type: that was an eighth of the WASM module.

mod decimal;
mod parse;

pub(crate) use parse::parse;

use core::fmt::Display;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorCode, Result};
use crate::write::Shown;

/// What JSON can be read into, in place.
pub(crate) trait FromJson: Sized {
    /// Whether a field of this type may be left out.
    const OPTIONAL: bool = false;

    /// A value to read into: what was not given stays as it is here.
    fn hollow() -> Self;

    /// Overwrites the value.
    fn read(&mut self, value: &Value) -> Result<()>;
}

/// An object's fields as a table.
pub(crate) struct Shape {
    /// Their names, in the order of declaration.
    pub names: &'static [&'static str],
    /// Their places in alphabetical order.
    pub sorted: &'static [u8],
    /// Those that must be given, as bits.
    pub required: u64,
    /// The field by which a variant was told, read before.
    pub tag: Option<&'static str>,
}

/// What an object can be read into, field by field.
pub(crate) trait Record {
    /// Overwrites the field in that place.
    fn set(&mut self, place: usize, value: &Value) -> Result<()>;
}

/// Reads a value of type `T`.
pub(crate) fn from_text<T: FromJson>(text: &str) -> Result<T> {
    from_value(&parse(text)?)
}

/// Reads a value of type `T` from parsed JSON.
pub(crate) fn from_value<T: FromJson>(value: &Value) -> Result<T> {
    let mut out = T::hollow();
    out.read(value)?;
    Ok(out)
}

/// Reads an object, its fields in alphabetical order, so that of several faults every face reports
/// the same one, whatever features `serde_json` was built with.
#[inline(never)]
pub(crate) fn object(target: &mut dyn Record, shape: &Shape, value: &Value) -> Result<()> {
    let Value::Object(map) = value else { return Err(wrong(value, "an object")) };
    let unknown = unknown(map, shape);
    let mut missing = shape.required;
    for &place in shape.sorted {
        let place = usize::from(place);
        let name = shape.names.get(place).copied().unwrap_or_default();
        let Some(given) = map.get(name) else { continue };
        if let Some(field) = unknown.filter(|&u| u < name) {
            return Err(unknown_field(field, shape));
        }
        target.set(place, given).map_err(|e| e.under(name))?;
        missing &= !(1 << place);
    }
    if let Some(field) = unknown {
        return Err(unknown_field(field, shape));
    }
    match shape.names.get(missing.trailing_zeros() as usize) {
        Some(&field) => Err(missing_field(field)),
        None => Ok(()),
    }
}

/// The first name that no field has.
fn unknown<'a>(map: &'a Map<String, Value>, shape: &Shape) -> Option<&'a str> {
    let known = |name: &str| shape.tag == Some(name) || shape.names.contains(&name);
    map.keys().map(String::as_str).filter(|name| !known(name)).min()
}

#[cold]
fn unknown_field(field: &str, shape: &Shape) -> Error {
    let allowed = match (shape.names, shape.tag) {
        ([], Some(tag)) => ["no field besides ", tag].concat(),
        (names, _) => ["the fields ", &names.join(", ")].concat(),
    };
    // Every path names something.
    let field = if field.is_empty() { "\"\"" } else { field };
    Error::new(field, ErrorCode::UnknownField, "a field of that name", allowed)
}

#[cold]
fn missing_field(field: &str) -> Error {
    Error::new(field, ErrorCode::MissingField, "nothing", "a value: the field has no default")
}

/// The place of a word in a list.
#[inline(never)]
pub(crate) fn word(value: &Value, known: &'static [&'static str]) -> Result<usize> {
    let Value::String(text) = value else { return Err(wrong(value, "a word")) };
    known
        .iter()
        .position(|word| word == text)
        .ok_or_else(|| Error::new("", ErrorCode::UnknownName, Given(value), known.join(", ")))
}

/// The place of an object's tag in a list.
#[inline(never)]
pub(crate) fn tag(value: &Value, tag: &'static str, known: &'static [&'static str]) -> Result<usize> {
    let Value::Object(map) = value else { return Err(wrong(value, "an object")) };
    let given = map.get(tag).ok_or_else(|| missing_field(tag))?;
    word(given, known).map_err(|e| e.under(tag))
}

/// Reads a list, each item by `item`.
#[inline(never)]
fn list(value: &Value, item: &mut dyn FnMut(&Value) -> Result<()>) -> Result<()> {
    let Value::Array(items) = value else { return Err(wrong(value, "a list")) };
    for (i, given) in items.iter().enumerate() {
        item(given).map_err(|e| e.entry("", i))?;
    }
    Ok(())
}

/// A value of the wrong type.
#[cold]
#[inline(never)]
#[cfg_attr(feature = "origins", track_caller)]
pub(crate) fn wrong(given: &Value, allowed: &str) -> Error {
    Error::new("", ErrorCode::WrongType, Given(given), allowed)
}

/// What was given, in JSON's words.
struct Given<'a>(&'a Value);

impl Display for Given<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::Bool(given) => given.fmt(f),
            Value::Number(given) => given.as_f64().unwrap_or_default().fmt(f),
            Value::String(given) => write!(f, "\"{given}\""),
            Value::Array(_) => f.write_str("a list"),
            Value::Object(_) => f.write_str("an object"),
        }
    }
}

/// A whole number up to `most`.
#[inline(never)]
fn whole(value: &Value, most: u64) -> Result<u64> {
    let allowed = if most == u64::from(u32::MAX) {
        "a whole number from 0 to 4294967295"
    } else {
        "a whole number from 0"
    };
    match value.as_u64() {
        Some(number) if number <= most => Ok(number),
        None if !value.is_i64() => Err(wrong(value, allowed)),
        _ => Err(Error::new("", ErrorCode::OutOfRange, Shown(value), allowed)),
    }
}

impl FromJson for u64 {
    fn hollow() -> Self {
        0
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        *self = whole(value, Self::MAX)?;
        Ok(())
    }
}

impl FromJson for u32 {
    fn hollow() -> Self {
        0
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        *self = Self::try_from(whole(value, u64::from(Self::MAX))?).unwrap_or_default();
        Ok(())
    }
}

impl FromJson for f64 {
    fn hollow() -> Self {
        0.0
    }

    #[inline(never)]
    fn read(&mut self, value: &Value) -> Result<()> {
        *self = value.as_f64().ok_or_else(|| wrong(value, "a number"))?;
        Ok(())
    }
}

impl FromJson for bool {
    fn hollow() -> Self {
        false
    }

    #[inline(never)]
    fn read(&mut self, value: &Value) -> Result<()> {
        *self = value.as_bool().ok_or_else(|| wrong(value, "a boolean"))?;
        Ok(())
    }
}

impl FromJson for String {
    fn hollow() -> Self {
        Self::new()
    }

    #[inline(never)]
    fn read(&mut self, value: &Value) -> Result<()> {
        value.as_str().ok_or_else(|| wrong(value, "a string"))?.clone_into(self);
        Ok(())
    }
}

impl FromJson for Value {
    fn hollow() -> Self {
        Self::Null
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        self.clone_from(value);
        Ok(())
    }
}

impl<T: FromJson> FromJson for Option<T> {
    const OPTIONAL: bool = true;

    fn hollow() -> Self {
        None
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        if value.is_null() {
            *self = None;
            return Ok(());
        }
        self.insert(T::hollow()).read(value)
    }
}

impl<T: FromJson> FromJson for Box<T> {
    fn hollow() -> Self {
        Self::new(T::hollow())
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        (**self).read(value)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn hollow() -> Self {
        Self::new()
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        self.clear();
        list(value, &mut |item| {
            let mut one = T::hollow();
            one.read(item)?;
            self.push(one);
            Ok(())
        })
    }
}

impl<T: FromJson, const N: usize> FromJson for [T; N] {
    fn hollow() -> Self {
        core::array::from_fn(|_| T::hollow())
    }

    fn read(&mut self, value: &Value) -> Result<()> {
        let given = value.as_array().map_or(N, Vec::len);
        if given != N {
            return Err(Error::new(
                "",
                ErrorCode::OutOfRange,
                format_args!("a list of {given}"),
                format!("a list of {N}"),
            ));
        }
        let mut places = self.iter_mut();
        list(value, &mut |item| places.next().map_or(Ok(()), |place| place.read(item)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PlanRequest;

    fn fault(text: &str) -> (String, ErrorCode, String, String) {
        let e = from_text::<PlanRequest>(text).unwrap_err();
        (e.field.clone(), e.code, e.given.clone(), e.allowed.clone())
    }

    fn with(fields: &str) -> String {
        format!(r#"{{"model": "gpt2", "cluster": "H100", "seq_len": 1024, "global_batch": 8, {fields}}}"#)
    }

    #[test]
    fn a_fault_names_its_path() {
        let (field, code, given, allowed) = fault(&with(r#""search": {"micro_batches": [1, "two"]}"#));
        assert_eq!((field.as_str(), code), ("search.micro_batches[1]", ErrorCode::WrongType));
        assert_eq!((given.as_str(), allowed.as_str()), ("\"two\"", "a whole number from 0"));
    }

    #[test]
    fn unknown_words_and_fields_come_with_the_known() {
        let (field, code, given, allowed) = fault(&with(r#""recipe": {"optimizer": "adamm"}"#));
        assert_eq!((field.as_str(), code), ("recipe.optimizer", ErrorCode::UnknownName));
        assert_eq!(given, "\"adamm\"");
        assert!(allowed.contains("adamw_fused, "), "{allowed}");

        let (field, code, _, allowed) = fault(&with(r#""run": {"token": 1}"#));
        assert_eq!((field.as_str(), code), ("run.token", ErrorCode::UnknownField));
        assert!(allowed.starts_with("the fields tokens, steps"), "{allowed}");
    }

    #[test]
    fn of_several_faults_the_first_name_counts() {
        assert_eq!(fault(r#"{"b": 1, "a": 2}"#).0, "a");
        assert_eq!(fault(r#"{"a": 1, "b": 2}"#).0, "a");
    }

    #[test]
    fn a_number_that_does_not_fit_is_out_of_range() {
        let (field, code, given, _) = fault(&with(r#""schema_version": -1"#));
        assert_eq!((field.as_str(), code, given.as_str()), ("schema_version", ErrorCode::OutOfRange, "-1"));
        assert_eq!(fault(&with(r#""seq_len": 1.5"#)).1, ErrorCode::WrongType);
    }

    #[test]
    fn reads_what_serde_json_reads() {
        let text = with(r#""recipe": {"lora": {"rank": 8}, "params_dtype": null}, "run": {"tokens": 1e10}"#);
        let general: PlanRequest = serde_json::from_str(&text).unwrap();
        assert_eq!(from_text::<PlanRequest>(&text).unwrap(), general);
    }
}
