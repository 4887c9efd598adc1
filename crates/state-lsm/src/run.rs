//! A run in memory: its index and filter, and those of its blocks that are close.

use crate::block::{Block, unpack};
use crate::budget::{Budget, Charge, lock};
use crate::disk::DiskCache;
use crate::filter::Filter;
use crate::index::RunIndex;
use crate::manifest::RunMeta;
use crate::objects::{Objects, damaged, is_near};
use crate::token::ObjectName;
use bytes::Bytes;
use fluvial_core::{KeyRange, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What tells runs apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunKey {
    pub(crate) object: ObjectName,
    pub(crate) offset: u64,
}

/// A block that is paid for.
#[derive(Debug)]
pub(crate) struct HeldBlock {
    pub(crate) block: Block,
    _charge: Charge,
}

/// The place of a block in memory.
#[derive(Debug, Default)]
struct Slot {
    block: Mutex<Option<Arc<HeldBlock>>>,
    was_used: AtomicBool,
}

/// An immutable run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) key: RunKey,
    pub(crate) meta: RunMeta,
    pub(crate) tail: RunIndex,
    pub(crate) filter: Filter,
    slots: Box<[Slot]>,
    /// Blocks in memory.
    resident: AtomicU32,
    /// Handles that need all of it to stay.
    pins: AtomicUsize,
    budget: Arc<Budget>,
    _charge: Charge,
}

/// A block that is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unread;

impl Run {
    /// A run of which no block is in memory.
    pub(crate) fn new(
        key: RunKey,
        meta: RunMeta,
        tail: RunIndex,
        filter: Filter,
        budget: &Arc<Budget>,
    ) -> Self {
        let slots: Box<[Slot]> = (0..meta.blocks).map(|_| Slot::default()).collect();
        let held = tail.held() + filter.held() + slots.len() * size_of::<Slot>();
        let _charge = budget.charge(held + size_of::<Self>());
        let (resident, pins) = (AtomicU32::new(0), AtomicUsize::new(0));
        let budget = Arc::clone(budget);
        Self { key, meta, tail, filter, slots, resident, pins, budget, _charge }
    }

    /// Reads the index and the filter of a run.
    ///
    /// # Errors
    ///
    /// `NotFound` if its object is gone, `Corrupt` if it is damaged.
    pub(crate) async fn open(
        objects: &Objects,
        key: RunKey,
        meta: RunMeta,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let place = || format!("state in {}", key.object);
        let start = meta.offset + meta.data;
        let bytes = objects.read(&key.object, start..start + meta.meta + meta.filter).await?;
        let (packed, filter) = bytes.split_at(meta.meta as usize);
        let open = || -> Result<_> {
            let plain = usize::try_from(meta.meta_plain).unwrap_or(usize::MAX);
            let tail = RunIndex::decode(&unpack(packed, plain)?, meta.data)?;
            let filter = unpack(filter, filter.len().saturating_sub(5))?;
            if tail.index.blocks() != meta.blocks {
                return Err(damaged("the number of blocks is wrong"));
            }
            Ok((tail, Filter::open(&filter)?))
        };
        let (tail, filter) = open().map_err(|error| error.at(place()))?;
        Ok(Self::new(key, meta, tail, filter, budget))
    }

    /// These blocks, which are in order, by what is read at once.
    pub(crate) fn near(&self, blocks: impl IntoIterator<Item = u32>) -> Vec<Vec<u32>> {
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut read: Option<Range<u64>> = None;
        for block in blocks {
            let place = self.tail.index.place(block);
            match (groups.last_mut(), &mut read) {
                (Some(group), Some(read)) if is_near(read, &place) => {
                    group.push(block);
                    read.end = place.end;
                }
                _ => {
                    groups.push(vec![block]);
                    read = Some(place);
                }
            }
        }
        groups
    }

    /// Unpacks a block as it was stored.
    pub(crate) fn unpack(&self, block: u32, stored: &[u8]) -> Result<Block> {
        unpack(stored, self.tail.index.plain_bytes(block))
            .and_then(|bytes| Block::open(bytes.into_owned()))
            .map_err(|error| error.at(format_args!("state in {}", self.key.object)))
    }

    /// A block, if it is in memory.
    #[inline]
    pub(crate) fn block(&self, block: u32) -> Result<Arc<HeldBlock>, Unread> {
        let slot = &self.slots[block as usize];
        slot.was_used.store(true, Ordering::Relaxed);
        lock(&slot.block).clone().ok_or(Unread)
    }

    /// A block, if it is in memory, for who does not want it to stay there.
    pub(crate) fn peek(&self, block: u32) -> Result<Arc<HeldBlock>, Unread> {
        lock(&self.slots[block as usize].block).clone().ok_or(Unread)
    }

    /// A block outside of the cache.
    pub(crate) fn hold(&self, contents: Block) -> Arc<HeldBlock> {
        let charge = self.budget.charge(contents.held());
        Arc::new(HeldBlock { block: contents, _charge: charge })
    }

    /// Keeps a block in memory.
    pub(crate) fn keep(self: &Arc<Self>, block: u32, contents: Block) -> Arc<HeldBlock> {
        let held = self.hold(contents);
        let before = lock(&self.slots[block as usize].block).replace(Arc::clone(&held));
        if before.is_none() {
            self.resident.fetch_add(1, Ordering::SeqCst);
            self.budget.enter(self, block);
        }
        held
    }

