//! A version: runs, newest first, each for some of the key groups.

use crate::run::{HeldBlock, Run, Unread};
use fluvial_core::{KeyGroup, KeyGroupRange, KeyRange, KeyRanges};
use std::sync::Arc;

/// A run in a version.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) run: Arc<Run>,
    /// The groups for which it counts.
    pub(crate) clip: KeyGroupRange,
    /// Its keys that newer runs say are gone.
    pub(crate) hidden: Arc<KeyRanges>,
}

/// What a store was at a commit.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) groups: KeyGroupRange,
    /// Keys in each group of `groups`.
    pub(crate) rows: Vec<u64>,
    pub(crate) runs: Vec<Live>,
}

impl Live {
    /// What of `range` this run may have and shows.
    pub(crate) fn shown(&self, range: &KeyRange) -> Vec<KeyRange> {
        let range = range.within(self.clip);
        match self.run.may_touch(&range) {
            true => self.hidden.outside(&range),
            false => Vec::new(),
        }
    }

    /// The groups of it that `range` has keys of, each with what of the range it can have, and
    /// whether that is all it can have.
    fn by_group(&self, range: &KeyRange) -> impl Iterator<Item = (usize, KeyRange, bool)> {
        let range = range.within(self.clip);
        let groups = &self.run.tail.groups;
        let first = KeyGroup::of(&range.start).unwrap_or(KeyGroup(0));
        let from = groups.partition_point(|stats| stats.group < first);
        let run = &self.run;
        (from..groups.len())
            .take_while({
                let end = range.end.clone();
                move |at| groups[*at].group.prefix().as_slice() < end.as_slice()
            })
            .map(move |at| {
                let KeyRange { mut start, mut end } = run.meta.reach(groups[at].group);
                let mut is_whole = true;
                if start < range.start {
                    start.clone_from(&range.start);
                    is_whole = false;
                }
                // The end of a reach is empty only behind the last group, which `within` cuts.
                if end.is_empty() || range.end < end {
                    end.clone_from(&range.end);
                    is_whole = false;
                }
                (at, KeyRange { start, end }, is_whole)
            })
            .filter(|(_, part, _)| !part.is_empty())
    }

    /// Whether it may have an entry in `range`.
    pub(crate) fn may_have(&self, range: &KeyRange) -> bool {
        self.run.may_touch(&range.within(self.clip)) && self.by_group(range).next().is_some()
    }

    /// Whether everything it has is among `gone`.
    pub(crate) fn is_within(&self, gone: &KeyRanges) -> bool {
        let stats = self.run.tail.groups.iter();
        let own = |group: KeyGroup| self.clip.contains(group);
        stats.filter(|s| own(s.group)).all(|s| gone.covers(&self.run.meta.reach(s.group)))
    }

    /// By how much its entries in `range` change the number of keys.
    pub(crate) fn count(&self, range: &KeyRange) -> Result<i64, Unread> {
        if !self.run.may_touch(&range.within(self.clip)) {
            return Ok(0);
        }
        let mut sum = 0;
        for (at, part, is_whole) in self.by_group(range) {
            sum += match is_whole {
                true => self.run.tail.groups[at].delta,
                false => self.count_blocks(&part)?,
            };
        }
        Ok(sum)
    }

    /// The blocks of a range that are counted one by one: those at its ends.
    pub(crate) fn torn_blocks(&self, part: &KeyRange) -> (std::ops::Range<u32>, [Option<u32>; 2]) {
        let index = &self.run.tail.index;
        let mut whole = index.blocks_in(part);
        let mut torn = [None, None];
        if whole.is_empty() {
            return (whole, torn);
        }
        if !index.begins_from(whole.start, &part.start) {
            torn[0] = Some(whole.start);
            whole.start += 1;
        }
        if whole.is_empty() {
            return (whole, torn);
        }
        // `blocks_in` ends at a block whose separator is at or behind the end.
        let is_whole = match whole.end < index.blocks() {
            true => index.is_separator(whole.end, &part.end),
            false => part.end.is_empty() || self.run.meta.high < part.end,
        };
        if !is_whole {
            whole.end -= 1;
            torn[1] = Some(whole.end);
        }
        (whole, torn)
    }

    fn count_blocks(&self, part: &KeyRange) -> Result<i64, Unread> {
        let (whole, torn) = self.torn_blocks(part);
        let mut sum = self.run.tail.index.delta(whole);
        for block in torn.into_iter().flatten() {
            let held = self.run.block(block)?;
            sum += held.block.count(part);
        }
        Ok(sum)
    }

    /// A block of it, if it is in memory.
    pub(crate) fn block(&self, block: u32) -> Result<Arc<HeldBlock>, Unread> {
        self.run.block(block)
    }
}

impl Version {
    /// A version without keys.
    pub(crate) fn empty(groups: KeyGroupRange) -> Self {
        let rows = vec![0; usize::from(groups.end.saturating_sub(groups.start))];
        Self { groups, rows, runs: Vec::new() }
    }

    /// A version of these runs, newest first.
    pub(crate) fn new(
        groups: KeyGroupRange,
        rows: Vec<u64>,
        runs: impl IntoIterator<Item = (Arc<Run>, KeyGroupRange)>,
    ) -> Self {
        let mut hidden = Arc::new(KeyRanges::default());
        let runs = runs.into_iter().map(|(run, clip)| {
            let live = Live { run, clip, hidden: Arc::clone(&hidden) };
            if !live.run.tail.gone.is_empty() {
                hidden = Arc::new(hidden.union(&live.gone()));
            }
            live
        });
        let runs = runs.collect();
        Self { groups, rows, runs }
    }

    /// All keys.
    pub(crate) fn total_rows(&self) -> u64 {
        self.rows.iter().sum()
    }

    /// Keys in `range`, as if `gone` were gone.
    pub(crate) fn count(&self, range: &KeyRange, gone: &KeyRanges) -> Result<i64, Unread> {
        let mut sum = 0;
        for piece in gone.outside(range) {
            for live in &self.runs {
                for shown in live.shown(&piece) {
                    sum += live.count(&shown)?;
                }
            }
        }
        Ok(sum)
    }
}

impl Live {
    /// The ranges of older runs that it says are gone, for its groups.
    pub(crate) fn gone(&self) -> KeyRanges {
        let own = &self.run.tail.gone;
        if own.iter().all(|range| range.is_within(self.clip)) {
            return own.clone();
        }
        let mut gone = KeyRanges::default();
        own.iter().for_each(|range| gone.insert(&range.within(self.clip)));
        gone
    }
}
