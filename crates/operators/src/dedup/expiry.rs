//! `Expiry`: finds the keys that expire, though a key does not say when it does.
//!
//! Keys are looked for by themselves, and leave by time. To find them by time without reading all
//! of them, each key group has lists of its keys by the time at which they expire: a list for every
//! 2^n microseconds, in chunks of a thousand keys, and a directory of its lists. Everything is found
//! by its own name; nothing is ever scanned, so a hash is all the order that a store needs. A list
//! costs its keys' bytes once more; an entry for each key would cost another record for each.
//!
//! A list is only appended to, and goes away as a whole. How far a list has been used up already
//! is in the directory, so that a key which came back under a later expiry is not taken for the old
//! one.

use super::lists::{Bucket, CHUNK_KEYS, directory, parse_directory, push_entry, take_entry};
use arrow::array::{Array, BinaryArray};
use fluvial_core::{
    EventDuration, EventTime, EvictWatermark, KeyGroup, KeyGroupRange, KeyRange, LateWatermark,
    Prefetch, Result, StateStore,
};
use std::collections::{BTreeMap, BTreeSet};

/// Follows the key group in the names of lists. No encoded key column begins with it: they begin
/// with a flag that is at most 2.
const TAG: u8 = 0xFE;

/// Bytes of the key group that stand in front of a key.
const GROUP_BYTES: usize = 2;

/// Keys that are removed in one call.
const REMOVED_AT_ONCE: usize = 8192;

/// A list spans about this part of the delay ...
const LISTS_PER_DELAY: i64 = 16;

/// ... but at least a millisecond and at most a minute, roughly, as powers of two microseconds.
const EXPONENTS: std::ops::RangeInclusive<u32> = 10..=26;

/// The keys of one batch and partition by the time at which they expire.
#[derive(Debug)]
pub(super) struct Expiry {
    groups: KeyGroupRange,
    evict: EvictWatermark,
    exponent: u8,
    /// What is to be listed, for each group of `groups`, by the start of its bucket.
    listed: Vec<BTreeMap<i64, Listed>>,
    /// Keys that are over at once.
    over: Removal,
}

/// Entries of one list.
#[derive(Debug, Default)]
struct Listed {
    bytes: Vec<u8>,
}

/// What came of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Evicted {
    /// Keys that were removed.
    pub(super) keys: u64,
    /// Records that lists and directories take now.
    pub(super) records: u64,
}

/// Keys that wait to be removed together.
#[derive(Debug, Default)]
struct Removal {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    full: Vec<BinaryArray>,
    count: u64,
}

impl Removal {
    fn push(&mut self, group: KeyGroup, key: &[u8]) {
        self.bytes.extend_from_slice(&group.prefix());
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.count += 1;
        if self.ends.len() == REMOVED_AT_ONCE {
            self.close();
        }
    }

    fn close(&mut self) {
        let (bytes, ends) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.ends));
        let mut start = 0;
        let keys = ends.into_iter().map(|end| &bytes[std::mem::replace(&mut start, end)..end]);
        self.full.push(BinaryArray::from_iter_values(keys));
    }

    /// Removes them and says how many there were.
    fn write(&mut self, state: &mut dyn StateStore) -> Result<u64> {
        self.close();
        for keys in self.full.drain(..) {
            state.delete_many(&keys)?;
        }
        Ok(std::mem::take(&mut self.count))
    }
}

/// About a sixteenth of the delay, as a power of two microseconds.
fn exponent_of(delay: EventDuration) -> u8 {
    let span = (delay.0 / LISTS_PER_DELAY).max(1);
    span.ilog2().clamp(*EXPONENTS.start(), *EXPONENTS.end()) as u8
}

fn directory_name(group: KeyGroup) -> Vec<u8> {
    let [high, low] = group.prefix();
    vec![high, low, TAG]
}

fn chunk_name(group: KeyGroup, bucket: &Bucket, chunk: u32) -> Vec<u8> {
    let mut name = bucket_name(group, bucket.start);
    name.push(bucket.exponent);
    name.extend_from_slice(&chunk.to_be_bytes());
    name
}

