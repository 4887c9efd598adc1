//! Against a naive model: all rows that were not late, merged at once; with nulls, equal and
//! extreme times.

use super::super::{SessionAggregation, SessionTime};
use super::{by, info, partial, run};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampMicrosecondType};
use fluvial_conformance::operator::Contents;
use fluvial_core::{KeyGroupCount, OutputMode};
use proptest::prelude::*;
use std::sync::Arc;

/// Key, time, gap, value.
type Row = (Option<f64>, i64, i64, i64);
/// Key as text, start, end, count, sum.
type Session = (String, i64, i64, i64, i64);

fn row() -> impl Strategy<Value = Row> {
    let key = prop_oneof![
        Just(None),
        Just(Some(0.0)),
        Just(Some(-0.0)),
        Just(Some(f64::NAN)),
        Just(Some(-f64::NAN)),
        Just(Some(1.5)),
    ];
    let time = prop_oneof![
        9 => 0i64..300,
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX - 1), Just(-1)],
    ];
    (key, time, 1i64..30, -5i64..5)
}

fn batches() -> impl Strategy<Value = Vec<(Vec<Row>, i64)>> {
    proptest::collection::vec((proptest::collection::vec(row(), 0..15), 0i64..120), 1..6)
}

fn text(key: Option<f64>) -> String {
    match key {
        None => "null".into(),
        Some(key) if key.is_nan() => "NaN".into(),
        Some(key) => (key + 0.0).to_string(),
    }
}

fn end(row: &Row) -> i64 {
    row.1.saturating_add(row.2)
}

fn columns(sessions: &SessionAggregation, rows: &[Row]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Float64Array>());
    let edges = rows.iter().map(|row| (row.1, end(row)));
    partial(sessions, keys, edges, rows.iter().map(|row| row.3).collect())
}

fn shown(rows: &[RecordBatch]) -> Vec<Session> {
    let mut shown = Vec::new();
    for rows in rows {
        let window = rows.column(0).as_struct();
        let edge = |at: usize, row| {
            window.column(at).as_primitive::<TimestampMicrosecondType>().value(row)
        };
        let keys = rows.column(1).as_primitive::<Float64Type>();
        let number = |at: usize, row| rows.column(at).as_primitive::<Int64Type>().value(row);
        for row in 0..rows.num_rows() {
            let key = text(keys.is_valid(row).then(|| keys.value(row)));
            shown.push((key, edge(0, row), edge(1, row), number(2, row), number(3, row)));
        }
    }
    shown.sort();
    shown
}

/// Adds rows to sessions, one by one.
fn add(sessions: &mut Vec<Session>, rows: &[Row]) {
    for row in rows {
        let mut new = (text(row.0), row.1, end(row), 1, row.3);
        loop {
            let touches = |s: &Session| s.0 == new.0 && s.1 <= new.2 && new.1 <= s.2;
            let Some(at) = sessions.iter().position(touches) else { break };
            let old = sessions.swap_remove(at);
            new = (new.0, new.1.min(old.1), new.2.max(old.2), new.3 + old.3, new.4 + old.4);
        }
        sessions.push(new);
    }
}

proptest! {
    #[test]
    fn it_is_the_model(batches in batches(), cut in 1usize..20) {
        for mode in [OutputMode::Append, OutputMode::Complete] {
            let sessions = by(DataType::Float64, SessionTime::EventTime);
            let (mut contents, mut model) = (Contents::new(), Vec::new());
            let mut watermark = None;
            for (n, (rows, moves)) in batches.iter().enumerate() {
                let late = watermark;
                if n > 0 {
                    watermark = Some(watermark.unwrap_or(0) + moves);
                }
                let mut info = info(mode, late, watermark);
                info.key_groups = KeyGroupCount::new(3).unwrap();
                info.groups = info.key_groups.all();
                let all = columns(&sessions, rows);
                let chunks = (0..rows.len())
                    .step_by(cut)
                    .map(|at| all.slice(at, cut.min(rows.len() - at)))
                    .collect();
                let (out, counts) = run(&sessions, &mut contents, chunks, info);
                let on_time: Vec<Row> = rows
                    .iter()
                    .filter(|row| late.is_none_or(|late| end(row) > late))
                    .copied()
                    .collect();
                let dropped = counts.rows.late as usize;
                prop_assert_eq!(dropped, rows.len() - on_time.len());
                add(&mut model, &on_time);
                model.sort();
                let mut expected = model.clone();
                if mode == OutputMode::Append {
                    let over = |s: &Session| watermark.is_some_and(|w| s.2 <= w);
                    expected.retain(over);
                    model.retain(|s| !over(s));
                }
                prop_assert_eq!(shown(&out), expected, "batch {}", n);
                prop_assert_eq!(counts.rows_total, model.len() as u64);
            }
        }
    }
}
