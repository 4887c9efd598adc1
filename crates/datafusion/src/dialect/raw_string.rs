//! Raw strings: `r'\d+'`, in which a backslash is a character like any other.
//!
//! sqlparser reads them for one dialect alone and asks for it by type. So a text goes to its
//! tokenizer with placeholders of the same length in place of what the raw strings hold, and the
//! tokens get what is theirs afterwards. Places in the text stay what they are.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};
use std::collections::HashMap;

/// Cuts a text into tokens.
///
/// # Errors
///
/// A string or a comment without an end.
pub(crate) fn tokenize(
    text: &str,
    dialect: &dyn Dialect,
) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let (plain, raw) = without_raw(text);
    let mut tokens = Tokenizer::new(dialect, &plain).tokenize_with_location()?;
    for token in tokens.iter_mut().filter(|_| !raw.is_empty()) {
        let start = token.span.start;
        if let Token::SingleQuotedString(held) | Token::DoubleQuotedString(held) = &mut token.token
            && let Some(own) = raw.get(&(start.line, start.column))
        {
            held.clone_from(own);
        }
    }
    Ok(tokens)
}

/// What raw strings hold, by line and column of the quote that opens each.
type Raw = HashMap<(u64, u64), String>;

/// The text with blanks for the `r` and what stands in the quotes.
fn without_raw(text: &str) -> (String, Raw) {
    let mut scan =
        Scan { rest: text, line: 1, column: 1, plain: String::with_capacity(text.len()) };
    let mut raw = Raw::new();
    let mut in_word = false;
    while let Some(next) = scan.rest.chars().next() {
        let quote = scan.rest[next.len_utf8()..].chars().next();
        match next {
            'r' | 'R' if !in_word && matches!(quote, Some('\'' | '"')) => {
                scan.hide(next);
                let quote = quote.unwrap_or(next);
                let place = (scan.line, scan.column);
                scan.take(quote);
                let held = scan.rest.split(quote).next().unwrap_or_default().to_owned();
                held.chars().for_each(|c| scan.hide(c));
                raw.insert(place, held);
                if !scan.rest.is_empty() {
                    scan.take(quote);
                }
            }
            '\'' | '"' | '`' => scan.quoted(next),
            '-' if quote == Some('-') => scan.line_comment(),
            '/' if quote == Some('*') => scan.comment(),
            _ => scan.take(next),
        }
        in_word = next.is_alphanumeric() || next == '_';
    }
    (scan.plain, raw)
}

struct Scan<'a> {
    rest: &'a str,
    line: u64,
    column: u64,
    plain: String,
}

impl Scan<'_> {
    fn take(&mut self, c: char) {
        self.put(c, c);
    }

    /// Puts a blank for `c`; a new line stays one, so that places do.
    fn hide(&mut self, c: char) {
        self.put(c, if c == '\n' { '\n' } else { ' ' });
    }

    fn put(&mut self, c: char, shown: char) {
        self.rest = &self.rest[c.len_utf8()..];
        self.plain.push(shown);
        if c == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
    }

    fn quoted(&mut self, quote: char) {
        self.take(quote);
        while let Some(c) = self.rest.chars().next() {
            self.take(c);
            if c == quote {
                return;
            }
            if c == '\\'
                && quote != '`'
                && let Some(escaped) = self.rest.chars().next()
            {
                self.take(escaped);
            }
        }
    }

    fn line_comment(&mut self) {
        while let Some(c) = self.rest.chars().next().filter(|c| *c != '\n') {
            self.take(c);
        }
    }

    fn comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(c) = self.rest.chars().next() {
            let (opens, closes) = (self.rest.starts_with("/*"), self.rest.starts_with("*/"));
            self.take(c);
            if opens || closes {
                let second = if opens { '*' } else { '/' };
                self.take(second);
                depth = if opens { depth + 1 } else { depth - 1 };
                if depth == 0 {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::SparkDialect;
    use proptest::prelude::*;

    fn strings(text: &str) -> Vec<String> {
        let tokens = tokenize(text, &SparkDialect).unwrap();
        let string = |token: TokenWithSpan| match token.token {
            Token::SingleQuotedString(held) | Token::DoubleQuotedString(held) => Some(held),
            _ => None,
        };
        tokens.into_iter().filter_map(string).collect()
    }

    #[test]
    fn raw_strings_keep_their_backslashes() {
        assert_eq!(strings(r"r'\d+'"), [r"\d+"]);
        assert_eq!(strings(r#"R"a\tb""#), [r"a\tb"]);
        assert_eq!(strings(r"r'ends with \' || 'x'"), [r"ends with \", "x"]);
        assert_eq!(strings("a = r'1'\nAND b = r'ä\nö' AND c = '\\t'"), ["1", "ä\nö", "\t"]);
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        assert_eq!(strings(r"var'\t'"), ["\t"]);
        assert_eq!(strings(r"'r''\t'"), ["r'\t"]);
        assert_eq!(strings("-- r'\n'\\t'"), ["\t"]);
        assert_eq!(strings("/* r' /* */ */ '\\t'"), ["\t"]);
        assert_eq!(strings("`r'` '\\t'"), ["\t"]);
    }

    proptest! {
        #[test]
        fn places_stay(text in "[rR'\"`\\\\/*\n ä-]{0,24}") {
            let (plain, _) = without_raw(&text);
            prop_assert_eq!(plain.chars().count(), text.chars().count());
            let lines = |text: &str| text.lines().map(|line| line.chars().count()).collect::<Vec<_>>();
            prop_assert_eq!(lines(&plain), lines(&text));
        }
    }
}
