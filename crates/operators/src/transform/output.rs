//! What handlers emit, in batches of bounded size.

use super::column::ColumnWriter;
use super::state_row::OutputRow;
use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{SchemaRef, TimestampMicrosecondType};
use fluvial_core::{Error, EventTime, LateWatermark, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows kept in builders before they become a batch.
const ROWS: usize = 8192;

/// The output of a batch.
pub(super) struct Output {
    schema: SchemaRef,
    columns: Vec<ColumnWriter>,
    rows: usize,
    ready: VecDeque<RecordBatch>,
    /// The column that is event time downstream, and the watermark it must be above.
    event_time: Option<(usize, LateWatermark)>,
}

impl Output {
    pub(super) fn new(schema: SchemaRef, event_time: Option<(usize, LateWatermark)>) -> Self {
        let columns = ColumnWriter::all(schema.fields());
        Self { schema, columns, rows: 0, ready: VecDeque::new(), event_time }
    }

    pub(super) fn row(&mut self, row: &impl OutputRow) -> Result<()> {
        row.write(&mut self.columns)?;
        self.rows += 1;
        if self.rows >= ROWS { self.end_block() } else { Ok(()) }
    }

    pub(super) fn batch(&mut self, rows: &RecordBatch) -> Result<()> {
        self.end_block()?;
        let columns = rows.columns().to_vec();
        if rows.num_rows() > 0 {
            self.add(columns, rows.num_rows())?;
        }
        Ok(())
    }

    /// Makes a batch of what waits in builders.
    pub(super) fn end_block(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let columns = self.columns.iter_mut().map(ColumnWriter::finish);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.add(columns, rows)
    }

    fn add(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|error| Error::from(error).with_condition("DATATYPE_MISMATCH"))?;
        self.check_times(&batch)?;
        self.ready.push_back(batch);
        Ok(())
    }

    /// What operators downstream would drop as late must not be emitted.
    fn check_times(&self, rows: &RecordBatch) -> Result<()> {
        let Some((at, late)) = self.event_time else { return Ok(()) };
        let times = rows.column(at).as_primitive::<TimestampMicrosecondType>();
        let late_time = times.iter().flatten().find(|time| late.is_late(EventTime(*time)));
        let (Some(time), Some(watermark)) = (late_time, late.0) else { return Ok(()) };
        Err(Error::invalid(format!(
            "the processor emitted a row of event time {} in column {}, at or before the watermark \
             {watermark}: operators above would drop it as late",
            EventTime(time),
            self.schema.field(at).name()
        ))
        .with_condition("EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED"))
    }

    /// The next rows, at most `limit`.
    pub(super) fn next(&mut self, limit: usize) -> Option<RecordBatch> {
        let batch = self.ready.pop_front()?;
        if batch.num_rows() > limit {
            self.ready.push_front(batch.slice(limit, batch.num_rows() - limit));
        }
        Some(batch.slice(0, batch.num_rows().min(limit)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }
}
