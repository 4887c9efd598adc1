//! Sessions driven by hand, with numbers taken from Spark; the kit's laws; a naive model.

mod laws;
mod model;

use super::*;
use crate::window_type;
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use datafusion_functions_aggregate as udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{col, lit};
use fluvial_conformance::operator::{Contents, TestStore};
use fluvial_core::{
    BatchId, BatchTime, EventTime, LateHandling, LateWatermark, OperatorCounts, PartitionId,
    StateStore,
};
use fluvial_sim::block_on;

const MINUTE: i64 = 60_000_000;

fn values() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]))
}

/// `count(1) as n, sum(v) as total`, and `first(v)`, whose result depends on the order.
fn aggregates() -> Vec<Arc<AggregateFunctionExpr>> {
    let built = |function, argument: Arc<dyn PhysicalExpr>, name: &str| {
        let builder = AggregateExprBuilder::new(function, vec![argument]).schema(values());
        Arc::new(builder.alias(name).build().unwrap())
    };
    let value = || col("v", &values()).unwrap();
    vec![
        built(udaf::count::count_udaf(), lit(1i64), "n"),
        built(udaf::sum::sum_udaf(), value(), "total"),
        built(udaf::first_last::first_value_udaf(), value(), "first"),
    ]
}

fn by(key: DataType, time: SessionTime) -> SessionAggregation {
    let window = Arc::new(Field::new("session_window", window_type(None), false));
    let groups: Vec<FieldRef> = vec![window, Arc::new(Field::new("k", key, true))];
    SessionAggregation::new(groups, 0, aggregates(), time).unwrap()
}

/// What the partial aggregation gives for rows of these keys, times, gaps and values.
fn partial(
    sessions: &SessionAggregation,
    keys: ArrayRef,
    edges: impl Iterator<Item = (i64, i64)>,
    numbers: Vec<i64>,
) -> RecordBatch {
    let (starts, ends): (Vec<i64>, Vec<i64>) = edges.unzip();
    let DataType::Struct(fields) = window_type(None) else { unreachable!() };
    let edges: Vec<ArrayRef> = vec![
        Arc::new(TimestampMicrosecondArray::from(starts)),
        Arc::new(TimestampMicrosecondArray::from(ends)),
    ];
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(StructArray::new(fields, edges, None)), Arc::clone(&keys)];
    let rows = vec![Arc::new(Int64Array::from(numbers)) as ArrayRef];
    let rows = RecordBatch::try_new(values(), rows).unwrap();
    for aggregate in sessions.config.aggregates.iter() {
        let arguments = aggregate.expr.expressions();
        let arguments: Vec<ArrayRef> = arguments
            .iter()
            .map(|a| a.evaluate(&rows).unwrap().into_array(rows.num_rows()).unwrap())
            .collect();
        let states = aggregate.create().unwrap().convert_to_state(&arguments, None);
        columns.extend(states.unwrap());
    }
    RecordBatch::try_new(sessions.input_schema(), columns).unwrap()
}

fn info(mode: OutputMode, late: Option<i64>, evict: Option<i64>) -> BatchInfo {
    BatchInfo {
        batch: BatchId(0),
        late: LateWatermark(late.map(EventTime)),
        evict: EvictWatermark(evict.map(EventTime)),
        time: BatchTime(0),
        mode,
        partition: PartitionId(0),
        groups: KeyGroupCount::DEFAULT.all(),
        key_groups: KeyGroupCount::DEFAULT,
        batch_rows: 2,
        late_rows: LateHandling::Drop,
    }
}

fn run(
    sessions: &SessionAggregation,
    contents: &mut Contents,
    rows: Vec<RecordBatch>,
    info: BatchInfo,
) -> (Vec<RecordBatch>, OperatorCounts) {
    let mut store = TestStore::open(contents, info.groups);
    let mut run = sessions.start(info).unwrap();
    for rows in rows {
        run.push(0, rows, &mut store).unwrap();
    }
    let what = run.prefetch().unwrap();
    block_on(store.prefetch(&what)).unwrap();
    run.finish_input(&mut store).unwrap();
    let mut out = Vec::new();
    while let Some(rows) = run.drain(&mut store).unwrap() {
        out.push(rows);
    }
    let counts = run.counts();
    *contents = store.into_contents();
    (out, counts)
}

