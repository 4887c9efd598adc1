//! What a run says about itself behind its blocks: where they are, what each group has, which
//! older keys are gone.
//!
//! ```text
//! tail    = packed(meta) packed(filter)
//! meta    = format #blocks (block)* #groups (group)* #ranges (start end)*
//! block   = shared separator stored plain entries delta
//! group   = number entries delta
//! ```
//!
//! A separator lies behind the last key of the block before and not behind the first key of its
//! own; `shared` counts the bytes that it has in common with the separator before. Sums of
//! deltas are kept, so that the keys of a range are counted from its two ends.

use crate::codec::{Reader, common, put_bytes, put_number, put_signed};
use crate::gone::Gone;
use fluvial_core::{Error, KeyGroup, KeyRange, Result};

/// Version of the bytes of blocks and tails.
pub(crate) const RUN_FORMAT: u8 = 1;

/// The refusal of a format that only a later version knows.
pub(crate) fn too_new(format: u8, known: u8) -> Error {
    Error::invalid(format!(
        "it has format {format}, newer than {known}: use the version of Fluvial that wrote it, or \
         a later one"
    ))
    .with_condition("CHECKPOINT_FORMAT_TOO_NEW")
}

/// Where the blocks of a run are, and between which keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// All separators without what they have in common, one after the other.
    separators: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// What all have in common.
    common: Vec<u8>,
    /// The first eight bytes of each as a number.
    tags: Vec<u64>,
    /// Where each block begins, and where the last ends.
    offsets: Vec<u64>,
    /// The size of each before compression.
    plain: Vec<u32>,
    /// The sums of entries and of deltas before each block, and of all.
    entries: Vec<u64>,
    deltas: Vec<i64>,
}

/// What an index says of a block, besides where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockInfo {
    pub(crate) stored: u64,
    pub(crate) plain: u32,
    pub(crate) entries: u32,
    pub(crate) delta: i64,
}