    /// Drops a block unless somebody uses it or did so lately; whether it is gone.
    pub(crate) fn drop_block(&self, block: u32) -> bool {
        let slot = &self.slots[block as usize];
        if slot.was_used.swap(false, Ordering::Relaxed) {
            return false;
        }
        let mut place = lock(&slot.block);
        let Some(held) = place.as_ref() else { return true };
        // First the count and then the pins: who pins looks at the two in the other order.
        self.resident.fetch_sub(1, Ordering::SeqCst);
        if Arc::strong_count(held) > 1 || self.pins.load(Ordering::SeqCst) > 0 {
            self.resident.fetch_add(1, Ordering::SeqCst);
            return false;
        }
        *place = None;
        true
    }

    /// Makes all of it stay, if all of it is in memory.
    pub(crate) fn pin(self: &Arc<Self>) -> Option<WholeRun> {
        self.pins.fetch_add(1, Ordering::SeqCst);
        let whole = WholeRun(Arc::clone(self));
        (self.resident.load(Ordering::SeqCst) == self.meta.blocks).then_some(whole)
    }

    /// Bytes of blocks that are not in memory, as stored, if blocks are of one size.
    pub(crate) fn unread_bytes(&self) -> u64 {
        let blocks = u64::from(self.meta.blocks);
        let unread = blocks.saturating_sub(self.resident.load(Ordering::Relaxed).into());
        unread * (self.meta.data / blocks.max(1))
    }

    /// The blocks that are not in memory.
    pub(crate) fn unread(&self) -> Vec<u32> {
        if self.resident.load(Ordering::Relaxed) == self.meta.blocks {
            return Vec::new();
        }
        (0..self.meta.blocks)
            .filter(|block| lock(&self.slots[*block as usize].block).is_none())
            .collect()
    }

    /// Reads blocks, which are in order.
    ///
    /// # Errors
    ///
    /// `NotFound` if the object is gone, `Corrupt` if it is damaged.
    pub(crate) async fn read(
        &self,
        objects: &Objects,
        cache: Option<&DiskCache>,
        blocks: &[u32],
    ) -> Result<Vec<Block>> {
        let Some(cache) = cache else {
            let stored = self.read_stored(objects, blocks).await?;
            return blocks.iter().zip(stored).map(|(at, bytes)| self.unpack(*at, &bytes)).collect();
        };
        let places: Vec<_> = blocks.iter().map(|block| self.tail.index.place(*block)).collect();
        let cached = cache.read(&self.key, &places).into_iter().zip(blocks);
        let cached = cached.map(|(bytes, block)| self.unpack(*block, &bytes?).ok());
        let mut found: Vec<Option<Block>> = cached.collect();
        let missing: Vec<usize> = (0..blocks.len()).filter(|at| found[*at].is_none()).collect();
        if !missing.is_empty() {
            let asked: Vec<u32> = missing.iter().map(|at| blocks[*at]).collect();
            let stored = self.read_stored(objects, &asked).await?;
            for (at, bytes) in missing.iter().zip(&stored) {
                found[*at] = Some(self.unpack(blocks[*at], bytes)?);
            }
            let places = missing.iter().map(|at| places[*at].clone());
            cache.write(&self.key, places.zip(stored.iter().map(|bytes| bytes.as_ref())));
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads blocks as they are stored, past every cache.
    pub(crate) async fn read_stored(
        &self,
        objects: &Objects,
        blocks: &[u32],
    ) -> Result<Vec<Bytes>> {
        let ranges: Vec<_> = blocks
            .iter()
            .map(|block| {
                let place = self.tail.index.place(*block);
                self.meta.offset + place.start..self.meta.offset + place.end
            })
            .collect();
        objects.read_many(&self.key.object, &ranges).await
    }

    /// The blocks all of whose entries lie from `start` to `end`, or to the last one if that is
    /// empty, and those at both ends that may have others too. `until` is as in
    /// [`Index::blocks_between`](crate::index::Index::blocks_between).
    pub(crate) fn torn_blocks(
        &self,
        start: &[u8],
        end: &[u8],
        until: &mut u32,
    ) -> (Range<u32>, [Option<u32>; 2]) {
        let index = &self.tail.index;
        let mut whole = index.blocks_between(start, end, until);
        let mut torn = [None, None];
        if !whole.is_empty() && !index.begins_from(whole.start, start) {
            torn[0] = Some(whole.start);
            whole.start += 1;
        }
        if whole.is_empty() {
            return (whole, torn);
        }
        // The blocks end at one whose separator is at or behind the end.
        let is_whole = match whole.end < index.blocks() {
            true => index.is_separator(whole.end, end),
            false => end.is_empty() || self.meta.high.as_slice() < end,
        };
        if !is_whole {
            whole.end -= 1;
            torn[1] = Some(whole.end);
        }
        (whole, torn)
    }

    /// Whether it may have keys of `range`.
    pub(crate) fn may_touch(&self, range: &KeyRange) -> bool {
        self.meta.entries > 0
            && !range.is_empty()
            && range.start <= self.meta.high
            && (range.end.is_empty() || range.end > self.meta.low)
    }
}

/// A run all of whose blocks stay in memory.
#[derive(Debug)]
pub(crate) struct WholeRun(Arc<Run>);

impl Drop for WholeRun {
    fn drop(&mut self) {
        self.0.pins.fetch_sub(1, Ordering::SeqCst);
    }
}
