//! Pages: rows whose tags are near to one another.
//!
//! `[format][rows]`, in pages of format 2 the number of rows in pages before it, a tag of four bytes
//! for each row, a length for each, then their bytes. Tags
//! ascend. So a page is searched without decoding it, and only rows that are hit are decoded.

use fluvial_core::{Error, Result};
use fluvial_state::varint;

/// The most rows of a page: what is read for a row when few come.
pub(crate) const PAGE_ROWS: usize = 256;
/// A page ends when it has so many bytes.
pub(crate) const PAGE_BYTES: usize = 64 << 10;

const FORMAT: u8 = 1;
/// Of pages that say where their rows stand in their block.
const PLACED: u8 = 2;
const TAG: usize = 4;

fn damaged() -> Error {
    Error::corrupt("a page of stored rows is damaged")
}

/// A page that its ledger tells of is not there.
pub(crate) fn missing() -> Error {
    Error::corrupt("a page of stored rows is gone")
}

/// A page does not say where it stands.
pub(crate) fn unplaced() -> Error {
    Error::corrupt("a page of stored rows does not say where in its block it stands")
}

/// The front of something stored, checked; what follows.
pub(crate) fn opened<'a>(bytes: &'a [u8], what: &str) -> Result<&'a [u8]> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => Ok(rest),
        Some((format, _)) if *format > FORMAT => Err(Error::invalid(format!(
            "{what} of stored rows has format {format}, newer than {FORMAT}: use the version of \
             Fluvial that wrote it, or a later one"
        ))
        .with_condition("CHECKPOINT_FORMAT_TOO_NEW")),
        _ => Err(Error::corrupt(format!("{what} of stored rows is damaged"))),
    }
}

/// Begins something stored.
pub(crate) fn open(out: &mut Vec<u8>) {
    out.push(FORMAT);
}

/// Writes a page of rows, each with its tag; `start` of them stand in pages before it, if a reader
/// will have to know.
pub(crate) fn write<'a>(
    out: &mut Vec<u8>,
    start: Option<usize>,
    rows: impl ExactSizeIterator<Item = (u32, &'a [u8])> + Clone,
) {
    out.push(if start.is_some() { PLACED } else { FORMAT });
    varint::put(out, rows.len() as u64);
    if let Some(start) = start {
        varint::put(out, start as u64);
    }
    rows.clone().for_each(|(tag, _)| out.extend_from_slice(&tag.to_le_bytes()));
    rows.clone().for_each(|(_, row)| varint::put(out, row.len() as u64));
    rows.for_each(|(_, row)| out.extend_from_slice(row));
}

/// The rows of a page, read one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Rows<'a> {
    /// Rows of its block in pages before it, if it says so.
    pub(crate) start: Option<usize>,
    tags: &'a [u8],
    lengths: &'a [u8],
    columns: &'a [u8],
}

/// Reads a page.
pub(crate) fn read(page: &[u8]) -> Result<Rows<'_>> {
    let placed = page.strip_prefix(&[PLACED]);
    let mut rest = placed.map_or_else(|| opened(page, "a page"), Ok)?;
    let mut number = || varint::take(&mut rest).and_then(|number| usize::try_from(number).ok());
    let count = number();
    let start = match placed {
        Some(_) => Some(number().ok_or_else(damaged)?),
        None => None,
    };
    let parts = count.and_then(|count| rest.split_at_checked(count.checked_mul(TAG)?));
    let (tags, lengths) = parts.ok_or_else(damaged)?;
    let mut columns = lengths;
    for _ in 0..tags.len() / TAG {
        match columns.split_first() {
            Some((byte, rest)) if *byte < 0x80 => columns = rest,
            _ => drop(varint::take(&mut columns).ok_or_else(damaged)?),
        }
    }
    Ok(Rows { start, tags, lengths, columns })
}

