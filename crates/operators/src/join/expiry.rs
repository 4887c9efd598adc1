//! Runs: which chunks have rows of which times, sorted, many in one value.
//!
//! A run is `[format]` and items of `[time][chunk][length][key]`; the key is without its group.

use fluvial_core::{Error, Result};
use fluvial_state::varint;

/// The most items of a run.
pub(super) const RUN_ITEMS: usize = 256;

const FORMAT: u8 = 1;

/// Where a row with a time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) time: i64,
    /// The number of its chunk.
    pub(super) chunk: u32,
    /// Its key, without the group.
    pub(super) key: &'a [u8],
}

/// Starts a run.
pub(super) fn begin(out: &mut Vec<u8>) {
    out.push(FORMAT);
}

/// Adds an item.
pub(super) fn put(out: &mut Vec<u8>, item: Item<'_>) {
    out.extend_from_slice(&item.time.to_le_bytes());
    varint::put(out, u64::from(item.chunk));
    varint::put(out, item.key.len() as u64);
    out.extend_from_slice(item.key);
}

/// The items of a run.
pub(super) struct Items<'a> {
    rest: &'a [u8],
}

/// Reads a run.
pub(super) fn read(run: &[u8]) -> Result<Items<'_>> {
    match run.split_first() {
        Some((&FORMAT, rest)) => Ok(Items { rest }),
        Some((format, _)) if *format > FORMAT => Err(Error::invalid(format!(
            "the times of a join have format {format}, newer than {FORMAT}: use the version of \
             Fluvial that wrote them, or a later one"
        ))
        .with_condition("CHECKPOINT_FORMAT_TOO_NEW")),
        _ => Err(damaged()),
    }
}

fn damaged() -> Error {
    Error::corrupt("a run of a join's times is damaged")
}

impl<'a> Items<'a> {
    /// The bytes of the items that are still to be read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn item(&mut self) -> Option<Item<'a>> {
        let (time, mut rest) = self.rest.split_first_chunk::<8>()?;
        let chunk = u32::try_from(varint::take(&mut rest)?).ok()?;
        let length = usize::try_from(varint::take(&mut rest)?).ok()?;
        let (key, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Item { time: i64::from_le_bytes(*time), chunk, key })
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.item().ok_or_else(|| {
            self.rest = &[];
            damaged()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_and_cuts_are_noticed() {
        let items =
            [Item { time: i64::MIN, chunk: 0, key: b"a" }, Item { time: 7, chunk: 300, key: b"" }];
        let mut run = Vec::new();
        begin(&mut run);
        items.iter().for_each(|item| put(&mut run, *item));
        let back: Vec<_> = read(&run).unwrap().map(|item| item.unwrap()).collect();
        assert_eq!(back, items);
        assert!(read(&run[..run.len() - 1]).unwrap().any(|item| item.is_err()));
        assert!(read(&[]).is_err());
    }
}
