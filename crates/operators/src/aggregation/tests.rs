//! Aggregations driven by hand, with numbers taken from Spark.

mod harness;
mod laws;

use super::*;
use arrow::array::{ArrayRef, Int64Array};
use datafusion_functions_aggregate as udaf;
use harness::{Query, group_by_key, group_by_time, group_by_window, minute};

/// `(key, minute, value)`.
type Row = (Option<&'static str>, Option<f64>, Option<i64>);

fn row(key: &'static str, minute: f64, value: i64) -> Row {
    (Some(key), Some(minute), Some(value))
}

fn counts(outcome: &harness::Outcome) -> [u64; 4] {
    let counts = outcome.counts;
    [counts.rows_total, counts.rows_updated, counts.rows_removed, counts.rows.late]
}

/// The steps of the case `tumbling_append`: five-minute windows, ten minutes of delay.
fn tumbling() -> Vec<(Vec<Row>, Option<i64>, Option<i64>)> {
    let first = vec![row("a", 1., 1), row("a", 2., 2), row("b", 6., 3), row("a", 12., 4)];
    let second = vec![row("a", 3., 5), row("b", 7.5, 6), row("c", 14., 7)];
    let third = vec![row("a", 1.5, 8), row("a", 26., 9)];
    let fourth = vec![row("b", 12.5, 10), row("d", 27., 11)];
    vec![
        (first, None, None),
        (vec![], None, Some(2)),
        (second, Some(2), Some(2)),
        (vec![], Some(2), Some(4)),
        (third, Some(4), Some(4)),
        (vec![], Some(4), Some(16)),
        (fourth, Some(16), Some(16)),
        (vec![], Some(16), Some(17)),
        (vec![row("z", 60., 12)], Some(17), Some(17)),
        (vec![], Some(17), Some(50)),
    ]
}

#[test]
fn append_emits_windows_once_when_they_close() {
    let mut query = Query::new(group_by_window(5), OutputMode::Append);
    let outcomes: Vec<_> =
        tumbling().into_iter().map(|(rows, late, evict)| query.run(&rows, late, evict)).collect();
    let expected = [
        [3, 3, 0, 0],
        [3, 0, 0, 0],
        [4, 3, 0, 0],
        [4, 0, 0, 0],
        [5, 2, 0, 0],
        [1, 0, 4, 0],
        [2, 1, 0, 1],
        [2, 0, 0, 0],
        [3, 1, 0, 0],
        [1, 0, 2, 0],
    ];
    assert_eq!(outcomes.iter().map(counts).collect::<Vec<_>>(), expected);
    for (n, outcome) in outcomes.iter().enumerate() {
        let expected: &[&str] = match n {
            5 => &["0..5 a 4 16", "10..15 a 1 4", "10..15 c 1 7", "5..10 b 2 9"],
            9 => &["25..30 a 1 9", "25..30 d 1 11"],
            _ => &[],
        };
        assert_eq!(outcome.rows, expected, "batch {n}");
    }
}

#[test]
fn update_emits_what_was_touched_and_evicts_silently() {
    let mut query = Query::new(group_by_window(5), OutputMode::Update);
    let outcomes: Vec<_> =
        tumbling().into_iter().map(|(rows, late, evict)| query.run(&rows, late, evict)).collect();
    let removed: Vec<u64> = outcomes.iter().map(|o| o.counts.rows_removed).collect();
    assert_eq!(removed, [0, 0, 0, 0, 0, 4, 0, 0, 0, 2]);
    assert_eq!(outcomes[0].rows, ["0..5 a 2 3", "10..15 a 1 4", "5..10 b 1 3"]);
    assert_eq!(outcomes[2].rows, ["0..5 a 3 8", "10..15 c 1 7", "5..10 b 2 9"]);
    assert_eq!(outcomes[4].rows, ["0..5 a 4 16", "25..30 a 1 9"]);
    assert_eq!(outcomes[6].rows, ["25..30 d 1 11"]);
    assert!(outcomes[5].rows.is_empty());
}

#[test]
fn complete_emits_all_and_takes_rows_of_any_age() {
    let mut query = Query::new(group_by_window(5), OutputMode::Complete);
    query.run(&[row("a", 1., 1), row("b", 20., 1)], None, None);
    let outcome = query.run(&[row("a", 2., 5)], Some(15), Some(15));
    assert_eq!(outcome.rows, ["0..5 a 2 6", "20..25 b 1 1"]);
    assert_eq!(counts(&outcome), [2, 1, 0, 0]);
    let outcome = query.run(&[], Some(15), Some(60));
    assert_eq!(outcome.rows, ["0..5 a 2 6", "20..25 b 1 1"]);
    assert_eq!(counts(&outcome), [2, 0, 0, 0]);
}

#[test]
fn what_is_complete_at_once_is_written_emitted_and_removed() {
    let mut query = Query::new(group_by_window(5), OutputMode::Append);
    let outcome = query.run(&[row("a", 1., 1)], None, Some(60));
    assert_eq!(outcome.rows, ["0..5 a 1 1"]);
    assert_eq!(counts(&outcome), [0, 1, 1, 0]);
    let mut query = Query::new(group_by_window(5), OutputMode::Update);
    let outcome = query.run(&[row("a", 1., 1)], None, Some(60));
    assert_eq!(outcome.rows, ["0..5 a 1 1"]);
    assert_eq!(counts(&outcome), [0, 1, 1, 0]);
}

#[test]
fn what_is_touched_and_expires_in_one_batch_leaves_once_with_all_it_had() {
    let mut query = Query::new(group_by_window(5), OutputMode::Append);
    query.run(&[row("a", 1., 1), row("b", 2., 2), row("a", 6., 3)], None, None);
    let rows = [row("a", 3., 10), row("c", 4., 20), row("a", 7., 30), row("d", 30., 40)];
    let outcome = query.run(&rows, None, Some(5));
    assert_eq!(outcome.rows, ["0..5 a 2 11", "0..5 b 1 2", "0..5 c 1 20"]);
    assert_eq!(counts(&outcome), [2, 4, 3, 0]);
    let outcome = query.run(&[], Some(5), Some(60));
    assert_eq!(outcome.rows, ["30..35 d 1 40", "5..10 a 2 33"]);
    assert_eq!(counts(&outcome), [0, 0, 2, 0]);
}

/// Trap A23.
#[test]
fn a_null_time_is_never_late_and_never_expires() {
    for mode in [OutputMode::Append, OutputMode::Update] {
        let mut query = Query::new(group_by_time(), mode);
        let rows = [row("", 1., 1), (None, None, Some(2)), (None, None, Some(3)), row("", 3., 4)];
        assert_eq!(counts(&query.run(&rows, None, None)), [3, 3, 0, 0]);
        let outcome = query.run(&[(None, None, Some(5)), row("", 2., 6)], Some(10), Some(10));
        // In update mode both are emitted; in append mode the two old minutes leave.
        assert_eq!(counts(&outcome), [1, 1, 2, 1]);
        let expected: &[&str] = match mode {
            OutputMode::Append => &["1 1 1", "3 1 4"],
            _ => &["null 3 10"],
        };
        assert_eq!(outcome.rows, expected, "{mode}");
        assert_eq!(counts(&query.run(&[], Some(10), Some(1_000_000))), [1, 0, 0, 0]);
    }
}

#[test]
fn a_touched_key_is_emitted_though_its_value_stays() {
    let mut query = Query::new(group_by_key(), OutputMode::Update);
    query.run(&[row("a", 0., 5), row("b", 0., 0)], None, None);
    let outcome = query.run(&[row("a", 0., 0), (Some("b"), None, None)], None, None);
    assert_eq!(outcome.rows, ["a 2 5", "b 2 0"]);
    assert!(query.run(&[], None, None).rows.is_empty());
}

#[test]
fn a_global_aggregate_is_one_row_also_without_rows() {
    for mode in [OutputMode::Update, OutputMode::Complete] {
        let mut query = Query::new(harness::global(), mode);
        let outcome = query.run_without_rows();
        assert_eq!(outcome.rows, ["0 null"]);
        assert_eq!(counts(&outcome), [1, 1, 0, 0]);
        assert_eq!(query.run(&[row("", 0., 1), row("", 0., 2)], None, None).rows, ["2 3"]);
        assert_eq!(query.run_without_rows().rows, ["2 3"]);
    }
}

#[test]
fn keys_are_grouped_as_spark_groups_them() {
    let mut query = Query::new(harness::group_by_number(), OutputMode::Update);
    let keys = [Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None, Some(1.5)];
    let outcome = query.run_numbers(&keys);
    assert_eq!(outcome.rows, ["0.0 2", "1.5 1", "NaN 2", "null 1"]);
}

#[test]
fn older_values_come_first_where_order_matters() {
    let group = vec![];
    let aggregates = vec![
        harness::aggregate(udaf::first_last::first_value_udaf(), "first"),
        harness::aggregate(udaf::first_last::last_value_udaf(), "last"),
        harness::aggregate(udaf::array_agg::array_agg_udaf(), "all"),
    ];
    let aggregation =
        Aggregation::new(group, aggregates, EventTimeKey::None, BTreeMap::new()).unwrap();
    let mut query = Query::new(aggregation, OutputMode::Update);
    assert_eq!(query.run(&[row("", 0., 3), row("", 0., 4)], None, None).rows, ["3 4 [3, 4]"]);
    assert_eq!(query.run(&[row("", 0., 1), row("", 0., 2)], None, None).rows, ["3 2 [3, 4, 1, 2]"]);
}

/// A group that has no older state while others have must not become "seen".
#[test]
fn nulls_stay_null_where_order_matters() {
    let aggregates = vec![harness::aggregate(udaf::bit_and_or_xor::bit_xor_udaf(), "x")];
    let groups: Vec<FieldRef> = vec![Arc::new(Field::new("k", DataType::Utf8, true))];
    let aggregation =
        Aggregation::new(groups, aggregates, EventTimeKey::None, BTreeMap::new()).unwrap();
    let mut query = Query::new(aggregation, OutputMode::Update);
    query.run(&[row("b", 0., 3)], None, None);
    let outcome = query.run(&[(Some("a"), None, None), row("b", 0., 1)], None, None);
    assert_eq!(outcome.rows, ["a null", "b 2"]);
    let outcome = query.run(&[(Some("a"), None, None), (Some("b"), None, None)], None, None);
    assert_eq!(outcome.rows, ["a null", "b 2"]);
}

#[test]
fn every_kind_of_accumulator_survives_its_state() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter((0..100).map(|i| Some(i * 7 % 100))));
    for (function, expected) in [
        (udaf::count::count_udaf(), "100"),
        (udaf::sum::sum_udaf(), "4950"),
        (udaf::average::avg_udaf(), "49.5"),
        (udaf::min_max::min_udaf(), "0"),
        (udaf::min_max::max_udaf(), "99"),
        (udaf::bit_and_or_xor::bit_or_udaf(), "127"),
        (udaf::median::median_udaf(), "49"),
        (udaf::variance::var_pop_udaf(), "833.2499999999999"),
        (udaf::approx_percentile_cont::approx_percentile_cont_udaf(), "49.5"),
        (udaf::approx_distinct::approx_distinct_udaf(), "100"),
        (udaf::first_last::last_value_udaf(), "93"),
    ] {
        let name = function.name().to_owned();
        let aggregates = vec![harness::aggregate(function, &name)];
        let aggregation =
            Aggregation::new(vec![], aggregates, EventTimeKey::None, BTreeMap::new()).unwrap();
        let mut query = Query::new(aggregation, OutputMode::Update);
        query.run_values(&values.slice(0, 40));
        query.run_values(&values.slice(40, 1));
        let outcome = query.run_values(&values.slice(41, 59));
        assert_eq!(outcome.rows, [expected], "{name}");
    }
}

