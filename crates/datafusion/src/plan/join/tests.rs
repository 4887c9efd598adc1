//! What is read off a condition.

use super::range::{apart, eviction};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, cast, col, lit};
use datafusion::scalar::ScalarValue;
use fluvial_core::EventDuration;

fn schema(name: &str) -> DFSchema {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let fields = vec![
        Field::new(format!("{name}t"), time, true),
        Field::new(format!("{name}v"), DataType::Int64, true),
    ];
    DFSchema::try_from(Schema::new(fields)).unwrap()
}

fn seconds(n: i64) -> Expr {
    lit(ScalarValue::new_interval_mdn(0, 0, n * 1_000_000_000))
}

/// The offsets of left and right rows, in milliseconds.
fn offsets(condition: Expr) -> [Option<i64>; 2] {
    let (left, right) = (schema("l"), schema("r"));
    let both = left.join(&right).unwrap();
    let conjuncts = split_conjunction_owned(condition);
    let (l, r) = (Column::from_name("lt"), Column::from_name("rt"));
    [(&left, &l, &r), (&right, &r, &l)].map(|(own, time, other)| {
        let found = eviction(&conjuncts, own, Some(time), other, &both);
        found.map(|(column, EventDuration(micros))| {
            assert_eq!(&column, time);
            micros / 1000
        })
    })
}

/// Beside what Spark's own suite expects.
/// Trap B7.
#[test]
fn bounds_of_each_side() {
    let (l, r) = (|| col("lt"), || col("rt"));
    // rt between lt and lt + 10 s: left rows wait ten seconds, right rows do not.
    let within = r().gt_eq(l()).and(r().lt_eq(l() + seconds(10)));
    assert_eq!(offsets(within), [Some(-10_001), Some(-1)]);
    let strict = r().gt(l()).and(r().lt(l() + seconds(10)));
    assert_eq!(offsets(strict), [Some(-10_000), Some(0)]);
    let between = r().between(l() - seconds(2), l() + seconds(4));
    assert_eq!(offsets(between), [Some(-4001), Some(-2001)]);
    // Either direction, and arithmetic on both sides.
    assert_eq!(offsets(l().gt(r() + seconds(10))), [Some(10_000), None]);
    assert_eq!(offsets((l() - seconds(3)).gt_eq(r() - seconds(5))), [Some(-2001), None]);
    assert_eq!(offsets((l() - r()).gt(seconds(10))), [Some(10_000), None]);
    assert_eq!(offsets(seconds(10).lt(l() - r())), [Some(10_000), None]);
    // The lowest of several bounds.
    let two = l().gt(r() + seconds(10)).and(l().gt(r() - seconds(10)));
    assert_eq!(offsets(two), [Some(-10_000), None]);
}

#[test]
fn casts_and_what_has_no_fixed_length() {
    let number = |name: &str, to: DataType| cast(col(name), to);
    let double = number("lt", DataType::Float64).gt(number("rt", DataType::Float64) + lit(10.0));
    assert_eq!(offsets(double), [Some(10_000), None]);
    let long = number("lt", DataType::Int64).gt(number("rt", DataType::Int64) + lit(10i64));
    assert_eq!(offsets(long), [Some(10_000), None]);
    // 10.3 is 10 and 0.6 is 0: up to a second less than equal numbers say.
    let long = number("lt", DataType::Int64).gt_eq(number("rt", DataType::Int64) + lit(10i64));
    assert_eq!(offsets(long), [Some(9_000), None]);
    let month = lit(ScalarValue::new_interval_mdn(1, 0, 0));
    assert_eq!(offsets(col("lt").gt(col("rt") + month)), [None, None]);
    assert_eq!(offsets(col("lv").gt(col("rv"))), [None, None]);
    assert_eq!(offsets(col("lt").eq(col("rt"))), [None, None]);
}

#[test]
fn pairs_are_not_further_apart() {
    let (left, right) = (schema("l"), schema("r"));
    let both = left.join(&right).unwrap();
    let conjuncts = [
        col("rt").gt_eq(col("lt")),
        (col("rt") - seconds(10)).lt(col("lt")),
        col("rv").gt(col("lv")),
    ];
    let found = apart(&conjuncts, &left, &right, &both).unwrap();
    assert_eq!((found.left.name.as_str(), found.right.name.as_str()), ("lt", "rt"));
    let seconds = |n: i64| Some(EventDuration(n * 1_000_000));
    assert_eq!((found.lower, found.upper), (seconds(0), seconds(10)));
    assert_eq!(apart(&conjuncts[2..], &left, &right, &both), None);
}
