//! Small queries, run batch by batch on the kit's store.

use super::super::Aggregation;
use super::Row;
use crate::inspect::{StateView, testing::shown};
use crate::{EventTimeKey, WindowSpec, window_type};
use arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate as udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{CastExpr, col, lit};
use fluvial_conformance::operator::{Contents, TestStore};
use fluvial_core::{
    BatchId, BatchInfo, BatchTime, EventTime, EvictWatermark, KeyGroupCount, LateHandling,
    LateWatermark, Operator, OperatorCounts, OutputMode, PartitionId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn minute(minutes: f64) -> i64 {
    (minutes * 60e6) as i64
}

fn input() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]))
}

fn builder(function: Arc<AggregateUDF>) -> AggregateExprBuilder {
    let mut value = col("v", &input()).unwrap();
    if matches!(function.name(), "avg" | "var_pop" | "approx_percentile_cont") {
        value = Arc::new(CastExpr::new(value, DataType::Float64, None));
    }
    let mut arguments = vec![value];
    if function.name() == "approx_percentile_cont" {
        arguments.push(lit(0.5f64));
    }
    AggregateExprBuilder::new(function, arguments).schema(input())
}

/// `function(v) as name`.
pub(super) fn aggregate(function: Arc<AggregateUDF>, name: &str) -> Arc<AggregateFunctionExpr> {
    Arc::new(builder(function).alias(name).build().unwrap())
}

pub(super) fn distinct(function: Arc<AggregateUDF>) -> Arc<AggregateFunctionExpr> {
    Arc::new(builder(function).alias("d").distinct().build().unwrap())
}

/// `count(1) as n, sum(v) as total`.
pub(super) fn count_and_sum() -> Vec<Arc<AggregateFunctionExpr>> {
    let count = udaf::count::count_udaf();
    let count = AggregateExprBuilder::new(count, vec![lit(1i64)]).schema(input());
    vec![Arc::new(count.alias("n").build().unwrap()), aggregate(udaf::sum::sum_udaf(), "total")]
}

fn key() -> FieldRef {
    Arc::new(Field::new("k", DataType::Utf8, true))
}

fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

pub(super) fn group_by_window(minutes: i64) -> Aggregation {
    windowed(minutes, count_and_sum())
}

pub(super) fn windowed(minutes: i64, aggregates: Vec<Arc<AggregateFunctionExpr>>) -> Aggregation {
    let spec = WindowSpec::parse(&format!("{minutes} minutes"), None, None).unwrap();
    let window = Arc::new(Field::new("window", window_type(Some("UTC".into())), true));
    let groups: Vec<FieldRef> = vec![window, key()];
    Aggregation::new(groups, aggregates, EventTimeKey::Window(0), spec.meaning()).unwrap()
}

pub(super) fn group_by_time() -> Aggregation {
    let groups: Vec<FieldRef> = vec![Arc::new(Field::new("ts", time_type(), true))];
    let time = EventTimeKey::Column(0);
    Aggregation::new(groups, count_and_sum(), time, BTreeMap::new()).unwrap()
}

pub(super) fn group_by_key() -> Aggregation {
    Aggregation::new(vec![key()], count_and_sum(), EventTimeKey::None, BTreeMap::new()).unwrap()
}

pub(super) fn group_by_number() -> Aggregation {
    let groups: Vec<FieldRef> = vec![Arc::new(Field::new("d", DataType::Float64, true))];
    let count = count_and_sum().remove(0);
    Aggregation::new(groups, vec![count], EventTimeKey::None, BTreeMap::new()).unwrap()
}

pub(super) fn global() -> Aggregation {
    Aggregation::new(vec![], count_and_sum(), EventTimeKey::None, BTreeMap::new()).unwrap()
}

pub(super) fn info(mode: OutputMode, late: Option<i64>, evict: Option<i64>) -> BatchInfo {
    let time = |minutes: Option<i64>| minutes.map(|m| EventTime(minute(m as f64)));
    BatchInfo {
        batch: BatchId(0),
        late: LateWatermark(time(late)),
        evict: EvictWatermark(time(evict)),
        time: BatchTime(0),
        mode,
        partition: PartitionId(0),
        groups: KeyGroupCount::DEFAULT.all(),
        key_groups: KeyGroupCount::DEFAULT,
        batch_rows: 3,
        late_rows: LateHandling::Drop,
    }
}

/// The partial aggregation of rows that are one group each: grouping columns and values.
pub(super) fn partial(
    aggregation: &Aggregation,
    groups: Vec<ArrayRef>,
    values: &ArrayRef,
) -> RecordBatch {
    let mut columns = groups;
    let rows = RecordBatch::try_new(input(), vec![Arc::clone(values)]).unwrap();
    for aggregate in aggregation.config.aggregates.iter() {
        let arguments = aggregate.expr.expressions();
        let evaluate = |argument: &Arc<dyn PhysicalExpr>| {
            argument.evaluate(&rows).unwrap().into_array(rows.num_rows()).unwrap()
        };
        let arguments: Vec<ArrayRef> = arguments.iter().map(evaluate).collect();
        let states = aggregate.create().unwrap().convert_to_state(&arguments, None);
        columns.extend(states.unwrap());
    }
    let options = RecordBatchOptions::new().with_row_count(Some(values.len()));
    RecordBatch::try_new_with_options(aggregation.input_schema(), columns, &options).unwrap()
}

