//! A version: runs, newest first, each for some of the key groups.

use crate::count::Counter;
use crate::gone::Gone;
use crate::run::{HeldBlock, Run, Unread};
use fluvial_core::{KeyGroupRange, KeyRange};
use std::ops::Range;
use std::sync::Arc;

/// A run in a version.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) run: Arc<Run>,
    /// The groups for which it counts.
    pub(crate) clip: KeyGroupRange,
    /// Its keys that newer runs say are gone.
    pub(crate) hidden: Arc<Gone>,
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
    /// What of `range` this run may have and shows, in order.
    pub(crate) fn shown(&self, range: &KeyRange) -> Vec<KeyRange> {
        let range = range.within(self.clip);
        match self.run.may_touch(&range) {
            true => self.likely(self.hidden.outside(&range)),
            false => Vec::new(),
        }
    }

    /// Whether it has entries of one of these groups.
    fn has_groups(&self, groups: &Range<u32>) -> bool {
        let start = groups.start.max(self.clip.start.into());
        let end = groups.end.min(self.clip.end.into());
        let own = &self.run.tail.groups;
        let at = own.partition_point(|stats| u32::from(stats.group.0) < start);
        own.get(at).is_some_and(|stats| u32::from(stats.group.0) < end)
    }

    /// Whether it may have an entry with one of these groups and a rest in `rest`.
    pub(crate) fn may_have(&self, groups: &Range<u32>, rest: &KeyRange) -> bool {
        let meta = &self.run.meta;
        meta.entries > 0 && !intersect(rest, &meta.reach()).is_empty() && self.has_groups(groups)
    }

    /// Those of the ranges, which it shows, in which it may have an entry.
    fn likely(&self, mut shown: Vec<KeyRange>) -> Vec<KeyRange> {
        shown.retain(|range| {
            let mut one = Gone::default();
            one.insert(range);
            self.may_have_any(&one)
        });
        shown
    }

    /// Whether it may have an entry in one of these ranges.
    pub(crate) fn may_have_any(&self, gone: &Gone) -> bool {
        gone.parts().any(|(groups, rests)| rests.iter().any(|rest| self.may_have(&groups, rest)))
    }

    /// Whether everything it has is among `gone`.
    pub(crate) fn is_within(&self, gone: &Gone) -> bool {
        let groups = self.run.tail.groups.iter().map(|stats| stats.group);
        gone.covers(groups.filter(|group| self.clip.contains(*group)), &self.run.meta.reach())
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
        let mut hidden = Arc::new(Gone::default());
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

    /// Keys in `ranges`, added to those of each group of `groups`.
    pub(crate) fn count(&self, ranges: &Gone, counts: &mut [i64]) -> Result<(), Unread> {
        for live in &self.runs {
            Counter::new(live).count(ranges, self.groups.start, counts)?;
        }
        Ok(())
    }
}

impl Live {
    /// The ranges of older runs that it says are gone, for its groups.
    pub(crate) fn gone(&self) -> Gone {
        self.run.tail.gone.within(self.clip)
    }
}

/// What both have.
pub(crate) fn intersect(a: &KeyRange, b: &KeyRange) -> KeyRange {
    let start = a.start.as_slice().max(&b.start).to_vec();
    let end = match (a.end.is_empty(), b.end.is_empty()) {
        (true, _) => b.end.clone(),
        (_, true) => a.end.clone(),
        _ => a.end.as_slice().min(&b.end).to_vec(),
    };
    KeyRange { start, end }
}
