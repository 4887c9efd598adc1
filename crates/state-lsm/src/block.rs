//! Blocks: some kilobytes of entries in key order, the unit of reading, checking and caching.
//!
//! ```text
//! block   = (entry)+ (offset)+ #offsets       an offset of each 16th entry; 32 bits, low first
//! entry   = shared length tag suffix value    tag = length of the value * 4 + kind
//! ```
//!
//! `shared` counts the bytes that the key has in common with the key before it, or, for an entry
//! that an offset points at, with the first key of the block. So a search jumps to the right
//! sixteen entries without unpacking others, and keys with long common prefixes stay small.

use crate::codec::{Reader, common, cut, number_at, put_number};
use fluvial_core::{Error, Result};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// Entries from one offset to the next.
const RESTART_EVERY: u32 = 16;

/// What an entry does. With its kind it says how it changes the number of keys, so that ranges
/// can be counted by adding up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value under a key that had none.
    Insert,
    /// A value in place of another.
    Update,
    /// The end of a value.
    Delete,
}

impl Kind {
    /// By how much the number of keys changes.
    pub(crate) fn delta(self) -> i64 {
        match self {
            Self::Insert => 1,
            Self::Update => 0,
            Self::Delete => -1,
        }
    }

    /// Whether there is a value.
    pub(crate) fn is_live(self) -> bool {
        self != Self::Delete
    }

    /// The kind of an entry with a value, or without one, that changes the number of keys so;
    /// `None` if it changes nothing.
    pub(crate) fn of(is_live: bool, delta: i64) -> Option<Self> {
        match (is_live, delta) {
            (true, 0) => Some(Self::Update),
            (true, _) => Some(Self::Insert),
            (false, 0) => None,
            (false, _) => Some(Self::Delete),
        }
    }

    fn code(self) -> u64 {
        match self {
            Self::Insert => 0,
            Self::Update => 1,
            Self::Delete => 2,
        }
    }
}

/// A block being made.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    first: Vec<u8>,
    last: Vec<u8>,
    entries: u32,
    delta: i64,
}

impl BlockBuilder {
    /// Adds an entry. Keys come in order, each once.
    pub(crate) fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]) {
        let shared = if self.entries.is_multiple_of(RESTART_EVERY) {
            self.restarts.push(self.bytes.len() as u32);
            if self.entries == 0 {
                self.first.clear();
                self.first.extend_from_slice(key);
                0
            } else {
                common(&self.first, key)
            }
        } else {
            common(&self.last, key)
        };
        put_number(&mut self.bytes, shared as u64);
        put_number(&mut self.bytes, (key.len() - shared) as u64);
        put_number(&mut self.bytes, (value.len() as u64) << 2 | kind.code());
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last.clear();
        self.last.extend_from_slice(key);
        self.entries += 1;
        self.delta += kind.delta();
    }

    /// Bytes in it without its first key, which a block cannot share with another.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len().saturating_sub(self.first.len())
    }

    /// Entries in it.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// By how much its entries change the number of keys.
    pub(crate) fn delta(&self) -> i64 {
        self.delta
    }

    /// The last key in it.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// The first key in it.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first
    }

    /// Ends the block; the builder is empty afterwards.
    pub(crate) fn finish(&mut self) -> Block {
        let entries_end = self.bytes.len() as u32;
        for restart in self.restarts.iter().chain([&(self.restarts.len() as u32)]) {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        // Copied, so that it takes what it needs, and the room serves the next one.
        let (bytes, restarts) = (self.bytes.as_slice().to_vec(), self.restarts.as_slice().into());
        self.bytes.clear();
        self.restarts.clear();
        (self.entries, self.delta) = (0, 0);
        Block { bytes, restarts, entries_end }
    }
}

/// An entry as it lies in a block.
#[derive(Debug, Clone)]
struct Raw {
    shared: usize,
    suffix: Range<usize>,
    kind: Kind,
    value: Range<usize>,
}

/// A block in memory, checked as a whole.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    restarts: Box<[u32]>,
    entries_end: u32,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) kind: Kind,
    pub(crate) value: Range<u32>,
}

impl Block {
    /// Takes a block apart.
    ///
    /// # Errors
    ///
    /// `Corrupt` for bytes that no writer wrote.
    pub(crate) fn open(bytes: Vec<u8>) -> Result<Self> {
        let (rest, count) = bytes.split_last_chunk::<4>().ok_or_else(cut)?;
        let count = u32::from_le_bytes(*count) as usize;
        let length = count.checked_mul(4).filter(|n| *n > 0 && *n < rest.len()).ok_or_else(cut)?;
        let (entries, offsets) = rest.split_at(rest.len() - length);
        let offset = |chunk: &[u8]| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        let restarts: Box<[u32]> = offsets.chunks_exact(4).map(offset).collect();
        let entries_end = u32::try_from(entries.len())
            .map_err(|_| Error::corrupt("a block in it is larger than 4 GiB"))?;
        let block = Self { bytes, restarts, entries_end };
        block.check()?;
        Ok(block)
    }