/// `(start, end, count, sum)` of every row of output, by key, in minutes.
fn shown(rows: &[RecordBatch]) -> Vec<String> {
    let mut shown = Vec::new();
    for rows in rows {
        let window = rows.column(0).as_struct();
        let edge = |at: usize, row: usize| {
            let times = window.column(at).as_primitive::<TimestampMicrosecondType>();
            times.value(row) as f64 / MINUTE as f64
        };
        let keys = rows.column(1).as_string::<i32>();
        let number = |at: usize, row| rows.column(at).as_primitive::<Int64Type>().value(row);
        for row in 0..rows.num_rows() {
            let key = if keys.is_null(row) { "null" } else { keys.value(row) };
            let (start, end) = (edge(0, row), edge(1, row));
            shown.push(format!("{key} {start}..{end} {} {}", number(2, row), number(3, row)));
        }
    }
    shown.sort();
    shown
}

type Row = (Option<&'static str>, f64, f64, i64);

struct Query {
    sessions: SessionAggregation,
    contents: Contents,
    mode: OutputMode,
}

impl Query {
    fn new(mode: OutputMode) -> Self {
        let sessions = by(DataType::Utf8, SessionTime::EventTime);
        Self { sessions, contents: Contents::new(), mode }
    }

    /// Rows are key, minute, gap in minutes and value. Gives what came out, and
    /// `[total, updated, removed, late]`.
    fn step(
        &mut self,
        rows: &[Row],
        late: Option<i64>,
        evict: Option<i64>,
    ) -> (Vec<String>, [u64; 4]) {
        let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>());
        let micros = |minutes: f64| (minutes * MINUTE as f64).round() as i64;
        let edges = rows.iter().map(|row| (micros(row.1), micros(row.1 + row.2)));
        let numbers = rows.iter().map(|row| row.3).collect();
        let rows = partial(&self.sessions, keys, edges, numbers);
        let at = |minutes: Option<i64>| minutes.map(|m| m * MINUTE);
        let info = info(self.mode, at(late), at(evict));
        let (out, counts) = run(&self.sessions, &mut self.contents, vec![rows], info);
        let OperatorCounts { rows_total, rows_updated, rows_removed, .. } = counts;
        let late = counts.rows.late;
        (shown(&out), [rows_total, rows_updated, rows_removed, late])
    }
}

/// The steps of the case `session_merge_bridging`.
/// Trap A25.
#[test]
fn what_bridges_two_sessions_makes_them_one() {
    let mut query = Query::new(OutputMode::Append);
    let row = |minute: f64, value| (Some("a"), minute, 5., value);
    let none = Vec::<String>::new();
    assert_eq!(query.step(&[row(0., 1), row(8., 2)], None, None), (none.clone(), [2, 2, 0, 0]));
    assert_eq!(query.step(&[], None, Some(-52)), (none.clone(), [2, 0, 0, 0]));
    assert_eq!(query.step(&[row(4., 3)], Some(-52), Some(-52)), (none.clone(), [1, 1, 1, 0]));
    assert_eq!(query.step(&[row(13., 4)], Some(-52), Some(-52)), (none.clone(), [1, 1, 0, 0]));
    assert_eq!(query.step(&[row(12.999, 4)], Some(-47), Some(-47)), (none, [1, 1, 0, 0]));
    let (rows, counts) = query.step(&[], Some(-47), Some(240));
    assert_eq!((rows, counts), (vec!["a 0..18 5 14".to_owned()], [0, 0, 1, 0]));
    assert!(query.contents.is_empty());
}

/// The steps of the case `session_dynamic_gap`.
#[test]
fn every_row_may_have_its_own_gap() {
    let mut query = Query::new(OutputMode::Append);
    let (a, b, c) = (Some("a"), Some("b"), Some("c"));
    let first = [(a, 0., 2., 1), (a, 4., 2., 2), (a, 20., 10., 3), (b, 1., 10., 4)];
    assert_eq!(query.step(&first, None, None).1, [4, 4, 0, 0]);
    let (rows, counts) = query.step(&[], None, Some(10));
    assert_eq!(rows, ["a 0..2 1 1", "a 4..6 1 2"]);
    assert_eq!(counts, [2, 0, 2, 0]);
    let second = [(a, 14., 10., 6), (b, 6., 10., 7)];
    assert_eq!(query.step(&second, Some(10), Some(10)).1, [2, 2, 1, 0]);
    let third = [(a, 0.5, 10., 8), (c, 40., 10., 9), (c, 1., 9., 1)];
    assert_eq!(query.step(&third, Some(10), Some(10)).1, [4, 3, 0, 1]);
    let (rows, counts) = query.step(&[], Some(10), Some(30));
    assert_eq!(rows, ["a 0.5..10.5 1 8", "a 14..30 2 9", "b 1..16 2 11"]);
    assert_eq!(counts, [1, 0, 3, 0]);
}

