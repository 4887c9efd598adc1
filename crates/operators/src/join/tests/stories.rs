//! What went wrong in other engines, and what Spark does in detail.

use super::harness::{Query, R, Within, binary, column, keyed, literal, marks, r, ranged, side};
use crate::OutputWatermark;
use crate::join::{JoinEviction, JoinKind, StreamJoin};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as Op;
use fluvial_core::{EventDuration, EventTime, EvictWatermark, Operator, OutputMode};

fn within(lower: i64, upper: i64) -> Within {
    Within { lower, upper }
}

fn none() -> Vec<String> {
    Vec::new()
}

/// The partner leaves earlier; whether there ever was one is known all the same.
/// Trap B1.
#[test]
fn a_row_that_matched_never_comes_out_with_nulls() {
    let mut query = Query::new(ranged(JoinKind::Left, within(0, 5)));
    let (rows, _) = query.run(&[r(1, 10, 1)], &[r(1, 10, 2)], marks(None, None));
    assert_eq!(rows, ["1-2"]);
    let (rows, counts) = query.run(&[], &[], marks(None, Some(11)));
    assert_eq!((rows, counts.rows_total), (none(), 1));
    let (rows, counts) = query.run(&[], &[], marks(Some(11), Some(20)));
    assert_eq!((rows, counts.rows_total), (none(), 0));
}

/// Old row and new row of one key, the old one expires: the new one stays.
/// Trap B2.
#[test]
fn rows_of_a_batch_are_there_when_it_evicts() {
    let mut query = Query::new(ranged(JoinKind::Left, within(0, 5)));
    query.run(&[r(1, 10, 1)], &[], marks(None, None));
    let (rows, counts) = query.run(&[r(1, 30, 2)], &[], marks(None, Some(20)));
    assert_eq!((rows, counts.rows_total), (vec!["1-_".to_owned()], 1));
    let (rows, _) = query.run(&[], &[r(1, 31, 3)], marks(Some(20), Some(20)));
    assert_eq!(rows, ["2-3"]);
}

/// Rows that leave at once still meet those of their batch.
/// Trap B3.
#[test]
fn rows_that_expire_at_once_meet_their_batch() {
    for kind in [JoinKind::Inner, JoinKind::Left] {
        let mut query = Query::new(keyed(kind));
        query.run(&[r(9, 100, 1)], &[r(9, 100, 2)], marks(None, None));
        let (rows, counts) = query.run(&[r(1, 50, 3)], &[r(1, 50, 4)], marks(Some(0), Some(100)));
        assert_eq!((rows, counts.rows_total), (vec!["3-4".to_owned()], 0));
    }
    let mut query = Query::new(keyed(JoinKind::Left));
    let (rows, counts) = query.run(&[r(1, 50, 3)], &[], marks(Some(0), Some(100)));
    assert_eq!((rows, counts.rows_total), (vec!["3-_".to_owned()], 0));
}

/// Each side has its own bound.
/// Trap B7.
#[test]
fn sides_leave_by_their_own_bounds() {
    let mut query = Query::new(ranged(JoinKind::Full, within(0, 100)));
    query.run(&[r(1, 1000, 1)], &[r(1, 999, 2)], marks(None, None));
    assert_eq!(query.run(&[], &[], marks(None, Some(999))).0, none());
    assert_eq!(query.run(&[], &[], marks(Some(999), Some(1050))).0, ["_-2"]);
    assert_eq!(query.run(&[], &[], marks(Some(1050), Some(1100))).0, none());
    assert_eq!(query.run(&[], &[], marks(Some(1100), Some(1101))).0, ["1-_"]);
}

/// Trap B6.
#[test]
fn nothing_comes_out_early_in_whatever_order_rows_come() {
    let (l, right) = (r(1, 17, 1), [r(1, 19, 2), r(1, 19, 3), r(1, 19, 4)]);
    for orders in [[vec![l], vec![]], [vec![], vec![l]]] {
        let mut query = Query::new(ranged(JoinKind::Left, within(0, 3)));
        let [first, second] = orders;
        let mut rows = query.run(&first, &right[..2], marks(None, Some(10))).0;
        rows.extend(query.run(&second, &right[2..], marks(Some(10), Some(12))).0);
        rows.extend(query.run(&[], &[], marks(Some(12), Some(1000))).0);
        rows.sort();
        assert_eq!(rows, ["1-2", "1-3", "1-4"]);
    }
}

