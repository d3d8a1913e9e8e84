//! The core's types to JSON text, the counterpart of [`read`](crate::read): the very text that
//! `serde_json` prints, from one writer that is not compiled anew for each type.

use core::fmt::{self, Display};
use std::borrow::Cow;

use serde_json::Value;

/// What prints itself as JSON.
pub(crate) trait ToJson {
    /// Appends the text.
    fn write(&self, out: &mut String);
}

/// The text of a value.
pub(crate) fn to_text(value: &dyn ToJson) -> String {
    let mut out = String::new();
    value.write(&mut out);
    out
}

/// A value as its text, without `serde_json`'s writers.
pub(crate) struct Shown<'a>(pub &'a Value);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_text(self.0))
    }
}

/// Appends an object of those fields that are there.
#[inline(never)]
pub(crate) fn object(out: &mut String, fields: &[(&str, Option<&dyn ToJson>)]) {
    out.push('{');
    let start = out.len();
    for (name, value) in fields {
        if let Some(value) = value {
            if out.len() > start {
                out.push(',');
            }
            // Names of fields hold nothing to escape.
            for part in ["\"", name, "\":"] {
                out.push_str(part);
            }
            value.write(out);
        }
    }
    out.push('}');
}

/// Appends a list.
#[inline(never)]
fn list(out: &mut String, items: &mut dyn Iterator<Item = &dyn ToJson>) {
    out.push('[');
    let start = out.len();
    for item in items {
        if out.len() > start {
            out.push(',');
        }
        item.write(out);
    }
    out.push(']');
}

/// Appends a string.
#[inline(never)]
pub(crate) fn text(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    for c in text.chars() {
        let escaped = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{8}' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\u{c}' => "\\f",
            '\r' => "\\r",
            '\0'..='\u{1f}' => {
                out.push_str("\\u00");
                for digit in [c as usize >> 4, c as usize & 15] {
                    out.push(char::from(HEX.get(digit).copied().unwrap_or(b'0')));
                }
                continue;
            }
            _ => {
                out.push(c);
                continue;
            }
        };
        out.push_str(escaped);
    }
    out.push('"');
}

impl ToJson for f64 {
    /// The shortest text that reads back; what is not finite is `null`.
    #[inline(never)]
    fn write(&self, out: &mut String) {
        match serde_json::Number::from_f64(*self) {
            Some(number) => out.push_str(&number.to_string()),
            None => out.push_str("null"),
        }
    }
}

macro_rules! whole {
    ($($number:ty)+) => {$(
        impl ToJson for $number {
            fn write(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }
        }
    )+};
}
whole!(u32 u64 usize);

impl ToJson for bool {
    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl ToJson for str {
    fn write(&self, out: &mut String) {
        text(out, self);
    }
}

impl ToJson for &str {
    fn write(&self, out: &mut String) {
        text(out, self);
    }
}

impl ToJson for String {
    fn write(&self, out: &mut String) {
        text(out, self);
    }
}

impl ToJson for Cow<'_, str> {
    fn write(&self, out: &mut String) {
        text(out, self);
    }
}

impl ToJson for Value {
    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => value.write(out),
            Self::Number(value) => out.push_str(&value.to_string()),
            Self::String(value) => text(out, value),
            Self::Array(items) => list(out, &mut items.iter().map(|item| item as &dyn ToJson)),
            Self::Object(map) => {
                out.push('{');
                for (i, (name, value)) in map.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    text(out, name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn write(&self, out: &mut String) {
        match self {
            Some(value) => value.write(out),
            None => out.push_str("null"),
        }
    }
}

impl<T: ToJson> ToJson for Box<T> {
    fn write(&self, out: &mut String) {
        (**self).write(out);
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn write(&self, out: &mut String) {
        list(out, &mut self.iter().map(|item| item as &dyn ToJson));
    }
}

impl<T: ToJson, const N: usize> ToJson for [T; N] {
    fn write(&self, out: &mut String) {
        list(out, &mut self.iter().map(|item| item as &dyn ToJson));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_serde_json_prints() {
        for number in [0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e-5, 1e-7, 1.5e300, 5e-324, f64::NAN, f64::INFINITY]
        {
            assert_eq!(to_text(&number), serde_json::to_string(&number).unwrap_or_default());
        }
        let said = "a \"quoted\" \\ line\n\t\r\u{8}\u{c}\u{1}\u{1f}\u{7f} and GPU\u{e9}";
        assert_eq!(to_text(&said), serde_json::to_string(said).unwrap_or_default());
        let value: Value = serde_json::json!({"b": [1, -2, 3.5, null, true, {}], "a\"": {"x": []}});
        assert_eq!(Shown(&value).to_string(), value.to_string());
    }
}
