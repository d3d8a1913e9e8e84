//! A value given either by its name in the catalogue or in full.

use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::error::Result as Outcome;
use crate::read::{FromJson, from_value, wrong};
use crate::write::ToJson;

/// A name that the catalogue knows, or the thing itself as an object.
///
/// Read by hand rather than as an untagged enum, so that an error inside the object keeps its path.
///
/// ```
/// use shardwise::{ClusterSpec, NameOr};
/// let named: ClusterSpec = serde_json::from_str(r#""8xH100""#).unwrap();
/// assert_eq!(named, NameOr::Name("8xH100".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum NameOr<T> {
    /// A name.
    Name(String),
    /// The thing in full.
    Full(Box<T>),
}

impl<T> From<&str> for NameOr<T> {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl<T: Serialize> Serialize for NameOr<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Name(name) => serializer.serialize_str(name),
            Self::Full(value) => value.serialize(serializer),
        }
    }
}

struct NameOrVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NameOrVisitor<T> {
    type Value = NameOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name or an object")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(NameOr::Name(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| NameOr::Full(Box::new(value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NameOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrVisitor(PhantomData))
    }
}

impl<T: FromJson> FromJson for NameOr<T> {
    fn hollow() -> Self {
        Self::Name(String::new())
    }

    fn read(&mut self, value: &Value) -> Outcome<()> {
        *self = match value {
            Value::String(name) => Self::Name(name.clone()),
            Value::Object(_) => Self::Full(Box::new(from_value(value)?)),
            _ => return Err(wrong(value, "a name or an object")),
        };
        Ok(())
    }
}

impl<T: ToJson> ToJson for NameOr<T> {
    fn write(&self, out: &mut String) {
        match self {
            Self::Name(name) => name.write(out),
            Self::Full(value) => value.write(out),
        }
    }
}

#[cfg(feature = "schemars")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for NameOr<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}OrName", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let full = generator.subschema_for::<T>();
        schemars::json_schema!({
            "description": "A name from the catalogue, or the thing in full.",
            "anyOf": [{ "type": "string", "minLength": 1, "maxLength": super::named::LONGEST }, full]
        })
    }
}