/// The beginning of the names of a bucket's chunks: in the order of buckets.
fn bucket_name(group: KeyGroup, start: i64) -> Vec<u8> {
    let mut name = directory_name(group);
    name.extend_from_slice(&(start ^ i64::MIN).to_be_bytes());
    name
}

fn names(names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> BinaryArray {
    BinaryArray::from_iter_values(names)
}

/// The keys of a group, without lists and directories.
pub(super) fn keys_of(group: KeyGroup) -> KeyRange {
    KeyRange { start: group.prefix().to_vec(), end: directory_name(group) }
}

/// Whether a state key is one of a list or directory.
#[cfg(test)]
pub(super) fn is_of_lists(key: &[u8]) -> bool {
    key.get(GROUP_BYTES) == Some(&TAG)
}

impl Expiry {
    pub(super) fn new(groups: KeyGroupRange, evict: EvictWatermark, delay: EventDuration) -> Self {
        let listed = groups.groups().map(|_| BTreeMap::new()).collect();
        Self { groups, evict, exponent: exponent_of(delay), listed, over: Removal::default() }
    }

    /// Takes note of a key that is new.
    pub(super) fn add(&mut self, group: KeyGroup, key: &[u8], expiry: EventTime) {
        let key = &key[GROUP_BYTES..];
        if self.evict.expires(expiry) {
            self.over.push(group, key);
            return;
        }
        let bucket = Bucket::of(expiry, self.exponent);
        let own = &mut self.listed[usize::from(group.0 - self.groups.start)];
        let listed = own.entry(bucket.start).or_default();
        push_entry(&mut listed.bytes, expiry.0.abs_diff(bucket.start), key);
    }

    /// What [`Self::finish`] will read, if keys of these groups and expiries are added.
    pub(super) fn prefetch(
        &self,
        added: impl IntoIterator<Item = (KeyGroup, EventTime)>,
    ) -> Vec<Prefetch> {
        let buckets: BTreeSet<(KeyGroup, i64)> = added
            .into_iter()
            .map(|(group, expiry)| (group, Bucket::of(expiry, self.exponent).start))
            .collect();
        let mut ranges: Vec<KeyRange> = buckets
            .into_iter()
            .map(|(group, start)| KeyRange::prefix(&bucket_name(group, start)))
            .collect();
        if let Some(until) = self.evict.0 {
            ranges.extend(self.groups.groups().map(|group| KeyRange {
                start: directory_name(group),
                end: KeyRange::prefix(&bucket_name(group, until.0)).end,
            }));
        }
        let directories = names(self.groups.groups().map(directory_name));
        vec![Prefetch::Keys(directories), Prefetch::Ranges(ranges)]
    }

    /// Removes what had expired when the batch began. The batch before has removed it already; but
    /// if a batch is cut in two, both parts must see the same keys.
    pub(super) fn begin(&mut self, late: LateWatermark, state: &mut dyn StateStore) -> Result<u64> {
        let Some(until) = late.0 else { return Ok(0) };
        let directories = state.get_many(&names(self.groups.groups().map(directory_name)))?;
        let mut keys = 0;
        for (directory, group) in directories.iter().zip(self.groups.groups()) {
            let Some(directory) = directory else { continue };
            let before = parse_directory(directory)?;
            let mut buckets = before.clone();
            keys += evict(group, &mut buckets, until, state)?;
            if buckets != before {
                write_directory(group, &buckets, state)?;
            }
        }
        Ok(keys)
    }

    /// Removes what has expired and lists what was added, which has not.
    pub(super) fn finish(&mut self, state: &mut dyn StateStore) -> Result<Evicted> {
        let mut evicted = Evicted { keys: self.over.write(state)?, records: 0 };
        let directories = state.get_many(&names(self.groups.groups().map(directory_name)))?;
        for (at, group) in self.groups.groups().enumerate() {
            let before = match directories.is_valid(at) {
                true => parse_directory(directories.value(at))?,
                false => Vec::new(),
            };
            let mut buckets = before.clone();
            if let Some(until) = self.evict.0 {
                evicted.keys += evict(group, &mut buckets, until, state)?;
            }
            let listed = std::mem::take(&mut self.listed[at]);
            self.append(group, &mut buckets, listed, state)?;
            if !buckets.is_empty() {
                let chunks: u64 = buckets.iter().map(|bucket| u64::from(bucket.chunks())).sum();
                evicted.records += 1 + chunks;
            }
            if buckets != before {
                write_directory(group, &buckets, state)?;
            }
        }
        Ok(evicted)
    }

    /// An empty bucket, used up as far as those that were there when keys were removed.
    fn bucket(&self, start: i64) -> Bucket {
        let mut bucket = Bucket::of(EventTime(start), self.exponent);
        if let Some(until) = self.evict.0
            && start <= until.0
        {
            bucket.until = until.0;
        }
        bucket
    }

    /// Appends entries to the lists of a group.
    fn append(
        &self,
        group: KeyGroup,
        buckets: &mut Vec<Bucket>,
        listed: BTreeMap<i64, Listed>,
        state: &mut dyn StateStore,
    ) -> Result<()> {
        if listed.is_empty() {
            return Ok(());
        }
        let find = |buckets: &[Bucket], start: i64| {
            buckets.binary_search_by_key(&(start, self.exponent), |b| (b.start, b.exponent))
        };
        for &start in listed.keys() {
            if let Err(at) = find(buckets, start) {
                buckets.insert(at, self.bucket(start));
            }
        }
        let places: Vec<usize> =
            listed.keys().filter_map(|&start| find(buckets, start).ok()).collect();
        let is_begun = |bucket: &Bucket| !bucket.count.is_multiple_of(CHUNK_KEYS);
        let begun = places.iter().map(|&at| &buckets[at]).filter(|bucket| is_begun(bucket));
        let begun = names(begun.map(|bucket| chunk_name(group, bucket, bucket.chunks() - 1)));
        let begun = state.get_many(&begun)?;
        let mut begun = begun.iter();
        let (mut chunk_names, mut chunks) = (Vec::new(), Vec::new());
        for (at, listed) in places.into_iter().zip(listed.into_values()) {
            let bucket = &mut buckets[at];
            let mut chunk = match is_begun(bucket) {
                true => begun.next().flatten().unwrap_or_default().to_vec(),
                false => Vec::new(),
            };
            let mut rest = listed.bytes.as_slice();
            while !rest.is_empty() {
                let entry = rest;
                take_entry(&mut rest)?;
                chunk.extend_from_slice(&entry[..entry.len() - rest.len()]);
                bucket.count += 1;
                if !is_begun(bucket) || rest.is_empty() {
                    chunk_names.push(chunk_name(group, bucket, bucket.chunks() - 1));
                    chunks.push(std::mem::take(&mut chunk));
                }
            }
        }
        state.put_many(&names(chunk_names), &names(chunks))
    }
}

fn write_directory(group: KeyGroup, buckets: &[Bucket], state: &mut dyn StateStore) -> Result<()> {
    let name = names([directory_name(group)]);
    match buckets.is_empty() {
        true => state.delete_many(&name),
        false => state.put_many(&name, &names([directory(buckets)])),
    }
}

/// Removes the keys that expire up to `until`, and the lists that are used up.
fn evict(
    group: KeyGroup,
    buckets: &mut Vec<Bucket>,
    until: EventTime,
    state: &mut dyn StateStore,
) -> Result<u64> {
    let mut removal = Removal::default();
    let mut used_up = Vec::new();
    for bucket in buckets.iter_mut().filter(|b| b.start <= until.0 && b.until < until.0) {
        let chunk_names: Vec<Vec<u8>> =
            (0..bucket.chunks()).map(|chunk| chunk_name(group, bucket, chunk)).collect();
        let mut left = 0;
        for chunk in state.get_many(&names(&chunk_names))?.iter() {
            let mut rest = chunk.unwrap_or_default();
            while !rest.is_empty() {
                let (offset, key) = take_entry(&mut rest)?;
                let expiry = bucket.start.saturating_add_unsigned(offset);
                if expiry > until.0 {
                    left += 1;
                } else if bucket.is_left(expiry) {
                    removal.push(group, key);
                }
            }
        }
        bucket.until = until.0;
        if left == 0 {
            bucket.count = 0;
            used_up.extend(chunk_names);
        }
    }
    buckets.retain(|bucket| bucket.count > 0);
    state.delete_many(&names(used_up))?;
    removal.write(state)
}
