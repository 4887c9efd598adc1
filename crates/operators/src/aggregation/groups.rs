//! `Groups`: the distinct keys of a batch, numbered as they first come.

use arrow::array::{Array, BinaryArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use fluvial_core::{Error, Result};
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// Keys of one chunk: what goes to the state in one call. Many, so that a store that puts them in
/// an order of its own has many for each place.
const CHUNK_SHIFT: usize = 15;
/// Keys of every chunk but the last.
pub(crate) const CHUNK_ROWS: usize = 1 << CHUNK_SHIFT;

/// Numbers keys `0, 1, 2, ...` in the order of their first appearance. Nothing depends on the
/// order of the hash table.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    numbers: HashTable<(u64, usize)>,
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
        for row in 0..keys.len() {
            let key = keys.value(row);
            let hash = xxh3_64(key);
            let chunks = &self.chunks;
            let same = |&(other, number): &(u64, usize)| {
                other == hash && chunks[number >> CHUNK_SHIFT].key(number % CHUNK_ROWS) == key
            };
            if let Some(&(_, number)) = self.numbers.find(hash, same) {
                numbers.push(number);
                continue;
            }
            let number = self.len();
            self.append(key)?;
            self.numbers.insert_unique(hash, (hash, number), |&(hash, _)| hash);
            numbers.push(number);
        }
        Ok(())
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
