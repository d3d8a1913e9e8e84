//! JSON text to the core's types: one reader for requests and for the embedded files. A fault
//! carries the path of its field.
//!
//! Written by hand because the common way (a tracking wrapper around a general deserialiser) makes
//! half of the WASM module, and because a fault is then a message to be parsed, not data.

use core::fmt::{self, Display};
use std::collections::{BTreeMap, btree_map};

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor, value::StrDeserializer,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Number, Value};

use crate::error::{Error, ErrorCode, Result};

/// Reads a value of type `T`.
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T> {
    from_value(&parse(text)?)
}

/// Reads a value of type `T` from parsed JSON.
pub(crate) fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T> {
    T::deserialize(Reader(value)).map_err(|fault| fault.0)
}

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::new("", ErrorCode::Syntax, e, "JSON text"))
}

/// An [`Error`] on its way out of the value.
#[derive(Debug)]
struct Fault(Error);

impl Fault {
    #[cold]
    #[inline(never)]
    fn new(field: &str, code: ErrorCode, given: &dyn Display, allowed: String) -> Self {
        Self(Error::new(field, code, given, allowed))
    }

    #[cold]
    #[inline(never)]
    fn under(self, parent: &str) -> Self {
        Self(self.0.under(parent))
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl core::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self::new("", ErrorCode::WrongType, &message, "a value of the field's type".to_owned())
    }

    fn invalid_type(given: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new("", ErrorCode::WrongType, &Plain(given), plain(expected))
    }

    fn invalid_value(given: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new("", ErrorCode::OutOfRange, &Plain(given), plain(expected))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new("", ErrorCode::OutOfRange, &length, plain(expected))
    }

    fn unknown_variant(given: &str, known: &'static [&'static str]) -> Self {
        Self::new("", ErrorCode::UnknownName, &Plain(Unexpected::Str(given)), known.join(", "))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let allowed = ["the fields ", &known.join(", ")].concat();
        Self::new(field, ErrorCode::UnknownField, &"a field of that name", allowed)
    }

    fn missing_field(field: &'static str) -> Self {
        let allowed = "a value: the field has no default".to_owned();
        Self::new(field, ErrorCode::MissingField, &"nothing", allowed)
    }
}

/// What was given, in JSON's words.
struct Plain<'a>(Unexpected<'a>);

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unexpected::Bool(given) => given.fmt(f),
            Unexpected::Unsigned(given) => given.fmt(f),
            Unexpected::Signed(given) => given.fmt(f),
            Unexpected::Float(given) => given.fmt(f),
            Unexpected::Str(given) => write!(f, "\"{given}\""),
            Unexpected::Unit | Unexpected::Option => f.write_str("null"),
            Unexpected::Seq => f.write_str("a list"),
            Unexpected::Map => f.write_str("an object"),
            other => other.fmt(f),
        }
    }
}

/// What is allowed, in JSON's words rather than Rust's.
fn plain(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "f64" => "a number",
        "a sequence" => "a list",
        t if t.starts_with("struct ") || t == "a map" => "an object",
        _ => return text,
    }
    .to_owned()
}

/// What was read, or where it was faulty.
type Read<V> = core::result::Result<V, Fault>;

/// Reads one value.
struct Reader<'de>(&'de Value);

/// Each kind of value has its own way in: the general one would compile, for every type, what it
/// says to every kind of value it does not take.
impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number_of(number, visitor),
            Value::String(text) => visitor.visit_str(text),
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter(), index: 0 }),
            Value::Object(map) => visitor.visit_map(Fields::new(map)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.0 {
            Value::Bool(value) => visitor.visit_bool(*value),
            other => Err(wrong(other, &visitor)),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.0 {
            Value::Number(number) => number_of(number, visitor),
            other => Err(wrong(other, &visitor)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.0 {
            Value::String(text) => visitor.visit_str(text),
            other => Err(wrong(other, &visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Read<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter(), index: 0 }),
            other => Err(wrong(other, &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Read<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.0 {
            Value::Object(map) => visitor.visit_map(Fields::new(map)),
            other => Err(wrong(other, &visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        self.deserialize_map(visitor)
    }

    /// Vocabularies have words only, so a variant is a string.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        match self.0 {
            Value::String(word) => {
                let word: StrDeserializer<'_, Fault> = word.as_str().into_deserializer();
                visitor.visit_enum(word)
            }
            other => Err(wrong(other, &"a word")),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 char bytes byte_buf unit unit_struct tuple_struct
        identifier ignored_any
    }
}

fn number_of<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Read<V::Value> {
    match (number.as_u64(), number.as_i64()) {
        (Some(value), _) => visitor.visit_u64(value),
        (None, Some(value)) => visitor.visit_i64(value),
        // Numbers too large for f64 were refused as text.
        (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
    }
}

#[cold]
#[inline(never)]
fn wrong(given: &Value, expected: &dyn Expected) -> Fault {
    let given = match given {
        Value::Null => Unexpected::Unit,
        Value::Bool(given) => Unexpected::Bool(*given),
        Value::Number(given) => Unexpected::Float(given.as_f64().unwrap_or_default()),
        Value::String(given) => Unexpected::Str(given),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    serde::de::Error::invalid_type(given, expected)
}

/// The items of a list, counted for the path.
struct Items<'de> {
    items: core::slice::Iter<'de, Value>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> core::result::Result<Option<S::Value>, Fault> {
        let Some(item) = self.items.next() else { return Ok(None) };
        self.index += 1;
        match seed.deserialize(Reader(item)) {
            Ok(value) => Ok(Some(value)),
            Err(fault) => Err(fault.under(&format!("[{}]", self.index - 1))),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The fields of an object in alphabetical order, whatever features `serde_json` was built with,
/// so that of several faults every face reports the same one.
struct Fields<'de> {
    fields: btree_map::IntoIter<&'de str, &'de Value>,
    current: Option<(&'de str, &'de Value)>,
}

impl<'de> Fields<'de> {
    #[inline(never)]
    fn new(map: &'de Map<String, Value>) -> Self {
        let mut fields = BTreeMap::new();
        for (name, value) in map {
            fields.insert(name.as_str(), value);
        }
        Self { fields: fields.into_iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> core::result::Result<Option<K::Value>, Fault> {
        self.current = self.fields.next();
        let Some((name, _)) = self.current else { return Ok(None) };
        let name: StrDeserializer<'de, Fault> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> core::result::Result<S::Value, Fault> {
        let (name, value) = self.current.unwrap_or(("", &Value::Null));
        seed.deserialize(Reader(value)).map_err(|fault| fault.under(name))
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
