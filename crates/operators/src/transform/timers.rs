//! The timers of a batch: those that handlers register and delete, and those that are due.

use super::layout;
use super::processor::TimeMode;
use super::stored::{Block, get, scan_all};
use arrow::array::{Array, BinaryArray};
use fluvial_core::{BatchInfo, Error, KeyGroup, KeyRange, Result, StateStore};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// Timers read at once from one key group.
const PAGE: usize = 256;

/// The timers of one batch on one partition.
pub(super) struct Timers {
    mode: TimeMode,
    /// At or before this, in milliseconds, timers are due.
    due_ms: Option<i64>,
    /// What handlers changed, by position in the block and time; `true` is registered.
    changed: BTreeMap<(usize, i64), bool>,
    /// While timers fire: due timers that a handler registered or deleted. None of them fires in
    /// this batch.
    skipped: BTreeSet<(i64, Vec<u8>)>,
    firing: bool,
    pub(super) counts: TimerCounts,
}

/// What happened to timers, for progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimerCounts {
    pub(super) registered: u64,
    pub(super) deleted: u64,
    pub(super) expired: u64,
}

impl Timers {
    pub(super) fn new(mode: TimeMode, info: &BatchInfo) -> Self {
        let due_ms = match mode {
            TimeMode::None => None,
            TimeMode::ProcessingTime => Some(info.time.0),
            TimeMode::EventTime => info.evict.0.map(fluvial_core::EventTime::as_millis),
        };
        Self {
            mode,
            due_ms,
            changed: BTreeMap::new(),
            skipped: BTreeSet::new(),
            firing: false,
            counts: TimerCounts::default(),
        }
    }

    pub(super) fn due_ms(&self) -> Option<i64> {
        self.due_ms
    }

    /// Input is over: what is due fires now.
    pub(super) fn start_firing(&mut self) {
        self.firing = true;
    }

    fn is_due(&self, time_ms: i64) -> bool {
        self.due_ms.is_some_and(|due| time_ms <= due)
    }

    fn may(&self, operation: &str) -> Result<()> {
        if self.mode != TimeMode::None {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{operation} needs a time mode: the operator has {}; use EventTime or ProcessingTime",
            self.mode
        ))
        .with_condition("STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE"))
    }

    pub(super) fn register(
        &mut self,
        block: &Block,
        at: usize,
        time_ms: i64,
        state: &dyn StateStore,
    ) -> Result<()> {
        self.may("registering a timer")?;
        self.counts.registered += 1;
        if self.firing && self.is_due(time_ms) {
            // One that is there already fires still; a new one does not.
            let key = block.key(at);
            let there = match self.changed.get(&(at, time_ms)) {
                Some(registered) => *registered,
                None => get(&layout::timer_of_key(key, time_ms), state)?.is_valid(0),
            };
            if there {
                return Ok(());
            }
            self.skipped.insert((time_ms, key.to_vec()));
        }
        self.changed.insert((at, time_ms), true);
        Ok(())
    }

    pub(super) fn delete(&mut self, block: &Block, at: usize, time_ms: i64) -> Result<()> {
        self.may("deleting a timer")?;
        self.counts.deleted += 1;
        if self.firing && self.is_due(time_ms) {
            self.skipped.insert((time_ms, block.key(at).to_vec()));
        }
        self.changed.insert((at, time_ms), false);
        Ok(())
    }

    /// The timers of a key, earliest first.
    pub(super) fn list(
        &self,
        block: &Block,
        at: usize,
        state: &dyn StateStore,
    ) -> Result<Vec<i64>> {
        self.may("listing timers")?;
        let mut times = BTreeSet::new();
        scan_all(&layout::timers_of_key(block.key(at)), state, |entries| {
            for timer in entries.keys.iter().flatten() {
                times.insert(layout::time_of_timer(timer)?);
            }
            Ok(())
        })?;
        for ((_, time), registered) in self.changed.range((at, i64::MIN)..=(at, i64::MAX)) {
            if *registered {
                times.insert(*time)
            } else {
                times.remove(time)
            };
        }
        Ok(times.into_iter().collect())
    }

    /// The timer fires unless a handler of this batch had to do with it: then it is as good as
    /// deleted, or waits for the next batch.
    pub(super) fn fire(&mut self, block: &Block, at: usize, time_ms: i64) -> bool {
        if self.skipped.contains(&(time_ms, block.key(at).to_vec())) {
            return false;
        }
        self.counts.expired += 1;
        self.counts.deleted += 1;
        self.changed.insert((at, time_ms), false);
        true
    }

    /// Writes what changed, and forgets the block.
    pub(super) fn flush(&mut self, block: &Block, state: &mut dyn StateStore) -> Result<()> {
        let (mut puts, mut deletes) = (Vec::new(), Vec::new());
        for ((at, time), registered) in std::mem::take(&mut self.changed) {
            let key = block.key(at);
            let to = if registered { &mut puts } else { &mut deletes };
            to.push(layout::timer_of_key(key, time));
            to.push(layout::timer_by_time(key, time));
        }
        if !deletes.is_empty() {
            state.delete_many(&BinaryArray::from_iter_values(deletes))?;
        }
        if !puts.is_empty() {
            let nothing = BinaryArray::from_iter_values(puts.iter().map(|_| []));
            state.put_many(&BinaryArray::from_iter_values(puts), &nothing)?;
        }
        Ok(())
    }
}

