//! Rows that came too late, written down as rows of one schema for all operators of a query.

use crate::error::from_datafusion;
use crate::functions::json_of_rows;
use arrow::array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use fluvial_core::{LateBatch, Result};
use fluvial_engine::Judged;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("batch_id", DataType::Int64, true),
        Field::new("operator", DataType::Utf8, true),
        Field::new("input", DataType::Int32, true),
        Field::new("watermark", timestamp, true),
        Field::new("record", DataType::Utf8, true),
    ]))
});

/// The schema of late rows: `batch_id bigint, operator string, input int, watermark timestamp,
/// record string`. The record is the row as `to_json` writes it, times in UTC; the input is 1 for
/// the right side of a join, else 0.
pub fn late_schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// Writes late rows down.
///
/// # Errors
///
/// `Invalid` for a column that JSON cannot hold.
pub(crate) fn record(judged: &Judged, late: &LateBatch) -> Result<RecordBatch> {
    let rows = late.rows.num_rows();
    let structs: ArrayRef = Arc::new(StructArray::from(late.rows.clone()));
    let records = json_of_rows(&structs).map_err(from_datafusion)?;
    let watermark = TimestampMicrosecondArray::from_value(judged.watermark.0, rows);
    let batch = i64::try_from(judged.batch.0).unwrap_or(i64::MAX);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_value(batch, rows)),
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
            judged.operator.as_str(),
            rows,
        ))),
        Arc::new(Int32Array::from_value(i32::try_from(late.port).unwrap_or(i32::MAX), rows)),
        Arc::new(watermark.with_timezone("UTC")),
        Arc::new(records),
    ];
    Ok(RecordBatch::try_new(late_schema(), columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use fluvial_core::{BatchId, EventTime, OperatorId};

    #[test]
    fn a_late_row_says_who_judged_it_and_what_it_was() {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let pages: ArrayRef = Arc::new(StringArray::from(vec!["/", "/a\"b"]));
        let rows = RecordBatch::try_from_iter([("id", ids), ("page", pages)]).unwrap();
        let judged = Judged {
            batch: BatchId(3),
            operator: OperatorId::new("agg-0").unwrap(),
            watermark: EventTime(5_000_000),
        };
        let written = record(&judged, &LateBatch { port: 1, rows }).unwrap();
        let records = written.column_by_name("record").unwrap().as_string::<i32>();
        let records: Vec<_> = records.iter().flatten().collect();
        assert_eq!(records, [r#"{"id":7,"page":"/"}"#, r#"{"page":"/a\"b"}"#]);
        assert_eq!(
            written.column_by_name("operator").unwrap().as_string::<i32>().value(1),
            "agg-0"
        );
        assert_eq!(written.num_columns(), 5);
    }
}
