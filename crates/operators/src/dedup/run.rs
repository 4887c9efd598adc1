//! One batch of a deduplication on one partition.

use super::expiry::Expiry;
use super::{Config, Forget};
use crate::event_time::{EventTimeKey, event_times};
use crate::late_gate::LateGate;
use arrow::array::{Array, BinaryArray, BooleanArray, RecordBatch, TimestampMicrosecondArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{concat_batches, filter_record_batch};
use fluvial_core::{
    BatchInfo, Error, EventDuration, EventTime, KeyRange, LateBatch, OperatorCounts, OperatorRun,
    Prefetch, Result, StateStore,
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

/// Bytes of an expiry.
const EXPIRY_BYTES: usize = 8;

pub(super) struct Run {
    config: Arc<Config>,
    info: BatchInfo,
    codec: KeyCodec,
    late: LateGate,
    /// Rows to be looked up: until there are enough or, if the store is not local, until it has
    /// brought their keys.
    waiting: VecDeque<RecordBatch>,
    waiting_size: Amount,
    passed: VecDeque<RecordBatch>,
    expiry: Option<Expiry>,
    counts: OperatorCounts,
    /// Records of state that are no keys.
    lists: u64,
    begun: bool,
}

/// The state keys of some rows and, within the watermark, when they would expire.
struct Keys {
    encoded: EncodedKeys,
    expiries: Option<Vec<i64>>,
}

impl Run {
    pub(super) fn new(config: &Arc<Config>, info: BatchInfo) -> Result<Self> {
        let expiry = match config.forget {
            Forget::After(delay) => Some(Expiry::new(info.groups, info.evict, delay)),
            Forget::ByKey(_) => None,
        };
        Ok(Self {
            config: Arc::clone(config),
            info,
            codec: config.key_codec(info.key_groups)?,
            late: LateGate::new(info.late, info.late_rows),
            waiting: VecDeque::new(),
            waiting_size: Amount::default(),
            passed: VecDeque::new(),
            expiry,
            counts: OperatorCounts::default(),
            lists: 0,
            begun: false,
        })
    }

    fn on_time(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        self.late.on_time(0, rows, self.config.event_time, &mut self.counts.rows)
    }

    fn keys(&self, rows: &RecordBatch) -> Result<Keys> {
        let columns = self.config.key_columns(rows);
        match (self.config.forget, self.config.event_time) {
            (Forget::ByKey(time), _) => {
                let times = time.times(&columns)?;
                let encoded = self.codec.encode(&columns, times.as_ref(), rows.num_rows())?;
                Ok(Keys { encoded, expiries: None })
            }
            (Forget::After(delay), Some(time)) => {
                let times = event_times(rows.column(time))?;
                let encoded = self.codec.encode(&columns, None, rows.num_rows())?;
                Ok(Keys { encoded, expiries: Some(expiries(&times, delay)) })
            }
            (Forget::After(_), None) => {
                Err(Error::invalid("duplicates within the watermark need an event time"))
            }
        }
    }

    /// Before anything else is read.
    fn begin(&mut self, state: &mut dyn StateStore) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true)
            && let Some(expiry) = &mut self.expiry
        {
            self.counts.rows_removed += expiry.begin(self.info.late, state)?;
        }
        Ok(())
    }

    /// Looks up what waits.
    fn pass_waiting(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.begin(state)?;
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
        let Keys { encoded, expiries } = self.keys(&rows)?;
        let values = values_of(expiries.as_deref(), count);
        let new = state.put_absent(&encoded.keys, &values)?;
        let passing = new.count_set_bits();
        self.counts.rows_updated += passing as u64;
        self.counts.rows.emitted += passing as u64;
        self.counts.rows.duplicate += (count - passing) as u64;
        if let (Some(expiry), Some(expiries)) = (&mut self.expiry, expiries) {
            for row in new.set_indices() {
                let time = EventTime(expiries[row]);
                expiry.add(encoded.groups[row], encoded.keys.value(row), time);
            }
        }
        if passing == count {
            self.passed.push_back(rows);
        } else if passing > 0 {
            self.passed.push_back(filter_record_batch(&rows, &BooleanArray::new(new, None))?);
        }
        Ok(())
    }

    /// What the watermark has passed among keys that begin with a time: one range per key group.
    fn expired(&self) -> Vec<KeyRange> {
        match (self.config.forget, self.info.evict.0) {
            (Forget::ByKey(EventTimeKey::Column(_) | EventTimeKey::Window(_)), Some(until)) => {
                self.info.groups.groups().map(|group| self.codec.expired(group, until)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn note_size(&mut self, state: &dyn StateStore) {
        let size = state.size();
        self.counts.rows_total = size.rows.saturating_sub(self.lists);
        self.counts.memory_bytes = size.memory_bytes;
    }
}

/// When keys that come at these times expire. Without a time: soon, as in Spark, whose missing time
/// is the epoch.
fn expiries(times: &TimestampMicrosecondArray, delay: EventDuration) -> Vec<i64> {
    let expiry = |time: i64| EventTime(time).plus(delay).0;
    match times.null_count() {
        0 => times.values().iter().map(|&time| expiry(time)).collect(),
        _ => times.iter().map(|time| expiry(time.unwrap_or(0))).collect(),
    }
}

/// The state values of keys: when they expire, or nothing.
fn values_of(expiries: Option<&[i64]>, rows: usize) -> BinaryArray {
    let width = if expiries.is_some() { EXPIRY_BYTES } else { 0 };
    let bytes: Vec<u8> =
        expiries.unwrap_or_default().iter().flat_map(|expiry| expiry.to_be_bytes()).collect();
    let offsets: Vec<i32> = (0..=rows).map(|row| (row * width) as i32).collect();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    BinaryArray::new(offsets, Buffer::from_vec(bytes), None)
}

impl OperatorRun for Run {
    fn push(&mut self, port: usize, rows: RecordBatch, state: &mut dyn StateStore) -> Result<()> {
        if port != 0 || rows.num_columns() != self.config.schema.fields().len() {
            return Err(Error::invalid(format!(
                "a deduplication takes {} columns at port 0, not {} at port {port}",
                self.config.schema.fields().len(),
                rows.num_columns()
            )));
        }
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
        let mut added = Vec::new();
        for rows in &self.waiting {
            let Keys { encoded, expiries } = self.keys(rows)?;
            let expiries = expiries.unwrap_or_default().into_iter().map(EventTime);
            added.extend(encoded.groups.into_iter().zip(expiries));
            all.push(Prefetch::Keys(encoded.keys));
        }
        if let Some(expiry) = &self.expiry {
            all.extend(expiry.prefetch(added));
        }
        Ok(Prefetch::Each(all))
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.pass_waiting(state)?;
        self.counts.rows_removed += state.delete_ranges(&self.expired())?;
        if let Some(expiry) = &mut self.expiry {
            let evicted = expiry.finish(state)?;
            self.counts.rows_removed += evicted.keys;
            self.lists = evicted.records;
        }
        self.note_size(state);
        Ok(())
    }

    fn drain(&mut self, _: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        let Some(rows) = self.passed.pop_front() else { return Ok(None) };
        let limit = self.info.batch_rows.max(1);
        if rows.num_rows() > limit {
            self.passed.push_front(rows.slice(limit, rows.num_rows() - limit));
        }
        Ok(Some(rows.slice(0, rows.num_rows().min(limit))))
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        self.late.take()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}
