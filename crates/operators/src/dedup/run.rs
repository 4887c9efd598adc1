//! One batch of a deduplication on one partition, whose keys are forgotten by a time among them,
//! or never.

use super::{Config, next_of};
use crate::event_time::EventTimeKey;
use crate::late_gate::LateGate;
use arrow::array::{BinaryArray, BooleanArray, RecordBatch};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::compute::{concat_batches, filter_record_batch};
use fluvial_core::{
    BatchInfo, KeyRange, LateBatch, OperatorCounts, OperatorRun, Prefetch, Result, StateStore,
};
use fluvial_state::{EncodedKeys, KeyCodec};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that are looked up together, roughly: enough for several of each key group, so that what
/// the store has of a group is fetched from memory once for all of them. So many bytes are enough,
/// too.
const AT_ONCE: Amount = Amount { rows: 64 << 10, bytes: 32 << 20 };

/// How much some rows are.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    rows: usize,
    bytes: usize,
}

impl Amount {
    fn add(&mut self, rows: &RecordBatch) {
        self.rows += rows.num_rows();
        self.bytes += rows.get_array_memory_size();
    }

    fn is_enough(self) -> bool {
        self.rows >= AT_ONCE.rows || self.bytes >= AT_ONCE.bytes
    }
}

pub(super) struct Run {
    config: Arc<Config>,
    /// The key that is the event time.
    time: EventTimeKey,
    info: BatchInfo,
    codec: KeyCodec,
    late: LateGate,
    /// Rows to be looked up: until there are enough or, if the store is not local, until it has
    /// brought their keys.
    waiting: VecDeque<RecordBatch>,
    waiting_size: Amount,
    passed: VecDeque<RecordBatch>,
    counts: OperatorCounts,
}

impl Run {
    pub(super) fn new(config: &Arc<Config>, time: EventTimeKey, info: BatchInfo) -> Result<Self> {
        Ok(Self {
            config: Arc::clone(config),
            time,
            info,
            codec: config.key_codec(info.key_groups)?,
            late: LateGate::new(info.late, info.late_rows),
            waiting: VecDeque::new(),
            waiting_size: Amount::default(),
            passed: VecDeque::new(),
            counts: OperatorCounts::default(),
        })
    }

    fn on_time(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        self.late.on_time(0, rows, self.config.event_time, &mut self.counts.rows)
    }

    fn keys(&self, rows: &RecordBatch) -> Result<EncodedKeys> {
        let columns = self.config.key_columns(rows);
        let times = self.time.times(&columns)?;
        self.codec.encode(&columns, times.as_ref(), rows.num_rows())
    }

    /// Looks up what waits.
    fn pass_waiting(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.waiting_size = Amount::default();
        while !self.waiting.is_empty() {
            let (mut some, mut size) = (Vec::new(), Amount::default());
            while !size.is_enough()
                && let Some(rows) = self.waiting.pop_front()
            {
                size.add(&rows);
                some.push(rows);
            }
            let rows = match some.len() {
                1 => some.swap_remove(0),
                _ => concat_batches(&self.config.schema, &some)?,
            };
            self.pass(rows, state)?;
        }
        Ok(())
    }

    /// Lets the rows pass whose keys are new.
    fn pass(&mut self, rows: RecordBatch, state: &mut dyn StateStore) -> Result<()> {
        let count = rows.num_rows();
        if count == 0 {
            return Ok(());
        }
        let values = BinaryArray::new(OffsetBuffer::new_zeroed(count), Buffer::default(), None);
        let new = state.put_absent(&self.keys(&rows)?.keys, &values)?;
        let passing = new.count_set_bits();
        self.counts.rows_updated += passing as u64;
        self.counts.rows.emitted += passing as u64;
        self.counts.rows.duplicate += (count - passing) as u64;
        if passing == count {
            self.passed.push_back(rows);
        } else if passing > 0 {
            self.passed.push_back(filter_record_batch(&rows, &BooleanArray::new(new, None))?);
        }
        Ok(())
    }

    /// What the watermark has passed among keys that begin with a time: one range per key group.
    fn expired(&self) -> Vec<KeyRange> {
        match (self.time, self.info.evict.0) {
            (EventTimeKey::Column(_) | EventTimeKey::Window(_), Some(until)) => {
                self.info.groups.groups().map(|group| self.codec.expired(group, until)).collect()
            }
            (EventTimeKey::None, _) | (_, None) => Vec::new(),
        }
    }

    fn note_size(&mut self, state: &dyn StateStore) {
        let size = state.size();
        self.counts.rows_total = size.rows;
        self.counts.memory_bytes = size.memory_bytes;
    }
}

impl OperatorRun for Run {
    fn push(&mut self, port: usize, rows: RecordBatch, state: &mut dyn StateStore) -> Result<()> {
        self.config.check_input(port, &rows)?;
        let rows = self.on_time(rows)?;
        self.waiting_size.add(&rows);
        self.waiting.push_back(rows);
        match state.is_local() && self.waiting_size.is_enough() {
            true => self.pass_waiting(state),
            false => Ok(()),
        }
    }

    fn prefetch(&self) -> Result<Prefetch> {
        let mut all = vec![Prefetch::Ranges(self.expired())];
        for rows in &self.waiting {
            all.push(Prefetch::Keys(self.keys(rows)?.keys));
        }
        Ok(Prefetch::Each(all))
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.pass_waiting(state)?;
        self.counts.rows_removed += state.delete_ranges(&self.expired())?;
        self.note_size(state);
        Ok(())
    }

    fn drain(&mut self, _: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        Ok(next_of(&mut self.passed, self.info.batch_rows))
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        self.late.take()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}
