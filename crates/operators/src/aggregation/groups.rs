//! `Groups`: the distinct keys of a batch, numbered as they first come.

use crate::pages::tag_of;
use arrow::array::{Array, BinaryArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use fluvial_core::{Error, Result};

/// Keys of one chunk: what goes to the state in one call. Many, so that a store that puts them in
/// an order of its own has many for each place.
const CHUNK_SHIFT: usize = 15;
/// Keys of every chunk but the last.
pub(crate) const CHUNK_ROWS: usize = 1 << CHUNK_SHIFT;

/// Keys whose slots are read together: so few that a cache holds all of these.
const TOUCHED: usize = 2048;

/// Numbers keys `0, 1, 2, ...` in the order of their first appearance. Nothing depends on the
/// order of the hash table.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Half a hash and a number, one more than it is; 0 where there is none. A power of two of
    /// them, half of which are free at least: one read of memory finds most keys.
    slots: Vec<u64>,
    chunks: Vec<Chunk>,
}

/// Some thousand keys, end to end: no allocation per key, and none that grows with all of them.
#[derive(Debug)]
struct Chunk {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Chunk {
    fn new() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn key(&self, at: usize) -> &[u8] {
        &self.bytes[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }
}

impl Groups {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.chunks.split_last().map_or(0, |(last, full)| full.len() * CHUNK_ROWS + last.len())
    }

    /// Appends the number of each key to `numbers`.
    pub(crate) fn intern(&mut self, keys: &BinaryArray, numbers: &mut Vec<usize>) -> Result<()> {
        numbers.reserve(keys.len());
        self.make_room(keys.len());
        let tags: Vec<u32> = (0..keys.len()).map(|row| tag_of(keys.value(row))).collect();
        let mut count = self.len();
        for (row, &tag) in tags.iter().enumerate() {
            if row.is_multiple_of(TOUCHED) {
                self.touch(&tags[row..tags.len().min(row + TOUCHED)]);
            }
            let key = keys.value(row);
            let number = match self.find(tag, key) {
                Ok(number) => number,
                Err(free) => {
                    self.append(key)?;
                    self.slots[free] = slot(tag, count)?;
                    count += 1;
                    count - 1
                }
            };
            numbers.push(number);
        }
        Ok(())
    }

    /// Reads the slots of tags: together, since none of the reads waits for another. Apart from
    /// that each would be waited for, because no cache holds all slots.
    fn touch(&self, tags: &[u32]) {
        let mask = self.slots.len() - 1;
        let all = tags.iter().fold(0, |all, tag| all ^ self.slots[*tag as usize & mask]);
        std::hint::black_box(all);
    }

    /// The number of a key, or the slot for it.
    #[inline]
    fn find(&self, tag: u32, key: &[u8]) -> std::result::Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = tag as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            let number = slot as u32 as usize - 1;
            if tag_in(slot) == tag
                && self.chunks[number >> CHUNK_SHIFT].key(number % CHUNK_ROWS) == key
            {
                return Ok(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Makes room for so many more keys.
    fn make_room(&mut self, more: usize) {
        let size = ((self.len() + more) * 2).next_power_of_two();
        if size <= self.slots.len() {
            return;
        }
        let mut slots = vec![0; size];
        for &slot in self.slots.iter().filter(|slot| **slot != 0) {
            let mut at = tag_in(slot) as usize & (size - 1);
            while slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            slots[at] = slot;
        }
        self.slots = slots;
    }

    fn append(&mut self, key: &[u8]) -> Result<()> {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ROWS) {
            self.chunks.push(Chunk::new());
        }
        let chunk = self.chunks.last_mut().expect("one was pushed if there was none");
        let end = i32::try_from(chunk.bytes.len() + key.len()).map_err(|_| {
            Error::invalid(format!("{CHUNK_ROWS} grouping keys take more than 2 GiB"))
        })?;
        chunk.bytes.extend_from_slice(key);
        chunk.offsets.push(end);
        Ok(())
    }

    /// The keys in the order of their numbers, in chunks of [`CHUNK_ROWS`].
    pub(crate) fn keys(&self) -> impl Iterator<Item = BinaryArray> {
        self.chunks.iter().map(|chunk| {
            array(Buffer::from_slice_ref(&chunk.bytes), ScalarBuffer::from(chunk.offsets.clone()))
        })
    }

    /// As [`Self::keys`], without a copy.
    pub(crate) fn into_keys(self) -> Vec<BinaryArray> {
        let into =
            |chunk: Chunk| array(Buffer::from_vec(chunk.bytes), ScalarBuffer::from(chunk.offsets));
        self.chunks.into_iter().map(into).collect()
    }
}

fn tag_in(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn slot(tag: u32, number: usize) -> Result<u64> {
    let place = u32::try_from(number + 1);
    let place = place.map_err(|_| Error::invalid("a batch has over four billion groups"))?;
    Ok(u64::from(tag) << 32 | u64::from(place))
}

fn array(bytes: Buffer, offsets: ScalarBuffer<i32>) -> BinaryArray {
    BinaryArray::new(OffsetBuffer::new(offsets), bytes, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_have_one_number() {
        let mut groups = Groups::default();
        let mut numbers = Vec::new();
        let keys = |keys: &[&str]| BinaryArray::from_iter_values(keys.iter().map(|k| k.as_bytes()));
        groups.intern(&keys(&["a", "", "a", "b"]), &mut numbers).unwrap();
        groups.intern(&keys(&["b", "c", ""]), &mut numbers).unwrap();
        assert_eq!(numbers, [0, 1, 0, 2, 2, 3, 1]);
        assert_eq!(groups.len(), 4);
        assert_eq!(groups.into_keys(), [keys(&["a", "", "b", "c"])]);
    }

    #[test]
    fn many_keys_come_back_in_chunks() {
        let count = 2 * CHUNK_ROWS + 5;
        let keys = BinaryArray::from_iter_values((0..count).map(|i| i.to_be_bytes()));
        let (mut groups, mut numbers) = (Groups::default(), Vec::new());
        groups.intern(&keys, &mut numbers).unwrap();
        groups.intern(&keys, &mut numbers).unwrap();
        assert_eq!(numbers, (0..count).chain(0..count).collect::<Vec<_>>());
        let copied: Vec<BinaryArray> = groups.keys().collect();
        assert_eq!(copied, groups.into_keys());
        assert_eq!(copied[1], keys.slice(CHUNK_ROWS, CHUNK_ROWS));
        assert_eq!(copied[2].len(), 5);
    }
}
