//! Text as tokens, with Spark's strings. Raw ones (`r'\d+'`), in which a backslash is a character
//! like any other, sqlparser reads for one dialect alone and asks for it by type. So they are found
//! first, and what stands between them goes to its tokenizer, piece by piece.

use super::unescape::unescaped;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{
    Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError,
};

/// Cuts a text into tokens.
///
/// # Errors
///
/// A string or a comment without an end.
pub(crate) fn tokenize(
    text: &str,
    dialect: &dyn Dialect,
) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let mut tokens = Vec::new();
    let mut scan = Scan { rest: text, place: Location::new(1, 1) };
    loop {
        let (start, from) = (scan.place, scan.rest);
        let raw = scan.next_raw();
        let plain = &from[..from.len() - scan.rest.len()];
        let mut tokenizer = Tokenizer::new(dialect, plain).with_unescape(false);
        let between = tokenizer.tokenize_with_location();
        let between = between
            .map_err(|error| TokenizerError { location: moved(error.location, start), ..error })?;
        tokens.extend(between.into_iter().map(|TokenWithSpan { token, span }| TokenWithSpan {
            token: read(token),
            span: Span::new(moved(span.start, start), moved(span.end, start)),
        }));
        let Some(quote) = raw else { return Ok(tokens) };
        tokens.push(scan.raw(quote)?);
    }
}

/// A token as it is meant: the tokenizer left its escapes as they are written.
fn read(token: Token) -> Token {
    match token {
        Token::SingleQuotedString(held) => Token::SingleQuotedString(unescaped(&held, '\'')),
        Token::DoubleQuotedString(held) => Token::DoubleQuotedString(unescaped(&held, '"')),
        Token::Word(mut word) => {
            if word.quote_style == Some('`') {
                word.value = word.value.replace("``", "`");
            }
            Token::Word(word)
        }
        other => other,
    }
}

/// A place in a piece that begins at `start`, in the whole text.
fn moved(place: Location, start: Location) -> Location {
    match place.line {
        0 => place,
        1 => Location::new(start.line, start.column + place.column - 1),
        line => Location::new(start.line + line - 1, place.column),
    }
}

struct Scan<'a> {
    rest: &'a str,
    place: Location,
}

impl Scan<'_> {
    /// Goes to the next raw string; gives its quote. To the end, if there is none.
    fn next_raw(&mut self) -> Option<char> {
        let mut in_word = false;
        while let Some(next) = self.rest.chars().next() {
            let second = self.rest[next.len_utf8()..].chars().next();
            match next {
                'r' | 'R' if !in_word && matches!(second, Some('\'' | '"')) => return second,
                '\'' | '"' | '`' => self.quoted(next),
                '-' if second == Some('-') => self.line_comment(),
                '/' if second == Some('*') => self.comment(),
                _ => self.take(next),
            }
            in_word = next.is_alphanumeric() || next == '_';
        }
        None
    }

    /// The raw string that comes next.
    fn raw(&mut self, quote: char) -> Result<TokenWithSpan, TokenizerError> {
        let start = self.place;
        self.take('r');
        self.take(quote);
        let Some((held, _)) = self.rest.split_once(quote) else {
            let message = "Unterminated raw string".to_owned();
            return Err(TokenizerError { message, location: start });
        };
        held.chars().chain([quote]).for_each(|c| self.take(c));
        let held = held.to_owned();
        let token = match quote {
            '"' => Token::DoubleQuotedString(held),
            _ => Token::SingleQuotedString(held),
        };
        Ok(TokenWithSpan { token, span: Span::new(start, self.place) })
    }

    fn take(&mut self, c: char) {
        self.rest = &self.rest[c.len_utf8()..];
        self.place = match c {
            '\n' => Location::new(self.place.line + 1, 1),
            _ => Location::new(self.place.line, self.place.column + 1),
        };
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
                self.take(if opens { '*' } else { '/' });
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

    #[test]
    fn they_end_at_the_next_quote() {
        assert_eq!(strings("r'a''b' r'it''s'"), ["a", "b", "it", "s"]);
        assert!(tokenize("select r'a", &SparkDialect).is_err());
    }

    #[test]
    fn places_are_those_of_the_text() {
        let tokens = tokenize("a\n = r'ä\nx' + 'b'", &SparkDialect).unwrap();
        let place = |text: &str| {
            let token = tokens.iter().find(|t| t.token.to_string().contains(text)).unwrap();
            (token.span.start.line, token.span.start.column)
        };
        assert_eq!(
            (place("="), place("ä"), place("+"), place("b")),
            ((2, 2), (2, 4), (3, 4), (3, 6))
        );
    }

    proptest! {
        #[test]
        fn a_text_without_raw_strings_is_cut_as_ever(text in "[cR'\"`\\\\/*\n ä-]{0,24}") {
            prop_assume!(!text.contains("R'") && !text.contains("R\""));
            let ours = tokenize(&text, &SparkDialect);
            let plain = Tokenizer::new(&SparkDialect, &text).tokenize_with_location();
            match (ours, plain) {
                (Ok(ours), Ok(plain)) => prop_assert_eq!(ours, plain),
                (ours, plain) => prop_assert_eq!(ours.is_err(), plain.is_err()),
            }
        }
    }
}
