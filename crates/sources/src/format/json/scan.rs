//! The words of JSON: white space, strings, numbers, and values that are skipped.
//!
//! Everything that is looked at is checked, also what is skipped: whether a line is well formed
//! does not depend on which of its fields a query needs.

use memchr::memchr;

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Syntax;

/// Deeper nesting is not JSON to us: the stack of open brackets is bounded.
const MAX_DEPTH: usize = 1000;

/// A place in one line.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

/// What is between two quotes, as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quoted<'a> {
    pub(super) raw: &'a [u8],
    pub(super) escaped: bool,
}

/// A number: `mantissa * 10^exponent`, if `exact`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    pub(super) raw: &'a [u8],
    pub(super) negative: bool,
    pub(super) mantissa: u64,
    pub(super) exponent: i32,
    /// No fraction and no exponent were written.
    pub(super) integral: bool,
    /// All digits fitted into the mantissa.
    pub(super) exact: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte, or 0 at the end: 0 starts nothing.
    pub(super) fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    pub(super) fn done(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips white space.
    #[inline]
    pub(super) fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    #[inline]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let next = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(next);
        next
    }

    #[inline]
    pub(super) fn need(&mut self, byte: u8) -> Result<(), Syntax> {
        if self.eat(byte) { Ok(()) } else { Err(Syntax) }
    }

    /// Whether an object whose opening bracket was taken has nothing in it; then it is closed.
    #[cold]
    pub(super) fn is_empty_object(&mut self) -> bool {
        let start = self.at;
        self.blanks();
        let empty = self.eat(b'}');
        if !empty {
            self.at = start;
        }
        empty
    }

    /// After a value: `true` if another follows, `false` after `close`.
    #[inline]
    pub(super) fn more(&mut self, close: u8) -> Result<bool, Syntax> {
        self.blanks();
        if self.eat(b',') {
            self.blanks();
            return Ok(true);
        }
        self.need(close).map(|()| false)
    }

    /// A string, whose opening quote is next. Both kinds of quotes are allowed, as in Spark.
    #[inline]
    pub(super) fn quoted(&mut self) -> Result<Quoted<'a>, Syntax> {
        match self.peek() {
            b'"' => {
                self.at += 1;
                self.double_quoted()
            }
            b'\'' => {
                self.at += 1;
                self.single_quoted()
            }
            _ => Err(Syntax),
        }
    }

    #[inline]
    fn double_quoted(&mut self) -> Result<Quoted<'a>, Syntax> {
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_prefix(self.rest());
            match self.text.get(self.at) {
                Some(b'"') => {
                    let raw = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Quoted { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                // The end, or a control character.
                _ => return Err(Syntax),
            }
        }
    }

    #[cold]
    fn single_quoted(&mut self) -> Result<Quoted<'a>, Syntax> {
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.text.get(self.at) {
                Some(b'\'') => {
                    let raw = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Quoted { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(byte) if *byte >= b' ' => self.at += 1,
                _ => return Err(Syntax),
            }
        }
    }

    /// Checks an escape and steps over it; the backslash is next.
    fn escape(&mut self) -> Result<(), Syntax> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'\'') => self.at += 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6).ok_or(Syntax)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(Syntax);
                }
                self.at += 6;
            }
            _ => return Err(Syntax),
        }
        Ok(())
    }

    /// A number, whose first byte (a digit or `-`) is next.
    #[inline]
    pub(super) fn number(&mut self) -> Result<Number<'a>, Syntax> {
        let start = self.at;
        let negative = self.eat(b'-');
        let mut digits = Digits::default();
        if self.peek() == b'0' {
            self.at += 1;
            if self.peek().is_ascii_digit() {
                return Err(Syntax);
            }
        } else if self.digits(&mut digits) == 0 {
            return Err(Syntax);
        }
        let (mut exponent, mut integral) = (0i32, true);
        if self.peek() == b'.' {
            self.at += 1;
            integral = false;
            let fraction = self.digits(&mut digits);
            if fraction == 0 {
                return Err(Syntax);
            }
            exponent = -i32::try_from(fraction).map_err(|_| Syntax)?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            integral = false;
            exponent = exponent.saturating_add(self.exponent()?);
        }
        let raw = &self.text[start..self.at];
        let (mantissa, exact) = (digits.value, digits.exact());
        Ok(Number { raw, negative, mantissa, exponent, integral, exact })
    }

    #[inline]
    fn digits(&mut self, digits: &mut Digits) -> usize {
        let start = self.at;
        while let Some(digit) = self.text.get(self.at).map(|b| b.wrapping_sub(b'0')) {
            if digit > 9 {
                break;
            }
            digits.push(digit);
            self.at += 1;
        }
        self.at - start
    }

    fn exponent(&mut self) -> Result<i32, Syntax> {
        let negative = self.eat(b'-');
        if !negative {
            self.eat(b'+');
        }
        let mut digits = Digits::default();
        if self.digits(&mut digits) == 0 {
            return Err(Syntax);
        }
        // Beyond this every number is zero or infinite.
        let value = if digits.exact() { digits.value.min(1_000_000) as i32 } else { 1_000_000 };
        Ok(if negative { -value } else { value })
    }

    /// Takes `word` if it is next and ends there.
    pub(super) fn word(&mut self, word: &[u8]) -> bool {
        let Some(after) = self.rest().strip_prefix(word) else { return false };
        let ends = !matches!(after.first(), Some(b) if b.is_ascii_alphanumeric() || *b == b'_');
        self.at += if ends { word.len() } else { 0 };
        ends
    }

    /// The numbers that JSON does not have and Spark reads: `NaN`, `Infinity` and its kin.
    pub(super) fn word_number(&mut self) -> Option<f64> {
        const WORDS: [(&[u8], f64); 6] = [
            (b"NaN", f64::NAN),
            (b"Infinity", f64::INFINITY),
            (b"+Infinity", f64::INFINITY),
            (b"-Infinity", f64::NEG_INFINITY),
            (b"+INF", f64::INFINITY),
            (b"-INF", f64::NEG_INFINITY),
        ];
        WORDS.iter().find(|(word, _)| self.word(word)).map(|(_, number)| *number)
    }

    /// Steps over one value of any kind; white space before it is skipped already.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<(), Syntax> {
        match self.peek() {
            b'"' => {
                self.at += 1;
                self.double_quoted().map(|_| ())
            }
            b'0'..=b'9' => self.skip_number(),
            _ => self.skip_any(),
        }
    }

    /// Steps over a number without taking note of it.
    fn skip_number(&mut self) -> Result<(), Syntax> {
        let start = self.at;
        self.skip_digits();
        let zero = self.text[start] == b'0' && self.at > start + 1;
        if self.peek() == b'.' {
            self.at += 1;
            let fraction = self.at;
            self.skip_digits();
            if self.at == fraction {
                return Err(Syntax);
            }
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            self.exponent()?;
        }
        if zero { Err(Syntax) } else { Ok(()) }
    }

    #[inline]
    fn skip_digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn skip_any(&mut self) -> Result<(), Syntax> {
        let mut open = Vec::new();
        loop {
            let closed = match self.peek() {
                b'"' | b'\'' => self.quoted().map(|_| None)?,
                b'{' => self.open(&mut open, b'}')?,
                b'[' => self.open(&mut open, b']')?,
                b'0'..=b'9' => self.skip_number().map(|()| None)?,
                _ => self.skip_word().map(|()| None)?,
            };
            if closed == Some(false) {
                // A bracket was opened, and its first value is next.
                continue;
            }
            // A value ended: so may the brackets around it.
            loop {
                let Some(close) = open.last().copied() else { return Ok(()) };
                if self.more(close)? {
                    self.skip_key(close)?;
                    break;
                }
                open.pop();
            }
        }
    }

    /// Opens a bracket: `Some(true)` if it is empty, and closed again.
    fn open(&mut self, open: &mut Vec<u8>, close: u8) -> Result<Option<bool>, Syntax> {
        self.at += 1;
        self.blanks();
        if self.eat(close) {
            return Ok(Some(true));
        }
        if open.len() == MAX_DEPTH {
            return Err(Syntax);
        }
        open.push(close);
        self.skip_key(close)?;
        Ok(Some(false))
    }

    fn skip_key(&mut self, close: u8) -> Result<(), Syntax> {
        if close == b'}' {
            self.quoted()?;
            self.blanks();
            self.need(b':')?;
            self.blanks();
        }
        Ok(())
    }

    fn skip_word(&mut self) -> Result<(), Syntax> {
        let known = self.word(b"null")
            || self.word(b"true")
            || self.word(b"false")
            || self.word_number().is_some();
        if known { Ok(()) } else { self.number().map(|_| ()) }
    }
}

