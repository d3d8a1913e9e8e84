//! JSON text to [`Value`]. Its own, because the general parser with its exact floats and its error
//! texts is a fortieth of the WASM module; faults are worded as `serde_json` words them.

use serde_json::{Map, Number, Value};

use super::decimal;
use crate::error::{Error, ErrorCode, Result};

/// Deeper nesting is refused rather than left to the stack.
const DEEPEST: u32 = 127;

/// Reads a whole text.
pub(crate) fn parse(text: &str) -> Result<Value> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let value = parser.value()?;
    match parser.token() {
        None => Ok(value),
        Some(_) => Err(parser.unexpected("trailing characters")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is not white space.
    fn token(&mut self) -> Option<u8> {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
        self.byte()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is = self.byte() == Some(byte);
        self.at += usize::from(is);
        is
    }

    /// A fault after what was taken so far.
    #[cold]
    #[inline(never)]
    #[cfg_attr(feature = "origins", track_caller)]
    fn fault(&self, what: &str) -> Error {
        let before = self.text.as_bytes().get(..self.at.min(self.text.len())).unwrap_or_default();
        let line = before.split(|&b| b == b'\n').count();
        let column = before.iter().rev().take_while(|&&b| b != b'\n').count();
        let given = format!("{what} at line {line} column {column}");
        Error::new("", ErrorCode::Syntax, given, "JSON text")
    }

    /// A fault in the next byte.
    #[cold]
    #[inline(never)]
    #[cfg_attr(feature = "origins", track_caller)]
    fn unexpected(&self, what: &str) -> Error {
        Self { at: self.at + 1, ..*self }.fault(what)
    }

    #[cold]
    #[inline(never)]
    #[cfg_attr(feature = "origins", track_caller)]
    fn end(&self, of: &str) -> Error {
        self.fault(&["EOF while parsing ", of].concat())
    }

    fn value(&mut self) -> Result<Value> {
        match self.token() {
            None => Err(self.end("a value")),
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(open @ (b'[' | b'{')) => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(self.unexpected("recursion limit exceeded"));
                }
                self.at += 1;
                let value = if open == b'[' { self.list() } else { self.object() };
                self.depth -= 1;
                value
            }
            Some(_) => Err(self.unexpected("expected value")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value> {
        for &byte in word.as_bytes() {
            if !self.takes(byte) {
                return Err(match self.byte() {
                    None => self.end("a value"),
                    Some(_) => self.unexpected("expected ident"),
                });
            }
        }
        Ok(value)
    }

    /// After an item: whether another follows.
    fn more(&mut self, close: u8, of: &str, expected: &str) -> Result<bool> {
        match self.token() {
            Some(b',') => {
                self.at += 1;
                match self.token() {
                    None => Err(self.end("a value")),
                    Some(byte) if byte == close => Err(self.unexpected("trailing comma")),
                    Some(_) => Ok(true),
                }
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Err(self.unexpected(expected)),
            None => Err(self.end(of)),
        }
    }

    fn list(&mut self) -> Result<Value> {
        let mut items = Vec::new();
        match self.token() {
            None => return Err(self.end("a list")),
            Some(b']') => {
                self.at += 1;
                return Ok(Value::Array(items));
            }
            Some(_) => {}
        }
        loop {
            items.push(self.value()?);
            if !self.more(b']', "a list", "expected `,` or `]`")? {
                return Ok(Value::Array(items));
            }
        }
    }

    fn object(&mut self) -> Result<Value> {
        let mut fields = Map::new();
        if self.token() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(fields));
        }
        loop {
            match self.token() {
                Some(b'"') => {}
                Some(_) => return Err(self.unexpected("key must be a string")),
                None => return Err(self.end("an object")),
            }
            let name = self.string()?;
            match self.token() {
                Some(b':') => self.at += 1,
                Some(_) => return Err(self.unexpected("expected `:`")),
                None => return Err(self.end("an object")),
            }
            let value = self.value()?;
            fields.insert(name, value);
            if !self.more(b'}', "an object", "expected `,` or `}`")? {
                return Ok(Value::Object(fields));
            }
        }
    }

    /// A string, from its first quote on.
    fn string(&mut self) -> Result<String> {
        let mut out = String::new();
        self.at += 1;
        loop {
            let start = self.at;
            while !matches!(self.byte(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            out.push_str(self.text.get(start..self.at).unwrap_or_default());
            match self.byte() {
                None => return Err(self.end("a string")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escaped()?);
                }
                Some(_) => {
                    let what = "control character (\\u0000-\\u001F) found while parsing a string";
                    return Err(self.unexpected(what));
                }
            }
        }
    }

    fn escaped(&mut self) -> Result<char> {
        let Some(byte) = self.byte() else { return Err(self.end("a string")) };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex()?;
                let mut code = high;
                if (0xd800..0xdc00).contains(&high) && self.takes(b'\\') && self.takes(b'u') {
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((high - 0xd800) << 10 | (low - 0xdc00));
                    }
                }
                char::from_u32(code).ok_or_else(|| self.fault("lone surrogate in hex escape"))?
            }
            _ => return Err(self.fault("invalid escape")),
        })
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or_default();
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) || digits.is_empty() {
            return Err(self.unexpected("invalid escape"));
        }
        self.at += 4;
        Ok(u32::from_str_radix(digits, 16).unwrap_or_default())
    }

    /// Digits from here on, appended to `out`.
    fn digits(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            out.push(digit - b'0');
            self.at += 1;
        }
        match self.byte() {
            _ if out.len() > start => Ok(()),
            None => Err(self.end("a value")),
            Some(_) => Err(self.unexpected("invalid number")),
        }
    }

    fn number(&mut self) -> Result<Number> {
        let negative = self.takes(b'-');
        let (mut digits, first) = (Vec::new(), self.at);
        self.digits(&mut digits)?;
        if digits.first() == Some(&0) && digits.len() > 1 {
            self.at = first + 1;
            return Err(self.unexpected("invalid number"));
        }
        let whole = digits.len();
        let mut exponent = 0_i64;
        if self.takes(b'.') {
            self.digits(&mut digits)?;
            exponent = decimal::signed(whole) - decimal::signed(digits.len());
        } else if !matches!(self.byte(), Some(b'e' | b'E')) {
            let value = digits.iter().try_fold(0_u64, |n, &d| n.checked_mul(10)?.checked_add(d.into()));
            match value {
                Some(n) if !negative => return Ok(n.into()),
                Some(n) => {
                    if let (true, Some(n)) = (n > 0, 0_i64.checked_sub_unsigned(n)) {
                        return Ok(n.into());
                    }
                }
                None => {}
            }
        }
        if self.takes(b'e') || self.takes(b'E') {
            let down = self.takes(b'-');
            if !down {
                self.takes(b'+');
            }
            let mut figures = Vec::new();
            self.digits(&mut figures)?;
            // Beyond this every number is nought or too large.
            let e = figures.iter().fold(0_i64, |n, &d| (10 * n + i64::from(d)).min(1 << 40));
            exponent += if down { -e } else { e };
        }
        let magnitude = decimal::nearest(&digits, exponent);
        Number::from_f64(if negative { -magnitude } else { magnitude })
            .ok_or_else(|| self.fault("number out of range"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_serde_json_reads() {
        for text in [
            "null",
            " [true , false]\n",
            r#"{"a": {"b": [1, -2, 0, -0, 0.5, 1e3, 1E-3, 1.25e+2]}, "a": 2, "": ""}"#,
            "[18446744073709551615, 18446744073709551616, -9223372036854775808, -9223372036854775809]",
            r#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 é""#,
        ] {
            let general: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text).unwrap(), general, "{text}");
        }
    }

    #[test]
    fn refuses_what_serde_json_refuses_in_its_words() {
        for text in [
            "",
            "{",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{1:2}",
            "nul",
            "nulx",
            "tru",
            "+1",
            "01",
            "-0524",
            "1.",
            "1e",
            "-",
            "\"a",
            "\"\\x\"",
            "1 2",
            "{} x",
            "1e999",
            "[\n1e999\n]",
            "{\"a\" 1}",
            "[1 2]",
            "\"\n\"",
            "'a'",
            "NaN",
        ] {
            let general = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert_eq!(parse(text).unwrap_err().given, general, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded_and_surrogates_come_in_pairs() {
        assert!(parse(&["[".repeat(127), "]".repeat(127)].concat()).is_ok());
        assert!(parse(&"[".repeat(100_000)).unwrap_err().given.starts_with("recursion limit exceeded"));
        for text in [r#""\ud800""#, r#""\ud800\u0041""#, r#""\udc00""#, r#""\u12""#, r#""\u+123""#] {
            assert_eq!(parse(text).unwrap_err().code, ErrorCode::Syntax, "{text}");
        }
    }
}