/// A key whose last row has left is no partner.
/// Trap B8.
#[test]
fn an_empty_key_is_no_match() {
    let mut query = Query::new(ranged(JoinKind::Full, within(0, 5)));
    query.run(&[], &[r(3, 1, 1)], marks(None, None));
    assert_eq!(query.run(&[], &[], marks(None, Some(50))).0, ["_-1"]);
    query.run(&[r(3, 60, 2)], &[], marks(Some(50), Some(50)));
    assert_eq!(query.run(&[], &[], marks(Some(50), Some(100))).0, ["2-_"]);
}

/// Trap B13.
#[test]
fn zeros_and_nans_are_equal_and_nulls_are_not() {
    let row = |k: Option<f64>, v| R { k, ..r(0, 10, v) };
    let left = [row(None, 1), row(Some(-0.0), 2), row(Some(f64::NAN), 3)];
    let right = [row(None, 4), row(Some(0.0), 5), row(Some(-f64::NAN), 6)];
    let mut query = Query::new(ranged(JoinKind::Full, within(0, 5)));
    assert_eq!(query.run(&left, &right, marks(None, None)).0, ["2-5", "3-6"]);
    assert_eq!(query.run(&[], &[], marks(None, Some(100))).0, ["1-_", "_-4"]);
    // An inner join keeps no row whose key is null.
    let mut query = Query::new(ranged(JoinKind::Inner, within(0, 5)));
    let (_, counts) = query.run(&left, &right, marks(None, None));
    assert_eq!((counts.rows_total, counts.rows_updated), (4, 4));
}

/// Trap B13.
#[test]
fn null_safe_keys_match() {
    let both = [(); 2].map(|()| side(vec![0], JoinEviction::Never));
    let join = StreamJoin::new(JoinKind::Inner, both, vec![true], None, None).unwrap();
    let mut query = Query::new(join);
    let null = |v| R { k: None, ..r(0, 0, v) };
    assert_eq!(query.run(&[null(1)], &[null(2)], marks(None, None)).0, ["1-2"]);
    assert_eq!(query.run(&[null(3)], &[], marks(None, None)).0, ["3-2"]);
}

/// A condition on the preserved side alone: what fails it comes out at once and is not stored.
#[test]
fn rows_that_fail_a_condition_on_their_side_come_out_at_once() {
    let [mut left, right] = within(0, 10).evictions().map(|eviction| side(vec![0], eviction));
    let one = literal(ScalarValue::Int64(Some(1)));
    left.filter = Some(binary(column(2), Op::Gt, one));
    let condition = Some(within(0, 10).condition());
    let join =
        StreamJoin::new(JoinKind::Left, [left, right], vec![false], condition, None).unwrap();
    let mut query = Query::new(join);
    let (rows, counts) =
        query.run(&[r(1, 10, 1), r(2, 10, 2)], &[r(1, 12, 3), r(2, 12, 4)], marks(None, None));
    assert_eq!((rows, counts.rows_total), (vec!["1-_".to_owned(), "2-4".to_owned()], 3));
}

/// Spark's counts: a left row that matched what waited is not stored, one that matched what came
/// with it is; what leaves in silence is counted.
#[test]
fn a_semi_join_emits_a_left_row_once() {
    let mut query = Query::new(ranged(JoinKind::LeftSemi, within(0, 10)));
    let right = [r(1, 12, 8), r(1, 13, 9)];
    let (rows, counts) = query.run(&[r(1, 10, 1)], &right, marks(None, None));
    assert_eq!((rows, counts.rows_total), (vec!["1".to_owned()], 3));
    let (rows, counts) = query.run(&[r(1, 11, 2), r(1, 30, 3)], &[r(1, 14, 7)], marks(None, None));
    assert_eq!((rows, counts.rows_total), (vec!["2".to_owned()], 5));
    let (rows, _) = query.run(&[], &[r(1, 31, 6)], marks(None, None));
    assert_eq!(rows, ["3"]);
    let (rows, counts) = query.run(&[], &[], marks(None, Some(1000)));
    assert_eq!((rows, counts.rows_total, counts.rows_removed), (none(), 0, 6));
}

