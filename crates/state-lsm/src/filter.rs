//! Filters: which keys a run surely has not.
//!
//! A split block Bloom filter, as Parquet has: a key sets eight bits in one block of 32 bytes, so
//! a question costs one cache line. At ten bits a key about one question in a hundred is answered
//! wrongly, which costs a read and never a wrong result.

use crate::codec::cut;
use fluvial_core::{Error, Result};

/// The eight odd numbers of Parquet's filter.
const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

const BLOCK_BYTES: usize = 32;

/// A set of hashes, with errors on one side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Filter {
    blocks: Box<[[u32; 8]]>,
}

fn mask(hash: u64) -> [u32; 8] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

impl Filter {
    /// An empty filter with so many bits for each of so many keys.
    pub(crate) fn sized(keys: usize, bits_per_key: usize) -> Self {
        let blocks = (keys * bits_per_key).div_ceil(BLOCK_BYTES * 8);
        Self { blocks: vec![[0; 8]; blocks].into() }
    }

    /// Puts a hash into it.
    pub(crate) fn insert(&mut self, hash: u64) {
        if self.blocks.is_empty() {
            return;
        }
        let block = self.block(hash);
        for (word, bit) in self.blocks[block].iter_mut().zip(mask(hash)) {
            *word |= bit;
        }
    }

    #[inline]
    fn block(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }

    /// Whether the hash may be in it. A filter without bits knows nothing.
    #[inline]
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        if self.blocks.is_empty() {
            return true;
        }
        let block = &self.blocks[self.block(hash)];
        let mask = mask(hash);
        let missing = (0..8).fold(0, |missing, i| missing | (mask[i] & !block[i]));
        missing == 0
    }

    /// Appends the bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for word in self.blocks.iter().flatten() {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads the bytes.
    pub(crate) fn open(bytes: &[u8]) -> Result<Self> {
        if !bytes.len().is_multiple_of(BLOCK_BYTES) {
            return Err(Error::corrupt("a filter in it is damaged"));
        }
        let word = |chunk: &[u8]| -> Result<u32> {
            let word: [u8; 4] = chunk.try_into().map_err(|_| cut())?;
            Ok(u32::from_le_bytes(word))
        };
        let mut blocks = Vec::with_capacity(bytes.len() / BLOCK_BYTES);
        for chunk in bytes.chunks_exact(BLOCK_BYTES) {
            let mut block = [0; 8];
            for (into, from) in block.iter_mut().zip(chunk.chunks_exact(4)) {
                *into = word(from)?;
            }
            blocks.push(block);
        }
        Ok(Self { blocks: blocks.into() })
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn filter(hashes: &[u64], bits: usize) -> Filter {
        let mut filter = Filter::sized(hashes.len(), bits);
        hashes.iter().for_each(|hash| filter.insert(*hash));
        filter
    }

    #[test]
    fn it_has_what_was_put_and_little_else() {
        let hashes: Vec<u64> = (0..10_000u64).map(|i| xxh3_64(&i.to_be_bytes())).collect();
        let filter = filter(&hashes[..5000], 10);
        assert!(hashes[..5000].iter().all(|hash| filter.may_have(*hash)));
        let wrong = hashes[5000..].iter().filter(|hash| filter.may_have(**hash)).count();
        assert!(wrong < 100, "{wrong} of 5000");
        let mut bytes = Vec::new();
        filter.put(&mut bytes);
        assert_eq!(Filter::open(&bytes).unwrap(), filter);
        assert!(Filter::open(&bytes[1..]).is_err());
    }

    #[test]
    fn a_filter_without_bits_lets_everything_pass() {
        assert!(filter(&[], 10).may_have(7));
        assert!(filter(&[1, 2], 0).may_have(7));
    }

    #[test]
    fn its_bytes_never_change() {
        let mut bytes = Vec::new();
        filter(&[xxh3_64(b"a"), xxh3_64(b"b")], 10).put(&mut bytes);
        assert_eq!(crc32fast::hash(&bytes), GOLDEN);
    }
    const GOLDEN: u32 = 2_357_957_478;
}