#[test]
fn append_without_event_time_is_refused() {
    let info = harness::info(OutputMode::Append, None, None);
    let error = group_by_key().start(info).err().unwrap();
    assert_eq!(error.condition(), Some("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"));
}

#[test]
fn wrong_definitions_are_refused() {
    let field = |t: DataType| -> FieldRef { Arc::new(Field::new("k", t, true)) };
    let wrong = |groups: Vec<FieldRef>, time: EventTimeKey| {
        Aggregation::new(groups, vec![], time, BTreeMap::new()).is_err()
    };
    assert!(wrong(vec![field(DataType::Utf8)], EventTimeKey::Column(0)));
    assert!(wrong(vec![field(DataType::Utf8)], EventTimeKey::Window(0)));
    assert!(wrong(vec![], EventTimeKey::Column(0)));
    assert!(!wrong(vec![field(crate::window_type(None))], EventTimeKey::Window(0)));
    let distinct = harness::distinct(udaf::sum::sum_udaf());
    let error = Aggregation::new(vec![], vec![distinct], EventTimeKey::None, BTreeMap::new());
    assert_eq!(error.unwrap_err().condition(), Some("STREAMING_DISTINCT_AGGREGATE_NOT_SUPPORTED"));
}

#[test]
fn a_distinct_select_has_keys_and_no_aggregates() {
    let groups: Vec<FieldRef> = vec![Arc::new(Field::new("k", DataType::Utf8, true))];
    let aggregation =
        Aggregation::new(groups, vec![], EventTimeKey::None, BTreeMap::new()).unwrap();
    let mut query = Query::new(aggregation, OutputMode::Update);
    let rows = [row("a", 0., 1), row("b", 0., 1), row("a", 0., 1)];
    assert_eq!(query.run(&rows, None, None).rows, ["a", "b"]);
    assert_eq!(query.run(&rows[2..], None, None).rows, ["a"]);
}