    /// Every entry lies in it, and keys are in order.
    fn check(&self) -> Result<()> {
        let bad = || Error::corrupt("a block in it is damaged");
        let (mut at, mut restart) = (0, 0);
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut key: Vec<u8> = Vec::new();
        while at < self.entries_end as usize {
            let (raw, end) = self.try_raw(at).ok_or_else(bad)?;
            let is_restart = self.restarts.get(restart).is_some_and(|r| *r as usize == at);
            restart += usize::from(is_restart);
            let before = if is_restart { &first } else { &last };
            key.clear();
            key.extend_from_slice(before.get(..raw.shared).ok_or_else(bad)?);
            key.extend_from_slice(&self.bytes[raw.suffix]);
            if at == 0 {
                first.clone_from(&key);
            } else if last >= key {
                return Err(bad());
            }
            std::mem::swap(&mut last, &mut key);
            at = end;
        }
        let whole = restart == self.restarts.len() && self.restarts[0] == 0;
        if whole { Ok(()) } else { Err(bad()) }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity() + self.restarts.len() * 4 + size_of::<Self>()
    }

    /// The bytes as they are stored, before compression.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A value that [`Self::find`] or a cursor found.
    pub(crate) fn value(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }

    #[inline]
    fn try_raw(&self, at: usize) -> Option<(Raw, usize)> {
        let bytes = self.bytes.get(..self.entries_end as usize)?;
        let (shared, at) = number_at(bytes, at)?;
        let (length, at) = number_at(bytes, at)?;
        let (tag, at) = number_at(bytes, at)?;
        let kind = match tag & 3 {
            0 => Kind::Insert,
            1 => Kind::Update,
            2 if tag == 2 => Kind::Delete,
            _ => return None,
        };
        let shared = usize::try_from(shared).ok()?;
        let suffix = at..at.checked_add(usize::try_from(length).ok()?)?;
        let end = suffix.end.checked_add(usize::try_from(tag >> 2).ok()?)?;
        if end > bytes.len() {
            return None;
        }
        let value = suffix.end..end;
        Some((Raw { shared, suffix, kind, value }, end))
    }

    /// An entry of a block that was checked.
    #[inline]
    fn raw(&self, at: usize) -> (Raw, usize) {
        self.try_raw(at).expect("blocks are checked when they are opened")
    }

    fn found(raw: &Raw) -> Found {
        Found { kind: raw.kind, value: raw.value.start as u32..raw.value.end as u32 }
    }

    /// How the key of a restart lies to `key`, which has `matched` bytes in common with the
    /// first key.
    fn compare_restart(&self, raw: &Raw, key: &[u8], first: &[u8], matched: usize) -> Ordering {
        if matched < raw.shared {
            return first[..raw.shared].cmp(key);
        }
        self.bytes[raw.suffix.clone()].cmp(&key[raw.shared..])
    }

    /// The last restart whose key is not after `key`, and how many bytes the first key and `key`
    /// have in common; `None` if all restarts are after it.
    fn restart_of(&self, key: &[u8]) -> Option<(usize, usize)> {
        let (first, _) = self.raw(0);
        let first = &self.bytes[first.suffix];
        let matched = common(first, key);
        let after = self.restarts.partition_point(|restart| {
            let (raw, _) = self.raw(*restart as usize);
            self.compare_restart(&raw, key, first, matched).is_le()
        });
        Some((after.checked_sub(1)?, matched))
    }

    /// The entry of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Found> {
        let (restart, with_first) = self.restart_of(key)?;
        let stop = self.restarts.get(restart + 1).map_or(self.entries_end, |r| *r) as usize;
        let (raw, mut at) = self.raw(self.restarts[restart] as usize);
        // How many bytes the key has in common with the entry before. An entry that shares more
        // with that one lies on the same side of the key; one that shares less lies behind it.
        let mut matched = with_first;
        if with_first >= raw.shared {
            let (suffix, rest) = (&self.bytes[raw.suffix.clone()], &key[raw.shared..]);
            if suffix == rest {
                return Some(Self::found(&raw));
            }
            matched = raw.shared + common(suffix, rest);
        }
        while at < stop {
            let (raw, end) = self.raw(at);
            at = end;
            match raw.shared.cmp(&matched) {
                Ordering::Greater => {}
                Ordering::Less => return None,
                Ordering::Equal => {
                    let (suffix, rest) = (&self.bytes[raw.suffix.clone()], &key[matched..]);
                    let same = common(suffix, rest);
                    match (suffix.get(same), rest.get(same)) {
                        (None, None) => return Some(Self::found(&raw)),
                        (Some(_), None) => return None,
                        (Some(a), Some(b)) if a > b => return None,
                        _ => matched += same,
                    }
                }
            }
        }
        None
    }
}

