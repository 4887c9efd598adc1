//! Rows that are stored in pages.

use super::harness::{Query, Within, marks, r, ranged, rows, schema};
use crate::inspect::StateView;
use crate::join::{JoinEviction, JoinKind, JoinSide, Side, StreamJoin};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fluvial_conformance::operator::{Contents, TestStore};
use fluvial_core::{
    BatchId, BatchInfo, BatchTime, EventDuration, EvictWatermark, KeyGroupCount, LateHandling,
    LateWatermark, Operator, OperatorCounts, OutputMode, PartitionId,
};
use std::sync::Arc;

fn inner(lower: i64, upper: i64) -> Query {
    Query::new(ranged(JoinKind::Inner, Within { lower, upper }))
}

#[test]
fn rows_that_come_one_by_one_are_found_in_few_places() {
    let mut query = inner(0, 1000);
    for step in 0..200 {
        query.run(&[r(7, 100, step)], &[], marks(None, None));
    }
    // A ledger, counts, and a page and times for each of few blocks.
    assert!(query.contents.len() < 30, "{} entries", query.contents.len());
    let (pairs, counts) = query.run(&[], &[r(7, 1100, 0), r(7, 1101, 1)], marks(None, None));
    assert_eq!((pairs.len(), counts.rows_total), (200, 202));
    let (_, counts) = query.run(&[], &[], marks(None, Some(1101)));
    assert_eq!((counts.rows_total, counts.rows_removed), (1, 201));
    let (_, counts) = query.run(&[], &[], marks(Some(1101), Some(2000)));
    assert_eq!((counts.rows_total, counts.rows_removed), (0, 1));
    assert!(query.contents.is_empty(), "{:?}", query.contents);
}

/// What leaves a block is counted once, and what is left of it is merged with what comes.
#[test]
fn rows_leave_a_block_one_after_the_other() {
    let mut query = inner(0, 100);
    let times: Vec<_> = (0..60).map(|n| r(1, 1000 + n, n)).collect();
    query.run(&times, &[], marks(None, None));
    for step in 1..=40 {
        // Left rows leave a hundred seconds after their time.
        let until = 1100 + step;
        let came = [r(1, until + 5, step)];
        let (_, counts) = query.run(&came, &[], marks(Some(until), Some(until)));
        assert_eq!((counts.rows_total, counts.rows_removed), (60, 1));
        let shown = query.shown(&StateView::Side(Side::Left));
        assert_eq!(shown.len() as u64, counts.rows_total);
    }
}

#[test]
fn what_left_and_what_stays_is_merged() {
    let mut query = inner(0, 1000);
    let mut total = 0;
    for step in 0..50 {
        // Rows come at the watermark, a thousand seconds before they leave.
        let now = 5000 + step * 40;
        let came = [r(1, now + 1, step), r(1, now + 30, step), r(2, now + 7, step)];
        let (pairs, counts) = query.run(&came, &[], marks(Some(now), Some(now)));
        assert_eq!(pairs.len(), 0);
        total = total + 3 - counts.rows_removed;
        assert_eq!(counts.rows_total, total);
        assert_eq!(query.shown(&StateView::Side(Side::Left)).len() as u64, total);
    }
    assert!(total < 80, "{total} rows wait");
    let last = 5000 + 49 * 40;
    let (pairs, _) = query.run(&[], &[r(2, last + 50, 0)], marks(Some(last), Some(last)));
    assert_eq!(pairs.len(), 24, "those of the last thousand seconds");
}

/// 10 k rows of one key and one of another: pages end, and equal tags are in several.
#[test]
fn a_hot_key_has_many_pages() {
    let mut query = inner(0, 10);
    query.batch_rows = 8192;
    let mut hot: Vec<_> = (0..10_000).map(|n| r(7, n / 100, n)).collect();
    hot.push(r(8, 50, -1));
    query.run(&hot, &[], marks(None, None));
    let (pairs, _) = query.run(&[], &[r(7, 50, 1), r(8, 50, 2)], marks(None, None));
    assert_eq!(pairs.len(), 1100 + 1);
    let (_, counts) = query.run(&[], &[], marks(None, Some(60)));
    assert_eq!((counts.rows_removed, counts.rows_total), (5000 + 2, 5000 + 1));
}

