//! What sources over numbered rows share: ranges cut into splits, and rows of (timestamp, value).

use crate::BATCH_ROWS;
use arrow::array::TimestampMicrosecondArray;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fluvial_core::{Error, Offset, Result, RowStream, Split, ddl};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Rows `from..to`, as a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Span {
    /// First row.
    pub(crate) from: u64,
    /// One past the last row.
    pub(crate) to: u64,
}

/// Cuts `from..to` into at most `splits` contiguous spans of nearly the same length, none empty.
pub(crate) fn cut(from: u64, to: u64, splits: usize) -> Result<Vec<Split>> {
    let rows = to - from;
    let parts = (splits.max(1) as u64).min(rows);
    let bound = |part: u64| from + (u128::from(rows) * u128::from(part) / u128::from(parts)) as u64;
    (0..parts).map(|part| split(&Span { from: bound(part), to: bound(part + 1) })).collect()
}

/// The split that `part` serialises to.
pub(crate) fn split(part: &impl Serialize) -> Result<Split> {
    Ok(Split(Offset::of(part)?.into()))
}

/// Reads a split back.
pub(crate) fn parse_split<T: DeserializeOwned>(split: &Split) -> Result<T> {
    T::deserialize(&split.0).map_err(|e| {
        Error::corrupt(format!("split {} was not written by this kind of source", split.0))
            .with_source(e)
    })
}

/// The schema of rows of (timestamp, value).
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("timestamp", ddl::timestamp(), true),
        Field::new("value", DataType::Int64, true),
    ]))
}

/// The rows of `span`, whose values are their numbers; `times` fills in the times (microseconds)
/// of a range of rows.
pub(crate) fn rows(
    span: Span,
    projection: Option<&[usize]>,
    mut times: impl FnMut(Span, &mut Vec<i64>) + Send + 'static,
) -> Result<RowStream> {
    let full = schema();
    let columns = projection.map_or_else(|| vec![0, 1], <[usize]>::to_vec);
    let schema: SchemaRef = Arc::new(full.project(&columns)?);
    let chunks = (span.from..span.to).step_by(BATCH_ROWS).map(move |from| {
        let to = span.to.min(from.saturating_add(BATCH_ROWS as u64));
        let arrays = columns.iter().map(|column| -> ArrayRef {
            if *column == 0 {
                let mut micros = Vec::with_capacity((to - from) as usize);
                times(Span { from, to }, &mut micros);
                Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC"))
            } else {
                Arc::new(Int64Array::from_iter_values((from..to).map(|value| value as i64)))
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some((to - from) as usize));
        Ok(RecordBatch::try_new_with_options(schema.clone(), arrays.collect(), &options)?)
    });
    Ok(futures::stream::iter(chunks).boxed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_the_rows_in_order() {
        for (from, to, splits) in [(0, 10, 3), (5, 6, 4), (7, 7, 2), (0, u64::MAX, 3), (3, 9, 0)] {
            let mut next = from;
            for split in cut(from, to, splits).unwrap() {
                let span: Span = parse_split(&split).unwrap();
                assert_eq!(span.from, next);
                assert!(span.to > span.from);
                next = span.to;
            }
            assert_eq!(next, to);
        }
    }
}
