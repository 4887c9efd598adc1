//! Records in few allocations: keys and values one after the other, in blocks.
//!
//! Records never move, and a place is never given twice: whoever remembers one finds the record or
//! learns that it is gone. A block whose last record is freed gives its memory back at once:
//! records that were written together, a window's, are freed together.
//!
//! ```text
//! record   flags | key length | room | value length + 1, 0 without a value | key | value
//! ```
//!
//! The numbers take a byte each where they fit, else four. Records begin at multiples of four
//! bytes, so that a place is a small number.

/// The first block; the others have a quarter of what there is, between these. Blocks for records
/// that were announced have what these need.
const BLOCK_FIRST: usize = 1 << 10;
const BLOCK_MIN: usize = 4 << 10;
const BLOCK_MAX: usize = 1 << 20;

/// Records begin at multiples of so many bytes.
const UNIT: usize = 4;
/// Bits of a place that say where in its block it is.
const AT_BITS: u32 = (BLOCK_MAX / UNIT).ilog2();
const AT_MASK: u32 = (1 << AT_BITS) - 1;
/// The most blocks: the other bits of a place.
const BLOCKS_MAX: usize = 1 << (u32::BITS - AT_BITS);

/// Most records are not larger.
const SMALL: usize = 128;

const SHORT_HEADER: usize = 4;
const LONG_HEADER: usize = 16;
const LONG: u8 = 4;
const STATE: u8 = 3;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Freed.
    Removed,
    Live,
    /// Live, with the mark that its writer gave it.
    Marked,
}

