//! Against a naive model, with random keys: nulls, NaN, both zeros, extreme and equal times.

use super::super::{Dedup, Forget};
use super::{info, run};
use arrow::array::{
    ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, UInt64Type};
use fluvial_conformance::operator::Contents;
use fluvial_core::{EventDuration, KeyGroupCount};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is equal is equal text.
type Row = (Option<f64>, Option<String>, Option<i64>);

#[derive(Debug, Clone)]
struct Batch {
    rows: Vec<Row>,
    moves: i64,
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("id", DataType::UInt64, false),
    ]))
}

fn row() -> impl Strategy<Value = Row> {
    let number = prop_oneof![
        Just(None),
        Just(Some(0.0)),
        Just(Some(-0.0)),
        Just(Some(f64::NAN)),
        Just(Some(-f64::NAN)),
        Just(Some(f64::INFINITY)),
        (0i8..3).prop_map(|n| Some(f64::from(n))),
    ];
    let text = proptest::option::of("[ab]{0,2}");
    let time = prop_oneof![
        8 => (0i64..40_000).prop_map(Some),
        1 => Just(None),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), Just(i64::MAX - 1)].prop_map(Some),
    ];
    (number, text, time)
}

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let batch = (proptest::collection::vec(row(), 0..25), 0i64..9000)
        .prop_map(|(rows, moves)| Batch { rows, moves });
    proptest::collection::vec(batch, 1..7)
}

fn columns(rows: &[Row], from: u64) -> RecordBatch {
    let ids = from..from + rows.len() as u64;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<TimestampMicrosecondArray>()),
        Arc::new(UInt64Array::from_iter_values(ids)),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The key of a row as text.
fn key(row: &Row, keys: &[usize]) -> String {
    let number = row.0.map(|n| if n.is_nan() { "NaN".into() } else { (n + 0.0).to_string() });
    let parts = [format!("{number:?}"), format!("{:?}", row.1), format!("{:?}", row.2)];
    keys.iter().map(|&at| parts[at].as_str()).collect::<Vec<_>>().join("|")
}

/// Keys and when they expire.
#[derive(Default)]
struct Model(BTreeMap<String, Option<i64>>);

impl Model {
    /// The ids that pass, and how many keys were removed.
    fn step(
        &mut self,
        dedup: &Dedup,
        rows: &[Row],
        from: u64,
        (late, evict): (Option<i64>, Option<i64>),
    ) -> (Vec<u64>, u64) {
        let mut passed = Vec::new();
        for (row, id) in rows.iter().zip(from..) {
            if row.2.is_some_and(|time| late.is_some_and(|late| time <= late)) {
                continue;
            }
            let key = key(row, dedup.keys());
            if self.0.contains_key(&key) {
                continue;
            }
            let expiry = match dedup.config.forget {
                Forget::After(delay) => Some(row.2.unwrap_or(0).saturating_add(delay.0)),
                Forget::ByKey(_) if dedup.is_bounded() => row.2,
                Forget::ByKey(_) => None,
            };
            self.0.insert(key, expiry);
            passed.push(id);
        }
        let before = self.0.len();
        let expires = |at: &Option<i64>| at.is_some_and(|at| evict.is_some_and(|w| at <= w));
        self.0.retain(|_, expiry| !expires(expiry));
        (passed, (before - self.0.len()) as u64)
    }
}

fn check(dedup: &Dedup, batches: &[Batch], cut: usize) -> Result<(), TestCaseError> {
    let (mut contents, mut model) = (Contents::new(), Model::default());
    let (mut watermark, mut from) = (None, 0);
    for (n, batch) in batches.iter().enumerate() {
        let late = watermark;
        if n > 0 {
            watermark = Some(watermark.unwrap_or(0) + batch.moves);
        }
        let mut info = info(late, watermark);
        info.key_groups = KeyGroupCount::new(3).unwrap();
        info.groups = info.key_groups.all();
        let rows = columns(&batch.rows, from);
        let chunks = (0..rows.num_rows())
            .step_by(cut)
            .map(|at| rows.slice(at, cut.min(rows.num_rows() - at)))
            .collect();
        let (passed, counts, _) = run(dedup, &mut contents, chunks, info);
        let passed: Vec<u64> = passed
            .iter()
            .flat_map(|rows| rows.column(3).as_primitive::<UInt64Type>().values().to_vec())
            .collect();
        let (expected, removed) = model.step(dedup, &batch.rows, from, (late, watermark));
        prop_assert_eq!(passed, expected, "batch {}", n);
        prop_assert_eq!(counts.rows_removed, removed, "removed in batch {}", n);
        prop_assert_eq!(counts.rows_total, model.0.len() as u64, "keys after batch {}", n);
        from += batch.rows.len() as u64;
    }
    Ok(())
}

proptest! {
    /// Trap C5.
    #[test]
    fn it_is_the_model(
        batches in batches(), keys in proptest::collection::vec(0usize..3, 0..3),
        delay in prop_oneof![Just(0i64), 1i64..30_000, Just(i64::MAX)], cut in 1usize..30,
    ) {
        check(&Dedup::new(schema(), keys.clone(), Some(2)).unwrap(), &batches, cut)?;
        let within = Dedup::within_watermark(schema(), keys, 2, EventDuration(delay)).unwrap();
        check(&within, &batches, cut)?;
    }
}