/// Up to 19 significant digits.
#[derive(Debug, Default)]
struct Digits {
    value: u64,
    count: u32,
}

impl Digits {
    #[inline]
    fn push(&mut self, digit: u8) {
        self.value = self.value.wrapping_mul(10).wrapping_add(u64::from(digit));
        // Leading zeros are no digits.
        self.count += u32::from(self.value != 0 || self.count != 0);
    }

    fn exact(&self) -> bool {
        self.count <= 19
    }
}

/// How many bytes come before the first quote, backslash or control character.
#[inline]
fn plain_prefix(text: &[u8]) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        // A byte is zero iff subtracting one borrows from a byte without its high bit. The
        // lowest hit is exact, higher ones may be an effect of the borrow.
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (LOW * u64::from(b'"'));
        let backslash = word ^ (LOW * u64::from(b'\\'));
        let hits = (quote.wrapping_sub(LOW) & !quote)
            | (backslash.wrapping_sub(LOW) & !backslash)
            | (word.wrapping_sub(LOW * 0x20) & !word);
        let hits = hits & HIGH;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let tail = &text[at..];
    let stop = |b: &u8| *b == b'"' || *b == b'\\' || *b < b' ';
    at + tail.iter().position(stop).unwrap_or(tail.len())
}

/// Appends what a checked string means. A lone surrogate becomes `?`, as in Spark.
pub(super) fn unescape(quoted: Quoted<'_>, out: &mut Vec<u8>) {
    let mut rest = quoted.raw;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let code = rest.get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match code {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => rest = unescape_unit(rest, out),
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
}

/// Appends the character of the four digits at the start of `rest`, and of a second escape if
/// both are one pair of surrogates; returns what follows.
fn unescape_unit<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (unit, after) = hex4(rest);
    let (character, after) = match (unit, after) {
        (0xd800..=0xdbff, [b'\\', b'u', low @ ..]) => match hex4(low) {
            (second @ 0xdc00..=0xdfff, after) => {
                let code = 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
                (char::from_u32(code), after)
            }
            _ => (None, after),
        },
        _ => (char::from_u32(unit), after),
    };
    let mut bytes = [0; 4];
    out.extend_from_slice(character.unwrap_or('?').encode_utf8(&mut bytes).as_bytes());
    after
}

