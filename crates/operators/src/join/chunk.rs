//! Chunks: the rows of one key, several in one value.
//!
//! `[format][chunks][live][rows]`, then for each row `[flags][time][length][columns]`. The columns
//! are [`fluvial_state::ValueCodec`]'s, so a chunk grows and shrinks without being decoded.
//! Chunks of a key are numbered from 0. The first says how many numbers were given out and how
//! many rows live in all of them; it stays until the last row leaves.

use fluvial_core::{Error, Result};
use fluvial_state::varint;

/// The most rows of a chunk: what is rewritten when a row comes or leaves.
pub(super) const CHUNK_ROWS: u32 = 64;

const FORMAT: u8 = 1;

const MATCHED: u8 = 1;
const TIMED: u8 = 2;

/// What stands in front of a chunk's rows. In chunks other than the first, `chunks` and `live`
/// are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Header {
    /// How many numbers were given out.
    pub(super) chunks: u32,
    /// Rows in all chunks of the key.
    pub(super) live: u64,
    /// Rows in this one.
    pub(super) rows: u32,
}

/// A stored row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// Where its flags are, from the start of the chunk.
    pub(super) flags_at: usize,
    pub(super) matched: bool,
    /// Its event time, where that decides when it leaves.
    pub(super) time: Option<i64>,
    /// Its columns.
    pub(super) columns: &'a [u8],
}

fn damaged() -> Error {
    Error::corrupt("a chunk of a join's rows is damaged")
}

/// Reads a chunk row by row.
pub(super) struct Rows<'a> {
    chunk: &'a [u8],
    rest: &'a [u8],
    left: u32,
}

/// The header of a chunk and its rows.
pub(super) fn read(chunk: &[u8]) -> Result<(Header, Rows<'_>)> {
    let (format, mut rest) = chunk.split_first().ok_or_else(damaged)?;
    if *format > FORMAT {
        return Err(Error::invalid(format!(
            "rows of a join have format {format}, newer than {FORMAT}: use the version of Fluvial \
             that wrote them, or a later one"
        ))
        .with_condition("CHECKPOINT_FORMAT_TOO_NEW"));
    }
    let mut number = || varint::take(&mut rest).ok_or_else(damaged);
    let small = |number: u64| u32::try_from(number).map_err(|_| damaged());
    let header = Header { chunks: small(number()?)?, live: number()?, rows: small(number()?)? };
    Ok((header, Rows { chunk, rest, left: header.rows }))
}

impl<'a> Rows<'a> {
    /// The bytes of the rows that are still to be read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn row(&mut self) -> Option<Row<'a>> {
        let flags_at = self.chunk.len() - self.rest.len();
        let (flags, mut rest) = self.rest.split_first()?;
        let mut time = None;
        if flags & TIMED != 0 {
            let (bytes, after) = rest.split_first_chunk::<8>()?;
            time = Some(i64::from_le_bytes(*bytes));
            rest = after;
        }
        let length = usize::try_from(varint::take(&mut rest)?).ok()?;
        let (columns, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        self.left -= 1;
        Some(Row { flags_at, matched: flags & MATCHED != 0, time, columns })
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let whole = self.rest.is_empty();
            self.rest = &[];
            return (!whole).then(|| Err(damaged()));
        }
        Some(self.row().ok_or_else(|| {
            (self.left, self.rest) = (0, &[]);
            damaged()
        }))
    }
}

/// The columns of the row whose flags are at `flags_at`, in a chunk that was read to its end.
pub(super) fn columns_at(chunk: &[u8], flags_at: usize) -> &[u8] {
    let mut rows = Rows { chunk, rest: chunk.get(flags_at..).unwrap_or_default(), left: 1 };
    rows.row().map_or(&[], |row| row.columns)
}

/// Writes a header.
pub(super) fn put_header(out: &mut Vec<u8>, header: Header) {
    out.push(FORMAT);
    varint::put(out, u64::from(header.chunks));
    varint::put(out, header.live);
    varint::put(out, u64::from(header.rows));
}

/// Writes a row.
pub(super) fn put_row(out: &mut Vec<u8>, matched: bool, time: Option<i64>, columns: &[u8]) {
    let timed = if time.is_some() { TIMED } else { 0 };
    out.push(timed | if matched { MATCHED } else { 0 });
    if let Some(time) = time {
        out.extend_from_slice(&time.to_le_bytes());
    }
    varint::put(out, columns.len() as u64);
    out.extend_from_slice(columns);
}

/// Sets the matched flag of the row whose flags are at `flags_at`.
pub(super) fn set_matched(chunk: &mut [u8], flags_at: usize) {
    chunk[flags_at] |= MATCHED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_flags_are_set_in_place() {
        let mut chunk = Vec::new();
        let header = Header { chunks: 3, live: 200, rows: 2 };
        put_header(&mut chunk, header);
        put_row(&mut chunk, false, Some(-5), b"one");
        put_row(&mut chunk, false, None, b"");
        let flags_at = read(&chunk).unwrap().1.nth(1).unwrap().unwrap().flags_at;
        set_matched(&mut chunk, flags_at);
        let (found, rows) = read(&chunk).unwrap();
        assert_eq!(found, header);
        let rows: Vec<_> = rows.map(|row| row.unwrap()).collect();
        let seen: Vec<_> = rows.iter().map(|r| (r.matched, r.time, r.columns)).collect();
        assert_eq!(seen, [(false, Some(-5), b"one".as_slice()), (true, None, b"")]);
    }

    #[test]
    fn every_cut_is_noticed() {
        let mut chunk = Vec::new();
        put_header(&mut chunk, Header { chunks: 1, live: 1, rows: 1 });
        put_row(&mut chunk, true, Some(7), b"columns");
        for length in 0..chunk.len() {
            let whole =
                read(&chunk[..length]).and_then(|(_, rows)| rows.collect::<Result<Vec<_>>>());
            assert!(whole.is_err(), "{length} of {} bytes", chunk.len());
        }
        chunk.push(0);
        assert!(read(&chunk).unwrap().1.any(|row| row.is_err()), "a byte too many");
    }
}
