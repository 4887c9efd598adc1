//! A table in memory, for tests, notebooks and small results.

use crate::in_process::{ALL_MODES, Claim, InProcess};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::{
    BatchId, CommitOutcome, Error, Note, OutputMode, PartitionId, Result, Sink, SinkSpec,
    SinkWriter, Staged,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much a [`MemorySink`] holds before a batch is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Rows of the whole table.
    pub rows_max: usize,
    /// Bytes of the whole table, as Arrow accounts for them.
    pub bytes_max: usize,
}

impl Default for MemoryLimits {
    /// Ten million rows, one gibibyte.
    fn default() -> Self {
        Self { rows_max: 10_000_000, bytes_max: 1 << 30 }
    }
}

/// A table in memory that clones share.
///
/// In append and update mode each batch adds rows; in complete mode each batch replaces them.
///
/// It forgets with the process. A query whose checkpoint says that batches were published goes
/// on with an empty table only in complete mode, where the next batch brings everything back; in
/// append and update mode the first batch is refused, because the rows before it are lost.
#[derive(Debug, Clone)]
pub struct MemorySink {
    name: Arc<str>,
    limits: MemoryLimits,
    gaps: bool,
    memory: Arc<InProcess>,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    schema: Option<SchemaRef>,
    mode: Option<OutputMode>,
    batches: VecDeque<(BatchId, RecordBatch)>,
    rows: usize,
    bytes: usize,
}

impl MemorySink {
    /// An empty table called `name`, with the default limits.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into().into(),
            limits: MemoryLimits::default(),
            gaps: false,
            memory: Arc::default(),
            table: Arc::default(),
        }
    }

    /// Other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: MemoryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// For a query that publishes only some of its batches: that those before are not here does not
    /// mean that they are lost.
    #[must_use]
    pub fn with_gaps(mut self) -> Self {
        self.gaps = true;
        self
    }

    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema of the table; `None` before a query opened it.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.table().schema.clone()
    }

    /// The rows published so far, in the order of their batches.
    pub fn snapshot(&self) -> Vec<RecordBatch> {
        self.table().batches.iter().map(|(_, rows)| rows.clone()).collect()
    }

    /// The rows published so far, each piece with the batch that published it.
    pub fn batches(&self) -> Vec<(BatchId, RecordBatch)> {
        self.table().batches.iter().cloned().collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, batch: BatchId, added: Vec<RecordBatch>) -> Result<()> {
        let mut table = self.table();
        let replace = table.mode == Some(OutputMode::Complete);
        let (mut rows, mut bytes) = if replace { (0, 0) } else { (table.rows, table.bytes) };
        rows += added.iter().map(RecordBatch::num_rows).sum::<usize>();
        bytes += added.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        if rows > self.limits.rows_max || bytes > self.limits.bytes_max {
            return Err(Error::invalid(format!(
                "batch {batch}: memory table {:?} would hold {rows} rows in {bytes} bytes; its \
                 limits are {} rows and {} bytes: raise them, or write to files or a table",
                self.name, self.limits.rows_max, self.limits.bytes_max
            ))
            .with_condition("MEMORY_SINK_FULL"));
        }
        if replace {
            table.batches.clear();
        }
        table.batches.extend(added.into_iter().map(|rows| (batch, rows)));
        (table.rows, table.bytes) = (rows, bytes);
        Ok(())
    }

    /// Refuses to go on where rows of earlier batches are lost.
    fn check_history(&self, batch: BatchId) -> Result<()> {
        let lost = batch > BatchId::FIRST
            && !self.gaps
            && self.memory.last().is_none()
            && self.table().mode != Some(OutputMode::Complete);
        if lost {
            return Err(Error::invalid(format!(
                "batch {batch}: memory table {:?} is empty, but earlier batches were published by \
                 a process that is gone: start with a new checkpoint, use complete mode, or write \
                 to files or a table",
                self.name
            ))
            .with_condition("MEMORY_SINK_CANNOT_RECOVER"));
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for MemorySink {
    fn description(&self) -> String {
        format!("MemorySink[{}]", self.name)
    }

    fn modes(&self) -> &[OutputMode] {
        ALL_MODES
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let last = self.memory.open(&self.description(), spec)?;
        let mut table = self.table();
        let keeps_rows = spec.mode != OutputMode::Complete && !table.batches.is_empty();
        if let Some(schema) = &table.schema
            && keeps_rows
            && schema.fields() != spec.schema.fields()
        {
            return Err(Error::invalid(format!(
                "memory table {:?} has rows with the schema {:?}; the query writes {:?}",
                self.name, schema, spec.schema
            )));
        }
        table.schema = Some(spec.schema.clone());
        table.mode = Some(spec.mode);
        Ok(last)
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        self.check_history(batch)?;
        Ok(self.memory.writer(batch, partition))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        match self.memory.claim(batch, &staged)? {
            Claim::Already(outcome) => Ok(outcome),
            Claim::Publish(claimed, rows) => {
                self.check_history(batch)?;
                self.publish(batch, rows)?;
                Ok(claimed.done(note))
            }
        }
    }
}

#[cfg(test)]
mod tests;
