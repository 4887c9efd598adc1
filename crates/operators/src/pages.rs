//! Pages: rows of key groups that are found by a tag and leave by time, in silence.
//!
//! A row is stored with those that come with it, is looked at as bytes, and leaves with its block.
//! What it costs besides is a share of a page. Of each group there are, in a [`Space`] of a store:
//!
//! | key | value |
//! |---|---|
//! | `[group][ledger]` | what blocks there are, see [`ledger`] |
//! | `[group][pages][block][page]` | a page of rows, see [`page`]; as page 0, the times of a block |

mod ledger;
mod look;
mod page;
mod write;

pub(crate) use ledger::Ledger;
pub(crate) use look::Hits;
pub(crate) use page::{read, read_times};
pub(crate) use write::NewRows;

use crate::entries::Bytes;
use arrow::array::BinaryArray;
use fluvial_core::{KeyGroup, KeyGroupRange, KeyRange, Result, StateStore};
use ledger::{BITS_MAX, BLOCKS, Block, stretch};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The stretch of rows without a time: no other has this number.
const TIMELESS: i64 = i64::MIN;

/// All pages of a block are looked at if there are so many rows for each.
const ROWS_FOR_ALL: usize = 4;

/// Bytes of the key group that stand in front of a key.
const GROUP_BYTES: usize = 2;

/// Half of the hash of a key: what stored rows are found by. Stored, so it stays what it is.
pub(crate) fn tag_of(key: &[u8]) -> u32 {
    (xxh3_64(key) >> 32) as u32
}

/// Where pages lie among the keys of a store: what follows the key group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) ledger: u8,
    pub(crate) pages: u8,
}

/// What is stored under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Ledger,
    /// The times of this block.
    Times(u64),
    /// A page of this block.
    Page(u64),
}

impl Space {
    fn ledger_key(self, out: &mut Vec<u8>, group: KeyGroup) {
        out.extend_from_slice(&group.prefix());
        out.push(self.ledger);
    }

    /// The key of a page of a block; page 0 is the times of its rows.
    fn page_key(self, out: &mut Vec<u8>, group: KeyGroup, block: u64, page: usize) {
        out.extend_from_slice(&group.prefix());
        out.push(self.pages);
        out.extend_from_slice(&block.to_be_bytes());
        out.extend_from_slice(&(page as u32).to_be_bytes());
    }

    /// What is stored under a key, if that is of this space.
    pub(crate) fn parse(self, key: &[u8]) -> Option<Stored> {
        let (space, rest) = key.get(GROUP_BYTES..)?.split_first()?;
        if *space == self.ledger {
            return Some(Stored::Ledger);
        }
        let (block, page) = rest.split_first_chunk::<8>().filter(|_| *space == self.pages)?;
        let block = u64::from_be_bytes(*block);
        Some(if page == [0; 4] { Stored::Times(block) } else { Stored::Page(block) })
    }

    /// Where the rows of a group lie: the ledger before the pages that it tells of, if the space is
    /// in that order.
    pub(crate) fn ranges(self, group: KeyGroup) -> [KeyRange; 2] {
        let [high, low] = group.prefix();
        [self.ledger, self.pages].map(|space| KeyRange::prefix(&[high, low, space]))
    }

    /// The keys of all ledgers of a partition.
    pub(crate) fn ledger_keys(self, groups: KeyGroupRange) -> Result<BinaryArray> {
        let mut keys = Bytes::default();
        for group in groups.groups() {
            self.ledger_key(keys.open(), group);
            keys.end()?;
        }
        Ok(keys.take())
    }
}

/// A row that comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) time: Option<i64>,
    pub(crate) tag: u32,
    /// Its number among those that come.
    pub(crate) row: u32,
}

/// A page to be looked at, or the times of a block.
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

/// The pages of one partition in one batch.
#[derive(Debug)]
pub(crate) struct Pages {
    space: Space,
    first: u16,
    /// Of each group.
    ledgers: Vec<Ledger>,
    /// The time up to which rows leave.
    until: Option<i64>,
    /// Whether pages that are written say where they stand.
    placed: bool,
    wanted: Vec<Place>,
    coming: Vec<Coming>,
    /// The new rows that will wait: stretch, tag and row, sorted within their group.
    rows: Vec<(i64, u32, u32)>,
}

