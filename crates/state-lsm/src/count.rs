//! Counting the keys of deleted ranges: sums of whole groups and blocks, and the entries of those
//! blocks that a range cuts.
//!
//! All ranges of a call are taken from one run after the other, in the order of their keys, so that
//! the index is walked once and a block that two of them cut is looked up once.

use crate::gone::Gone;
use crate::run::{HeldBlock, Unread};
use crate::version::{Live, intersect};
use fluvial_core::{KeyGroup, KeyRange};
use std::sync::Arc;

/// Counts in one run; what it needs for that is made once.
pub(crate) struct Counter<'v> {
    live: &'v Live,
    /// The bounds that are looked at.
    start: Vec<u8>,
    end: Vec<u8>,
    /// Blocks that begin at or before the last bound.
    until: u32,
    held: Option<(u32, Arc<HeldBlock>)>,
    key: Vec<u8>,
}

/// What of a range a run can have, and whether that is all that it can have.
struct Cut {
    rest: KeyRange,
    is_whole: bool,
}

impl<'v> Counter<'v> {
    pub(crate) fn new(live: &'v Live) -> Self {
        let (start, end, key) = (Vec::new(), Vec::new(), Vec::new());
        Self { live, start, end, until: 0, held: None, key }
    }

    /// Adds by how much the entries that the run shows in `ranges` change the number of keys, by
    /// group from `first` on.
    pub(crate) fn count(
        &mut self,
        ranges: &Gone,
        first: u16,
        counts: &mut [i64],
    ) -> Result<(), Unread> {
        let live = self.live;
        let reach = live.run.meta.reach();
        if live.run.meta.entries == 0 {
            return Ok(());
        }
        let shown = ranges.within(live.clip).minus(&live.hidden);
        let stats = &live.run.tail.groups;
        for (groups, rests) in shown.parts() {
            let cuts = rests.iter().map(|rest| intersect(rest, &reach));
            let cuts = cuts.filter(|rest| !rest.is_empty());
            let cuts: Vec<Cut> = cuts.map(|rest| Cut { is_whole: rest == reach, rest }).collect();
            if cuts.is_empty() {
                continue;
            }
            let from = stats.partition_point(|s| u32::from(s.group.0) < groups.start);
            for own in stats[from..].iter().take_while(|s| u32::from(s.group.0) < groups.end) {
                for Cut { rest, is_whole } in &cuts {
                    counts[usize::from(own.group.0 - first)] += match is_whole {
                        true => own.delta,
                        false => self.range(own.group, rest)?,
                    };
                }
            }
        }
        Ok(())
    }

    /// By how much entries of one group with a rest in this range change the number of keys. Calls
    /// come in the order of keys.
    fn range(&mut self, group: KeyGroup, rest: &KeyRange) -> Result<i64, Unread> {
        self.start.clear();
        self.start.extend_from_slice(&group.prefix());
        self.start.extend_from_slice(&rest.start);
        self.end.clear();
        match rest.end.is_empty() {
            // Behind the last group there is none.
            true => self.end.extend(group.0.checked_add(1).iter().flat_map(|g| g.to_be_bytes())),
            false => {
                self.end.extend_from_slice(&group.prefix());
                self.end.extend_from_slice(&rest.end);
            }
        }
        let (whole, torn) = self.live.run.torn_blocks(&self.start, &self.end, &mut self.until);
        let mut sum = self.live.run.tail.index.delta(whole);
        for block in torn.into_iter().flatten() {
            sum += self.block(block)?;
        }
        Ok(sum)
    }

    fn block(&mut self, block: u32) -> Result<i64, Unread> {
        let held = match self.held.take().filter(|(number, _)| *number == block) {
            Some((_, held)) => held,
            None => self.live.block(block)?,
        };
        let sum = held.block.count(&self.start, &self.end, &mut self.key);
        self.held = Some((block, held));
        Ok(sum)
    }
}
