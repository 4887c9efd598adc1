//! `Limit`: the first rows of a whole stream.

use crate::watermark::OutputWatermark;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use fluvial_core::{
    BatchInfo, Error, EvictWatermark, KeyGroupCount, LateBatch, Operator, OperatorCounts,
    OperatorRun, OutputMode, Prefetch, Result, StateField, StateLayout, StateSchema, StateStore,
};
use fluvial_state::{KeyCodec, KeyLayout, ValueCodec};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Passes the first `rows` rows of a stream, counted over all batches, in append mode.
///
/// How many have passed is one row of state, under the key without columns; so all input must
/// come to the partition that owns [`KeyCodec::group_of_nothing`]. A limit on a complete result
/// is no such operator: it begins anew in every batch.
#[derive(Debug)]
pub struct Limit {
    rows: u64,
    schema: SchemaRef,
}

impl Limit {
    /// Passes `rows` rows of this schema.
    pub fn new(rows: u64, schema: SchemaRef) -> Self {
        Self { rows, schema }
    }

    /// The codec of its key: the exchange in front of it must use the same one, over no columns.
    ///
    /// # Errors
    ///
    /// None.
    pub fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        KeyCodec::new(KeyLayout::Key, Vec::new(), key_groups)
    }

    /// How its input's watermark passes it.
    pub const OUTPUT_WATERMARK: OutputWatermark = OutputWatermark::Passes;
}

impl Operator for Limit {
    fn kind(&self) -> &str {
        "globalLimit"
    }

