//! Processors driven by hand, with numbers taken from Spark.

mod groups;
mod laws;
mod model;
mod processors;
mod random;
mod timers;
mod variables;

use super::*;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fluvial_core::{ErrorKind, EventTime, OutputMode};
use std::sync::Arc;

/// `(k, v)`.
fn rows() -> SchemaRef {
    schema(&[("k", DataType::Utf8), ("v", DataType::Int64)])
}

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
    Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<_>>()))
}

/// A tester over `(k, v)` in update mode.
fn tester(processor: impl StatefulProcessor + 'static, time_mode: TimeMode) -> TransformTester {
    let output = schema(&[("k", DataType::Utf8), ("what", DataType::Utf8)]);
    let transform = Transform::new(processor, output, time_mode, OutputMode::Update).unwrap();
    TransformTester::new(transform, rows(), &["k"]).unwrap()
}

/// Total, updated, removed and late rows.
fn counts(tester: &TransformTester) -> [u64; 4] {
    let counts = tester.counts();
    [counts.rows_total, counts.rows_updated, counts.rows_removed, counts.rows.late]
}

fn seconds(seconds: i64) -> EventTime {
    EventTime(seconds * 1_000_000)
}

/// What a failed batch says: its condition and its message.
fn failure<T: std::fmt::Debug>(result: fluvial_core::Result<T>) -> (String, String) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    (error.condition().unwrap_or_default().to_owned(), error.message().to_owned())
}

fn one_row(batch: &RecordBatch) -> InputRow<'_> {
    InputRow { batch, row: 0 }
}
