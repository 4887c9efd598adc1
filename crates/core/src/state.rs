//! Versioned keyed state, in whole columns.
//!
//! Keys begin with their key group (two bytes, big-endian) and compare as bytes. Values are
//! bytes. What they mean is the operator's business; `fluvial-state` has the codecs.

use crate::error::Result;
use crate::ids::{StateVersion, StoreId};
use crate::key_group::KeyGroupRange;
use crate::verify::{Verification, verify_by_reading};
use arrow::array::{Array, AsArray, BinaryArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The third byte of keys that are read one by one and never in order: a store may spare itself
/// the work of keeping them sorted until somebody scans them. A hint, not a law.
pub const POINT_KEYS: std::ops::RangeInclusive<u8> = 0x10..=0x1F;

/// A durable version of one store over one range of key groups.
///
/// `token` tells apart attempts that wrote the same version (retries, zombies); the commit of
/// the batch decides which attempt is the real one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Snapshot {
    /// The store.
    #[serde(flatten)]
    pub id: StoreId,
    /// The key groups it holds. All others are empty in it.
    pub groups: KeyGroupRange,
    /// The version.
    pub version: StateVersion,
    /// Keys in it, for reports.
    pub rows: u64,
    /// The backend's own reference: object, place in it, checksum, and what it builds on.
    pub token: String,
}

/// Keys and values of a scan, in key order; equally long.
#[derive(Debug, Clone)]
pub struct Entries {
    /// The keys.
    pub keys: BinaryArray,
    /// Their values.
    pub values: BinaryArray,
}

/// A range of keys, `start..end`; an empty `end` has no bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// First key.
    pub start: Vec<u8>,
    /// One past the last key, or empty for the end of the store.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self { start: Vec::new(), end: Vec::new() }
    }

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        Self { start: prefix.to_vec(), end }
    }

    /// What lies after `key` in this range: for going on with a bounded scan.
    #[must_use]
    pub fn after(&self, key: &[u8]) -> Self {
        let mut start = key.to_vec();
        start.push(0);
        Self { start, end: self.end.clone() }
    }

    /// Whether `key` lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && (self.end.is_empty() || key < self.end.as_slice())
    }

    /// What of it lies in these groups.
    #[must_use]
    pub fn within(&self, groups: KeyGroupRange) -> Self {
        let first = groups.start.to_be_bytes();
        let last = groups.end.max(groups.start).to_be_bytes();
        let start = self.start.as_slice().max(&first).to_vec();
        match self.end.as_slice() {
            own if !own.is_empty() && own < last.as_slice() => Self { start, end: own.to_vec() },
            _ => Self { start, end: last.to_vec() },
        }
    }

    /// Whether all of it lies in these groups.
    pub fn is_within(&self, groups: KeyGroupRange) -> bool {
        let (first, last) = (groups.start.to_be_bytes(), groups.end.to_be_bytes());
        let ends = !self.end.is_empty() && self.end.as_slice() <= last.as_slice();
        ends && self.start.as_slice() >= first.as_slice()
    }

    /// Whether no key can lie in it.
    pub fn is_empty(&self) -> bool {
        !self.end.is_empty() && self.start >= self.end
    }
}

/// What an operator is about to read, so that a lazy store can fetch it first.
#[derive(Debug, Clone)]
pub enum Prefetch {
    /// Nothing.
    Nothing,
    /// These keys.
    Keys(BinaryArray),
    /// Everything in these ranges.
    Ranges(Vec<KeyRange>),
    /// All of these.
    Each(Vec<Prefetch>),
}

/// How large an open store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreSize {
    /// Keys, with this handle's writes.
    pub rows: u64,
    /// Bytes of memory held for it, roughly.
    pub memory_bytes: u64,
}

