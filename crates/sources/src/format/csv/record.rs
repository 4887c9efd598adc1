//! Records: where they end, and their cells.

use super::dialect::{Dialect, Quotes};
use crate::format::lines::{DecodeLine, Lines};
use crate::format::{Batches, Decode};
use fluvial_core::Result;
use std::ops::Range;

/// The cells of one record: pieces of its line, or of a buffer for what was unescaped.
#[derive(Debug, Default)]
pub(super) struct Cells {
    cells: Vec<Cell>,
    buffer: String,
}

#[derive(Debug)]
struct Cell {
    range: Range<usize>,
    buffered: bool,
    quoted: bool,
}

impl Cells {
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The text of a cell of `line`, and whether it was quoted.
    pub(super) fn get<'a>(&'a self, line: &'a str, index: usize) -> (&'a str, bool) {
        let cell = &self.cells[index];
        let text = if cell.buffered { self.buffer.as_str() } else { line };
        (&text[cell.range.clone()], cell.quoted)
    }
}

/// Finds the cells of a record.
pub(super) fn cells(line: &str, dialect: &Dialect, out: &mut Cells) {
    out.cells.clear();
    out.buffer.clear();
    let mut at = 0;
    loop {
        at = cell(line, at, dialect, out);
        match line[at..].strip_prefix(dialect.separator.as_str()) {
            Some(rest) => at = line.len() - rest.len(),
            None => return,
        }
    }
}

/// Finds the cell that starts at `start`; the answer is where it ends.
fn cell(line: &str, start: usize, dialect: &Dialect, out: &mut Cells) -> usize {
    let rest = &line[start..];
    let blank = if dialect.trim_start { rest.len() - rest.trim_start().len() } else { 0 };
    let begin = start + blank;
    let quote = dialect.quote.filter(|quote| line[begin..].starts_with(*quote));
    if let Some(quote) = quote {
        return quoted(line, begin + 1, quote, dialect, out);
    }
    let end = line[begin..].find(dialect.separator.as_str()).map_or(line.len(), |at| begin + at);
    let text = &line[begin..end];
    let kept = if dialect.trim_end { text.trim_end().len() } else { text.len() };
    out.cells.push(Cell { range: begin..begin + kept, buffered: false, quoted: false });
    end
}

/// A quoted cell, after its opening quote. If something but blanks follows the closing one the
/// quotes are no quotes, and the cell goes on to the next separator.
fn quoted(line: &str, start: usize, quote: char, dialect: &Dialect, out: &mut Cells) -> usize {
    let buffered = out.buffer.len();
    let (mut plain, mut at) = (start, start);
    let mut copied = false;
    let bytes = line.as_bytes();
    let stop = |b: &u8| *b == quote as u8 || Some(char::from(*b)) == dialect.escape;
    let end = loop {
        // Both signs are ASCII, so every stop is a character.
        at += bytes[at..].iter().position(stop).unwrap_or(bytes.len() - at);
        let (sign, next) = (bytes.get(at).copied(), bytes.get(at + 1).copied().map(char::from));
        let escapes = match sign {
            // Without a closing quote the cell ends with the line.
            None => break at,
            Some(b) if b == quote as u8 => next == Some(quote),
            Some(_) => next == Some(quote) || next == dialect.escape,
        };
        if escapes {
            out.buffer.push_str(&line[plain..at]);
            copied = true;
            // The sign is left out, what it escapes is kept.
            plain = at + 1;
            at += 2;
        } else if sign == Some(quote as u8) {
            break at;
        } else {
            at += 1;
        }
    };
    let after = (end + 1).min(line.len());
    let rest = &line[after..];
    let gap = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let closed = rest.is_empty() || rest[gap..].is_empty();
    let separated =
        rest[gap..].starts_with(&dialect.separator) || rest.starts_with(&dialect.separator);
    if !closed && !separated {
        let stop = rest.find(dialect.separator.as_str()).map_or(line.len(), |at| after + at);
        let kept = if dialect.trim_end { line[..stop].trim_end().len().max(after) } else { stop };
        let range = if copied {
            out.buffer.insert(buffered, quote);
            out.buffer.push_str(&line[plain..kept]);
            buffered..out.buffer.len()
        } else {
            start - 1..kept
        };
        out.cells.push(Cell { range, buffered: copied, quoted: false });
        return stop;
    }
    let range = if copied {
        out.buffer.push_str(&line[plain..end]);
        buffered..out.buffer.len()
    } else {
        start..end
    };
    out.cells.push(Cell { range, buffered: copied, quoted: true });
    let gap = if rest.starts_with(&dialect.separator) { 0 } else { gap };
    after + gap
}

/// Cuts a file into records that may have line ends in quotes.
pub(crate) struct Records<D> {
    lines: Lines<D>,
    quotes: Quotes,
    open: Vec<u8>,
    state: State,
    /// The bytes of the separator that came last.
    separated: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a cell.
    Start,
    /// In a cell without quotes, or after its closing quote.
    Plain,
    Quoted,
    /// After the escape character in quotes.
    Escaped,
    /// After a quote in quotes: the closing one, or the first of two.
    Quote,
}

impl<D: DecodeLine> Records<D> {
    pub(crate) fn new(decoder: D, quotes: Quotes, place: String) -> Self {
        let lines = Lines::new(decoder, place);
        Self { lines, quotes, open: Vec::new(), state: State::Start, separated: 0 }
    }

    /// Takes the next byte; `true` if it ends a record.
    fn step(&mut self, byte: u8) -> bool {
        let quote = self.quotes.quote == Some(byte);
        if self.state == State::Quote && quote {
            self.state = State::Quoted;
            return false;
        }
        if self.state == State::Quote {
            self.state = State::Plain;
        }
        self.state = match self.state {
            State::Start if quote => State::Quoted,
            State::Quoted if quote => State::Quote,
            State::Quoted if self.quotes.escape == Some(byte) => State::Escaped,
            State::Quoted | State::Escaped => State::Quoted,
            State::Start if self.quotes.trim_start && byte == b' ' => State::Start,
            _ => return self.plain(byte),
        };
        self.separated = 0;
        false
    }

    fn plain(&mut self, byte: u8) -> bool {
        if byte == b'\n' {
            (self.state, self.separated) = (State::Start, 0);
            return true;
        }
        let separator = &self.quotes.separator;
        self.separated = if byte == separator[self.separated] { self.separated + 1 } else { 0 };
        let ended = self.separated == separator.len();
        self.state = if ended { State::Start } else { State::Plain };
        if ended {
            self.separated = 0;
        }
        false
    }
}

impl<D: DecodeLine> Decode for Records<D> {
    fn feed(&mut self, chunk: &[u8], out: &mut Batches) -> Result<()> {
        let mut start = 0;
        for (at, byte) in chunk.iter().enumerate() {
            if self.step(*byte) {
                self.open.extend_from_slice(&chunk[start..at]);
                self.lines.record(&mut self.open, out)?;
                start = at + 1;
            }
        }
        self.lines.check_length(self.open.len() + chunk.len() - start)?;
        self.open.extend_from_slice(&chunk[start..]);
        Ok(())
    }

    fn end(&mut self, out: &mut Batches) -> Result<()> {
        if !self.open.is_empty() {
            self.lines.record(&mut self.open, out)?;
        }
        self.lines.end(out)
    }

    fn interrupt(&mut self, out: &mut Batches) -> Result<()> {
        self.open.clear();
        self.lines.interrupt(out)
    }
}
