//! One batch of a deduplication within the watermark, on one partition.
//!
//! Keys lie in [pages](crate::pages), by the times at which they expire. So a key costs its bytes,
//! half a hash and four bytes of time, and what has expired is dropped in blocks. All keys of a
//! batch are looked for together, group by group.

use super::{Config, next_of};
use crate::event_time::event_times;
use crate::late_gate::LateGate;
use crate::numbers::KeyNumbers;
use crate::pages::{Hits, NewRows, Pages, Row, Space};
use arrow::array::{Array, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::filter_record_batch;
use fluvial_core::{
    BatchInfo, Error, EventDuration, EventTime, KeyGroupRange, LateBatch, OperatorCounts,
    OperatorRun, Prefetch, Result, StateStore,
};
use fluvial_state::{EncodedKeys, KeyCodec};
use std::collections::VecDeque;
use std::sync::Arc;

/// Where keys lie.
pub(super) const PAGES: Space = Space { ledger: 0x10, pages: 0x11 };

/// Bytes of the key group in front of a key: a page's own key has it.
pub(super) const GROUP_BYTES: usize = 2;

/// Keys that expire in about this part of the delay lie together.
const STRETCHES_PER_DELAY: i64 = 8;

/// How far a batch has come.
enum Stage {
    Input,
    /// All rows came; their keys are not looked for yet.
    Ready(Box<New>, Pages),
    Done,
}

pub(super) struct Within {
    config: Arc<Config>,
    info: BatchInfo,
    delay: EventDuration,
    codec: KeyCodec,
    late: LateGate,
    input: Vec<RecordBatch>,
    stage: Stage,
    passed: VecDeque<RecordBatch>,
    counts: OperatorCounts,
}

/// The keys of a batch.
#[derive(Default)]
struct New {
    numbers: KeyNumbers,
    /// Where the numbers of each group start; one more than there are groups.
    starts: Vec<usize>,
    /// When each key would expire.
    expiries: Vec<i64>,
    /// The first row of each key: its input and position there.
    firsts: Vec<(u32, u32)>,
    /// Which keys are stored already.
    known: Vec<bool>,
}

impl NewRows for New {
    fn bytes(&self, number: u32) -> &[u8] {
        &self.numbers.key(number as usize)[GROUP_BYTES..]
    }

    fn time(&self, number: u32) -> Option<i64> {
        Some(self.expiries[number as usize])
    }

    fn stays(&self, number: u32) -> bool {
        !self.known[number as usize]
    }
}

impl Within {
    pub(super) fn new(config: &Arc<Config>, info: BatchInfo, delay: EventDuration) -> Result<Self> {
        Ok(Self {
            config: Arc::clone(config),
            info,
            delay,
            codec: config.key_codec(info.key_groups)?,
            late: LateGate::new(info.late, info.late_rows),
            input: Vec::new(),
            stage: Stage::Input,
            passed: VecDeque::new(),
            counts: OperatorCounts::default(),
        })
    }

    fn late(&self) -> Option<i64> {
        self.info.late.0.map(|late| late.0)
    }

    /// The time up to which keys leave. The batch before has removed what is late in this one; but
    /// if a batch is cut in two, both parts must see the same keys.
    fn until(&self) -> Option<i64> {
        self.info.evict.0.map(|evict| evict.0).max(self.late())
    }

    /// The keys of all rows, and when they would expire.
    fn keys(&self) -> Result<New> {
        let groups = self.info.groups;
        let count = usize::from(groups.end.saturating_sub(groups.start));
        let (mut encoded, mut expiries) = (Vec::new(), Vec::new());
        let mut sizes = vec![0; count];
        for rows in &self.input {
            let columns = self.config.key_columns(rows);
            let keys: EncodedKeys = self.codec.encode(&columns, None, rows.num_rows())?;
            for group in &keys.groups {
                let at = usize::from(group.0.wrapping_sub(groups.start));
                *sizes.get_mut(at).ok_or_else(|| misrouted(group.0, groups))? += 1;
            }
            encoded.push(keys);
            expiries.push(self.expiries(rows)?);
        }
        // The rows of each group, in the order in which they came.
        let mut starts = vec![0; count + 1];
        for at in 0..count {
            starts[at + 1] = starts[at] + sizes[at];
        }
        let mut order = vec![(0u32, 0u32); starts[count]];
        let mut next = starts.clone();
        for (input, keys) in encoded.iter().enumerate() {
            for (row, group) in keys.groups.iter().enumerate() {
                let at = &mut next[usize::from(group.0 - groups.start)];
                order[*at] = (input as u32, row as u32);
                *at += 1;
            }
        }
        let numbers = KeyNumbers::with_room(sizes.into_iter());
        let mut new = New { numbers, starts: vec![0], ..New::default() };
        for group in 0..count {
            for &(input, row) in &order[starts[group]..starts[group + 1]] {
                let key = encoded[input as usize].keys.value(row as usize);
                new.numbers.intern(group, key)?;
                if new.firsts.len() < new.numbers.len() {
                    new.expiries.push(expiries[input as usize][row as usize]);
                    new.firsts.push((input, row));
                }
            }
            new.starts.push(new.numbers.len());
        }
        new.known = vec![false; new.numbers.len()];
        Ok(new)
    }

    /// When the keys of rows would expire. Without a time: soon, as in Spark, whose missing time is
    /// the epoch.
    fn expiries(&self, rows: &RecordBatch) -> Result<Vec<i64>> {
        let column = self
            .config
            .event_time
            .ok_or_else(|| Error::invalid("duplicates within the watermark need an event time"))?;
        let times = event_times(rows.column(column))?;
        let expiry = |time: i64| EventTime(time).plus(self.delay).0;
        Ok(match times.null_count() {
            0 => times.values().iter().map(|&time| expiry(time)).collect(),
            _ => times.iter().map(|time| expiry(time.unwrap_or(0))).collect(),
        })
    }

    /// Finds out what must be read, and what will be written with what.
    fn arrange(&self, new: &New, state: &dyn StateStore) -> Result<Pages> {
        let mut pages = Pages::read(PAGES, self.info.groups, self.until(), state)?;
        // Twice as long as a stretch.
        let span = Some((self.delay.0 / STRETCHES_PER_DELAY).saturating_mul(2));
        let mut rows = Vec::new();
        for (group, bounds) in new.starts.windows(2).enumerate() {
            let numbers = bounds[0]..bounds[1];
            if numbers.is_empty() {
                continue;
            }
            let tags = numbers.clone().map(|number| new.numbers.tag(number));
            pages.want_after(group, self.late(), tags);
            rows.clear();
            rows.extend(numbers.map(|number| Row {
                time: Some(new.expiries[number]),
                tag: new.numbers.tag(number),
                row: number as u32,
            }));
            pages.expect(group, span, &rows);
        }
        Ok(pages)
    }

    /// Looks for the keys, stores the new ones, and lets their first rows pass.
    fn pass(&mut self, mut new: New, pages: &Pages, state: &mut dyn StateStore) -> Result<()> {
        let mut known = std::mem::take(&mut new.known);
        let number_of = |group, tag| new.numbers.find_tag(group, tag, |_| true);
        let late = self.late();
        pages.look(state, number_of, |hits| {
            note(&new.numbers, &hits, late, &mut known);
            Ok(())
        })?;
        new.known = known;
        let written = pages.write(&new, state, |_, _| ())?;
        let until = self.until();
        // What expires at once is not stored.
        let over =
            |number: &u32| until.is_some_and(|until| new.expiries[*number as usize] <= until);
        let passing = || (0..new.numbers.len() as u32).filter(|number| new.stays(*number));
        let (passed, over) = (passing().count() as u64, passing().filter(over).count() as u64);
        self.let_pass(&new, passing())?;
        self.counts.rows.emitted += passed;
        self.counts.rows_updated += passed;
        self.counts.rows_removed += written.left + over;
        self.counts.rows_total = written.rows;
        self.counts.memory_bytes = state.size().memory_bytes;
        Ok(())
    }

    /// Puts the first rows of these keys into the output, in the order in which they came.
    fn let_pass(&mut self, new: &New, passing: impl Iterator<Item = u32>) -> Result<()> {
        let input = std::mem::take(&mut self.input);
        let mut masks: Vec<BooleanBufferBuilder> = Vec::with_capacity(input.len());
        for rows in &input {
            let mut mask = BooleanBufferBuilder::new(rows.num_rows());
            mask.append_n(rows.num_rows(), false);
            masks.push(mask);
        }
        for number in passing {
            let (input, row) = new.firsts[number as usize];
            masks[input as usize].set_bit(row as usize, true);
        }
        for (rows, mut mask) in input.into_iter().zip(masks) {
            let mask = BooleanArray::new(mask.finish(), None);
            let passing = mask.true_count();
            self.counts.rows.duplicate += (rows.num_rows() - passing) as u64;
            if passing == rows.num_rows() {
                self.passed.push_back(rows);
            } else if passing > 0 {
                self.passed.push_back(filter_record_batch(&rows, &mask)?);
            }
        }
        Ok(())
    }
}

/// Notes which keys are among stored rows that have not expired at `late`.
fn note(numbers: &KeyNumbers, hits: &Hits<'_>, late: Option<i64>, known: &mut [bool]) {
    for (at, number) in hits.numbers.iter().enumerate() {
        if hits.times[at].zip(late).is_some_and(|(time, late)| time <= late) {
            continue;
        }
        let same = |number: u32| &numbers.key(number as usize)[GROUP_BYTES..] == hits.rows[at];
        let number = match same(*number) {
            true => Some(*number),
            false => {
                let tag = numbers.tag(*number as usize);
                numbers.find_tag(hits.groups[at], tag, same)
            }
        };
        if let Some(number) = number {
            known[number as usize] = true;
        }
    }
}

fn misrouted(group: u16, groups: KeyGroupRange) -> Error {
    Error::invalid(format!(
        "a row of key group {group} came to the partition of groups {groups}: rows must be \
         exchanged by the columns by which duplicates are dropped"
    ))
}

impl OperatorRun for Within {
    fn push(&mut self, port: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        self.config.check_input(port, &rows)?;
        let rows = self.late.on_time(0, rows, self.config.event_time, &mut self.counts.rows)?;
        if rows.num_rows() > 0 {
            self.input.push(rows);
        }
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        Ok(match &self.stage {
            Stage::Input => Prefetch::Keys(PAGES.ledger_keys(self.info.groups)?),
            Stage::Ready(_, pages) => Prefetch::Keys(pages.reads()?),
            Stage::Done => Prefetch::Nothing,
        })
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        let new = self.keys()?;
        let pages = self.arrange(&new, state)?;
        self.stage = Stage::Ready(Box::new(new), pages);
        Ok(())
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        if let Stage::Ready(..) = self.stage
            && let Stage::Ready(new, pages) = std::mem::replace(&mut self.stage, Stage::Done)
        {
            self.pass(*new, &pages, state)?;
        }
        Ok(next_of(&mut self.passed, self.info.batch_rows))
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        self.late.take()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}