fn tag8(bytes: &[u8]) -> u64 {
    let mut tag = [0; 8];
    let length = bytes.len().min(8);
    tag[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(tag)
}

impl Index {
    /// An index of no block. Nothing is found in it before [`Self::close`].
    pub(crate) fn open() -> Self {
        Self { offsets: vec![0], entries: vec![0], deltas: vec![0], ..Self::default() }
    }

    /// Adds a block behind the others.
    pub(crate) fn push(&mut self, separator: &[u8], info: BlockInfo) {
        self.separators.extend_from_slice(separator);
        self.ends.push(self.separators.len());
        self.plain.push(info.plain);
        self.offsets.push(self.offsets[self.ends.len() - 1] + info.stored);
        self.entries.push(self.entries[self.ends.len() - 1] + u64::from(info.entries));
        self.deltas.push(self.deltas[self.ends.len() - 1] + info.delta);
    }

    /// Takes away what all separators have in common. No block comes behind.
    pub(crate) fn close(mut self) -> Self {
        let Some(last) = self.ends.len().checked_sub(1) else { return self };
        let shared = common(self.rest(0), self.rest(last));
        self.common = self.separators[..shared].to_vec();
        let (mut from, mut to) = (0, 0);
        for end in &mut self.ends {
            self.separators.copy_within(from + shared..*end, to);
            to += *end - from - shared;
            from = std::mem::replace(end, to);
        }
        self.separators.truncate(to);
        self.separators.shrink_to_fit();
        self.tags = (0..=last).map(|block| tag8(self.rest(block))).collect();
        for column in [&mut self.offsets, &mut self.entries] {
            column.shrink_to_fit();
        }
        self.ends.shrink_to_fit();
        self.plain.shrink_to_fit();
        self.deltas.shrink_to_fit();
        self
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.ends.len() as u32
    }

    fn rest(&self, block: usize) -> &[u8] {
        let start = if block == 0 { 0 } else { self.ends[block - 1] };
        &self.separators[start..self.ends[block]]
    }

    /// Whether the separator of a block lies at or before `key`.
    #[inline]
    fn begins_at(&self, block: usize, tag: u64, rest: &[u8]) -> bool {
        match self.tags[block].cmp(&tag) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => self.rest(block) <= rest,
        }
    }

    /// How many blocks, `from` or more, have separators at or before `key`; only those from
    /// `from` on are looked at.
    pub(crate) fn blocks_until(&self, key: &[u8], from: u32) -> u32 {
        let shared = common(key, &self.common);
        if shared < self.common.len() {
            // The key lies before all of them or behind all.
            let behind = key.get(shared).is_some_and(|byte| *byte > self.common[shared]);
            return if behind { self.blocks() } else { from };
        }
        let rest = &key[shared..];
        let tag = tag8(rest);
        let blocks = self.ends.len();
        // Keys come in order, so the next one is near: steps grow from where the last one was.
        let (mut low, mut step) = (from as usize, 1);
        while low + step <= blocks && self.begins_at(low + step - 1, tag, rest) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step - 1).min(blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.begins_at(middle, tag, rest) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low as u32
    }

    /// The blocks that may have keys of `range`.
    pub(crate) fn blocks_in(&self, range: &KeyRange) -> std::ops::Range<u32> {
        match range.is_empty() {
            true => 0..0,
            false => self.blocks_between(&range.start, &range.end, &mut 0),
        }
    }

    /// The blocks that may have keys from `start` to `end`, or to the last one if that is empty.
    /// `until` is how many blocks begin at or before an earlier start, and then before this one.
    pub(crate) fn blocks_between(
        &self,
        start: &[u8],
        end: &[u8],
        until: &mut u32,
    ) -> std::ops::Range<u32> {
        *until = self.blocks_until(start, *until);
        let first = until.saturating_sub(1);
        if end.is_empty() {
            return first..self.blocks();
        }
        let mut last = self.blocks_until(end, *until);
        // A block whose separator is the end lies behind it.
        if last > first && self.is_separator(last - 1, end) {
            last -= 1;
        }
        first..last.max(first)
    }

    /// Whether the separator of a block is this key: then all keys before it are in other blocks.
    pub(crate) fn is_separator(&self, block: u32, key: &[u8]) -> bool {
        key.strip_prefix(self.common.as_slice()) == Some(self.rest(block as usize))
    }

    /// Whether no key of a block lies before `key`.
    pub(crate) fn begins_from(&self, block: u32, key: &[u8]) -> bool {
        let rest = self.rest(block as usize);
        let separator = self.common.iter().chain(rest);
        !separator.lt(key.iter())
    }

    /// Where a block is in the run.
    pub(crate) fn place(&self, block: u32) -> std::ops::Range<u64> {
        self.offsets[block as usize]..self.offsets[block as usize + 1]
    }

    /// The size of a block before compression.
    pub(crate) fn plain_bytes(&self, block: u32) -> usize {
        self.plain[block as usize] as usize
    }

    /// The sum of the deltas of some blocks.
    pub(crate) fn delta(&self, blocks: std::ops::Range<u32>) -> i64 {
        self.deltas[blocks.end as usize] - self.deltas[blocks.start as usize]
    }

    /// Appends the blocks as they are stored.
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.ends.len() as u64);
        let mut last: &[u8] = &[];
        for block in 0..self.ends.len() {
            let rest = self.rest(block);
            if block == 0 {
                put_number(out, 0);
                put_bytes(out, &[&self.common, rest].concat());
            } else {
                let shared = common(last, rest);
                put_number(out, (self.common.len() + shared) as u64);
                put_bytes(out, &rest[shared..]);
            }
            last = rest;
            put_number(out, self.offsets[block + 1] - self.offsets[block]);
            put_number(out, u64::from(self.plain[block]));
            put_number(out, self.entries[block + 1] - self.entries[block]);
            put_signed(out, self.deltas[block + 1] - self.deltas[block]);
        }
    }

    /// Reads the blocks, which take `data` bytes.
    fn take(reader: &mut Reader<'_>, data: u64) -> Result<Self> {
        let bad = || Error::corrupt("an index in it is damaged");
        let mut index = Self::open();
        let mut last: Vec<u8> = Vec::new();
        for block in 0..reader.count()? {
            let shared = last.get(..reader.count()?).ok_or_else(bad)?;
            let separator = [shared, reader.bytes()?].concat();
            if block > 0 && separator <= last {
                return Err(bad());
            }
            let info = BlockInfo {
                stored: reader.number()?,
                plain: reader.small()?,
                entries: reader.small()?,
                delta: reader.signed()?,
            };
            let possible = info.delta.unsigned_abs() <= u64::from(info.entries);
            let end = index.offsets[index.ends.len()].checked_add(info.stored);
            if !possible || end.is_none_or(|end| end > data) {
                return Err(bad());
            }
            index.push(&separator, info);
            last = separator;
        }
        if index.offsets[index.ends.len()] != data {
            return Err(bad());
        }
        Ok(index.close())
    }

    /// All entries.
    fn total(&self) -> u64 {
        self.entries.last().copied().unwrap_or(0)
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        let words = self.ends.capacity()
            + self.tags.capacity()
            + self.offsets.capacity()
            + self.entries.capacity()
            + self.deltas.capacity();
        self.separators.capacity() + self.common.capacity() + words * 8 + self.plain.capacity() * 4
    }
}