/// The timers that were due when input was over, in the order of (time, key), read page by page.
pub(super) struct Due {
    pages: Vec<Page>,
    /// The next timer of each page: time, key without group, page.
    next: BinaryHeap<Reverse<(i64, Vec<u8>, usize)>>,
}

/// What one key group has due.
struct Page {
    group: KeyGroup,
    range: KeyRange,
    waiting: VecDeque<(i64, Vec<u8>)>,
    complete: bool,
}

impl Page {
    fn next(&mut self, state: &dyn StateStore) -> Result<Option<(i64, Vec<u8>)>> {
        if self.waiting.is_empty() && !self.complete {
            let entries = state.scan(&self.range, PAGE)?;
            for timer in entries.keys.iter().flatten() {
                self.waiting.push_back(layout::parse_timer(timer)?);
            }
            self.complete = entries.keys.len() < PAGE;
            if let Some(last) = entries.keys.len().checked_sub(1) {
                self.range = self.range.after(entries.keys.value(last));
            }
        }
        Ok(self.waiting.pop_front())
    }
}

impl Due {
    pub(super) fn new(
        info: &BatchInfo,
        due_ms: Option<i64>,
        state: &dyn StateStore,
    ) -> Result<Self> {
        let mut due = Self { pages: Vec::new(), next: BinaryHeap::new() };
        let Some(until) = due_ms else { return Ok(due) };
        for group in info.groups.groups() {
            let range = layout::due(group, until);
            let page = Page { group, range, waiting: VecDeque::new(), complete: false };
            due.pages.push(page);
            due.advance(due.pages.len() - 1, state)?;
        }
        Ok(due)
    }

    fn advance(&mut self, page: usize, state: &dyn StateStore) -> Result<()> {
        if let Some((time, key)) = self.pages[page].next(state)? {
            self.next.push(Reverse((time, key, page)));
        }
        Ok(())
    }

    /// The next timers, at most `limit`.
    pub(super) fn take(
        &mut self,
        limit: usize,
        state: &dyn StateStore,
    ) -> Result<Vec<(i64, Vec<u8>)>> {
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(Reverse((time, key, page))) = self.next.pop()
        {
            let group = self.pages[page].group.prefix();
            taken.push((time, [group.as_slice(), &key].concat()));
            self.advance(page, state)?;
        }
        Ok(taken)
    }
}
