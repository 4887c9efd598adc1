//! `Stored`: the rows of one side that wait for the keys of a batch.

use super::chunk;
use super::distinct::Distinct;
use super::keys::chunk_key;
use super::kind::Side;
use crate::entries::{Bytes, PIECE};
use arrow::array::{Array, ArrayRef, BinaryArray};
use fluvial_core::{Error, Result, StateStore};
use fluvial_state::ValueCodec;

/// Where a stored row is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The read that brought its chunk, and the position there.
    pub(super) read: u32,
    pub(super) at: u32,
    /// Its flags, from the start of the chunk.
    pub(super) flags_at: u32,
}

/// The chunks that were read, and the rows in them.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// How many chunks each key has; none without a key in the state.
    pub(super) chunks: Vec<u32>,
    /// Keys and values of each read.
    pub(super) reads: Vec<(BinaryArray, BinaryArray)>,
    /// The rows that may match something in this batch: their keys,
    pub(super) numbers: Vec<u32>,
    pub(super) places: Vec<Place>,
    pub(super) matched: Vec<bool>,
    /// Chunks of keys with several, the first apart: to be read yet.
    more: Vec<(u32, u32)>,
}

impl Stored {
    /// Reads the first chunk of every key. `probed` says which keys the other side brings rows
    /// for that may match: only their rows are looked at, and only `unmatched` ones, if that is asked for.
    pub(super) fn read_first(
        side: Side,
        keys: &Distinct,
        probed: &[bool],
        unmatched: bool,
        state: &dyn StateStore,
    ) -> Result<Self> {
        let mut stored = Self { chunks: vec![0; keys.len()], ..Self::default() };
        let mut first = 0;
        while first < keys.len() {
            let piece = PIECE.min(keys.len() - first);
            let asked = first_keys(side, keys, first..first + piece)?;
            let found = state.get_many(&asked)?;
            let read = stored.reads.len() as u32;
            for at in (0..piece).filter(|at| found.is_valid(*at)) {
                let number = first + at;
                let probed = probed[number];
                let (header, rows) = chunk::read(found.value(at))?;
                stored.chunks[number] = header.chunks;
                if probed {
                    stored.look_at(rows, number, (read, at), unmatched)?;
                    let others = 1..header.chunks;
                    stored.more.extend(others.map(|chunk| (number as u32, chunk)));
                }
            }
            stored.reads.push((asked, found));
            first += piece;
        }
        Ok(stored)
    }

    fn look_at(
        &mut self,
        rows: chunk::Rows<'_>,
        number: usize,
        (read, at): (u32, usize),
        unmatched: bool,
    ) -> Result<()> {
        for row in rows {
            let row = row?;
            if unmatched && row.matched {
                continue;
            }
            let too_long = |_| Error::corrupt("a chunk of a join's rows is over 4 GiB");
            let flags_at = u32::try_from(row.flags_at).map_err(too_long)?;
            self.numbers.push(number as u32);
            self.places.push(Place { read, at: at as u32, flags_at });
            self.matched.push(row.matched);
        }
        Ok(())
    }

    /// The keys of the chunks that are still to be read.
    pub(super) fn more_keys(&self, side: Side, keys: &Distinct) -> Result<Vec<BinaryArray>> {
        let mut all = Vec::new();
        for piece in self.more.chunks(PIECE) {
            let mut asked = Bytes::default();
            for (number, chunk) in piece {
                let number = *number as usize;
                chunk_key(asked.open(), side, keys.key(number), keys.time(number), *chunk);
                asked.end()?;
            }
            all.push(asked.take());
        }
        Ok(all)
    }

    /// Reads the other chunks of keys with several.
    pub(super) fn read_more(
        &mut self,
        side: Side,
        keys: &Distinct,
        unmatched: bool,
        state: &dyn StateStore,
    ) -> Result<()> {
        let pieces = self.more_keys(side, keys)?;
        let more = std::mem::take(&mut self.more);
        for (asked, chunks) in pieces.into_iter().zip(more.chunks(PIECE)) {
            let found = state.get_many(&asked)?;
            let read = self.reads.len() as u32;
            // A chunk whose rows have all left is not there.
            for at in (0..found.len()).filter(|at| found.is_valid(*at)) {
                let (_, rows) = chunk::read(found.value(at))?;
                self.look_at(rows, chunks[at].0 as usize, (read, at), unmatched)?;
            }
            self.reads.push((asked, found));
        }
        Ok(())
    }

    /// The columns of the rows.
    pub(super) fn decode(&self, codec: &ValueCodec) -> Result<Vec<ArrayRef>> {
        codec.decode_each(self.places.iter().map(|place| self.columns_of(*place)))
    }

    /// The encoded columns of a row: its chunk was read whole, so it is there.
    fn columns_of(&self, place: Place) -> &[u8] {
        let chunk = self.reads[place.read as usize].1.value(place.at as usize);
        chunk::columns_at(chunk, place.flags_at as usize)
    }
}

/// The keys of the first chunks of some keys.
pub(super) fn first_keys(
    side: Side,
    keys: &Distinct,
    numbers: std::ops::Range<usize>,
) -> Result<BinaryArray> {
    let mut asked = Bytes::default();
    for number in numbers {
        chunk_key(asked.open(), side, keys.key(number), keys.time(number), 0);
        asked.end()?;
    }
    Ok(asked.take())
}
