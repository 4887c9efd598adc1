//! Where something stands in a script, and errors that point at it.

use fluvial_core::{Error, ErrorKind};
use std::fmt;

/// A position in a script, for people: lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The most characters of a line that an error shows; generated SQL has very long ones.
const SHOWN: usize = 100;

/// The text of a script, which knows its lines.
#[derive(Debug)]
pub(super) struct Source<'a> {
    text: &'a str,
    /// Where each line starts, in bytes.
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { text, lines }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The place behind the last character.
    pub(super) fn end(&self) -> Place {
        let line = self.lines.len() as u64;
        Place { line, column: self.line(line).chars().count() as u64 + 1 }
    }

    /// A line without its line break; empty if there is none such.
    fn line(&self, line: u64) -> &'a str {
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(start) = self.lines.get(index).copied() else { return "" };
        let end = self.lines.get(index + 1).copied().unwrap_or(self.text.len());
        self.text.get(start..end).unwrap_or("").trim_end_matches(['\n', '\r'])
    }

    /// The byte at which a place stands; the end of the text for a place behind it.
    fn byte(&self, place: Place) -> usize {
        let index = usize::try_from(place.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(start) = self.lines.get(index).copied() else { return self.text.len() };
        let skip = usize::try_from(place.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let rest = self.text.get(start..).unwrap_or("");
        rest.char_indices().nth(skip).map_or(self.text.len(), |(at, _)| start + at)
    }

    /// The text between two places, without white space around it.
    pub(super) fn between(&self, start: Place, end: Place) -> &'a str {
        self.text.get(self.byte(start)..self.byte(end)).unwrap_or("").trim()
    }

    /// An error that says what is wrong, where, and shows it.
    pub(super) fn error(&self, place: Place, message: impl fmt::Display) -> Error {
        self.error_of(ErrorKind::Invalid, "PARSE_SYNTAX_ERROR", place, message)
    }

    /// Like [`Source::error`], for mistakes that have a name of their own.
    pub(super) fn named_error(
        &self,
        condition: &'static str,
        place: Place,
        message: impl fmt::Display,
    ) -> Error {
        self.error_of(ErrorKind::Invalid, condition, place, message)
    }

    /// Puts the place around an error that comes from elsewhere; its kind and name stay.
    pub(super) fn point_at(&self, place: Place, error: &Error) -> Error {
        let message = format!("{place}: {}\n{}", error.message(), self.snippet(place));
        let pointed = Error::new(error.kind(), message);
        match error.condition() {
            Some(condition) => pointed.with_condition(condition.to_owned()),
            None => pointed,
        }
    }

    fn error_of(
        &self,
        kind: ErrorKind,
        condition: &'static str,
        place: Place,
        message: impl fmt::Display,
    ) -> Error {
        Error::new(kind, format!("{place}: {message}\n{}", self.snippet(place)))
            .with_condition(condition)
    }

    /// The line with a caret under the column.
    fn snippet(&self, place: Place) -> String {
        let line = self.line(place.line);
        let column = usize::try_from(place.column.saturating_sub(1)).unwrap_or(usize::MAX);
        // A window around the column: the caret must be seen, also in a line of a megabyte.
        let fits = line.chars().nth(SHOWN).is_none();
        let from = if fits { 0 } else { column.saturating_sub(SHOWN * 2 / 3) };
        let shown: String = line.chars().skip(from).take(SHOWN).collect();
        let before = shown.chars().take(column.saturating_sub(from));
        let padding: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let number = place.line.to_string();
        let gutter = " ".repeat(number.len());
        format!("{gutter} |\n{number} | {shown}\n{gutter} | {padding}^")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_line_and_points_at_the_column() {
        let source = Source::new("SELECT a\n\tFROM é, ,\r\nWHERE b");
        let error = source.error(Place { line: 2, column: 10 }, "a relation is missing");
        assert_eq!(
            error.to_string(),
            "[PARSE_SYNTAX_ERROR] line 2, column 10: a relation is missing\n  |\n\
             2 | \tFROM é, ,\n  | \t        ^"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
        let text = format!("{}HERE{}", "x".repeat(5000), "y".repeat(5000));
        let error = Source::new(&text).error(Place { line: 1, column: 5001 }, "?").to_string();
        assert!(error.len() < 400, "{error}");
        let lines: Vec<&str> = error.lines().collect();
        let caret = lines[3].find('^').unwrap();
        assert_eq!(&lines[2][caret..caret + 4], "HERE");
    }

    #[test]
    fn places_outside_of_the_text_are_its_end() {
        let source = Source::new("ab\ncd");
        assert_eq!(source.end(), Place { line: 2, column: 3 });
        for place in [Place { line: 0, column: 0 }, Place { line: 9, column: 9 }] {
            let _ = source.error(place, "?");
        }
        let all = source.between(Place { line: 1, column: 1 }, Place { line: u64::MAX, column: 1 });
        assert_eq!(all, "ab\ncd");
        assert_eq!(source.between(source.end(), Place { line: 1, column: 1 }), "");
    }
}