/// One version being turned into the next. Reads see this handle's own writes.
///
/// Reads and writes are synchronous by design: an opened version is local, or `prefetch` has
/// brought what is needed, so inner loops never wait.
///
/// # Laws
///
/// 1. *Read your writes.* Reads see every write made through this handle; the last one wins,
///    also within one call.
/// 2. *Order.* `scan` yields keys in byte order, each once, and never more than `limit`; `scan_ranges`
///    yields those of one range after the other; `scan_back` yields them from the last one on.
/// 3. *Drop aborts.* Dropping the handle has no effect that anyone can see.
/// 4. *Isolation.* A handle never sees another handle's writes.
/// 5. *Its groups only.* No key outside the handle's key groups is ever returned; writing one
///    is a programmer's error and panics.
/// 6. *Unchanged is free.* Sealing a handle without writes, opened from one snapshot of exactly
///    its range, gives that snapshot's contents again without new bytes.
/// 7. *First comes, first stays.* `put_absent` writes the first value of each key that has none,
///    and changes no other.
/// 8. *Taken is gone.* `take_many` returns what `get_many` would and removes it.
/// 9. *New is new.* If `get_new_many` returns anything, it is what `get_many` would for keys that
///    the opened version does not have, whatever was written and removed since, and null for others.
#[async_trait]
pub trait StateStore: Send {
    /// The version this handle was opened at.
    fn base(&self) -> StateVersion;

    /// The key groups it covers.
    fn groups(&self) -> KeyGroupRange;

    /// Whether all of it is close already, so that nobody need work out what to prefetch.
    fn is_local(&self) -> bool {
        false
    }

    /// Brings what is about to be read close. A store that is local already does nothing.
    async fn prefetch(&mut self, what: &Prefetch) -> Result<()>;

    /// The values of `keys`, in their order; null where there is none.
    fn get_many(&self, keys: &BinaryArray) -> Result<BinaryArray>;

    /// The first `limit` entries of `range`. Fewer than `limit` means that there are no more.
    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries>;

    /// The first `limit` entries of `ranges`, which are in order and do not overlap, as
    /// [`Self::scan`] of each in turn would give them. A store that can do so at once should.
    fn scan_ranges(&self, ranges: &[KeyRange], limit: usize) -> Result<Entries> {
        let (mut keys, mut values, mut left) = (Vec::new(), Vec::new(), limit);
        for range in ranges {
            if left == 0 {
                break;
            }
            let entries = self.scan(range, left)?;
            left -= entries.keys.len();
            keys.push(entries.keys);
            values.push(entries.values);
        }
        let join = |parts: &[BinaryArray]| -> Result<BinaryArray> {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part as &dyn Array).collect();
            match parts.as_slice() {
                [] => Ok(BinaryArray::new_null(0)),
                parts => Ok(concat(parts)?.as_binary().clone()),
            }
        };
        Ok(Entries { keys: join(&keys)?, values: join(&values)? })
    }

    /// The last `limit` entries of `range`, the last one first. Fewer than `limit` means that there
    /// are no more. A store that can begin at the end should.
    fn scan_back(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        let Entries { keys, values } = self.scan(range, usize::MAX)?;
        let turned = |column: &BinaryArray| column.iter().rev().take(limit).collect();
        Ok(Entries { keys: turned(&keys), values: turned(&values) })
    }

    /// Writes `values[i]` under `keys[i]`. Neither may be null.
    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()>;

    /// Writes `values[i]` under `keys[i]` unless there is a value, written earlier in this call or
    /// before. Neither may be null. Says of each whether it was written. A store that can look and
    /// write at once should.
    fn put_absent(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<BooleanBuffer> {
        assert_eq!(keys.len(), values.len(), "every state key needs a value");
        let found = self.get_many(keys)?;
        let mut seen = BTreeSet::new();
        let absent = BooleanBuffer::collect_bool(keys.len(), |i| {
            found.is_null(i) && seen.insert(keys.value(i))
        });
        let mask = BooleanArray::new(absent.clone(), None);
        let (keys, values) = (filter(keys, &mask)?, filter(values, &mask)?);
        self.put_many(keys.as_binary(), values.as_binary())?;
        Ok(absent)
    }

    /// The values of those of `keys` that have one now and had none in the version that was opened;
    /// null for all others. `None` from a store that does not keep its writes apart. One that is
    /// local should: operators then may write the rows of a batch as they come.
    fn get_new_many(&self, keys: &BinaryArray) -> Result<Option<BinaryArray>> {
        let _ = keys;
        Ok(None)
    }

    /// Removes keys; absent ones are fine.
    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()>;

    /// Removes keys, each named once, and returns their values, in their order; null where there
    /// is none. A store that can look and remove at once should.
    fn take_many(&mut self, keys: &BinaryArray) -> Result<BinaryArray> {
        let found = self.get_many(keys)?;
        self.delete_many(keys)?;
        Ok(found)
    }

    /// Removes every key of `range`; returns how many there were.
    fn delete_range(&mut self, range: &KeyRange) -> Result<u64>;

    /// Removes every key of each of `ranges`; returns how many there were. What a window leaves
    /// behind is a range in every key group: a store that can remove them at once should.
    fn delete_ranges(&mut self, ranges: &[KeyRange]) -> Result<u64> {
        ranges.iter().try_fold(0, |sum, range| Ok(sum + self.delete_range(range)?))
    }

    /// How large it is now.
    fn size(&self) -> StoreSize;

    /// Ends writing. The result goes to [`StateBackend::commit`]; nothing is durable yet.
    fn seal(self: Box<Self>) -> Result<SealedStore>;
}

