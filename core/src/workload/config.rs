//! Reads the fields of a Hugging Face `config.json`. Keys that do not shape the model (token ids,
//! initialisers, versions) are left alone, as Transformers does; a key that does and holds
//! nonsense is an error that names it.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorCode, Result};

/// Larger figures would leave the range in which counts are exact.
const LARGEST: u64 = 100_000_000;

/// A view of a config object under a path, for error texts.
#[derive(Clone, Copy)]
pub(super) struct Config<'a> {
    map: &'a Map<String, Value>,
    path: &'a str,
}

impl<'a> Config<'a> {
    pub(super) const fn new(map: &'a Map<String, Value>, path: &'a str) -> Self {
        Self { map, path }
    }

    pub(super) fn field(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn get(&self, keys: &[&str]) -> Option<(&'a Value, String)> {
        keys.iter().find_map(|k| self.map.get(*k).filter(|v| !v.is_null()).map(|v| (v, self.field(k))))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|v| !v.is_null())
    }

    /// A whole number from `low` to 10^8 under the first of `keys` that is present.
    pub(super) fn opt_from(&self, keys: &[&str], low: u64) -> Result<Option<u64>> {
        let Some((value, field)) = self.get(keys) else { return Ok(None) };
        match value.as_u64() {
            Some(n) if (low..=LARGEST).contains(&n) => Ok(Some(n)),
            _ => {
                let code = if value.is_number() { ErrorCode::OutOfRange } else { ErrorCode::WrongType };
                Err(Error::new(field, code, value, format!("a whole number from {low} to {LARGEST}")))
            }
        }
    }

    pub(super) fn opt(&self, keys: &[&str]) -> Result<Option<u64>> {
        self.opt_from(keys, 1)
    }

    pub(super) fn int(&self, keys: &[&str]) -> Result<u64> {
        let first = keys.first().copied().unwrap_or_default();
        self.opt(keys)?.ok_or_else(|| {
            Error::new(
                self.field(first),
                ErrorCode::MissingField,
                "",
                "missing; a whole number of at least 1",
            )
        })
    }

    pub(super) fn int_or(&self, keys: &[&str], default: u64) -> Result<u64> {
        Ok(self.opt(keys)?.unwrap_or(default))
    }

    pub(super) fn flag(&self, keys: &[&str], default: bool) -> Result<bool> {
        let Some((value, field)) = self.get(keys) else { return Ok(default) };
        value.as_bool().ok_or_else(|| Error::new(field, ErrorCode::WrongType, value, "true or false"))
    }

    pub(super) fn number(&self, keys: &[&str], default: f64) -> Result<f64> {
        let Some((value, field)) = self.get(keys) else { return Ok(default) };
        value
            .as_f64()
            .filter(|x| x.is_finite())
            .ok_or_else(|| Error::new(field, ErrorCode::WrongType, value, "a number"))
    }

    pub(super) fn text(&self, keys: &[&str], default: &'a str) -> Result<&'a str> {
        let Some((value, field)) = self.get(keys) else { return Ok(default) };
        value.as_str().ok_or_else(|| Error::new(field, ErrorCode::WrongType, value, "a text"))
    }

    /// A list of whole numbers or texts, as Transformers writes layer lists.
    pub(super) fn list(&self, key: &str) -> Result<Option<&'a [Value]>> {
        let Some((value, field)) = self.get(&[key]) else { return Ok(None) };
        value
            .as_array()
            .map(|v| Some(v.as_slice()))
            .ok_or_else(|| Error::new(field, ErrorCode::WrongType, value, "a list"))
    }

    /// `a` must divide `b` (heads and hidden size and the like).
    pub(super) fn divides(&self, key: &str, a: u64, b: u64, of: &str) -> Result<()> {
        if a > 0 && b.is_multiple_of(a) {
            return Ok(());
        }
        Err(Error::new(self.field(key), ErrorCode::Conflict, a, format!("a divisor of {of} = {b}")))
    }
}