#[test]
fn late_rows_are_dropped_and_counted() {
    let mut query = Query::new(ranged(JoinKind::Full, within(0, 10)));
    let (rows, counts) =
        query.run(&[r(1, 20, 1), r(1, 21, 2)], &[r(1, 20, 3)], marks(Some(20), Some(20)));
    assert_eq!((rows, counts.rows.late), (none(), 2));
    assert_eq!((counts.rows_total, counts.rows_updated), (1, 1));
}

/// Trap A21.
#[test]
fn times_at_the_ends_do_not_overflow() {
    for kind in [JoinKind::Inner, JoinKind::Full] {
        let mut query = Query::new(keyed(kind));
        let extreme = |t, v| R { t: Some(t), ..r(1, 0, v) };
        let rows = [extreme(i64::MIN, 1), extreme(i64::MAX, 2)];
        assert_eq!(query.run(&rows, &rows, marks(None, None)).0, ["1-1", "2-2"]);
        let (rows, counts) = query.run(&[], &[], marks(None, Some(i64::MAX)));
        assert_eq!((rows, counts.rows_total), (none(), 0));
    }
}

#[test]
fn modes_and_batches_without_data() {
    let outer = ranged(JoinKind::Left, within(0, 5));
    let inner = ranged(JoinKind::Inner, within(0, 5));
    let mark = |seconds: i64| EvictWatermark(Some(EventTime(seconds)));
    assert!(inner.wants_empty_batch(OutputMode::Append, mark(1), mark(2)));
    assert!(!inner.wants_empty_batch(OutputMode::Append, mark(2), mark(2)));
    let both = [(); 2].map(|()| side(vec![0], JoinEviction::Never));
    let kept = StreamJoin::new(JoinKind::Inner, both, vec![false], None, None).unwrap();
    assert!(!kept.wants_empty_batch(OutputMode::Append, mark(1), mark(2)));
    assert_eq!(outer.output_watermark(), OutputWatermark::Delayed(EventDuration(5_001_000)));
    assert_eq!(kept.output_watermark(), OutputWatermark::Passes);
    let evictions = [(); 2].map(|()| side(vec![0, 1], JoinEviction::Key(1)));
    let [left, mut right] = evictions;
    right.eviction = JoinEviction::Never;
    assert!(StreamJoin::new(JoinKind::Inner, [left, right], vec![false; 2], None, None).is_err());
}

#[test]
fn rows_that_wait_are_shown_without_their_query() {
    use crate::inspect::StateView;
    use crate::join::Side;
    let mut query = Query::new(ranged(JoinKind::Left, within(0, 5)));
    query.run(&[r(1, 10, 1), r(1, 11, 2), r(2, 10, 3)], &[r(1, 10, 4)], marks(None, None));
    let left = query.shown(&StateView::Side(Side::Left));
    let shown = [
        "key={k: 1.0} value={k: 1.0, t: 1970-01-01T00:00:10, v: 1, matched: true}",
        "key={k: 1.0} value={k: 1.0, t: 1970-01-01T00:00:11, v: 2, matched: false}",
        "key={k: 2.0} value={k: 2.0, t: 1970-01-01T00:00:10, v: 3, matched: false}",
    ];
    assert_eq!(left, shown);
    assert_eq!(query.shown(&StateView::Side(Side::Right)).len(), 1);
    let mut query = Query::new(keyed(JoinKind::Left));
    query.run(&[r(1, 10, 1), r(2, 10, 2)], &[r(1, 10, 4)], marks(None, None));
    let shown = "key={k: 1.0, t: 1970-01-01T00:00:10} \
                 value={k: 1.0, t: 1970-01-01T00:00:10, v: 1, matched: true}";
    assert_eq!(query.shown(&StateView::Side(Side::Left))[0], shown);
}