impl<'a> Rows<'a> {
    fn row(&mut self, tag: u32) -> Option<(u32, &'a [u8])> {
        let length = match self.lengths.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.lengths = rest;
                usize::from(*byte)
            }
            _ => usize::try_from(varint::take(&mut self.lengths)?).ok()?,
        };
        let (row, rest) = self.columns.split_at_checked(length)?;
        self.columns = rest;
        Some((tag, row))
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<(u32, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some((tag, tags)) = self.tags.split_first_chunk::<TAG>() else {
            let whole = self.columns.is_empty();
            self.columns = &[];
            return (!whole).then(|| Err(damaged()));
        };
        self.tags = tags;
        Some(self.row(u32::from_le_bytes(*tag)).ok_or_else(|| {
            *self = Self { start: None, tags: &[], lengths: &[], columns: &[] };
            damaged()
        }))
    }
}

/// How large numbers are written: by the first byte of a list of times.
const NARROW: u8 = 0;
const WIDE: u8 = 1;

/// Writes how far times are from `first`, the least of them.
pub(crate) fn write_times(
    out: &mut Vec<u8>,
    first: i64,
    last: i64,
    times: impl Iterator<Item = i64>,
) {
    open(out);
    let offsets = times.map(|time| time.wrapping_sub(first) as u64);
    if u32::try_from(last.wrapping_sub(first) as u64).is_ok() {
        out.push(NARROW);
        offsets.for_each(|offset| out.extend_from_slice(&(offset as u32).to_le_bytes()));
    } else {
        out.push(WIDE);
        offsets.for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
    }
}

/// Reads times.
pub(crate) fn read_times(bytes: &[u8], first: i64) -> Result<Vec<i64>> {
    let of = |offset: u64| first.wrapping_add(offset as i64);
    match opened(bytes, "a list of times")?.split_first() {
        Some((&NARROW, rest)) if rest.len().is_multiple_of(4) => {
            Ok(rest.as_chunks::<4>().0.iter().map(|o| of(u32::from_le_bytes(*o).into())).collect())
        }
        Some((&WIDE, rest)) if rest.len().is_multiple_of(8) => {
            Ok(rest.as_chunks::<8>().0.iter().map(|o| of(u64::from_le_bytes(*o))).collect())
        }
        _ => Err(Error::corrupt("a list of times of stored rows is damaged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<u8> {
        let long = [7; 300];
        let rows = [(1, b"one".as_slice()), (1, b""), (u32::MAX, &long)];
        let mut page = Vec::new();
        write(&mut page, None, rows.into_iter());
        page
    }

    #[test]
    fn a_page_may_say_where_it_stands() {
        let mut page = Vec::new();
        write(&mut page, Some(512), [(7, b"one".as_slice())].into_iter());
        let rows = read(&page).unwrap();
        assert_eq!(rows.start, Some(512));
        assert_eq!(rows.map(|row| row.unwrap()).collect::<Vec<_>>(), [(7, b"one".as_slice())]);
        for length in 0..page.len() {
            let whole = read(&page[..length]).and_then(|rows| rows.collect::<Result<Vec<_>>>());
            assert!(whole.is_err(), "{length} bytes");
        }
    }

    #[test]
    fn rows_come_back() {
        let page = page();
        let rows: Vec<_> = read(&page).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows[..2], [(1, b"one".as_slice()), (1, b"")]);
        assert_eq!((rows[2].0, rows[2].1.len()), (u32::MAX, 300));
    }

    #[test]
    fn every_cut_is_noticed() {
        let mut page = page();
        for length in 0..page.len() {
            let whole = read(&page[..length]).and_then(|rows| rows.collect::<Result<Vec<_>>>());
            assert!(whole.is_err(), "{length} of {} bytes", page.len());
        }
        page.push(0);
        assert!(read(&page).unwrap().any(|row| row.is_err()), "a byte too many");
        assert!(read(&[3, 0]).is_err());
    }

    #[test]
    fn times_come_back_however_far_apart() {
        for times in [vec![5, 7, 5], vec![0, 1 << 40], vec![i64::MIN, i64::MAX], vec![-3]] {
            let (first, last) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
            let mut bytes = Vec::new();
            write_times(&mut bytes, first, last, times.iter().copied());
            assert_eq!(read_times(&bytes, first).unwrap(), times);
            assert!(read_times(&bytes[..bytes.len() - 1], first).is_err());
        }
    }
}
