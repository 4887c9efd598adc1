//! One batch of a deduplication within the watermark, on one partition.
//!
//! Keys lie in [pages](crate::pages), by the times at which they expire. So a key costs its bytes,
//! half a hash and four bytes of time, and what has expired is dropped in blocks. All keys of a
//! batch are looked for together, group by group.

use super::{Config, next_of};
use crate::event_time::event_times;
use crate::late_gate::LateGate;
use crate::numbers::KeyNumbers;
use crate::pages::{Hits, NewRows, Pages, Row, Space, tag_of};
use arrow::array::{Array, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::filter_record_batch;
use fluvial_core::{
    BatchInfo, Error, EventDuration, EventTime, KeyGroup, KeyGroupRange, LateBatch, OperatorCounts,
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
    /// The keys of the input, by group.
    groups: Vec<GroupKeys>,
    stage: Stage,
    passed: VecDeque<RecordBatch>,
    counts: OperatorCounts,
}

/// The keys of one group that came, end to end: what is done for a group touches little memory.
#[derive(Default)]
struct GroupKeys {
    bytes: Vec<u8>,
    rows: Vec<KeyRow>,
}

/// A key that came, and its row.
struct KeyRow {
    /// Where its bytes end.
    end: u32,
    tag: u32,
    expiry: i64,
    input: u32,
    row: u32,
}

/// The distinct keys of a batch, without their groups.
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
        self.numbers.key(number as usize)
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
            groups: info.groups.groups().map(|_| GroupKeys::default()).collect(),
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

    /// Puts the keys of rows to those of their groups.
    fn take_in(&mut self, rows: &RecordBatch) -> Result<()> {
        let input = self.input.len() as u32;
        let columns = self.config.key_columns(rows);
        let EncodedKeys { keys, groups } = self.codec.encode(&columns, None, rows.num_rows())?;
        let expiries = self.expiries(rows)?;
        for (row, (group, expiry)) in groups.into_iter().zip(expiries).enumerate() {
            let at = usize::from(group.0.wrapping_sub(self.info.groups.start));
            let groups = self.info.groups;
            let own = self.groups.get_mut(at).ok_or_else(|| misrouted(group, groups))?;
            let key = keys.value(row);
            own.bytes.extend_from_slice(&key[GROUP_BYTES..]);
            let end = u32::try_from(own.bytes.len()).map_err(|_| {
                Error::invalid(
                    "keys of a key group take over 4 GiB in one batch: use smaller batches",
                )
            })?;
            own.rows.push(KeyRow { end, tag: tag_of(key), expiry, input, row: row as u32 });
        }
        Ok(())
    }

    /// The distinct keys that came, group by group.
    fn keys(&mut self) -> Result<New> {
        let groups = std::mem::take(&mut self.groups);
        let numbers = KeyNumbers::with_room(groups.iter().map(|group| group.rows.len()));
        let mut new = New { numbers, starts: vec![0], ..New::default() };
        for (at, group) in groups.into_iter().enumerate() {
            let mut start = 0;
            for row in &group.rows {
                let end = row.end as usize;
                new.numbers.intern(at, row.tag, &group.bytes[start..end])?;
                start = end;
                if new.firsts.len() < new.numbers.len() {
                    new.expiries.push(row.expiry);
                    new.firsts.push((row.input, row.row));
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
        let mut pages = Pages::read(PAGES, self.info.groups, self.until(), state)?.placed();
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

/// Notes which keys are among stored rows that have not expired at `late`, or left before.
fn note(numbers: &KeyNumbers, hits: &Hits<'_>, late: Option<i64>, known: &mut [bool]) {
    for (at, number) in hits.numbers.iter().enumerate() {
        let until = late.max(hits.left[at]);
        if hits.times[at].zip(until).is_some_and(|(time, until)| time <= until) {
            continue;
        }
        let same = |number: u32| numbers.key(number as usize) == hits.rows[at];
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

fn misrouted(KeyGroup(group): KeyGroup, groups: KeyGroupRange) -> Error {
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
            self.take_in(&rows)?;
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
