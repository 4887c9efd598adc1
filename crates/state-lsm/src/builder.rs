//! Makes runs from entries in key order.

use crate::block::{Block, BlockBuilder, Kind, put_packed, put_plain};
use crate::budget::{Budget, Charge};
use crate::codec::common;
use crate::filter::Filter;
use crate::gone::Gone;
use crate::index::{BlockInfo, GroupStats, Index, RunIndex};
use crate::manifest::{RunMeta, middle};
use crate::settings::Settings;
use fluvial_core::{KeyGroup, KeyRange};
use std::sync::Arc;

/// Bounds of keys longer than this are cut: manifests stay small.
const BOUND_BYTES: usize = 64;

/// At or before every key from `low` on, and short.
fn lower_bound(mut low: Vec<u8>) -> Vec<u8> {
    low.truncate(BOUND_BYTES);
    low
}

/// At or behind every key up to `high`, and short.
fn upper_bound(high: Vec<u8>) -> Vec<u8> {
    if high.len() <= BOUND_BYTES {
        return high;
    }
    let KeyRange { end, .. } = KeyRange::prefix(&high[..BOUND_BYTES]);
    if end.is_empty() { high } else { end }
}

/// A run being made.
#[derive(Debug)]
pub(crate) struct RunBuilder {
    settings: Settings,
    block: BlockBuilder,
    data: Vec<u8>,
    index: Index,
    blocks: Vec<Block>,
    filter: Filter,
    entries: u64,
    /// Bytes that were taken away already.
    drained: u64,
    /// Bytes of `blocks`.
    kept: usize,
    groups: Vec<GroupStats>,
    deletes: u64,
    low: Vec<u8>,
    /// The last key of the last block.
    last: Vec<u8>,
    low_middle: Vec<u8>,
    high_middle: Vec<u8>,
    charge: Option<Charge>,
}

/// A run that is not stored yet.
#[derive(Debug)]
pub(crate) struct Built {
    /// All bytes of it, but for those that were drained.
    pub(crate) bytes: Vec<u8>,
    /// Its description, as if it began its object.
    pub(crate) meta: RunMeta,
    pub(crate) tail: RunIndex,
    pub(crate) filter: Filter,
    /// Its first blocks, or all.
    pub(crate) blocks: Vec<Block>,
    /// What of it is paid for until it is published.
    pub(crate) _charge: Option<Charge>,
}

impl RunBuilder {
    /// An empty run for so many entries at most.
    pub(crate) fn new(settings: &Settings, entries_max: usize) -> Self {
        Self {
            settings: settings.clone(),
            block: BlockBuilder::default(),
            data: Vec::new(),
            index: Index::open(),
            blocks: Vec::new(),
            filter: Filter::sized(entries_max, settings.filter_bits),
            entries: 0,
            drained: 0,
            kept: 0,
            groups: Vec::new(),
            deletes: 0,
            low: Vec::new(),
            last: Vec::new(),
            low_middle: Vec::new(),
            high_middle: Vec::new(),
            charge: None,
        }
    }

    /// The same, which takes the memory of what it makes from a budget.
    pub(crate) fn within(self, budget: &Arc<Budget>) -> Self {
        Self { charge: Some(budget.charge(self.filter.held())), ..self }
    }

    /// Adds an entry. Keys come in order, each once, and have groups.
    pub(crate) fn add(&mut self, key: &[u8], hash: u64, kind: Kind, value: &[u8]) {
        let middle = middle(key);
        if self.entries == 0 {
            self.low.extend_from_slice(key);
            self.low_middle.extend_from_slice(middle);
            self.high_middle.extend_from_slice(middle);
        } else if middle < self.low_middle.as_slice() {
            self.low_middle.clear();
            self.low_middle.extend_from_slice(middle);
        } else if middle > self.high_middle.as_slice() {
            self.high_middle.clear();
            self.high_middle.extend_from_slice(middle);
        }
        let group = KeyGroup::of(key).unwrap_or(KeyGroup(0));
        match self.groups.last_mut() {
            Some(stats) if stats.group == group => {
                stats.entries += 1;
                stats.delta += kind.delta();
            }
            _ => self.groups.push(GroupStats { group, entries: 1, delta: kind.delta() }),
        }
        self.deletes += u64::from(!kind.is_live());
        self.filter.insert(hash);
        self.entries += 1;
        self.block.add(key, kind, value);
        if self.block.weight() >= self.settings.block_bytes {
            self.end_block();
        }
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.data.len()
    }

    /// Takes the bytes that are finished, so that a large run need not fit in memory.
    pub(crate) fn drain(&mut self) -> Vec<u8> {
        self.drained += self.data.len() as u64;
        std::mem::take(&mut self.data)
    }

    fn end_block(&mut self) {
        let first = self.block.first();
        let length = match self.index.blocks() {
            0 => first.len(),
            _ => common(&self.last, first) + 1,
        };
        let separator = first[..length].to_vec();
        self.last.clear();
        self.last.extend_from_slice(self.block.last());
        let (entries, delta) = (self.block.entries(), self.block.delta());
        let block = self.block.finish();
        let start = self.data.len();
        put_packed(&mut self.data, block.bytes(), self.settings.compression);
        let stored = (self.data.len() - start) as u64;
        let plain = block.bytes().len() as u32;
        self.index.push(&separator, BlockInfo { stored, plain, entries, delta });
        // What would fill much of the memory need not stay there.
        if self.kept as u64 <= self.settings.memory_bytes / 8 {
            self.kept += block.held();
            self.blocks.push(block);
        }
        if let Some(charge) = &mut self.charge {
            let described = self.filter.held() + self.index.held();
            charge.resize(self.kept + self.data.capacity() + described);
            charge.budget().make_room();
        }
    }

    /// Ends the run, which says of `gone` that it is no more in older ones. `None` if it has
    /// nothing to say.
    pub(crate) fn finish(mut self, gone: Gone) -> Option<Built> {
        if self.block.entries() > 0 {
            self.end_block();
        }
        if self.index.blocks() == 0 && gone.is_empty() {
            return None;
        }
        let tail = RunIndex { index: self.index.close(), groups: self.groups, gone };
        let mut bytes = self.data;
        let (filter, drained) = (self.filter, self.drained);
        let data = drained + bytes.len() as u64;
        let plain = tail.encode();
        if let Some(charge) = &mut self.charge {
            // The index is there twice more, and the filter once.
            let described = 2 * filter.held() + tail.held() + 2 * plain.len();
            charge.resize(self.kept + bytes.capacity() + described);
            charge.budget().make_room();
        }
        put_packed(&mut bytes, &plain, self.settings.compression);
        let meta_plain = plain.len() as u64;
        let meta = drained + bytes.len() as u64 - data;
        drop(plain);
        bytes.reserve_exact(filter.held() + 5);
        put_plain(&mut bytes, |out| filter.put(out));
        let meta = RunMeta {
            offset: 0,
            data,
            meta,
            meta_plain,
            filter: drained + bytes.len() as u64 - data - meta,
            blocks: tail.index.blocks(),
            entries: self.entries,
            deletes: self.deletes,
            ranges: tail.gone.ranges().len() as u64,
            low: lower_bound(self.low),
            high: upper_bound(self.last),
            low_middle: self.low_middle,
            high_middle: self.high_middle,
        };
        Some(Built { bytes, meta, tail, filter, blocks: self.blocks, _charge: self.charge })
    }
}
