//! JSON as a tree that keeps numbers as they are written and fields in their order.

/// Deeper nesting is malformed: the text may come from anywhere, the stack is finite.
const MAX_DEPTH: usize = 512;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// Its text.
    Number(String),
    Text(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads one value that is the whole text; `None` if it is malformed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.blanks();
        (parser.at == text.len()).then_some(value)
    }

    /// A field of an object: of several of one name the last.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Appends the value as JSON without blanks.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => write_text(text, out),
            Self::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(fields) => {
                out.push('{');
                for (i, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    write_text(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Text as it is, everything else as JSON.
    pub(super) fn as_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            other => {
                let mut out = String::new();
                other.write(&mut out);
                out
            }
        }
    }
}

/// Appends a JSON string.
pub(super) fn write_text(text: &str, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Parser<'a> {
    text: &'a str,
    /// Byte offset, always on a character boundary.
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blanks();
        match self.peek()? {
            b'n' => self.word("null", Value::Null),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'"' => self.string().map(Value::Text),
            b'{' | b'[' if depth >= MAX_DEPTH => None,
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'-' | b'0'..=b'9' => self.number(),
            // As Spark by default: numbers that JSON has no form for.
            b'N' => self.word("NaN", Value::Number("NaN".into())),
            b'I' => self.word("Infinity", Value::Number("Infinity".into())),
            _ => None,
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.at += 1;
        let mut fields = Vec::new();
        if self.eat(b'}') {
            return Some(Value::Object(fields));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return None;
            }
            let name = self.string()?;
            if !self.eat(b':') {
                return None;
            }
            fields.push((name, self.value(depth + 1)?));
            if self.eat(b'}') {
                return Some(Value::Object(fields));
            }
            if !self.eat(b',') {
                return None;
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.at += 1;
        let mut items = Vec::new();
        if self.eat(b']') {
            return Some(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.eat(b']') {
                return Some(Value::Array(items));
            }
            if !self.eat(b',') {
                return None;
            }
        }
    }

    fn number(&mut self) -> Option<Value> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
            if let Some(value) = self.word("Infinity", Value::Number("-Infinity".into())) {
                return Some(value);
            }
        }
        let digits = |parser: &mut Self| {
            let start = parser.at;
            while matches!(parser.peek(), Some(b'0'..=b'9')) {
                parser.at += 1;
            }
            parser.at - start
        };
        let leading = self.peek();
        let whole = digits(self);
        if whole == 0 || (whole > 1 && leading == Some(b'0')) {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if digits(self) == 0 {
                return None;
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if digits(self) == 0 {
                return None;
            }
        }
        Some(Value::Number(self.text[start..self.at].to_owned()))
    }

    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(['"', '\\'])?;
            if rest[..plain].bytes().any(|b| b < 0x20) {
                return None;
            }
            out.push_str(&rest[..plain]);
            self.at += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Some(out);
            }
            let escape = self.peek()?;
            self.at += 1;
            out.push(match escape {
                b'"' => '"',
                b'\\' => '\\',
                b'/' => '/',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.unicode()?,
                _ => return None,
            });
        }
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    /// A code unit, or two that belong together; a half alone becomes U+FFFD.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Some(char::from_u32(first).unwrap_or('\u{fffd}'));
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Some('\u{fffd}');
        }
        let before = self.at;
        self.at += 2;
        let second = self.hex()?;
        if !(0xdc00..0xe000).contains(&second) {
            self.at = before;
            return Some('\u{fffd}');
        }
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_read_is_written() {
        for text in ["null", "[1,2.50,-3e5]", r#"{"b":"x\"\n","a":{"c":[]},"b2":true}"#, r#""é😀""#]
        {
            let mut out = String::new();
            Value::parse(text).unwrap().write(&mut out);
            assert_eq!(out, text);
        }
        assert_eq!(Value::parse(r#""\ud83d\ude00""#), Some(Value::Text("😀".into())));
        for bad in ["", "{", "[1,]", "01", "1.", "{a:1}", "\"\u{1}\"", "nul", "1 2", r#""\x""#] {
            assert_eq!(Value::parse(bad), None, "{bad}");
        }
        assert_eq!(Value::parse(&"[".repeat(100_000)), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,40}", tail in r#"[\[\]{}",:\\u0-9a-f]{0,30}"#) {
            let _ = (Value::parse(&text), Value::parse(&tail));
        }
    }
}
