//! Figures that open: a named amount with its formula and source, and a sum of such.

use std::borrow::Cow;

use serde::Serialize;
use shardwise_derive::ToJson;

use crate::write::{ToJson, object};
use serde::ser::{SerializeStruct, Serializer};

/// One term of a sum.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Term<Q> {
    /// What it is.
    pub name: Cow<'static, str>,
    /// How much.
    pub amount: Q,
    /// How it was computed, in the field's symbols.
    pub formula: Cow<'static, str>,
    /// Paper, code or measurement it follows.
    pub source: Cow<'static, str>,
}

impl<Q> Term<Q> {
    /// A term.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        amount: Q,
        formula: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), amount, formula: formula.into(), source: source.into() }
    }
}

/// A sum that keeps its terms. Its total is computed, never stored; JSON shows both.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms<Q>(pub Vec<Term<Q>>);

impl<Q> Default for Terms<Q> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<Q> Terms<Q> {
    /// Whether there is no term.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<Q: Copy + core::iter::Sum> Terms<Q> {
    /// The sum of the terms.
    #[must_use]
    pub fn total(&self) -> Q {
        self.0.iter().map(|t| t.amount).sum()
    }

    /// The amount of the term of that name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Q> {
        self.0.iter().find(|t| t.name == name).map(|t| t.amount)
    }
}

impl<Q: Copy + core::iter::Sum + Serialize> Serialize for Terms<Q> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Terms", 2)?;
        out.serialize_field("total", &self.total())?;
        out.serialize_field("terms", &self.0)?;
        out.end()
    }
}

impl<Q: Copy + core::iter::Sum + ToJson> ToJson for Terms<Q> {
    fn write(&self, out: &mut String) {
        object(out, &[("total", Some(&self.total())), ("terms", Some(&self.0))]);
    }
}

/// The range in which four of five measurements of such a case fall, from the errors seen on similar
/// measured runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Interval80<Q> {
    /// One in ten measurements lies below.
    pub low: Q,
    /// One in ten measurements lies above.
    pub high: Q,
}

#[cfg(feature = "schemars")]
impl<Q: schemars::JsonSchema> schemars::JsonSchema for Terms<Q> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Terms", Q::schema_name()).into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let (total, term) = (generator.subschema_for::<Q>(), generator.subschema_for::<Term<Q>>());
        schemars::json_schema!({
            "description": "A sum that keeps its terms.",
            "type": "object",
            "properties": { "total": total, "terms": { "type": "array", "items": term } },
            "required": ["total", "terms"],
        })
    }
}
