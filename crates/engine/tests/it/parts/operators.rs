//! Two operators: dedup (sensitive to what was planned) and a windowed count (sensitive to
//! watermarks).

use crate::parts::rows::{SECOND, input_schema};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};
use fluvial_core::{
    BatchInfo, EventTime, EvictWatermark, KeyGroup, KeyGroupCount, KeyRange, LateBatch,
    LateHandling, Operator, OperatorCounts, OperatorRun, OutputMode, Prefetch, Result, StateSchema,
    StateStore,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

fn keys_of(rows: &RecordBatch) -> Vec<i64> {
    rows.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn group(key: i64, groups: KeyGroupCount) -> KeyGroup {
    groups.group_of((key as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The key group of each row: the first column is the key.
pub(crate) fn route(_: usize, rows: &RecordBatch, groups: KeyGroupCount) -> Result<Vec<KeyGroup>> {
    Ok(keys_of(rows).into_iter().map(|key| group(key, groups)).collect())
}

fn schema_of(kind: &str, meaning: &[(&str, String)]) -> StateSchema {
    StateSchema {
        kind: kind.into(),
        format: 1,
        keys: Vec::new(),
        values: Vec::new(),
        meaning: meaning.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
        layout: None,
    }
}

/// The first row of each key, ever.
pub(crate) struct Dedup;

impl Operator for Dedup {
    fn kind(&self) -> &str {
        "dedupe"
    }

    fn ports(&self) -> usize {
        1
    }

    fn output_schema(&self) -> SchemaRef {
        input_schema()
    }

    fn state_schema(&self) -> StateSchema {
        schema_of("dedupe", &[])
    }

    fn wants_empty_batch(&self, _: OutputMode, _: EvictWatermark, _: EvictWatermark) -> bool {
        false
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        let counts = OperatorCounts::default();
        let (finished, asked) = (false, AtomicBool::new(false));
        Ok(Box::new(DedupRun { info, output: Vec::new(), counts, finished, asked }))
    }
}

struct DedupRun {
    info: BatchInfo,
    output: Vec<RecordBatch>,
    counts: OperatorCounts,
    finished: bool,
    /// Whether it was asked what draining will read, after `finish_input`.
    asked: AtomicBool,
}

impl OperatorRun for DedupRun {
    fn push(&mut self, _: usize, rows: RecordBatch, state: &mut dyn StateStore) -> Result<()> {
        let state_keys = keys_of(&rows).into_iter().map(|key| {
            let mut bytes = group(key, self.info.key_groups).prefix().to_vec();
            bytes.extend(key.to_be_bytes());
            bytes
        });
        let state_keys = BinaryArray::from_iter_values(state_keys);
        let known = state.get_many(&state_keys)?;
        let mut seen = BTreeSet::new();
        let fresh: Vec<bool> = (0..rows.num_rows())
            .map(|row| known.is_null(row) && seen.insert(state_keys.value(row).to_vec()))
            .collect();
        let new: BinaryArray = BinaryArray::from_iter_values(
            (0..rows.num_rows()).filter(|row| fresh[*row]).map(|row| state_keys.value(row)),
        );
        let values = BinaryArray::from_iter_values((0..new.len()).map(|_| b""));
        state.put_many(&new, &values)?;
        self.counts.rows_updated += new.len() as u64;
        self.counts.rows.emitted += new.len() as u64;
        self.counts.rows.duplicate += (rows.num_rows() - new.len()) as u64;
        self.output.push(filter_record_batch(&rows, &fresh.into())?);
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        self.asked.store(self.finished, SeqCst);
        Ok(Prefetch::Nothing)
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.finished = true;
        self.counts.rows_total = state.size().rows;
        Ok(())
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        let known = !self.finished || state.is_local() || self.asked.load(SeqCst);
        assert!(known, "drained without being asked what that reads");
        Ok(self.output.pop())
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        Vec::new()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}

/// Counts per key and tumbling window of so many seconds.
pub(crate) struct Windows(pub(crate) i64);

impl Operator for Windows {
    fn kind(&self) -> &str {
        "stateStoreSave"
    }

    fn ports(&self) -> usize {
        1
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("end", DataType::Int64, false),
            Field::new("key", DataType::Int64, false),
            Field::new("n", DataType::UInt64, false),
        ]))
    }

    fn state_schema(&self) -> StateSchema {
        schema_of("stateStoreSave", &[("window", self.0.to_string())])
    }

    fn wants_empty_batch(
        &self,
        mode: OutputMode,
        from: EvictWatermark,
        to: EvictWatermark,
    ) -> bool {
        mode != OutputMode::Complete && from != to
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        Ok(Box::new(WindowsRun {
            size: self.0 * SECOND,
            schema: self.output_schema(),
            info,
            added: BTreeMap::new(),
            late: Vec::new(),
            output: None,
            counts: OperatorCounts::default(),
        }))
    }
}

struct WindowsRun {
    size: i64,
    schema: SchemaRef,
    info: BatchInfo,
    /// (end, key) and what this batch adds.
    added: BTreeMap<(i64, i64), u64>,
    late: Vec<LateBatch>,
    output: Option<RecordBatch>,
    counts: OperatorCounts,
}

/// `[group][time][key]`.
fn window_key(end: i64, key: i64, groups: KeyGroupCount) -> Vec<u8> {
    let mut bytes = group(key, groups).prefix().to_vec();
    bytes.extend((end ^ i64::MIN).to_be_bytes());
    bytes.extend(key.to_be_bytes());
    bytes
}

fn number(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.try_into().unwrap())
}

impl WindowsRun {
    fn rows(&self, entries: Vec<(i64, i64, u64)>) -> RecordBatch {
        let ends = entries.iter().map(|(end, _, _)| end / SECOND);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ends)),
            Arc::new(Int64Array::from_iter_values(entries.iter().map(|e| e.1))),
            Arc::new(UInt64Array::from_iter_values(entries.iter().map(|e| e.2))),
        ];
        RecordBatch::try_new(Arc::clone(&self.schema), columns).unwrap()
    }
}