/// The first steps of the case `session_complete`.
#[test]
fn complete_emits_all_and_drops_late_rows_all_the_same() {
    let mut query = Query::new(OutputMode::Complete);
    let (a, b, c) = (Some("a"), Some("b"), Some("c"));
    let first = [(a, 0., 5., 1), (a, 4., 5., 2), (a, 20., 5., 3), (b, 1., 5., 4)];
    let (rows, counts) = query.step(&first, None, None);
    assert_eq!(rows, ["a 0..9 2 3", "a 20..25 1 3", "b 1..6 1 4"]);
    assert_eq!(counts, [3, 3, 0, 0]);
    let second = [(a, 8.5, 5., 5), (a, 14., 5., 6), (b, 6., 5., 7)];
    let (rows, counts) = query.step(&second, None, Some(10));
    assert_eq!(rows, ["a 0..13.5 3 8", "a 14..19 1 6", "a 20..25 1 3", "b 1..11 2 11"]);
    assert_eq!(counts, [4, 4, 0, 0]);
    let (rows, counts) = query.step(&[(a, 0.5, 5., 8), (c, 40., 5., 9)], Some(10), Some(10));
    assert_eq!(rows.len(), 5);
    assert_eq!(counts, [5, 1, 0, 1]);
}

#[test]
fn a_null_is_a_key() {
    let mut query = Query::new(OutputMode::Append);
    query.step(&[(None, 0., 5., 1), (Some(""), 1., 5., 2), (None, 3., 5., 3)], None, None);
    let (rows, counts) = query.step(&[], None, Some(8));
    assert_eq!(rows, [" 1..6 1 2", "null 0..8 2 4"]);
    assert_eq!(counts, [0, 0, 2, 0]);
}

/// Trap A24.
#[test]
fn a_session_is_over_at_its_end_and_not_before() {
    let mut query = Query::new(OutputMode::Append);
    query.step(&[(Some("a"), 10., 5., 1)], None, None);
    assert!(query.step(&[], None, Some(14)).0.is_empty());
    assert_eq!(query.step(&[], Some(14), Some(15)).0, ["a 10..15 1 1"]);
    assert_eq!(query.step(&[(Some("a"), 9., 5., 1)], Some(15), Some(15)).1, [0, 0, 0, 1]);
}

#[test]
fn what_cannot_be_is_refused() {
    let sessions = by(DataType::Utf8, SessionTime::EventTime);
    let timeless = by(DataType::Utf8, SessionTime::Timeless);
    let condition = |sessions: &SessionAggregation, mode| {
        let error = sessions.start(info(mode, None, None)).err()?;
        error.condition().map(str::to_owned)
    };
    let refused = Some("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION".to_owned());
    assert_eq!(condition(&sessions, OutputMode::Update), refused);
    assert_eq!(condition(&timeless, OutputMode::Append), refused);
    assert_eq!(condition(&timeless, OutputMode::Complete), None);
    let window: FieldRef = Arc::new(Field::new("session_window", window_type(None), false));
    let alone = SessionAggregation::new(vec![window], 0, aggregates(), SessionTime::EventTime);
    let error = alone.err().unwrap();
    assert_eq!(error.condition(), Some("SESSION_WINDOW_WITHOUT_KEY_NOT_SUPPORTED"));
    let key: FieldRef = Arc::new(Field::new("k", DataType::Utf8, true));
    let keys = vec![Arc::clone(&key), key];
    assert!(SessionAggregation::new(keys, 0, aggregates(), SessionTime::EventTime).is_err());
}

#[test]
fn sessions_are_shown_without_their_query() {
    use crate::inspect::{StateView, testing};
    for mode in [OutputMode::Append, OutputMode::Complete] {
        let mut query = Query::new(mode);
        query.step(
            &[(Some("a"), 1., 5., 3), (Some("a"), 2., 5., 4), (None, 9., 1., 5)],
            None,
            None,
        );
        let shown = [
            "key={session_window: {start: 1970-01-01T00:01:00, end: 1970-01-01T00:07:00}, k: a} \
             value={n[count]: 2, total[sum]: 7, first[first_value]: 3, \
             first[first_value_is_set]: true}",
            "key={session_window: {start: 1970-01-01T00:09:00, end: 1970-01-01T00:10:00}, k: null} \
             value={n[count]: 1, total[sum]: 5, first[first_value]: 5, \
             first[first_value_is_set]: true}",
        ];
        let found = testing::shown(&query.sessions, &StateView::Entries, &query.contents);
        assert_eq!(found, shown);
    }
}
