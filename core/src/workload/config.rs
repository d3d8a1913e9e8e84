//! Reads the fields of a Hugging Face `config.json`. Keys that do not shape the model (token ids,
//! initialisers, versions) are left alone, as Transformers does; a key that does and holds
//! nonsense is an error that names it.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorCode, Result};
use crate::write::Shown;

/// Bounds of the fields, such that no product of them leaves a `u64`: the largest tensors are
/// `COUNT x 3 x LARGEST x WIDTH` (experts) and `COUNT x COUNT x WIDTH` (heads).
/// Vocabularies, feed-forward widths, positions.
const LARGEST: u64 = 100_000_000;
/// Widths of the residual stream and of low-rank bottlenecks.
const WIDTH: u64 = 1 << 20;
/// Heads, elements of a head, experts, groups.
const COUNT: u64 = 1 << 14;
/// Layers.
const LAYERS: u64 = 10_000;

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

    /// The first of `keys` that is there, and its value.
    fn get<'k>(&self, keys: &[&'k str]) -> Option<(&'a Value, &'k str)> {
        keys.iter().find_map(|k| self.map.get(*k).filter(|v| !v.is_null()).map(|v| (v, *k)))
    }

    /// A value that is not what the key is for.
    #[cold]
    #[inline(never)]
    #[cfg_attr(feature = "origins", track_caller)]
    fn wrong(&self, key: &str, code: ErrorCode, given: &Value, allowed: &str) -> Error {
        Error::new(self.field(key), code, Shown(given), allowed)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|v| !v.is_null())
    }

    /// Whether the key is there and holds null, which some families tell from an absent key.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(Value::is_null)
    }

    /// A whole number from `low` to `high` under the first of `keys` that is present.
    fn within(&self, keys: &[&str], low: u64, high: u64) -> Result<Option<u64>> {
        let Some((value, key)) = self.get(keys) else { return Ok(None) };
        match value.as_u64() {
            Some(n) if (low..=high).contains(&n) => Ok(Some(n)),
            _ => {
                let code = if value.is_number() { ErrorCode::OutOfRange } else { ErrorCode::WrongType };
                Err(self.wrong(key, code, value, &format!("a whole number from {low} to {high}")))
            }
        }
    }

    /// A vocabulary, a feed-forward width, a number of positions, when given.
    pub(super) fn opt(&self, keys: &[&str]) -> Result<Option<u64>> {
        self.within(keys, 1, LARGEST)
    }

    /// The width of a residual stream or of a low-rank bottleneck, when given.
    pub(super) fn opt_width(&self, keys: &[&str]) -> Result<Option<u64>> {
        self.within(keys, 1, WIDTH)
    }

    /// The width of a residual stream or of a low-rank bottleneck.
    pub(super) fn width(&self, keys: &[&str], default: u64) -> Result<u64> {
        Ok(self.opt_width(keys)?.unwrap_or(default))
    }

    /// A number of heads, of elements of a head, of experts, when given.
    pub(super) fn opt_count(&self, keys: &[&str]) -> Result<Option<u64>> {
        self.within(keys, 1, COUNT)
    }

    /// A number of heads, of elements of a head, of experts.
    pub(super) fn count(&self, keys: &[&str], default: u64) -> Result<u64> {
        Ok(self.opt_count(keys)?.unwrap_or(default))
    }

    /// A number that may be nought (shared experts, dense layers in front).
    pub(super) fn count_or_none(&self, keys: &[&str], default: u64) -> Result<u64> {
        Ok(self.within(keys, 0, COUNT)?.unwrap_or(default))
    }

    /// A number of layers.
    pub(super) fn layers(&self, keys: &[&str], default: u64) -> Result<u64> {
        Ok(self.within(keys, 1, LAYERS)?.unwrap_or(default))
    }

    /// A figure that has no default.
    pub(super) fn required(&self, key: &str, value: Option<u64>) -> Result<u64> {
        value.ok_or_else(|| {
            Error::new(self.field(key), ErrorCode::MissingField, "nothing", "a whole number of at least 1")
        })
    }

    pub(super) fn int_or(&self, keys: &[&str], default: u64) -> Result<u64> {
        Ok(self.opt(keys)?.unwrap_or(default))
    }

    pub(super) fn flag(&self, keys: &[&str], default: bool) -> Result<bool> {
        let Some((value, key)) = self.get(keys) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(key, ErrorCode::WrongType, value, "true or false"))
    }

    pub(super) fn number(&self, keys: &[&str], default: f64) -> Result<f64> {
        let Some((value, key)) = self.get(keys) else { return Ok(default) };
        value
            .as_f64()
            .filter(|x| x.is_finite())
            .ok_or_else(|| self.wrong(key, ErrorCode::WrongType, value, "a number"))
    }

    /// Whether a dropout of this probability does anything.
    pub(super) fn drops(&self, keys: &[&str], default: f64) -> Result<bool> {
        let p = self.fraction(keys, default)?;
        Ok(p > 0.0)
    }

    /// A number from 0 to 1.
    pub(super) fn fraction(&self, keys: &[&str], default: f64) -> Result<f64> {
        let Some((value, key)) = self.get(keys) else { return Ok(default) };
        let p = self.number(keys, default)?;
        if (0.0..=1.0).contains(&p) {
            return Ok(p);
        }
        Err(self.wrong(key, ErrorCode::OutOfRange, value, "a number from 0 to 1"))
    }

    pub(super) fn text(&self, keys: &[&str], default: &'a str) -> Result<&'a str> {
        let Some((value, key)) = self.get(keys) else { return Ok(default) };
        value.as_str().ok_or_else(|| self.wrong(key, ErrorCode::WrongType, value, "a text"))
    }

    /// The text under a key that may also hold a number.
    pub(super) fn text_or_none(&self, key: &str) -> Option<&'a str> {
        self.map.get(key).and_then(Value::as_str)
    }

    /// A list of whole numbers or texts, as Transformers writes layer lists.
    pub(super) fn list(&self, key: &str) -> Result<Option<&'a [Value]>> {
        let Some((value, key)) = self.get(&[key]) else { return Ok(None) };
        value
            .as_array()
            .map(|v| Some(v.as_slice()))
            .ok_or_else(|| self.wrong(key, ErrorCode::WrongType, value, "a list"))
    }

    /// A list of whole numbers, when given.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<u64>>> {
        let Some(list) = self.list(key)? else { return Ok(None) };
        let no_number = |v| self.wrong(key, ErrorCode::WrongType, v, "a list of whole numbers");
        list.iter().map(|v| v.as_u64().ok_or_else(|| no_number(v))).collect::<Result<_>>().map(Some)
    }

    /// A config inside this one.
    pub(super) fn object(&self, key: &str) -> Result<Option<(&'a Map<String, Value>, String)>> {
        let Some((value, key)) = self.get(&[key]) else { return Ok(None) };
        match value.as_object() {
            Some(map) => Ok(Some((map, self.field(key)))),
            None => Err(self.wrong(key, ErrorCode::WrongType, value, "an object")),
        }
    }

    /// A width computed from several keys, which must stay in the range of a width.
    pub(super) fn bounded(&self, key: &str, width: u64) -> Result<u64> {
        if (1..=WIDTH).contains(&width) {
            return Ok(width);
        }
        let allowed = format!("a product with its fellows from 1 to {WIDTH}");
        Err(Error::new(self.field(key), ErrorCode::OutOfRange, width, allowed))
    }

    /// `a` may be at most `b`.
    pub(super) fn at_most(&self, key: &str, a: u64, b: u64, of: &str) -> Result<()> {
        if a <= b {
            return Ok(());
        }
        Err(Error::new(self.field(key), ErrorCode::Conflict, a, format!("at most {of} = {b}")))
    }

    /// `a` must divide `b` (heads and hidden size and the like).
    pub(super) fn divides(&self, key: &str, a: u64, b: u64, of: &str) -> Result<()> {
        if a > 0 && b.is_multiple_of(a) {
            return Ok(());
        }
        Err(Error::new(self.field(key), ErrorCode::Conflict, a, format!("a divisor of {of} = {b}")))
    }
}
