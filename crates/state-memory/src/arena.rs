//! Bytes of many records in few allocations.
//!
//! Records are appended to blocks and never move. A block whose last record is freed gives its
//! memory back at once: records that were written together, a window's, are freed together.

/// The smallest block; each is twice the one before it, up to [`BLOCK_MAX`].
const BLOCK_MIN: usize = 4 << 10;
const BLOCK_MAX: usize = 1 << 20;

/// Where a record lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    block: u32,
    at: u32,
}

#[derive(Debug, Clone, Default)]
struct Block {
    bytes: Vec<u8>,
    live: usize,
}

/// A growing store of records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arena {
    blocks: Vec<Block>,
    /// Blocks without memory, to be used again.
    vacant: Vec<u32>,
    /// The block that is being filled.
    current: Option<u32>,
    next_size: usize,
    live: usize,
    held: usize,
}

impl Arena {
    /// Makes room for a record and returns its place and its bytes, to be filled.
    pub(crate) fn append(&mut self, parts: [&[u8]; 2], length: usize) -> Place {
        let index = match self.current {
            Some(index) if self.fits(index, length) => index,
            _ => self.open_block(length),
        };
        let block = &mut self.blocks[index as usize];
        let at = block.bytes.len();
        parts.iter().for_each(|part| block.bytes.extend_from_slice(part));
        block.bytes.resize(at + length, 0);
        block.live += length;
        self.live += length;
        // A block has less than 4 GiB: it is small, or it holds one record of Arrow's.
        Place { block: index, at: at as u32 }
    }

    fn fits(&self, index: u32, length: usize) -> bool {
        let bytes = &self.blocks[index as usize].bytes;
        bytes.capacity() - bytes.len() >= length
    }

    fn open_block(&mut self, length: usize) -> u32 {
        if let Some(full) = self.current.take() {
            self.give_back(full);
        }
        let size = self.next_size.clamp(BLOCK_MIN, BLOCK_MAX).max(length);
        self.next_size = (size * 2).min(BLOCK_MAX);
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.blocks.push(Block::default());
            self.blocks.len() as u32 - 1
        });
        let bytes = Vec::with_capacity(size);
        self.held += bytes.capacity();
        self.blocks[index as usize] = Block { bytes, live: 0 };
        self.current = Some(index);
        index
    }

    /// The `length` bytes from `from` on of the record at `place`.
    pub(crate) fn get(&self, place: Place, from: usize, length: usize) -> &[u8] {
        let at = place.at as usize + from;
        &self.blocks[place.block as usize].bytes[at..at + length]
    }

    /// Overwrites bytes of the record at `place`, from `from` on.
    pub(crate) fn overwrite(&mut self, place: Place, from: usize, bytes: &[u8]) {
        let at = place.at as usize + from;
        self.blocks[place.block as usize].bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Forgets the record of `length` bytes at `place`.
    pub(crate) fn free(&mut self, place: Place, length: usize) {
        self.live -= length;
        self.blocks[place.block as usize].live -= length;
        if self.current != Some(place.block) {
            self.give_back(place.block);
        }
    }

    /// Frees the block if nothing in it lives.
    fn give_back(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        if block.live == 0 && block.bytes.capacity() > 0 {
            self.held -= block.bytes.capacity();
            *block = Block::default();
            self.vacant.push(index);
        }
    }

    /// Bytes of records that live.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        self.held + self.blocks.capacity() * size_of::<Block>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stay_and_empty_blocks_give_their_memory_back() {
        let mut arena = Arena::default();
        let records: Vec<Vec<u8>> = (0..200u8).map(|i| vec![i; 100 + usize::from(i)]).collect();
        let places: Vec<Place> =
            records.iter().map(|r| arena.append([&r[..50], &r[50..]], r.len())).collect();
        for (record, place) in records.iter().zip(&places) {
            assert_eq!(arena.get(*place, 0, record.len()), record.as_slice());
        }
        let held = arena.held();
        for (record, place) in records.iter().zip(&places).take(150) {
            arena.free(*place, record.len());
        }
        assert!(arena.held() < held && arena.live() > 0);
        assert_eq!(arena.get(places[199], 10, 3), [199; 3]);
        for (record, place) in records.iter().zip(&places).skip(150) {
            arena.free(*place, record.len());
        }
        assert_eq!(arena.live(), 0);
    }

    #[test]
    fn a_record_larger_than_a_block_has_its_own() {
        let mut arena = Arena::default();
        let large = vec![7; 3 * BLOCK_MAX];
        arena.append([b"small", b""], 5);
        let place = arena.append([&large, b""], large.len());
        arena.append([b"small", b""], 5);
        assert_eq!(arena.get(place, 3 * BLOCK_MAX - 1, 1), [7]);
        arena.free(place, large.len());
        assert!(arena.held() < BLOCK_MAX * 2);
    }
}
