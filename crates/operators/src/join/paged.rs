//! `Paged`: the stored rows of a side that lie in pages, in one batch.
//!
//! A row is stored with those that come with it, is looked at by the rows that come within its
//! reach, as bytes, and leaves with its block. What it costs besides is a share of a page.

mod find;
mod write;

pub(super) use find::Search;

use super::arrived::rows_of;
use super::distinct::Distinct;
use super::keys::{Bytes, ledger_key, page_key};
use super::kind::Side;
use super::ledger::{BITS_MAX, BLOCKS, Block, Ledger, stretch};
use super::matching::Candidates;
use super::{Config, JoinEviction};
use arrow::array::{Array, AsArray, BinaryArray, TimestampMicrosecondArray};
use arrow::datatypes::TimestampMicrosecondType;
use fluvial_core::{BatchInfo, KeyGroup, KeyGroupRange, Result, StateStore};
use std::ops::Range;

/// The stretch of rows without a time: no other has this number.
const TIMELESS: i64 = i64::MIN;

/// All pages of a block are looked at if there are so many rows for each.
const ROWS_FOR_ALL: usize = 4;

/// A page to be looked at.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its group, from the first of the partition.
    group: usize,
    /// Its block, by position.
    block: usize,
    page: usize,
}

/// A block that will be written.
#[derive(Debug)]
struct Coming {
    group: usize,
    bits: Option<u8>,
    /// Which of the sorted rows it has.
    rows: Range<usize>,
    /// The blocks that it takes in, by position.
    merged: Vec<usize>,
}

/// One side that lies in pages.
#[derive(Debug)]
pub(super) struct Paged {
    side: Side,
    first: u16,
    /// Of each group.
    ledgers: Vec<Ledger>,
    /// The time up to which rows leave.
    until: Option<i64>,
    wanted: Vec<Place>,
    coming: Vec<Coming>,
    /// The new rows that will wait: stretch, tag and row, sorted within their group.
    rows: Vec<(i64, u32, u32)>,
}

/// The keys of all ledgers of a side.
pub(super) fn ledger_keys(side: Side, groups: KeyGroupRange) -> Result<BinaryArray> {
    let mut keys = Bytes::default();
    for group in groups.groups() {
        ledger_key(keys.open(), group, side);
        keys.end()?;
    }
    Ok(keys.take())
}

impl Paged {
    /// Reads the ledgers of a side.
    pub(super) fn read(
        config: &Config,
        info: &BatchInfo,
        side: Side,
        state: &dyn StateStore,
    ) -> Result<Self> {
        let found = state.get_many(&ledger_keys(side, info.groups)?)?;
        let ledger = |ledger: Option<&[u8]>| ledger.map_or(Ok(Ledger::default()), Ledger::read);
        Ok(Self {
            side,
            first: info.groups.start,
            ledgers: found.iter().map(ledger).collect::<Result<_>>()?,
            until: config.side(side).eviction.threshold(info.evict).map(|until| until.0),
            wanted: Vec::new(),
            coming: Vec::new(),
            rows: Vec::new(),
        })
    }

    fn group(&self, at: usize) -> KeyGroup {
        KeyGroup(self.first + at as u16)
    }

    /// Finds out which pages must be looked at for the rows of the other side that came.
    pub(super) fn want(&mut self, config: &Config, keys: &Distinct, other: &Candidates) {
        let reach = Reach::new(config, self.side, other);
        for (group, ledger) in self.ledgers.iter().enumerate() {
            let rows = rows_of(&other.starts, group);
            if rows.is_empty() || ledger.blocks.is_empty() {
                continue;
            }
            let window = match &reach {
                None => None,
                Some(reach) => match reach.of(rows.clone()) {
                    None => continue,
                    window => window,
                },
            };
            let blocks = ledger.blocks.iter().enumerate();
            for (block, blocks) in blocks.filter(|(_, block)| block.may_have(window)) {
                let pages = pages_for(blocks, &other.numbers[rows.clone()], keys);
                self.wanted.extend(pages.map(|page| Place { group, block, page }));
            }
        }
    }

