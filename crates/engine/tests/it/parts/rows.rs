//! Rows of `(key, time)` and `(end, key, count)`, as plain numbers.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use arrow::datatypes::{TimestampMicrosecondType, UInt64Type};
use fluvial_core::LateBatch;
use fluvial_engine::{Judged, LateRecords};
use std::sync::Arc;

/// Seconds in microseconds.
pub(crate) const SECOND: i64 = 1_000_000;

/// `key bigint, time timestamp`.
pub(crate) fn input_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("time", time, true),
    ]))
}

/// Rows of keys and seconds.
pub(crate) fn input(rows: &[(i64, i64)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0)));
    let times = rows.iter().map(|r| r.1 * SECOND);
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(times));
    RecordBatch::try_new(input_schema(), vec![keys, times]).unwrap()
}

/// The rows as numbers, times in seconds.
pub(crate) fn numbers(rows: &RecordBatch) -> Vec<Vec<i64>> {
    let columns: Vec<Vec<i64>> = rows
        .columns()
        .iter()
        .map(|column| {
            if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
                numbers.values().to_vec()
            } else if let Some(counts) = column.as_primitive_opt::<UInt64Type>() {
                counts.values().iter().map(|n| *n as i64).collect()
            } else {
                let times = column.as_primitive::<TimestampMicrosecondType>();
                times.values().iter().map(|t| t / SECOND).collect()
            }
        })
        .collect();
    (0..rows.num_rows()).map(|row| columns.iter().map(|c| c[row]).collect()).collect()
}

/// Late rows as `(batch, key, time, watermark in seconds)`.
pub(crate) fn late_records() -> LateRecords {
    let names = ["batch", "key", "time", "watermark"];
    let fields = names.map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let made = Arc::clone(&schema);
    let record = move |judged: &Judged, late: LateBatch| {
        let rows = numbers(&late.rows);
        let all = rows
            .iter()
            .map(|row| [judged.batch.0 as i64, row[0], row[1], judged.watermark.0 / SECOND]);
        let all: Vec<[i64; 4]> = all.collect();
        let column = |at: usize| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(all.iter().map(|row| row[at])))
        };
        Ok(RecordBatch::try_new(Arc::clone(&made), (0..4).map(column).collect())?)
    };
    LateRecords { schema, record: Arc::new(record) }
}
