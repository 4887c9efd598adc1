//! Deduplications driven by hand, with numbers taken from Spark; the kit's laws; a naive model.

mod laws;
mod model;

use super::*;
use arrow::array::{AsArray, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Int64Type, Schema, TimeUnit};
use fluvial_conformance::operator::{Contents, TestStore};
use fluvial_core::{
    BatchId, BatchTime, EventTime, LateHandling, LateWatermark, OperatorCounts, PartitionId,
    StateStore,
};
use fluvial_sim::block_on;

const MINUTE: i64 = 60_000_000;

/// `(key, time in minutes, value)`.
type Row = (Option<&'static str>, Option<f64>, i64);

fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("ts", time, true),
        Field::new("v", DataType::Int64, true),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let micros = |minutes: f64| (minutes * MINUTE as f64) as i64;
    let times: TimestampMicrosecondArray = rows.iter().map(|row| row.1.map(micros)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>()),
        Arc::new(times.with_timezone("UTC")),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn info(late: Option<i64>, evict: Option<i64>) -> BatchInfo {
    BatchInfo {
        batch: BatchId(0),
        late: LateWatermark(late.map(EventTime)),
        evict: EvictWatermark(evict.map(EventTime)),
        time: BatchTime(0),
        mode: OutputMode::Append,
        partition: PartitionId(0),
        groups: KeyGroupCount::DEFAULT.all(),
        key_groups: KeyGroupCount::DEFAULT,
        batch_rows: 3,
        late_rows: LateHandling::Drop,
    }
}

/// Runs one batch and returns what passed, and what was counted.
fn run(
    dedup: &Dedup,
    contents: &mut Contents,
    rows: Vec<RecordBatch>,
    info: BatchInfo,
) -> (Vec<RecordBatch>, OperatorCounts, u64) {
    let mut store = TestStore::open(contents, info.groups);
    let mut run = dedup.start(info).unwrap();
    for rows in rows {
        run.push(0, rows, &mut store).unwrap();
    }
    let what = run.prefetch().unwrap();
    block_on(store.prefetch(&what)).unwrap();
    run.finish_input(&mut store).unwrap();
    let what = run.prefetch().unwrap();
    block_on(store.prefetch(&what)).unwrap();
    let mut passed = Vec::new();
    while let Some(rows) = run.drain(&mut store).unwrap() {
        passed.push(rows);
    }
    let duplicates = run.counts().rows.duplicate;
    let counts = run.counts();
    *contents = store.into_contents();
    (passed, counts, duplicates)
}

/// Feeds batches; gives the values that passed and `[total, updated, removed, late, duplicate]`.
fn feed(
    dedup: &Dedup,
    batches: &[(Vec<Row>, Option<i64>, Option<i64>)],
) -> Vec<(Vec<i64>, [u64; 5])> {
    let mut contents = Contents::new();
    let each = batches.iter().map(|(rows, late, evict)| {
        let minutes = |at: &Option<i64>| at.map(|at| at * MINUTE);
        let info = info(minutes(late), minutes(evict));
        let (passed, counts, duplicates) = run(dedup, &mut contents, vec![batch(rows)], info);
        let values = passed
            .iter()
            .flat_map(|rows| rows.column(2).as_primitive::<Int64Type>().values().to_vec());
        let OperatorCounts { rows_total, rows_updated, rows_removed, .. } = counts;
        let late = counts.rows.late;
        (values.collect(), [rows_total, rows_updated, rows_removed, late, duplicates])
    });
    each.collect()
}

fn within(minutes: i64) -> Dedup {
    let delay = EventDuration(minutes * MINUTE);
    Dedup::within_watermark(schema(), vec![0], 1, delay).unwrap()
}

/// The steps of the case `dedup_key_and_ts_watermark`.
#[test]
fn with_the_time_among_the_keys_state_goes_with_the_watermark() {
    let dedup = Dedup::new(schema(), vec![1, 0, 1], Some(1)).unwrap();
    assert_eq!(dedup.keys(), [0, 1]);
    assert!(dedup.is_bounded());
    let row = |key, minute: f64, value| (key, Some(minute), value);
    let (a, b, c) = (Some("a"), Some("b"), Some("c"));
    let first =
        vec![row(a, 1., 1), row(a, 1., 2), row(b, 6., 3), row(None, 6., 4), row(None, 6., 5)];
    let second = vec![row(a, 3., 6), row(b, 6., 7), row(c, 20., 8), row(None, 7., 9)];
    let third = vec![row(a, 1., 10), row(c, 20., 11), row(c, 10., 12), row(c, 10.1, 13)];
    let found = feed(
        &dedup,
        &[
            (first, None, None),
            (second, None, Some(-4)),
            (vec![], Some(-4), Some(10)),
            (third, Some(10), Some(10)),
        ],
    );
    let expected = vec![
        (vec![1, 3, 4], [3, 3, 0, 0, 2]),
        (vec![6, 8, 9], [6, 3, 0, 0, 1]),
        (vec![], [1, 0, 5, 0, 0]),
        (vec![13], [2, 1, 0, 2, 1]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn without_it_late_rows_are_dropped_and_nothing_is_forgotten() {
    let dedup = Dedup::new(schema(), vec![0], Some(1)).unwrap();
    assert!(!dedup.is_bounded());
    let (a, b) = (Some("a"), Some("b"));
    let found = feed(
        &dedup,
        &[
            (vec![(a, Some(1.), 1), (a, None, 2), (b, None, 3)], None, None),
            (
                vec![(None, Some(9.), 4), (None, Some(11.), 5), (a, Some(99.), 6)],
                Some(10),
                Some(20),
            ),
        ],
    );
    assert_eq!(found, [(vec![1, 3], [2, 2, 0, 0, 1]), (vec![5], [3, 1, 0, 1, 1])]);
}

/// The steps of the case `dedup_within_watermark`, in fewer batches.
/// Trap C2.
#[test]
fn within_the_watermark_a_key_expires_a_delay_after_its_first_row() {
    let row = |key, minute: f64, value| (Some(key), Some(minute), value);
    let found = feed(
        &within(10),
        &[
            (vec![row("a", 1., 1), row("a", 2., 2), row("b", 6., 3)], None, None),
            (vec![row("a", 3., 4), row("c", 20., 5)], None, Some(-4)),
            (vec![], Some(-4), Some(10)),
            // What expires at 11 is still there at 10, and a duplicate does not prolong it.
            (vec![row("a", 10.5, 6), row("e", 40., 7)], Some(10), Some(10)),
            (vec![], Some(10), Some(11)),
            (vec![row("a", 12., 8)], Some(11), Some(11)),
            (vec![], Some(11), Some(30)),
            (vec![row("c", 31., 9), row("e", 41., 10)], Some(30), Some(30)),
        ],
    );
    let expected = vec![
        (vec![1, 3], [2, 2, 0, 0, 1]),
        (vec![5], [3, 1, 0, 0, 1]),
        (vec![], [3, 0, 0, 0, 0]),
        (vec![7], [4, 1, 0, 0, 1]),
        (vec![], [3, 0, 1, 0, 0]),
        (vec![8], [4, 1, 0, 0, 0]),
        (vec![], [1, 0, 3, 0, 0]),
        (vec![9], [2, 1, 0, 0, 1]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn without_a_time_a_key_passes_and_expires_when_the_watermark_first_moves() {
    let rows =
        || vec![(Some("a"), None, 1), (Some("a"), Some(1000.), 2), (Some("b"), Some(999.), 3)];
    let found = feed(
        &within(10),
        &[(rows(), None, None), (vec![], None, Some(990)), (rows(), Some(990), Some(990))],
    );
    // In the third batch it comes and goes.
    let expected =
        [(vec![1, 3], [2, 2, 0, 0, 1]), (vec![], [1, 0, 1, 0, 0]), (vec![1], [1, 1, 1, 0, 2])];
    assert_eq!(found, expected);
}

/// A list's bucket spans the watermark again and again; a key that comes back into it expires at
/// its new time only.
#[test]
fn a_key_that_comes_back_is_not_taken_for_the_old_one() {
    let second = 1.0 / 60.0;
    let row = |key, minute: f64, value| (Some(key), Some(minute), value);
    let dedup = within(60);
    let mut contents = Contents::new();
    let mut step = |rows: &[Row], late: i64, evict: i64| {
        let info = info(Some(late), Some(evict));
        let (passed, counts, _) = run(&dedup, &mut contents, vec![batch(rows)], info);
        let passed: usize = passed.iter().map(RecordBatch::num_rows).sum();
        (passed, counts.rows_total, counts.rows_removed)
    };
    let hour = 60 * MINUTE;
    let at = |seconds: i64| hour + seconds * 1_000_000;
    assert_eq!(step(&[row("a", second, 1), row("b", 9. * second, 1)], 0, 0), (2, 2, 0));
    assert_eq!(step(&[], 0, at(3)), (0, 1, 1));
    // The same bucket: its time is only five seconds later, as a row that is not late has it.
    assert_eq!(step(&[row("a", 60. + 5. * second, 1)], at(3), at(3)), (1, 2, 0));
    assert_eq!(step(&[], at(3), at(4)), (0, 2, 0));
    assert_eq!(step(&[], at(4), at(9)), (0, 1, 1));
    assert_eq!(step(&[row("a", 61., 1)], at(9), at(9)), (0, 1, 0));
    assert_eq!(step(&[], at(9), 2 * hour + 4_999_999), (0, 1, 0));
    assert_eq!(step(&[], at(9), 2 * hour + 5_000_000), (0, 0, 1));
    assert!(contents.is_empty());
}

#[test]
fn many_keys_lie_in_few_records_and_leave_as_a_whole() {
    let dedup = Dedup::within_watermark(schema(), vec![2], 1, EventDuration(MINUTE)).unwrap();
    let mut contents = Contents::new();
    let mut info = info(None, None);
    info.key_groups = KeyGroupCount::new(1).unwrap();
    info.groups = info.key_groups.all();
    let rows = |from: i64, count: i64| {
        let rows: Vec<Row> = (from..from + count).map(|v| (None, Some(0.), v)).collect();
        vec![batch(&rows)]
    };
    run(&dedup, &mut contents, rows(0, 1500), info);
    let (passed, counts, duplicates) = run(&dedup, &mut contents, rows(1000, 1500), info);
    assert_eq!((counts.rows_total, counts.rows_updated, duplicates), (2500, 1000, 500));
    let values =
        passed.iter().flat_map(|rows| rows.column(2).as_primitive::<Int64Type>().values().to_vec());
    assert!(values.eq(1500..2500), "in the order in which they came");
    // A ledger, and two blocks with their times and pages of 256 keys.
    assert_eq!(contents.len(), 1 + (1 + 6) + (1 + 4));
    info.evict = EvictWatermark(Some(EventTime(MINUTE)));
    let (_, counts, _) = run(&dedup, &mut contents, vec![], info);
    assert_eq!((counts.rows_total, counts.rows_removed), (0, 2500));
    assert!(contents.is_empty());
}

/// Whatever a key is, its stored bytes are found by others of the same tag only.
#[test]
fn keys_of_few_rows_are_found_among_many() {
    let dedup = Dedup::within_watermark(schema(), vec![2], 1, EventDuration(MINUTE)).unwrap();
    let mut contents = Contents::new();
    let rows = |values: &[i64]| {
        let rows: Vec<Row> = values.iter().map(|v| (None, Some(0.), *v)).collect();
        vec![batch(&rows)]
    };
    let all: Vec<i64> = (0..20_000).collect();
    run(&dedup, &mut contents, rows(&all), info(None, None));
    for value in [0, 77, 19_999] {
        let (_, counts, duplicates) =
            run(&dedup, &mut contents, rows(&[value, value + 20_000]), info(None, None));
        assert_eq!((counts.rows_updated, duplicates), (1, 1));
    }
}

/// As after a restart with another range of a join below.
#[test]
fn what_has_left_stays_away_when_the_watermark_goes_back() {
    let dedup = within(10);
    let mut contents = Contents::new();
    let mut step = |rows: &[Row], late: Option<i64>, evict: Option<i64>| {
        let minutes = |at: Option<i64>| at.map(|at| at * MINUTE);
        let info = info(minutes(late), minutes(evict));
        let (passed, counts, _) = run(&dedup, &mut contents, vec![batch(rows)], info);
        (passed.len(), counts.rows_total, counts.rows_removed)
    };
    let row = |key, minute: f64| (Some(key), Some(minute), 1);
    assert_eq!(step(&[row("a", 1.), row("b", 1.01)], None, None), (1, 2, 0));
    assert_eq!(step(&[], None, Some(11)), (0, 1, 1));
    assert_eq!(step(&[row("a", 30.), row("b", 30.)], Some(5), Some(5)), (1, 2, 0));
}

#[test]
fn a_batch_of_duplicates_writes_nothing() {
    let dedup = within(10);
    let mut contents = Contents::new();
    let rows = || vec![batch(&[(Some("a"), Some(1.), 1), (Some("b"), Some(2.), 1)])];
    run(&dedup, &mut contents, rows(), info(None, None));
    let before = contents.clone();
    run(&dedup, &mut contents, rows(), info(None, None));
    assert_eq!(contents, before);
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(Dedup::new(schema(), vec![3], None).is_err());
    assert!(Dedup::new(schema(), vec![0], Some(2)).is_err());
    assert!(Dedup::new(schema(), vec![0], Some(7)).is_err());
    assert!(Dedup::within_watermark(schema(), vec![0], 0, EventDuration(1)).is_err());
    let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let dedup = within(1);
    let mut store = TestStore::open(&Contents::new(), KeyGroupCount::DEFAULT.all());
    let mut run = dedup.start(info(None, None)).unwrap();
    assert!(run.push(0, empty, &mut store).is_err());
    assert!(run.push(1, batch(&[]), &mut store).is_err());
}

#[test]
fn keys_are_shown_without_their_query() {
    use crate::inspect::{StateView, testing::shown};
    let rows =
        vec![batch(&[(Some("a"), Some(1.), 1), (None, Some(2.), 2), (Some("a"), Some(3.), 3)])];
    let keys = |dedup: Dedup| {
        let mut contents = Contents::new();
        run(&dedup, &mut contents, rows.clone(), info(None, None));
        shown(&dedup, &StateView::Entries, &contents)
    };
    assert_eq!(
        keys(Dedup::new(schema(), vec![0], Some(1)).unwrap()),
        ["key={k: a}", "key={k: null}"]
    );
    let timed = keys(Dedup::new(schema(), vec![0, 1], Some(1)).unwrap());
    assert_eq!(timed.len(), 3);
    assert_eq!(timed[0], "key={k: a, ts: 1970-01-01T00:01:00Z}");
    let delay = EventDuration(MINUTE);
    let within = keys(Dedup::within_watermark(schema(), vec![0], 1, delay).unwrap());
    assert_eq!(within[0], "key={k: a} value={expiresAtMicros: 120000000}");
    assert_eq!(within.len(), 2, "a ledger and times are no keys");
}