impl OperatorRun for WindowsRun {
    fn push(&mut self, _: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        let times = rows.column(1).as_primitive::<TimestampMicrosecondType>();
        for (row, (key, time)) in keys_of(&rows).into_iter().zip(times.values()).enumerate() {
            let end = (time.div_euclid(self.size) + 1) * self.size;
            if self.info.late.is_late(EventTime(end)) {
                self.counts.rows.late += 1;
                if self.info.late_rows == LateHandling::HandOver {
                    self.late.push(LateBatch { port: 0, rows: rows.slice(row, 1) });
                }
            } else {
                self.counts.rows.kept += 1;
                *self.added.entry((end, key)).or_default() += 1;
            }
        }
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        Ok(Prefetch::Nothing)
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        let groups = self.info.key_groups;
        let keys = self.added.keys().map(|(end, key)| window_key(*end, *key, groups));
        let keys = BinaryArray::from_iter_values(keys);
        let old = state.get_many(&keys)?;
        let mut touched = Vec::new();
        for (row, ((end, key), n)) in std::mem::take(&mut self.added).into_iter().enumerate() {
            let before = if old.is_null(row) { 0 } else { number(old.value(row)) as u64 };
            touched.push((end, key, before + n));
        }
        let values = touched.iter().map(|(_, _, n)| (*n as i64).to_be_bytes());
        state.put_many(&keys, &BinaryArray::from_iter_values(values))?;
        self.counts.rows_updated = touched.len() as u64;
        let mut closed = Vec::new();
        for group in self.info.groups.groups() {
            let range = KeyRange::prefix(&group.prefix());
            let entries = state.scan(&range, usize::MAX)?;
            for row in 0..entries.keys.len() {
                let key = entries.keys.value(row);
                let end = number(&key[2..10]) ^ i64::MIN;
                let expires = self.info.evict.expires(EventTime(end));
                if self.info.mode == OutputMode::Complete || expires {
                    closed.push((
                        end,
                        number(&key[10..]),
                        number(entries.values.value(row)) as u64,
                    ));
                }
                if self.info.mode != OutputMode::Complete && expires {
                    state.delete_many(&BinaryArray::from_iter_values([key]))?;
                    self.counts.rows_removed += 1;
                }
            }
        }
        closed.sort_unstable();
        let output = if self.info.mode == OutputMode::Update { touched } else { closed };
        self.output = (!output.is_empty()).then(|| self.rows(output));
        self.counts.rows_total = state.size().rows;
        Ok(())
    }

    fn drain(&mut self, _: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        Ok(self.output.take())
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        std::mem::take(&mut self.late)
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}
