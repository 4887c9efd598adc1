//! Values that nobody asked for.
//!
//! They are checked like all others: whether a line is well formed does not depend on which of
//! its fields a query needs.

use super::scan::{Cursor, Syntax};

/// Deeper nesting is not JSON to us: the stack of open brackets is bounded.
const MAX_DEPTH: usize = 1000;

impl Cursor<'_> {
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
    }
}