/// What came of a batch; rows are sorted, windows are shown in minutes.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) rows: Vec<String>,
    pub(super) counts: OperatorCounts,
}

/// A query and its state.
pub(super) struct Query {
    aggregation: Aggregation,
    mode: OutputMode,
    contents: Contents,
}

impl Query {
    pub(super) fn new(aggregation: Aggregation, mode: OutputMode) -> Self {
        Self { aggregation, mode, contents: Contents::new() }
    }

    pub(super) fn run(&mut self, rows: &[Row], late: Option<i64>, evict: Option<i64>) -> Outcome {
        let times: TimestampMicrosecondArray = rows.iter().map(|row| row.1.map(minute)).collect();
        let times = times.with_timezone("UTC");
        let fields = self.aggregation.config.groups.clone();
        let groups = fields
            .iter()
            .map(|field| -> ArrayRef {
                match field.data_type() {
                    DataType::Utf8 => {
                        Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>())
                    }
                    DataType::Timestamp(..) => Arc::new(times.clone()),
                    _ => {
                        let size = &self.aggregation.config.meaning["window_size"];
                        let spec = WindowSpec::parse(size, None, None).unwrap();
                        Arc::new(spec.tumbling(&times))
                    }
                }
            })
            .collect();
        let values: ArrayRef = Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>());
        let batch = partial(&self.aggregation, groups, &values);
        self.push(batch, late, evict)
    }

    /// What the partial aggregation of no rows without grouping columns gives: one row.
    pub(super) fn run_without_rows(&mut self) -> Outcome {
        let states: Vec<ArrayRef> = self
            .aggregation
            .config
            .aggregates
            .iter()
            .flat_map(|aggregate| aggregate.expr.create_accumulator().unwrap().state().unwrap())
            .map(|state| state.to_array().unwrap())
            .collect();
        let batch = RecordBatch::try_new(self.aggregation.input_schema(), states).unwrap();
        self.push(batch, None, None)
    }

    pub(super) fn run_numbers(&mut self, keys: &[Option<f64>]) -> Outcome {
        let groups: Vec<ArrayRef> = vec![Arc::new(Float64Array::from(keys.to_vec()))];
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1; keys.len()]));
        let batch = partial(&self.aggregation, groups, &values);
        self.push(batch, None, None)
    }

    pub(super) fn run_values(&mut self, values: &ArrayRef) -> Outcome {
        let batch = partial(&self.aggregation, Vec::new(), values);
        self.push(batch, None, None)
    }

    /// The state as a table.
    pub(super) fn shown(&self) -> Vec<String> {
        shown(&self.aggregation, &StateView::Entries, &self.contents)
    }

    /// Runs a batch on a store that is local, and on one that is not: nothing may differ.
    fn push(&mut self, batch: RecordBatch, late: Option<i64>, evict: Option<i64>) -> Outcome {
        let info = info(self.mode, late, evict);
        let local = TestStore::open_local(&self.contents, info.groups);
        let (local, contents) = self.play(local, batch.clone(), info);
        let lazy = TestStore::open(&self.contents, info.groups);
        let (lazy, lazy_contents) = self.play(lazy, batch, info);
        assert_eq!((&local, &contents), (&lazy, &lazy_contents), "local and not");
        self.contents = contents;
        lazy
    }

    fn play(
        &self,
        mut store: TestStore,
        batch: RecordBatch,
        info: BatchInfo,
    ) -> (Outcome, Contents) {
        let mut run = self.aggregation.start(info).unwrap();
        run.push(0, batch, &mut store).unwrap();
        assert!(run.drain(&mut store).unwrap().is_none(), "nothing is final before all input");
        store.bring(&run.prefetch().unwrap());
        run.finish_input(&mut store).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = run.drain(&mut store).unwrap() {
            assert_eq!(batch.schema(), self.aggregation.output_schema());
            rows.extend((0..batch.num_rows()).map(|i| text(&batch, i)));
        }
        rows.sort();
        let counts = run.counts();
        let contents = store.into_contents();
        assert_eq!(counts.rows_total, contents.len() as u64);
        (Outcome { rows, counts }, contents)
    }
}

fn text(batch: &RecordBatch, row: usize) -> String {
    let cell = |column: &ArrayRef| -> String {
        if let Some(window) = arrow::array::AsArray::as_struct_opt(column) {
            let minutes = |i: usize| time_in_minutes(window.column(i), row);
            return format!("{}..{}", minutes(0), minutes(1));
        }
        if column.data_type() == &time_type() {
            return time_in_minutes(column, row);
        }
        let options = FormatOptions::default().with_null("null");
        ArrayFormatter::try_new(column.as_ref(), &options).unwrap().value(row).to_string()
    };
    batch.columns().iter().map(cell).collect::<Vec<_>>().join(" ")
}

fn time_in_minutes(column: &ArrayRef, row: usize) -> String {
    use arrow::array::AsArray;
    use arrow::datatypes::TimestampMicrosecondType;
    if column.is_null(row) {
        return "null".to_owned();
    }
    (column.as_primitive::<TimestampMicrosecondType>().value(row) / minute(1.)).to_string()
}
