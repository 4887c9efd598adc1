//! Sums per key and window of ten seconds, written down plainly, with faults to choose from.

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use fluvial_conformance::operator::{Event, Subject};
use fluvial_core::{
    BatchInfo, EventDuration, EventTime, EvictWatermark, KeyGroup, KeyGroupCount, KeyRange,
    LateBatch, LateHandling, Operator, OperatorCounts, OperatorRun, OutputMode, Prefetch, Result,
    StateSchema, StateStore,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const WINDOW: i64 = 10_000_000;
static CLOCK: AtomicI64 = AtomicI64::new(0);

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    SeesAClock,
    CountsChunks,
    ForgetsState,
    ForgetsLocalState,
    TakesLateRows,
    CountsNoLateRows,
    KeepsLateRows,
    LosesARow,
    CountsTwice,
    NeverEvicts,
    EvictsOnePerBatch,
    Floods,
    DropsTheRest,
    EvictsFirst,
    SeesThePartition,
    PrefetchesNothing,
}

/// The operator and its faults.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    fault: Fault,
}

impl Sums {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault }
    }
}

fn schema(names: [&str; 3]) -> SchemaRef {
    Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::Int64, false)).to_vec()))
}

fn columns(rows: &[[i64; 3]]) -> Vec<ArrayRef> {
    (0..3).map(|c| Arc::new(rows.iter().map(|r| Some(r[c])).collect::<Int64Array>()) as _).collect()
}

fn rows_of(batch: &RecordBatch) -> Vec<[i64; 3]> {
    let column = |c: usize| batch.column(c).as_primitive::<Int64Type>().values();
    (0..batch.num_rows()).map(|i| [0, 1, 2].map(|c| column(c)[i])).collect()
}