impl State {
    fn byte(self) -> u8 {
        match self {
            Self::Removed => 0,
            Self::Live => 1,
            Self::Marked => 2,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Block {
    bytes: Vec<u8>,
    live: usize,
}

/// A growing store of records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arena {
    /// The last is being filled. Those before it have memory only while a record in them lives.
    blocks: Vec<Block>,
    live: usize,
    held: usize,
    /// Bytes of records that were announced, beyond what the last block has room for.
    coming: usize,
}

/// What stands in front of a record.
#[derive(Debug, Clone, Copy)]
struct Header {
    flags: u8,
    key: usize,
    /// Bytes that a value may have without moving.
    room: usize,
    /// Bytes of the value and one; 0 without a value.
    value: usize,
}

impl Header {
    fn read(record: &[u8]) -> Option<Self> {
        let [flags, key, room, value] = *record.first_chunk::<SHORT_HEADER>()?;
        if flags & LONG == 0 {
            let [key, room, value] = [key, room, value].map(usize::from);
            return Some(Self { flags, key, room, value });
        }
        let (numbers, _) = record.get(SHORT_HEADER..LONG_HEADER)?.as_chunks::<4>();
        let number = |at: usize| u32::from_le_bytes(numbers[at]) as usize;
        Some(Self { flags, key: number(0), room: number(1), value: number(2) })
    }

    fn write(self, record: &mut [u8]) {
        let numbers = [self.key, self.room, self.value];
        if self.flags & LONG == 0 {
            record[0] = self.flags;
            // Short: all of them fit.
            record[1..SHORT_HEADER].copy_from_slice(&numbers.map(|number| number as u8));
            return;
        }
        record[0] = self.flags;
        for (place, number) in record[SHORT_HEADER..].as_chunks_mut::<4>().0.iter_mut().zip(numbers)
        {
            *place = (number as u32).to_le_bytes();
        }
    }

    fn length(self) -> usize {
        if self.flags & LONG == 0 { SHORT_HEADER } else { LONG_HEADER }
    }

    /// Bytes of the whole record.
    fn record(self) -> usize {
        (self.length() + self.key + self.room).next_multiple_of(UNIT)
    }

    fn state(self) -> State {
        match self.flags & STATE {
            0 => State::Removed,
            1 => State::Live,
            _ => State::Marked,
        }
    }
}

/// Bytes of a value and one; 0 without a value.
fn counted(value: Option<&[u8]>) -> usize {
    value.map_or(0, |value| value.len() + 1)
}

impl Arena {
    /// Bytes that a record takes.
    pub(crate) fn size(key: &[u8], value: &[u8]) -> usize {
        let fits = key.len().max(value.len() + 1) <= usize::from(u8::MAX);
        let header = if fits { SHORT_HEADER } else { LONG_HEADER };
        (header + key.len() + value.len()).next_multiple_of(UNIT)
    }

    /// Announces records: blocks for them are as large as they need.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        let room = self.blocks.last().map_or(0, |b| b.bytes.capacity() - b.bytes.len());
        self.coming = bytes.saturating_sub(room);
    }

    /// Adds a record and returns its place, which is after all places before.
    ///
    /// # Panics
    ///
    /// If there are too many bytes: over a gigabyte in one segment.
    pub(crate) fn append(&mut self, state: State, key: &[u8], value: Option<&[u8]>) -> u32 {
        let bytes = value.unwrap_or_default();
        let fits = key.len().max(bytes.len() + 1) <= usize::from(u8::MAX);
        let flags = state.byte() | if fits { 0 } else { LONG };
        let header = Header { flags, key: key.len(), room: bytes.len(), value: counted(value) };
        let length = header.record();
        if self.blocks.last().is_none_or(|b| b.bytes.capacity() - b.bytes.len() < length) {
            self.open_block(length);
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let at = block.bytes.len();
        let mut record = [0; SMALL];
        header.write(&mut record);
        let front = header.length();
        if length <= SMALL {
            // Put together where it is hot: what is written to is in no cache.
            record[front..front + key.len()].copy_from_slice(key);
            record[front + key.len()..][..bytes.len()].copy_from_slice(bytes);
            block.bytes.extend_from_slice(&record[..length]);
        } else {
            block.bytes.extend_from_slice(&record[..front]);
            block.bytes.extend_from_slice(key);
            block.bytes.extend_from_slice(bytes);
            block.bytes.resize(at + length, 0);
        }
        block.live += length;
        self.live += length;
        ((number as u32) << AT_BITS) | (at / UNIT) as u32
    }

    fn open_block(&mut self, length: usize) {
        self.close_block();
        assert!(self.blocks.len() < BLOCKS_MAX, "a segment of state has too many bytes");
        let usual = match (self.coming, self.held) {
            (0, 0) => BLOCK_FIRST,
            (0, held) => (held / 4).max(BLOCK_MIN),
            (coming, held) => coming.max(held / 4),
        };
        // A record that is larger has a block for itself.
        let bytes = Vec::with_capacity(usual.min(BLOCK_MAX).max(length));
        self.held += bytes.capacity();
        self.coming = self.coming.saturating_sub(bytes.capacity());
        self.blocks.push(Block { bytes, live: 0 });
    }

    /// Fills the last block no more.
    fn close_block(&mut self) {
        if let Some(last) = self.blocks.len().checked_sub(1) {
            let bytes = &mut self.blocks[last].bytes;
            self.held -= bytes.capacity();
            if bytes.capacity() - bytes.len() > bytes.len() / 8 {
                bytes.shrink_to_fit();
            }
            self.held += bytes.capacity();
            self.give_back(last);
        }
    }

    /// Frees the memory of a block if nothing in it lives.
    fn give_back(&mut self, number: usize) {
        let block = &mut self.blocks[number];
        if block.live == 0 {
            self.held -= block.bytes.capacity();
            *block = Block::default();
        }
    }

    fn record(&self, id: u32) -> &[u8] {
        let block = self.blocks.get((id >> AT_BITS) as usize);
        let at = (id & AT_MASK) as usize * UNIT;
        block.and_then(|block| block.bytes.get(at..)).unwrap_or_default()
    }

    /// The key of the record at a place; `None` if it was freed.
    pub(crate) fn key(&self, id: u32) -> Option<&[u8]> {
        let record = self.record(id);
        let header = Header::read(record).filter(|h| h.state() != State::Removed)?;
        record.get(header.length()..header.length() + header.key)
    }

    /// The value of the record at a place; `None` if it has none.
    pub(crate) fn value(&self, id: u32) -> Option<&[u8]> {
        let record = self.record(id);
        let header = Header::read(record)?;
        let start = header.length() + header.key;
        record.get(start..start + header.value.checked_sub(1)?)
    }

    /// What the record at a place is.
    pub(crate) fn state(&self, id: u32) -> State {
        Header::read(self.record(id)).map_or(State::Removed, Header::state)
    }

    /// Every record that is there, from a place on, in the order in which they were added.
    pub(crate) fn from(&self, start: u32) -> impl Iterator<Item = u32> + Clone + use<'_> {
        let (first, at) = ((start >> AT_BITS) as usize, (start & AT_MASK) as usize * UNIT);
        let blocks = self.blocks.iter().enumerate().skip(first);
        blocks.flat_map(move |(number, block)| {
            let mut at = if number == first { at } else { 0 };
            std::iter::from_fn(move || {
                while let Some(header) = block.bytes.get(at..).and_then(Header::read) {
                    let id = ((number as u32) << AT_BITS) | (at / UNIT) as u32;
                    at += header.record();
                    if header.state() != State::Removed {
                        return Some(id);
                    }
                }
                None
            })
        })
    }

    /// A place after all records that there are, and before those that will come.
    pub(crate) fn end(&self) -> u32 {
        let Some(last) = self.blocks.len().checked_sub(1) else { return 0 };
        let at = (self.blocks[last].bytes.len() / UNIT).min(1 << AT_BITS) as u32;
        ((last as u32) << AT_BITS).saturating_add(at)
    }

    fn with_record<T>(&mut self, id: u32, f: impl FnOnce(&mut [u8], Header) -> T) -> Option<T> {
        let block = self.blocks.get_mut((id >> AT_BITS) as usize)?;
        let record = block.bytes.get_mut((id & AT_MASK) as usize * UNIT..)?;
        let header = Header::read(record)?;
        Some(f(record, header))
    }

    /// Sets the value of a record where it is; `false` if there is no room for it.
    pub(crate) fn overwrite(&mut self, id: u32, value: Option<&[u8]>) -> bool {
        let bytes = value.unwrap_or_default();
        let fits = self.with_record(id, |record, header| {
            if bytes.len() > header.room {
                return false;
            }
            let start = header.length() + header.key;
            record[start..start + bytes.len()].copy_from_slice(bytes);
            Header { value: counted(value), ..header }.write(record);
            true
        });
        fits.unwrap_or(false)
    }

    /// Takes the mark off a record.
    pub(crate) fn unmark(&mut self, id: u32) {
        self.with_record(id, |record, header| {
            record[0] = (header.flags & !STATE) | State::Live.byte();
        });
    }

    /// Forgets the record at a place.
    pub(crate) fn free(&mut self, id: u32) {
        let length = self.with_record(id, |record, header| {
            record[0] = header.flags & !STATE;
            header.record()
        });
        let (Some(length), number) = (length, (id >> AT_BITS) as usize) else { return };
        self.live -= length;
        self.blocks[number].live -= length;
        if number + 1 < self.blocks.len() {
            self.give_back(number);
        }
    }

    /// Takes over all blocks of another one: a record at place `p` there is at `p` plus the result
    /// here. `None`, and nothing done, if there are too many.
    pub(crate) fn take_over(&mut self, other: &mut Self) -> Option<u32> {
        if self.blocks.len() + other.blocks.len() >= BLOCKS_MAX {
            return None;
        }
        self.close_block();
        other.close_block();
        let offset = (self.blocks.len() as u32) << AT_BITS;
        self.blocks.append(&mut other.blocks);
        self.live += std::mem::take(&mut other.live);
        self.held += std::mem::take(&mut other.held);
        Some(offset)
    }

    /// Whether there are so many blocks that writing everything anew would make them far fewer.
    pub(crate) fn is_worn(&self) -> bool {
        let blocks = self.blocks.len();
        blocks >= BLOCKS_MAX / 2 && self.live / blocks < BLOCK_MAX / 4
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

    fn add(arena: &mut Arena, key: &[u8], value: &[u8]) -> u32 {
        arena.append(State::Live, key, Some(value))
    }

    #[test]
    fn records_stay_and_empty_blocks_give_their_memory_back() {
        let mut arena = Arena::default();
        let record = |i: u8| (vec![i; 100], vec![i; usize::from(i) * 3]);
        let places: Vec<u32> =
            (0..200).map(record).map(|(key, value)| add(&mut arena, &key, &value)).collect();
        assert!(places.is_sorted() && arena.from(0).eq(places.iter().copied()));
        for (i, place) in (0..200).zip(&places) {
            let (key, value) = record(i);
            assert_eq!(arena.key(*place), Some(key.as_slice()));
            assert_eq!(arena.value(*place), Some(value.as_slice()));
        }
        let held = arena.held();
        places[..150].iter().for_each(|place| arena.free(*place));
        assert!(arena.held() < held && arena.live() > 0);
        assert_eq!((arena.key(places[0]), arena.state(places[149])), (None, State::Removed));
        assert_eq!(arena.key(places[199]), Some([199; 100].as_slice()));
        assert!(arena.from(places[100]).eq(places[150..].iter().copied()));
        places[150..].iter().for_each(|place| arena.free(*place));
        assert_eq!(arena.live(), 0);
        let place = add(&mut arena, b"k", b"v");
        assert!(place > places[199], "a place is given once");
    }

    #[test]
    fn a_record_larger_than_a_block_has_its_own() {
        let mut arena = Arena::default();
        let large = vec![7; 3 * BLOCK_MAX];
        add(&mut arena, b"small", b"");
        let place = add(&mut arena, &large, b"value");
        let end = arena.end();
        let after = add(&mut arena, b"small", b"");
        assert!(place < end && end <= after);
        assert_eq!(arena.key(place).map(<[u8]>::len), Some(3 * BLOCK_MAX));
        assert_eq!(arena.value(place), Some(b"value".as_slice()));
        arena.free(place);
        assert!(arena.held() < BLOCK_MAX * 2);
    }

    #[test]
    fn values_change_where_there_is_room() {
        let mut arena = Arena::default();
        for length in [5, 300] {
            let place = add(&mut arena, b"key", &vec![1; length]);
            assert!(!arena.overwrite(place, Some(&vec![2; length + 1])));
            assert!(arena.overwrite(place, None));
            assert_eq!((arena.key(place), arena.value(place)), (Some(b"key".as_slice()), None));
            assert!(arena.overwrite(place, Some(&vec![3; length])));
            assert_eq!(arena.value(place), Some(vec![3; length].as_slice()));
        }
    }

    #[test]
    fn blocks_of_another_are_taken_over() {
        let (mut arena, mut other) = (Arena::default(), Arena::default());
        let own: Vec<u32> = (0..50).map(|i| add(&mut arena, &[i; 90], b"own")).collect();
        let theirs: Vec<u32> = (0..50).map(|i| add(&mut other, &[i; 90], b"theirs")).collect();
        let offset = arena.take_over(&mut other).unwrap();
        let all = own.iter().copied().chain(theirs.iter().map(|place| place + offset));
        assert!(arena.from(0).eq(all));
        assert_eq!(arena.value(theirs[49] + offset), Some(b"theirs".as_slice()));
        assert_eq!((other.live(), other.held()), (0, other.blocks.capacity() * size_of::<Block>()));
        let after = add(&mut arena, b"k", b"v");
        assert!(after > theirs[49] + offset);
    }
}
