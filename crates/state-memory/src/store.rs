//! An open store.

use crate::budget::Taken;
use crate::cache::Cache;
use crate::frame::{FrameWriter, Kind, frame};
use crate::overlay::Overlay;
use crate::pack::Sealed;
use crate::settings::Settings;
use crate::table::Table;
use crate::token::Token;
use arrow::array::{Array, BinaryArray};
use arrow::buffer::BooleanBuffer;
use async_trait::async_trait;
use fluvial_core::{
    Change, Entries, KeyGroup, KeyGroupRange, KeyRange, Prefetch, Result, SealedStore, StateStore,
    StateVersion, StoreId, StoreSize,
};
use fluvial_state::Column;
use std::sync::Arc;

/// A chain of a full frame and deltas may be so many times as long as a full frame would be now:
/// the most that a restart reads, and with what a commit writes anew it is the other side of a
/// scale.
const CHAIN_MAX: u128 = 3;

/// Shorter chains are not worth ending, in bytes.
const CHAIN_MIN: u128 = 4 << 10;

/// What a version was made from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// One snapshot of exactly the store's key groups: a delta can build on it.
    Exact(Token),
    /// Parts of snapshots, after the number of partitions changed: the next one is full.
    Parts,
}

/// One version in memory, being turned into the next.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    pub(crate) id: StoreId,
    pub(crate) groups: KeyGroupRange,
    pub(crate) version: StateVersion,
    pub(crate) base: Arc<Table>,
    /// The name of `base` in memory.
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) overlay: Overlay,
    pub(crate) settings: Settings,
    /// Where the writes wait for their election.
    pub(crate) cache: Arc<Cache>,
    /// What the writes take of the budget.
    pub(crate) taken: Taken,
}

impl MemoryStore {
    fn assert_own(&self, keys: &BinaryArray) {
        for key in keys {
            let key = key.expect("a state key is not null");
            assert!(
                KeyGroup::of(key).is_some_and(|group| self.groups.contains(group)),
                "a key outside of groups {} was written to {}",
                self.groups,
                self.id
            );
        }
    }

    /// Takes what the writes hold now from the budget.
    fn take(&mut self) -> Result<()> {
        let overlay = &self.overlay;
        self.taken.set(|| overlay.held());
        self.taken.check(&self.id)
    }

    /// The frame to store, and the frames before it. Everything is written when there is nothing
    /// to build on, or when what would have to be read to open it is much more than that.
    fn frame(&self) -> (Vec<u8>, Token) {
        let compression = self.settings.compression;
        if let Origin::Exact(before) = &self.origin
            && let Some((_, deltas)) = before.0.split_first()
            && deltas.len() < self.settings.deltas_max
        {
            let write = |out: &mut FrameWriter| self.overlay.write_delta(out);
            let delta = frame(Kind::Delta, compression, write);
            let length = delta.bytes.len() as u64;
            let chain = before.0.iter().map(|frame| frame.length).sum::<u64>() + length;
            // What everything would take, if it is compressed as well as what changed.
            let plain = u128::from(delta.plain.max(1));
            let all = self.overlay.bytes(&self.base) as u128 * u128::from(length) / plain;
            if u128::from(chain) <= CHAIN_MIN.max(all * CHAIN_MAX) {
                return (delta.bytes, before.clone());
            }
        }
        let write = |out: &mut FrameWriter| self.overlay.write_full(&self.base, out);
        (frame(Kind::Full, compression, write).bytes, Token::default())
    }
}

fn column(values: &[Option<&[u8]>]) -> Result<BinaryArray> {
    let bytes = values.iter().flatten().map(|value| value.len()).sum();
    let mut column = Column::new(values.len(), bytes);
    for value in values {
        column.push(*value)?;
    }
    Ok(column.finish())
}

#[async_trait]
impl StateStore for MemoryStore {
    fn base(&self) -> StateVersion {
        self.version
    }

    fn groups(&self) -> KeyGroupRange {
        self.groups
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn prefetch(&mut self, _: &Prefetch) -> Result<()> {
        Ok(())
    }

    fn get_many(&self, keys: &BinaryArray) -> Result<BinaryArray> {
        assert_eq!(keys.null_count(), 0, "a state key is not null");
        column(&self.overlay.get_many(&self.base, keys))
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        self.scan_ranges(std::slice::from_ref(range), limit)
    }

    fn scan_ranges(&self, ranges: &[KeyRange], limit: usize) -> Result<Entries> {
        let (mut keys, mut values) = (Column::new(0, 0), Column::new(0, 0));
        let (mut left, mut full) = (limit, Ok(()));
        for range in ranges.iter().map(|range| range.within(self.groups)) {
            let mut found = 0;
            self.overlay.scan(&self.base, &range, left, |key, value| {
                found += 1;
                if full.is_ok() {
                    full = keys.push(Some(key)).and_then(|()| values.push(Some(value)));
                }
            });
            left -= found;
        }
        full?;
        Ok(Entries { keys: keys.finish(), values: values.finish() })
    }

    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        assert_eq!(keys.len(), values.len(), "every state key needs a value");
        assert_eq!(values.null_count(), 0, "a state value is not null");
        self.assert_own(keys);
        self.overlay.put_many(&self.base, keys, values);
        self.take()
    }

    fn put_absent(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<BooleanBuffer> {
        assert_eq!(keys.len(), values.len(), "every state key needs a value");
        assert!(values.null_count() == 0, "a state value is not null");
        self.assert_own(keys);
        let written = self.overlay.put_absent(&self.base, keys, values);
        self.take()?;
        Ok(BooleanBuffer::from(written))
    }

    fn get_new_many(&self, keys: &BinaryArray) -> Result<Option<BinaryArray>> {
        column(&self.overlay.get_new_many(&self.base, keys)).map(Some)
    }

    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        self.assert_own(keys);
        self.overlay.delete_many(&self.base, keys);
        self.take()
    }

    fn take_many(&mut self, keys: &BinaryArray) -> Result<BinaryArray> {
        self.assert_own(keys);
        let (mut bytes, mut places) = (Vec::new(), vec![None; keys.len()]);
        self.overlay.take_many(&self.base, keys, |at, value| {
            places[at] = Some((bytes.len(), value.len()));
            bytes.extend_from_slice(value);
        });
        self.take()?;
        let mut found = Column::new(keys.len(), bytes.len());
        for place in places {
            found.push(place.map(|(start, length)| &bytes[start..start + length]))?;
        }
        Ok(found.finish())
    }

    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        let removed = self.overlay.delete_range(&self.base, &range.within(self.groups));
        // Less is held than before, whatever others hold.
        let overlay = &self.overlay;
        self.taken.set(|| overlay.held());
        Ok(removed)
    }

    fn size(&self) -> StoreSize {
        let memory_bytes = (self.base.held() + self.overlay.held()) as u64;
        StoreSize { rows: self.overlay.rows(), memory_bytes }
    }

    fn seal(self: Box<Self>) -> Result<SealedStore> {
        let rows = self.overlay.rows();
        let change = match &self.origin {
            Origin::Exact(token) if self.overlay.is_unchanged() => Change::None(token.to_string()),
            _ if rows == 0 => Change::None(Token::default().to_string()),
            _ => {
                let (frame, before) = self.frame();
                let ticket = self.cache.seal(&self.id, self.groups, self.name, self.overlay);
                Sealed { ticket, before, frame: frame.into() }.into_change()
            }
        };
        let (id, groups, base) = (self.id, self.groups, self.version);
        Ok(SealedStore { id, groups, base, rows, change })
    }
}
