//! Rows that came too late, on their way to a sink of their own.

use crate::runner::BatchContext;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use fluvial_core::{
    BatchId, EventTime, LateBatch, OperatorId, PartitionId, Result, Sink, SinkId, SinkWriter,
    Staged,
};
use std::fmt;
use std::sync::Arc;

/// Where rows go that came too late for an operator.
///
/// The sink gets them in append mode, in the batch that judged them, before the query's own sink
/// is asked to publish: either both have a batch, or the batch runs again and gives the same rows.
/// A batch without late rows does not touch it.
#[derive(Clone)]
pub struct LateOutput {
    /// The sink.
    pub sink: Arc<dyn Sink>,
    /// Its stable name within the query.
    pub sink_id: SinkId,
}

impl fmt::Debug for LateOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateOutput").field("sink", &self.sink.description()).finish()
    }
}

/// Who judged rows to be late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// In which batch.
    pub batch: BatchId,
    /// The operator that they came to.
    pub operator: OperatorId,
    /// The watermark that they came after.
    pub watermark: EventTime,
}

/// Writes late rows down as rows of one schema, whatever operator they came to.
pub type RecordLate = dyn Fn(&Judged, LateBatch) -> Result<RecordBatch> + Send + Sync;

/// How late rows are written down.
#[derive(Clone)]
pub struct LateRecords {
    /// The schema of what is written.
    pub schema: SchemaRef,
    /// Makes it. Pure.
    pub record: Arc<RecordLate>,
}

/// The late rows of a batch, as they are written: by one writer, which is opened for the first.
pub struct LateWriter {
    sink: Arc<dyn Sink>,
    batch: BatchId,
    writer: Option<Box<dyn SinkWriter>>,
}

impl LateWriter {
    /// Writes to the sink for late rows of `batch`; `None` if nobody wants them.
    pub fn of(batch: &BatchContext) -> Option<Self> {
        let sink = Arc::clone(batch.late.as_ref()?);
        Some(Self { sink, batch: batch.plan.batch, writer: None })
    }

    /// Writes some.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(self.sink.writer(self.batch, PartitionId(0)).await?),
        };
        writer.write(rows).await
    }

    /// What was staged: nothing if there were no rows.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub async fn stage(self) -> Result<Vec<Staged>> {
        match self.writer {
            Some(writer) => Ok(vec![writer.stage().await?]),
            None => Ok(Vec::new()),
        }
    }
}

impl fmt::Debug for LateWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateWriter").field("batch", &self.batch).finish_non_exhaustive()
    }
}
