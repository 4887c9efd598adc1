//! JSON that is not quite JSON: what the user allows beyond the standard (or forbids of what Spark
//! reads besides) is rewritten as plain JSON before it is read. So the reader of plain JSON pays
//! nothing for it.

use super::scan::Syntax;
use fluvial_core::{Options, Result};

/// What differs from the JSON that Spark reads without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Relax {
    comments: bool,
    unquoted_names: bool,
    no_single_quotes: bool,
    leading_zeros: bool,
    any_escape: bool,
    control_characters: bool,
    no_words_as_numbers: bool,
}

impl Relax {
    pub(super) fn take(options: &mut Options) -> Result<Self> {
        let mut is = |name, default| options.take_bool(name).map(|found| found.unwrap_or(default));
        Ok(Self {
            comments: is("allowComments", false)?,
            unquoted_names: is("allowUnquotedFieldNames", false)?,
            no_single_quotes: !is("allowSingleQuotes", true)?,
            leading_zeros: is("allowNumericLeadingZeros", false)?,
            any_escape: is("allowBackslashEscapingAnyCharacter", false)?,
            control_characters: is("allowUnquotedControlChars", false)?,
            no_words_as_numbers: !is("allowNonNumericNumbers", true)?,
        })
    }

    /// Whether nothing differs.
    pub(super) fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// The same record in plain JSON, in the place of `out`.
    pub(super) fn rewrite(self, text: &str, out: &mut Vec<u8>) -> Result<(), Syntax> {
        out.clear();
        let mut rewriter =
            Rewriter { relax: self, text: text.as_bytes(), at: 0, out, open: vec![] };
        while rewriter.at < rewriter.text.len() {
            rewriter.step()?;
        }
        Ok(())
    }
}

struct Rewriter<'a> {
    relax: Relax,
    text: &'a [u8],
    at: usize,
    out: &'a mut Vec<u8>,
    /// The brackets around, and whether a name comes next.
    open: Vec<(u8, bool)>,
}

impl Rewriter<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn copy(&mut self) {
        self.out.push(self.peek(0));
        self.at += 1;
    }

    fn names_come_next(&mut self, next: bool) {
        if let Some((b'{', name)) = self.open.last_mut() {
            *name = next;
        }
    }

    fn step(&mut self) -> Result<(), Syntax> {
        match self.peek(0) {
            b'/' if self.relax.comments => return self.comment(),
            b'\'' if self.relax.no_single_quotes => return Err(Syntax),
            quote @ (b'"' | b'\'') => return self.string(quote),
            bracket @ (b'{' | b'[') => self.open.push((bracket, bracket == b'{')),
            b'}' | b']' => drop(self.open.pop()),
            b':' => self.names_come_next(false),
            b',' => self.names_come_next(true),
            byte if self.relax.unquoted_names
                && matches!(self.open.last(), Some((_, true)))
                && starts_name(byte) =>
            {
                self.name();
                return Ok(());
            }
            b'-' | b'0'..=b'9' => {
                if self.relax.no_words_as_numbers
                    && self.peek(0) == b'-'
                    && !self.peek(1).is_ascii_digit()
                {
                    return Err(Syntax);
                }
                self.number();
                return Ok(());
            }
            byte if starts_name(byte) => {
                let start = self.at;
                while starts_name(self.peek(0)) || self.peek(0).is_ascii_digit() {
                    self.copy();
                }
                // `NaN`, `Infinity`, `INF`: all words but the three of JSON.
                let word = &self.text[start..self.at];
                let plain = matches!(word, b"true" | b"false" | b"null");
                return if self.relax.no_words_as_numbers && !plain { Err(Syntax) } else { Ok(()) };
            }
            _ => {}
        }
        self.copy();
        Ok(())
    }

    fn comment(&mut self) -> Result<(), Syntax> {
        let rest = &self.text[self.at..];
        let length = match rest {
            [_, b'/', ..] => {
                rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len())
            }
            [_, b'*', inner @ ..] => {
                inner.windows(2).position(|pair| pair == b"*/").ok_or(Syntax)? + 4
            }
            _ => return Err(Syntax),
        };
        self.at += length;
        self.out.push(b' ');
        Ok(())
    }

    fn string(&mut self, quote: u8) -> Result<(), Syntax> {
        self.copy();
        loop {
            match self.peek(0) {
                _ if self.at >= self.text.len() => return Err(Syntax),
                b'\\' => {
                    let known = matches!(
                        self.peek(1),
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u' | b'\''
                    );
                    if known || !self.relax.any_escape {
                        self.copy();
                        if self.at < self.text.len() {
                            self.copy();
                        }
                    } else {
                        // What is escaped without need stands for itself.
                        self.at += 1;
                    }
                }
                byte if byte == quote => {
                    self.copy();
                    return Ok(());
                }
                byte if byte < b' ' && self.relax.control_characters => {
                    self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    self.at += 1;
                }
                _ => self.copy(),
            }
        }
    }

    fn name(&mut self) {
        self.out.push(b'"');
        while starts_name(self.peek(0)) || self.peek(0).is_ascii_digit() {
            self.copy();
        }
        self.out.push(b'"');
    }

    fn number(&mut self) {
        if self.peek(0) == b'-' {
            self.copy();
        }
        while self.relax.leading_zeros && self.peek(0) == b'0' && self.peek(1).is_ascii_digit() {
            self.at += 1;
        }
        while matches!(self.peek(0), b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-' | b'a'..=b'z' | b'A'..=b'Z')
        {
            self.copy();
        }
    }
}

fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(options: &[&str], text: &str) -> Option<String> {
        let mut options = Options::new(options.iter().map(|name| (*name, "true")));
        let relax = Relax::take(&mut options).unwrap();
        let mut out = Vec::new();
        relax.rewrite(text, &mut out).ok()?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_is_allowed_becomes_plain() {
        for (option, text, expected) in [
            (
                "allowComments",
                "/*x*/{\"a\":/*z*/2,\"b\":\"/*\"} // t",
                "  {\"a\": 2,\"b\":\"/*\"}  ",
            ),
            (
                "allowUnquotedFieldNames",
                "{a:1, b$_9 : true,c:[{d:null}]}",
                "{\"a\":1, \"b$_9\" : true,\"c\":[{\"d\":null}]}",
            ),
            (
                "allowNumericLeadingZeros",
                "{\"a\":[007,-01,00,0.5,1e05]}",
                "{\"a\":[7,-1,0,0.5,1e05]}",
            ),
            (
                "allowBackslashEscapingAnyCharacter",
                "{\"b\":\"\\x\\q\\n\\$\"}",
                "{\"b\":\"xq\\n$\"}",
            ),
            ("allowUnquotedControlChars", "{\"b\":\"x\ty\u{1}\"}", "{\"b\":\"x\\u0009y\\u0001\"}"),
        ] {
            assert_eq!(rewritten(&[option], text).as_deref().map(str::trim), Some(expected.trim()));
        }
    }

    #[test]
    fn what_is_cut_off_is_no_json() {
        assert_eq!(rewritten(&["allowComments"], "{\"a\":1 /* x"), None);
        assert_eq!(rewritten(&["allowComments"], "{\"a\":1 / 2"), None);
        assert_eq!(rewritten(&["allowUnquotedControlChars"], "{\"a"), None);
        assert_eq!(rewritten(&["allowUnquotedControlChars"], "{\"a\\"), None);
    }
}