/// The keys of one group in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupStats {
    pub(crate) group: KeyGroup,
    pub(crate) entries: u64,
    pub(crate) delta: i64,
}

/// What a run says about itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RunIndex {
    pub(crate) index: Index,
    /// The groups that it has entries of, in order.
    pub(crate) groups: Vec<GroupStats>,
    /// Keys of older runs that are gone.
    pub(crate) gone: Gone,
}

impl RunIndex {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![RUN_FORMAT];
        self.index.put(&mut out);
        put_number(&mut out, self.groups.len() as u64);
        for stats in &self.groups {
            put_number(&mut out, u64::from(stats.group.0));
            put_number(&mut out, stats.entries);
            put_signed(&mut out, stats.delta);
        }
        put_ranges(&mut out, &self.gone);
        out
    }

    /// Reads the bytes of a run whose blocks take `data` bytes.
    ///
    /// # Errors
    ///
    /// `Corrupt` for bytes that no writer wrote, `Invalid` for a newer format.
    pub(crate) fn decode(bytes: &[u8], data: u64) -> Result<Self> {
        let bad = || Error::corrupt("an index in it is damaged");
        let mut reader = Reader(bytes);
        match reader.byte()? {
            RUN_FORMAT => {}
            newer if newer > RUN_FORMAT => return Err(too_new(newer, RUN_FORMAT)),
            _ => return Err(Error::corrupt("it holds something else")),
        }
        let index = Index::take(&mut reader, data)?;
        let mut groups: Vec<GroupStats> = Vec::new();
        let mut grouped = 0u64;
        for _ in 0..reader.count()? {
            let group = KeyGroup(reader.group()?);
            let stats = GroupStats { group, entries: reader.number()?, delta: reader.signed()? };
            let ordered = groups.last().is_none_or(|last| last.group < group);
            let possible = stats.delta.unsigned_abs() <= stats.entries;
            if !ordered || !possible {
                return Err(bad());
            }
            grouped = grouped.checked_add(stats.entries).ok_or_else(bad)?;
            groups.push(stats);
        }
        if grouped != index.total() {
            return Err(bad());
        }
        let gone = take_ranges(&mut reader)?;
        reader.finish()?;
        Ok(Self { index, groups, gone })
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        self.index.held() + self.groups.len() * size_of::<GroupStats>() + self.gone.held()
    }
}

/// Puts ranges.
fn put_ranges(out: &mut Vec<u8>, gone: &Gone) {
    let ranges = gone.ranges();
    put_number(out, ranges.len() as u64);
    for range in &ranges {
        put_bytes(out, &range.start);
        put_bytes(out, &range.end);
    }
}

/// Reads ranges.
fn take_ranges(reader: &mut Reader<'_>) -> Result<Gone> {
    let mut ranges = Gone::default();
    for _ in 0..reader.count()? {
        let (start, end) = (reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
        ranges.insert(&KeyRange { start, end });
    }
    Ok(ranges)
}