#[test]
fn batches_without_data_are_wanted_when_the_watermark_rose() {
    let at = |m: i64| EvictWatermark(Some(fluvial_core::EventTime(minute(m as f64))));
    let never = EvictWatermark(None);
    let windowed = group_by_window(5);
    assert!(windowed.wants_empty_batch(OutputMode::Append, never, at(1)));
    assert!(windowed.wants_empty_batch(OutputMode::Update, at(1), at(2)));
    assert!(!windowed.wants_empty_batch(OutputMode::Append, at(2), at(2)));
    assert!(!windowed.wants_empty_batch(OutputMode::Complete, at(1), at(2)));
    // As Spark does, although no group can expire (case group_key_watermark_not_in_key_update).
    assert!(group_by_key().wants_empty_batch(OutputMode::Update, at(1), at(2)));
}

#[test]
fn the_state_schema_names_columns_and_meaning() {
    let schema = group_by_window(5).state_schema();
    assert_eq!(schema.kind, "stateStoreSave");
    let names = |fields: &[StateField]| fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&schema.keys), ["window", "k"]);
    assert_eq!(names(&schema.values), ["n[count]", "total[sum]"]);
    assert_eq!(schema.meaning["window_size"], "5 minutes");
}

#[test]
fn groups_are_shown_without_their_query() {
    let rows = [row("a", 1., 7), row("a", 2., 2), (None, None, None)];
    let mut windows = Query::new(group_by_window(5), OutputMode::Update);
    windows.run(&rows, None, None);
    let shown = [
        "key={window: null, k: null} value={n[count]: 1, total[sum]: null}",
        "key={window: {start: 1970-01-01T00:00:00Z, end: 1970-01-01T00:05:00Z}, k: a} \
         value={n[count]: 2, total[sum]: 9}",
    ];
    assert_eq!(windows.shown(), shown);
    let mut keys = Query::new(group_by_key(), OutputMode::Update);
    keys.run(&rows, None, None);
    let shown = [
        "key={k: a} value={n[count]: 2, total[sum]: 9}",
        "key={k: null} value={n[count]: 1, total[sum]: null}",
    ];
    assert_eq!(keys.shown(), shown);
    let mut all = Query::new(harness::global(), OutputMode::Complete);
    all.run_without_rows();
    assert_eq!(all.shown(), ["value={n[count]: 0, total[sum]: null}"]);
}