fn group_of(key: i64, key_groups: KeyGroupCount) -> KeyGroup {
    key_groups.group_of((key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn encode(group: KeyGroup, end: i64, key: i64) -> Vec<u8> {
    let ordered = |n: i64| (n ^ i64::MIN).to_be_bytes();
    [group.prefix().as_slice(), &ordered(end), &ordered(key)].concat()
}

fn decode(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.try_into().expect("eight bytes")) ^ i64::MIN
}

impl Subject for Sums {
    fn operator(&self) -> &dyn Operator {
        self
    }

    fn mode(&self) -> OutputMode {
        OutputMode::Append
    }

    fn rows(&self, _: usize, events: &[Event]) -> RecordBatch {
        let rows: Vec<_> = events.iter().map(|e| [e.key, e.time, e.value]).collect();
        RecordBatch::try_new(schema(["key", "time", "value"]), columns(&rows)).expect("rows")
    }

    fn groups(&self, _: usize, rows: &RecordBatch, key_groups: KeyGroupCount) -> Vec<KeyGroup> {
        rows_of(rows).iter().map(|row| group_of(row[0], key_groups)).collect()
    }

    fn reach(&self) -> EventDuration {
        EventDuration(WINDOW)
    }
}

impl Operator for Sums {
    fn kind(&self) -> &str {
        "sums"
    }

    fn ports(&self) -> usize {
        1
    }

    fn output_schema(&self) -> SchemaRef {
        schema(["end", "key", "sum"])
    }

    fn state_schema(&self) -> StateSchema {
        StateSchema {
            kind: "sums".into(),
            format: 1,
            keys: Vec::new(),
            values: Vec::new(),
            meaning: BTreeMap::new(),
            layout: None,
        }
    }

    fn wants_empty_batch(&self, _: OutputMode, from: EvictWatermark, to: EvictWatermark) -> bool {
        to > from
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        Ok(Box::new(Run {
            operator: self.clone(),
            info,
            sums: BTreeMap::new(),
            output: Vec::new(),
            late: Vec::new(),
            counts: OperatorCounts::default(),
        }))
    }
}

struct Run {
    operator: Sums,
    info: BatchInfo,
    sums: BTreeMap<Vec<u8>, i64>,
    output: Vec<[i64; 3]>,
    late: Vec<LateBatch>,
    counts: OperatorCounts,
}

impl Run {
    fn has(&self, fault: Fault) -> bool {
        self.operator.fault == fault
    }

    fn expired(&self) -> Vec<KeyRange> {
        let Some(EventTime(until)) = self.info.evict.0 else { return Vec::new() };
        let range = |group: KeyGroup| KeyRange {
            start: group.prefix().to_vec(),
            end: encode(group, until + 1, i64::MIN),
        };
        self.info.groups.groups().map(range).collect()
    }

    fn evict(&mut self, state: &mut dyn StateStore) -> Result<()> {
        for range in self.expired() {
            let limit = if self.has(Fault::EvictsOnePerBatch) { 1 } else { usize::MAX };
            let found = state.scan(&range, limit)?;
            for (key, value) in found.keys.iter().flatten().zip(found.values.iter().flatten()) {
                self.output.push([decode(&key[2..10]), decode(&key[10..]), decode(value)]);
            }
            if !self.has(Fault::NeverEvicts) {
                state.delete_many(&found.keys)?;
                self.counts.rows_removed += found.keys.iter().count() as u64;
            }
        }
        Ok(())
    }

    fn write(&mut self, state: &mut dyn StateStore) -> Result<()> {
        let keys = self.keys();
        let forgets_local = self.has(Fault::ForgetsLocalState) && state.is_local();
        let old = match self.has(Fault::ForgetsState) || forgets_local {
            true => BinaryArray::from(vec![None::<&[u8]>; self.sums.len()]),
            false => state.get_many(&keys)?,
        };
        let extra = match self.operator.fault {
            Fault::SeesAClock => CLOCK.fetch_add(1, Ordering::Relaxed),
            Fault::SeesThePartition => i64::from(self.info.partition.0),
            _ => 0,
        };
        let sums = self.sums.values().zip(old.iter());
        let values: Vec<[u8; 8]> = sums
            .map(|(sum, old)| ((sum + old.map_or(0, decode) + extra) ^ i64::MIN).to_be_bytes())
            .collect();
        self.counts.rows_updated += values.len() as u64;
        state.put_many(&keys, &BinaryArray::from_iter_values(values))
    }

    fn keys(&self) -> BinaryArray {
        BinaryArray::from_iter_values(self.sums.keys())
    }
}

impl OperatorRun for Run {
    fn push(&mut self, _: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        let mut extra = i64::from(self.has(Fault::CountsChunks));
        let mut late = Vec::new();
        for (row, [key, time, value]) in rows_of(&rows).into_iter().enumerate() {
            let end = (time.div_euclid(WINDOW) + 1) * WINDOW;
            if self.info.late.is_late(EventTime(end)) && !self.has(Fault::TakesLateRows) {
                if !self.has(Fault::CountsNoLateRows) {
                    self.counts.rows.late += 1;
                }
                late.push(rows.slice(row, 1));
                continue;
            }
            if self.has(Fault::LosesARow) && value == 7 {
                continue;
            }
            self.counts.rows.kept += 1 + u64::from(self.has(Fault::CountsTwice));
            let encoded = encode(group_of(key, self.info.key_groups), end, key);
            *self.sums.entry(encoded).or_default() += value + std::mem::take(&mut extra);
        }
        if self.info.late_rows == LateHandling::HandOver && !self.has(Fault::KeepsLateRows) {
            self.late.extend(late.into_iter().map(|rows| LateBatch { port: 0, rows }));
        }
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        if self.has(Fault::PrefetchesNothing) {
            return Ok(Prefetch::Nothing);
        }
        Ok(Prefetch::Each(vec![Prefetch::Keys(self.keys()), Prefetch::Ranges(self.expired())]))
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        if self.has(Fault::EvictsFirst) {
            self.evict(state)?;
            self.write(state)?;
        } else {
            self.write(state)?;
            self.evict(state)?;
        }
        Ok(())
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        self.counts.rows_total = state.size().rows;
        let all = self.output.len();
        let count = if self.has(Fault::Floods) { all } else { all.min(self.info.batch_rows) };
        let rows: Vec<_> = self.output.drain(..count).collect();
        if self.has(Fault::DropsTheRest) {
            self.output.clear();
        }
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(RecordBatch::try_new(self.operator.output_schema(), columns(&rows))?))
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        std::mem::take(&mut self.late)
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}