    fn ports(&self) -> usize {
        1
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn state_schema(&self) -> StateSchema {
        StateSchema {
            kind: self.kind().to_owned(),
            format: 1,
            keys: Vec::new(),
            values: vec![StateField::of("count", &DataType::UInt64)],
            // Spark lets a limit change; what has passed is counted either way.
            meaning: BTreeMap::new(),
            layout: Some(StateLayout::default()),
        }
    }

    fn wants_empty_batch(&self, _: OutputMode, _: EvictWatermark, _: EvictWatermark) -> bool {
        false
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        if info.mode != OutputMode::Append {
            return Err(Error::invalid(format!(
                "a limit on a stream needs append mode, not {}: rows already emitted would change",
                info.mode
            ))
            .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"));
        }
        let key = self.key_codec(info.key_groups)?.encode(&[], None, 1)?.keys;
        Ok(Box::new(LimitRun {
            limit: self.rows,
            batch_rows: info.batch_rows.max(1),
            key,
            values: ValueCodec::new(vec![DataType::UInt64])?,
            waiting: VecDeque::new(),
            held: 0,
            decided: false,
            counts: OperatorCounts::default(),
        }))
    }
}

struct LimitRun {
    limit: u64,
    batch_rows: usize,
    key: BinaryArray,
    values: ValueCodec,
    /// Rows that may pass: what the state says about it is not known before all input is there.
    waiting: VecDeque<RecordBatch>,
    held: u64,
    decided: bool,
    counts: OperatorCounts,
}

impl LimitRun {
    fn passed(&self, state: &dyn StateStore) -> Result<u64> {
        let stored = state.get_many(&self.key)?;
        if stored.is_null(0) {
            return Ok(0);
        }
        let columns = self.values.decode(&stored)?;
        Ok(columns[0].as_primitive::<UInt64Type>().value(0))
    }

    /// Keeps the first `rows` rows of those that wait.
    fn keep(&mut self, mut rows: u64) {
        for batch in &mut self.waiting {
            let kept = rows.min(batch.num_rows() as u64);
            *batch = batch.slice(0, kept as usize);
            rows -= kept;
            self.counts.rows.emitted += kept;
        }
        self.waiting.retain(|batch| batch.num_rows() > 0);
    }

    fn note_size(&mut self, state: &dyn StateStore) {
        let size = state.size();
        self.counts.rows_total = size.rows;
        self.counts.memory_bytes = size.memory_bytes;
    }
}

impl OperatorRun for LimitRun {
    fn push(&mut self, _port: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        // Never more than could pass if nothing had passed before.
        let room = self.limit.saturating_sub(self.held).min(rows.num_rows() as u64);
        self.counts.rows.over_limit += rows.num_rows() as u64 - room;
        if room > 0 {
            self.held += room;
            self.waiting.push_back(rows.slice(0, room as usize));
        }
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        Ok(Prefetch::Keys(self.key.clone()))
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        // A partition without rows may not even own the key.
        if self.held > 0 {
            let passed = self.passed(state)?;
            let passing = self.held.min(self.limit.saturating_sub(passed));
            self.counts.rows.over_limit += self.held - passing;
            self.keep(passing);
            if passing > 0 {
                let count: ArrayRef = Arc::new(UInt64Array::from(vec![passed + passing]));
                state.put_many(&self.key, &self.values.encode(&[count], 1)?)?;
                self.counts.rows_updated = 1;
            }
        }
        self.decided = true;
        self.note_size(state);
        Ok(())
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        self.note_size(state);
        if !self.decided {
            return Ok(None);
        }
        let Some(batch) = self.waiting.pop_front() else { return Ok(None) };
        if batch.num_rows() > self.batch_rows {
            let rest = batch.num_rows() - self.batch_rows;
            self.waiting.push_front(batch.slice(self.batch_rows, rest));
        }
        Ok(Some(batch.slice(0, batch.num_rows().min(self.batch_rows))))
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        Vec::new()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use arrow::datatypes::{Field, Int64Type, Schema};
    use fluvial_conformance::operator::{Contents, Event, Subject, TestStore};
    use fluvial_core::{
        BatchId, BatchTime, EventDuration, KeyGroup, LateHandling, LateWatermark, PartitionId,
    };

    /// A limit over the kit's events.
    struct Case(Limit);

    impl Case {
        fn new(rows: u64) -> Self {
            let field = Field::new("v", DataType::Int64, false);
            Self(Limit::new(rows, Arc::new(Schema::new(vec![field]))))
        }

        fn batch(&self, values: impl IntoIterator<Item = i64>) -> RecordBatch {
            let values = Int64Array::from_iter_values(values);
            RecordBatch::try_new(self.0.output_schema(), vec![Arc::new(values)]).unwrap()
        }

        /// The values that pass, and the counts.
        fn run(&self, contents: &mut Contents, values: &[i64]) -> (Vec<i64>, OperatorCounts) {
            let info = info(OutputMode::Append);
            let mut store = TestStore::open(contents, info.groups);
            let mut run = self.0.start(info).unwrap();
            run.push(0, self.batch(values.iter().copied()), &mut store).unwrap();
            store.bring(&run.prefetch().unwrap());
            run.finish_input(&mut store).unwrap();
            let mut passed = Vec::new();
            while let Some(rows) = run.drain(&mut store).unwrap() {
                passed.extend(rows.column(0).as_primitive::<Int64Type>().values());
            }
            *contents = store.into_contents();
            (passed, run.counts())
        }
    }

    impl Subject for Case {
        fn operator(&self) -> &dyn Operator {
            &self.0
        }

        fn mode(&self) -> OutputMode {
            OutputMode::Append
        }

        fn rows(&self, _: usize, events: &[Event]) -> RecordBatch {
            self.batch(events.iter().map(|event| event.value))
        }

        fn groups(&self, _: usize, rows: &RecordBatch, key_groups: KeyGroupCount) -> Vec<KeyGroup> {
            vec![KeyCodec::group_of_nothing(key_groups); rows.num_rows()]
        }

        fn reach(&self) -> EventDuration {
            EventDuration(0)
        }
    }

    fluvial_conformance::operator!(timeless: small_limit, || Case::new(50));
    fluvial_conformance::operator!(timeless: limit_never_reached, || Case::new(u64::MAX));

    fn info(mode: OutputMode) -> BatchInfo {
        BatchInfo {
            batch: BatchId(0),
            late: LateWatermark(None),
            evict: EvictWatermark(None),
            time: BatchTime(0),
            mode,
            partition: PartitionId(0),
            groups: KeyGroupCount::DEFAULT.all(),
            key_groups: KeyGroupCount::DEFAULT,
            batch_rows: 2,
            late_rows: LateHandling::Drop,
        }
    }

    /// The case `suite_limit_across_batches`.
    #[test]
    fn rows_are_counted_over_batches() {
        let (case, mut contents) = (Case::new(4), Contents::new());
        let mut run = |values: &[i64]| {
            let (passed, counts) = case.run(&mut contents, values);
            (passed, [counts.rows_total, counts.rows_updated, counts.rows_removed])
        };
        assert_eq!(run(&[]), (vec![], [0, 0, 0]));
        assert_eq!(run(&[1, 2]), (vec![1, 2], [1, 1, 0]));
        assert_eq!(run(&[3, 4, 5, 6]), (vec![3, 4], [1, 1, 0]));
        assert_eq!(run(&[7, 8, 9]), (vec![], [1, 0, 0]));
    }

    #[test]
    fn what_has_passed_is_shown_without_the_query() {
        use crate::inspect::{StateView, testing::shown};
        let (case, mut contents) = (Case::new(4), Contents::new());
        case.run(&mut contents, &[1, 2]);
        assert_eq!(shown(&case.0, &StateView::Entries, &contents), ["value={count: 2}"]);
        assert_eq!(shown(&case.0, &StateView::Bytes, &contents).len(), 1);
    }

    #[test]
    fn a_limit_of_nothing_stores_nothing() {
        let mut contents = Contents::new();
        assert_eq!(Case::new(0).run(&mut contents, &[1, 2]).0, Vec::<i64>::new());
        assert!(contents.is_empty());
    }

    #[test]
    fn other_modes_are_refused() {
        for mode in [OutputMode::Update, OutputMode::Complete] {
            assert!(Case::new(1).0.start(info(mode)).is_err());
        }
    }
}