/// A store whose writes are done, on its way to [`StateBackend::commit`].
#[derive(Debug)]
pub struct SealedStore {
    /// The store.
    pub id: StoreId,
    /// The key groups.
    pub groups: KeyGroupRange,
    /// The version it was opened at; the commit gives the next one.
    pub base: StateVersion,
    /// Keys in it.
    pub rows: u64,
    /// The backend's own data.
    pub change: Change,
}

/// What a sealed store changed.
#[derive(Debug)]
pub enum Change {
    /// Nothing: the token of the snapshot it was opened from stays valid.
    None(String),
    /// `bytes` must be stored; `parents` is the backend's own list of what they build on.
    Bytes {
        /// What to store.
        bytes: Bytes,
        /// What they build on, in the backend's own form.
        parents: String,
    },
}

/// Opens stores by version and makes versions durable.
///
/// # Laws
///
/// 1. *Exact.* `open(id, range, snapshots)` shows exactly the union of the snapshots restricted
///    to `range`, in this process or any later one. That is how the number of partitions may
///    change: the snapshots may be cut in any way, as long as they cover `range`.
/// 2. *Genesis.* Opening with no snapshots gives the empty version 0.
/// 3. *Atomic.* A crash during `commit` leaves every earlier snapshot intact and usable.
/// 4. *Replayable.* Committing the same writes over the same base twice gives snapshots with
///    equal contents; both stay usable.
/// 5. *Retention.* `retain(live)` deletes only what no snapshot in `live` needs and what is
///    older than the oldest of them; snapshots newer than that may be attempts in flight, made
///    from a live one or from one another.
/// 6. *Damage is found.* Any cut or flipped byte of any object makes `open` fail with `Corrupt`
///    (or the reads after it, for a lazy store), never with other contents.
/// 7. *Gone is said.* Opening a snapshot whose objects are gone is `NotFound`.
/// 8. *Verified is readable.* `verify` tells of damage if opening one of the snapshots and reading
///    all of it would find some, and of none if all are whole.
#[async_trait]
pub trait StateBackend: Send + Sync {
    /// Its format's name, recorded in the checkpoint: `memory`, `lsm`.
    fn format(&self) -> &str;

    /// Opens `groups` of a store for writing the version after `version`. `snapshots` are all
    /// elected snapshots of that version, empty for version 0.
    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>>;

    /// Makes the stores of one batch durable, in as few objects as the backend can.
    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>>;

    /// Deletes what none of `live` can need. `live` is every snapshot of every retained commit.
    async fn retain(&self, live: &[Snapshot]) -> Result<()>;

    /// Reads and checks what `snapshots` need, whatever is in memory or in a cache, and goes on
    /// after damage. A backend that can say which bytes are damaged should.
    async fn verify(&self, snapshots: &[Snapshot], report: &dyn Verification) -> Result<()> {
        verify_by_reading(self, snapshots, report).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ranges_end_where_the_prefix_ends() {
        assert_eq!(KeyRange::prefix(&[1, 255]).end, vec![2]);
        assert_eq!(KeyRange::prefix(&[255, 255]).end, Vec::<u8>::new());
        let range = KeyRange::prefix(b"ab");
        assert!(range.contains(b"ab") && range.contains(b"ab\xFF\xFF") && !range.contains(b"ac"));
        assert!(range.after(b"ab").contains(b"ab\0") && !range.after(b"ab").contains(b"ab"));
    }
}