impl Block {
    /// By how much its entries from `start` to `end`, or to its own if that is empty, change the
    /// number of keys. `key` is room for one.
    pub(crate) fn count(&self, start: &[u8], end: &[u8], key: &mut Vec<u8>) -> i64 {
        let mut at = BlockCursor { key: std::mem::take(key), ..BlockCursor::default() };
        at.seek(self, start);
        let mut sum = 0;
        while let Some(found) = &at.found {
            if !end.is_empty() && at.key.as_slice() >= end {
                break;
            }
            sum += found.kind.delta();
            at.advance(self);
        }
        *key = at.key;
        sum
    }
}

/// A place in a block, and the key there.
#[derive(Debug, Default)]
pub(crate) struct BlockCursor {
    /// Where the next entry begins.
    next: usize,
    restart: usize,
    /// The key of this entry.
    pub(crate) key: Vec<u8>,
    /// What it is.
    pub(crate) found: Option<Found>,
}

impl BlockCursor {
    /// Goes before the first entry from `start` on.
    pub(crate) fn seek(&mut self, block: &Block, start: &[u8]) {
        self.restart = block.restart_of(start).map_or(0, |(restart, _)| restart);
        self.next = block.restarts[self.restart] as usize;
        while self.advance(block) && self.key.as_slice() < start {}
    }

    /// Goes to the next entry; `false` if there is none.
    pub(crate) fn advance(&mut self, block: &Block) -> bool {
        if self.next >= block.entries_end as usize {
            self.found = None;
            return false;
        }
        let (raw, end) = block.raw(self.next);
        if block.restarts.get(self.restart).is_some_and(|r| *r as usize == self.next) {
            let (first, _) = block.raw(0);
            self.key.clear();
            self.key.extend_from_slice(&block.bytes[first.suffix][..raw.shared]);
            self.restart += 1;
        } else {
            self.key.truncate(raw.shared);
        }
        self.key.extend_from_slice(&block.bytes[raw.suffix.clone()]);
        self.found = Some(Block::found(&raw));
        self.next = end;
        true
    }
}

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    None,
    /// With lz4: fast.
    #[default]
    Lz4,
    /// With zstd: smaller, and a few times slower to write.
    Zstd,
}

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;
const ZSTD_LEVEL: i32 = 1;
/// How many times larger bytes may be than their packed form: more is a bomb, not state.
const RATIO_MAX: usize = 250;

/// Appends bytes packed, with how they are packed in front and a checksum behind.
pub(crate) fn put_packed(out: &mut Vec<u8>, plain: &[u8], compression: Compression) {
    let start = out.len();
    let packed = match compression {
        Compression::None => None,
        Compression::Lz4 => Some((LZ4, lz4_flex::block::compress(plain))),
        Compression::Zstd => {
            zstd::bulk::compress(plain, ZSTD_LEVEL).ok().map(|packed| (ZSTD, packed))
        }
    };
    let worth = |n: usize| n < plain.len() / 8 * 7 && plain.len() <= n.saturating_mul(RATIO_MAX);
    match packed.filter(|(_, packed)| worth(packed.len())) {
        Some((how, packed)) => {
            out.push(how);
            out.extend_from_slice(&packed);
        }
        None => {
            out.push(PLAIN);
            out.extend_from_slice(plain);
        }
    }
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Appends what `put` puts, as [`put_packed`] does without compression, without a copy of it.
pub(crate) fn put_plain(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(PLAIN);
    put(out);
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Checks and unpacks what [`put_packed`] wrote; what is not compressed is not copied.
///
/// # Errors
///
/// `Corrupt` unless these are exactly those bytes.
pub(crate) fn unpack(bytes: &[u8], plain_bytes: usize) -> Result<Cow<'_, [u8]>> {
    let (framed, crc) = bytes.split_last_chunk::<4>().ok_or_else(cut)?;
    if crc32fast::hash(framed) != u32::from_le_bytes(*crc) {
        return Err(Error::corrupt("the checksum of a block does not match"));
    }
    let mut reader = Reader(framed);
    let how = reader.byte()?;
    let Reader(packed) = reader;
    if plain_bytes > packed.len().saturating_mul(RATIO_MAX) {
        return Err(Error::corrupt("the size of a block is wrong"));
    }
    let plain = match how {
        PLAIN => Some(Cow::Borrowed(packed)),
        LZ4 => lz4_flex::block::decompress(packed, plain_bytes).ok().map(Cow::Owned),
        ZSTD => zstd::bulk::decompress(packed, plain_bytes).ok().map(Cow::Owned),
        _ => return Err(Error::corrupt("the compression of a block is unknown")),
    };
    plain
        .filter(|plain| plain.len() == plain_bytes)
        .ok_or_else(|| Error::corrupt("a block cannot be decompressed"))
}