/// A key that is no column of the rows is stored with them.
#[test]
fn keys_need_not_be_columns() {
    let mut fields: Vec<_> = schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("x", DataType::Int64, true)));
    let input: SchemaRef = Arc::new(Schema::new(fields));
    let side = || JoinSide {
        input: Arc::clone(&input),
        width: 3,
        keys: vec![3],
        event_time: Some(1),
        filter: None,
        eviction: JoinEviction::Time { column: 1, offset: EventDuration(0) },
    };
    let join = StreamJoin::new(JoinKind::Inner, [side(), side()], vec![false], None, None).unwrap();
    let with = |keys: Vec<i64>| -> RecordBatch {
        let plain: Vec<_> = keys.iter().map(|key| r(0, 10, *key)).collect();
        let mut columns = rows(&plain).columns().to_vec();
        columns.push(Arc::new(Int64Array::from(keys)) as ArrayRef);
        RecordBatch::try_new(Arc::clone(&input), columns).unwrap()
    };
    let mut contents = Contents::new();
    let (count, _) = batch(&join, &mut contents, 0, with(vec![1, 2, 3]), with(vec![]));
    assert_eq!(count, 0);
    let (count, counts) = batch(&join, &mut contents, 1, with(vec![]), with(vec![2, 4]));
    assert_eq!((count, counts.rows_total), (1, 5));
    let view = StateView::Side(Side::Left);
    let shown = crate::inspect::testing::shown(&join, &view, &contents);
    assert_eq!(shown.len(), 3);
    let first = "key={x: 1} value={k: 0.0, t: 1970-01-01T00:00:10, v: 1, matched: false}";
    assert_eq!(shown[0], first);
}

fn batch(
    join: &StreamJoin,
    contents: &mut Contents,
    number: u64,
    left: RecordBatch,
    right: RecordBatch,
) -> (usize, OperatorCounts) {
    let groups = KeyGroupCount::DEFAULT.all();
    let info = BatchInfo {
        batch: BatchId(number),
        late: LateWatermark(None),
        evict: EvictWatermark(None),
        time: BatchTime(0),
        mode: OutputMode::Append,
        partition: PartitionId(0),
        groups,
        key_groups: KeyGroupCount::DEFAULT,
        batch_rows: 100,
        late_rows: LateHandling::Drop,
    };
    let mut store = TestStore::open_local(contents, groups);
    let mut run = join.start(info).unwrap();
    run.push(0, left, &mut store).unwrap();
    run.push(1, right, &mut store).unwrap();
    run.finish_input(&mut store).unwrap();
    let mut count = 0;
    while let Some(rows) = run.drain(&mut store).unwrap() {
        count += rows.num_rows();
    }
    *contents = store.into_contents();
    (count, run.counts())
}

#[test]
fn far_times_make_no_more_blocks_than_there_are_stretches() {
    let mut query = inner(0, 1);
    let far: Vec<_> = (0..500).map(|n| r(1, n * 1_000_000, n)).collect();
    query.run(&far, &[], marks(None, None));
    // Two entries for each block.
    assert!(query.contents.len() < 150, "{} entries", query.contents.len());
    let right = [r(1, 77_000_001, 0), r(1, 499 * 1_000_000, 1)];
    let (pairs, counts) = query.run(&[], &right, marks(None, Some(77_000_001)));
    assert_eq!(pairs.len(), 2);
    assert_eq!((counts.rows_total, counts.rows_removed), (500 + 2 - 77, 77));
    assert_eq!(query.shown(&StateView::Side(Side::Left)).len(), 423);
}