impl Pages {
    /// Reads the ledgers. Rows with a time of `until` or before will leave.
    pub(crate) fn read(
        space: Space,
        groups: KeyGroupRange,
        until: Option<i64>,
        state: &dyn StateStore,
    ) -> Result<Self> {
        let found = state.get_many(&space.ledger_keys(groups)?)?;
        let ledger = |ledger: Option<&[u8]>| ledger.map_or(Ok(Ledger::default()), Ledger::read);
        Ok(Self {
            space,
            first: groups.start,
            ledgers: found.iter().map(ledger).collect::<Result<_>>()?,
            until,
            placed: false,
            wanted: Vec::new(),
            coming: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// Pages that are written say where in their block they stand.
    pub(crate) fn placed(self) -> Self {
        Self { placed: true, ..self }
    }

    /// How many groups there are.
    pub(crate) fn groups(&self) -> usize {
        self.ledgers.len()
    }

    fn group(&self, at: usize) -> KeyGroup {
        KeyGroup(self.first + at as u16)
    }

    /// Whether nothing of a group is stored.
    pub(crate) fn is_empty(&self, group: usize) -> bool {
        self.ledgers[group].blocks.is_empty()
    }

    /// Notes the pages of a group in which rows of these tags may be, with a time of `window`;
    /// without one, any time and none.
    pub(crate) fn want(
        &mut self,
        group: usize,
        window: Option<(i64, i64)>,
        tags: impl Iterator<Item = u32> + Clone,
    ) {
        let ledger = &self.ledgers[group];
        for (at, block) in ledger.blocks.iter().enumerate().filter(|(_, b)| b.may_have(window)) {
            let pages = pages_for(block, tags.clone());
            self.wanted.extend(pages.map(|page| Place { group, block: at, page: page + 1 }));
        }
    }

    /// As [`Self::want`], of rows with a time after `after` that have not left. Where others are in
    /// the same block its times are read too: pages must be [`Pages::placed`].
    pub(crate) fn want_after(
        &mut self,
        group: usize,
        after: Option<i64>,
        tags: impl Iterator<Item = u32> + Clone,
    ) {
        let ledger = &self.ledgers[group];
        for (at, block) in ledger.blocks.iter().enumerate() {
            let after = after.max(block.left_until());
            if block.is_over(after) {
                continue;
            }
            let place = |page| Place { group, block: at, page };
            let before = self.wanted.len();
            if after.is_some_and(|after| block.first <= after) {
                self.wanted.push(place(0));
            }
            let wanted = self.wanted.len();
            self.wanted.extend(pages_for(block, tags.clone()).map(|page| place(page + 1)));
            if self.wanted.len() == wanted {
                self.wanted.truncate(before);
            }
        }
    }

    /// Finds out what new rows of a group, which comes after those before, will be written with.
    /// Rows that are `span` apart at most are looked for by one another.
    pub(crate) fn expect(&mut self, group: usize, span: Option<i64>, rows: &[Row]) {
        let until = self.until;
        let waits = |row: &&Row| row.time.is_none_or(|time| until.is_none_or(|until| time > until));
        let rows = rows.iter().filter(waits);
        let ledger = &self.ledgers[group];
        let mut bits = stretch(span, ledger.blocks.len());
        let start = self.rows.len();
        let sorted = loop {
            self.rows.extend(
                rows.clone()
                    .map(|row| (row.time.map_or(TIMELESS, |time| time >> bits), row.tag, row.row)),
            );
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
            // Any time of the stretch.
            let near = bits.map_or(0, |bits| rows[0].0 << bits);
            let merged = ledger.to_merge(bits, near, rows.len() as u32, self.until);
            self.coming.push(Coming { group, bits, rows: from..end, merged });
        }
    }

    /// The keys of all that will be read.
    pub(crate) fn reads(&self) -> Result<BinaryArray> {
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
                self.space.page_key(keys.open(), self.group(group), block.number, 0);
                keys.end()?;
            }
        }
        Ok(keys.take())
    }

    fn put_place(&self, keys: &mut Bytes, place: Place) -> Result<()> {
        let block = &self.ledgers[place.group].blocks[place.block];
        self.space.page_key(keys.open(), self.group(place.group), block.number, place.page);
        keys.end()
    }

    /// The keys of a block: that of its times, if it has any, then those of its pages.
    fn put_block(&self, keys: &mut Bytes, group: usize, block: &Block) -> Result<()> {
        let first = usize::from(block.bits.is_none());
        for page in first..=block.tags.len() {
            self.space.page_key(keys.open(), self.group(group), block.number, page);
            keys.end()?;
        }
        Ok(())
    }
}

/// The pages of a block, from 0, that may have rows of these tags.
fn pages_for<T: Iterator<Item = u32> + Clone>(
    block: &Block,
    tags: T,
) -> impl Iterator<Item = usize> + use<T> {
    let pages = block.tags.len();
    let all = tags.clone().take(ROWS_FOR_ALL * pages).count() == ROWS_FOR_ALL * pages;
    let mut wanted = vec![all; pages];
    if !all {
        for tag in tags {
            wanted[block.pages(tag)].fill(true);
        }
    }
    wanted.into_iter().enumerate().filter_map(|(page, wanted)| wanted.then_some(page))
}