fn hex4(text: &[u8]) -> (u32, &[u8]) {
    let (digits, after) = text.split_at(text.len().min(4));
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 16 + char::from(*digit).to_digit(16).unwrap_or_default());
    (value, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn skips(text: &str) -> bool {
        let mut cursor = Cursor::new(text.as_bytes());
        cursor.skip().is_ok() && cursor.done()
    }

    #[test]
    fn only_json_is_skipped() {
        for good in [
            "{}",
            "[]",
            "[1,2]",
            "{\"a\":[{}]}",
            "-0.5e-3",
            "\"\\u00e9\"",
            "NaN",
            "-Infinity",
            "[ ]",
            "{ 'a' : 'b' }",
            "[[],{}]",
            "true",
        ] {
            assert!(skips(good), "{good}");
        }
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{,}",
            "01",
            "1.",
            ".5",
            "+5",
            "-",
            "tru",
            "truex",
            "\"\\x\"",
            "\"\t\"",
            "\"\\u12\"",
            "[1 2]",
            "{\"a\":1,}",
            "{a:1}",
            "nul",
        ] {
            assert!(!skips(bad), "{bad}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(skips(&deep(1000)));
        assert!(!skips(&deep(100_000)));
    }

    proptest! {
        #[test]
        fn skipping_agrees_with_a_full_parser(text in "[\\[\\]{}:,\"\\\\0-9eE.+ntrufalse -]{0,14}") {
            prop_assume!(!text.contains(['\'', 'N', 'I']));
            let known = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(skips(text.trim_matches(' ')), known);
        }

        #[test]
        fn strings_mean_what_a_full_parser_says(text in "\\PC{0,12}|(\\\\[nrtbf/\\\\\"]|\\\\u00[0-9a-f]{2}|[a-z]){0,9}") {
            // Jackson lets single quotes be escaped.
            prop_assume!(!text.contains("\\'"));
            let quoted = format!("\"{text}\"");
            let expected = serde_json::from_str::<String>(&quoted);
            let mut cursor = Cursor::new(quoted.as_bytes());
            match cursor.quoted() {
                Ok(found) if cursor.done() => {
                    let mut out = Vec::new();
                    unescape(found, &mut out);
                    prop_assert_eq!(String::from_utf8(out).unwrap(), expected.unwrap());
                }
                _ => prop_assert!(expected.is_err()),
            }
        }

        #[test]
        fn words_of_eight_bytes_find_the_first_stop(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let stop = |b: &u8| *b == b'"' || *b == b'\\' || *b < b' ';
            let expected = text.iter().position(stop).unwrap_or(text.len());
            prop_assert_eq!(plain_prefix(&text), expected);
        }
    }
}