    /// Finds out what the new rows of this side will be written with.
    pub(super) fn expect(&mut self, config: &Config, keys: &Distinct, own: &Candidates) {
        let times = own.times_of(config, self.side);
        let span = config.range.and_then(|range| Some((range.lower?, range.upper?)));
        let span = span.map(|(lower, upper)| upper.0.saturating_sub(lower.0));
        for group in 0..self.ledgers.len() {
            let time = |row: usize| {
                let times = times.as_ref()?;
                times.is_valid(row).then(|| times.value(row))
            };
            let waits = |row: &usize| {
                time(*row).is_none_or(|time| self.until.is_none_or(|until| time > until))
            };
            let rows: Vec<usize> = rows_of(&own.starts, group).filter(waits).collect();
            if rows.is_empty() {
                continue;
            }
            let ledger = &self.ledgers[group];
            let mut bits = stretch(span, ledger.blocks.len());
            let start = self.rows.len();
            let sorted = loop {
                self.rows.extend(rows.iter().map(|row| {
                    let tag = keys.tag(own.numbers[*row] as usize);
                    (time(*row).map_or(TIMELESS, |time| time >> bits), tag, *row as u32)
                }));
                self.rows[start..].sort_unstable();
                let stretches = self.rows[start..].chunk_by(|a, b| a.0 == b.0).count();
                if bits == BITS_MAX || stretches <= BLOCKS {
                    break &self.rows[start..];
                }
                self.rows.truncate(start);
                bits = (bits + 2).min(BITS_MAX);
            };
            let mut end = start;
            for rows in sorted.chunk_by(|a, b| a.0 == b.0) {
                let from = end;
                end += rows.len();
                let bits = (rows[0].0 != TIMELESS).then_some(bits);
                let near = time(rows[0].2 as usize).unwrap_or_default();
                let merged = ledger.to_merge(bits, near, rows.len() as u32, self.until);
                self.coming.push(Coming { group, bits, rows: from..end, merged });
            }
        }
    }

    /// The keys of all that will be read.
    pub(super) fn reads(&self) -> Result<Vec<BinaryArray>> {
        let mut keys = Bytes::default();
        for place in &self.wanted {
            self.put_place(&mut keys, *place)?;
        }
        for coming in &self.coming {
            for at in &coming.merged {
                let block = &self.ledgers[coming.group].blocks[*at];
                self.put_block(&mut keys, coming.group, block)?;
            }
        }
        for (group, ledger) in self.ledgers.iter().enumerate() {
            for block in ledger.blocks.iter().filter(|block| block.is_cut(self.until)) {
                page_key(keys.open(), self.group(group), self.side, block.number, 0);
                keys.end()?;
            }
        }
        Ok(vec![keys.take()])
    }

    fn put_place(&self, keys: &mut Bytes, place: Place) -> Result<()> {
        let block = &self.ledgers[place.group].blocks[place.block];
        let (group, page) = (self.group(place.group), place.page + 1);
        page_key(keys.open(), group, self.side, block.number, page);
        keys.end()
    }

    /// The keys of a block: that of its times, if it has any, then those of its pages.
    fn put_block(&self, keys: &mut Bytes, group: usize, block: &Block) -> Result<()> {
        let first = usize::from(block.bits.is_none());
        for page in first..=block.tags.len() {
            page_key(keys.open(), self.group(group), self.side, block.number, page);
            keys.end()?;
        }
        Ok(())
    }
}

/// The pages of a block that rows of these keys may match.
fn pages_for(
    block: &Block,
    numbers: &[u32],
    keys: &Distinct,
) -> impl Iterator<Item = usize> + use<> {
    let pages = block.tags.len();
    let mut wanted = vec![numbers.len() >= ROWS_FOR_ALL * pages; pages];
    if numbers.len() < ROWS_FOR_ALL * pages {
        for number in numbers.iter().map(|number| *number as usize) {
            if keys.joins(number) {
                wanted[block.pages(keys.tag(number))].fill(true);
            }
        }
    }
    wanted.into_iter().enumerate().filter_map(|(page, wanted)| wanted.then_some(page))
}

/// What the times of new rows say of the times of stored ones that may match them.
struct Reach {
    times: TimestampMicrosecondArray,
    back: Option<i64>,
    ahead: Option<i64>,
}

impl Reach {
    /// `None` if they say nothing.
    fn new(config: &Config, side: Side, other: &Candidates) -> Option<Self> {
        let range = config.range?;
        let (own, theirs) = match side {
            Side::Left => (range.left, range.right),
            Side::Right => (range.right, range.left),
        };
        match config.side(side).eviction {
            JoinEviction::Time { column, .. } if column == own => {}
            _ => return None,
        }
        let (lower, upper) = (range.lower.map(|by| by.0), range.upper.map(|by| by.0));
        let (back, ahead) = match side {
            Side::Left => (upper.map(i64::saturating_neg), lower.map(i64::saturating_neg)),
            Side::Right => (lower, upper),
        };
        let times = other.columns.get(theirs)?;
        let times = times.as_primitive_opt::<TimestampMicrosecondType>()?.clone();
        Some(Self { times, back, ahead })
    }

    /// The times that some of these rows may match; `None` if they match nothing.
    fn of(&self, rows: Range<usize>) -> Option<(i64, i64)> {
        let times = rows.filter(|row| self.times.is_valid(*row)).map(|row| self.times.value(row));
        let (first, last) = times
            .fold((i64::MAX, i64::MIN), |(first, last), time| (first.min(time), last.max(time)));
        (first <= last).then(|| {
            let from = self.back.map_or(i64::MIN, |by| first.saturating_add(by));
            (from, self.ahead.map_or(i64::MAX, |by| last.saturating_add(by)))
        })
    }
}
