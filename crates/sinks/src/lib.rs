//! Sinks of Fluvial without heavy dependencies: memory, console, noop, foreach, foreachBatch and files.
//!
//! | sink | modes | a batch appears |
//! |---|---|---|
//! | [`MemorySink`] | all | once per value; forgets with the process |
//! | [`ConsoleSink`] | all | at least once; forgets with the process |
//! | [`NoopSink`] | all | nowhere; it is counted |
//! | [`ForeachBatchSink`] | all | at least once: the callback gets the batch id |
//! | [`ForeachSink`] | all | at least once: rows are handed over while the batch runs |
//! | [`FileSink`] | append | exactly once |
//!
//! A batch is staged, which nobody sees, and then committed, which only its first commit does:
//!
//! ```
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use fluvial_core::{
//!     BatchId, CommitOutcome, Note, OutputMode, PartitionId, QueryId, RunId, Sink, SinkId, SinkSpec,
//! };
//! use fluvial_sinks::MemorySink;
//! use std::sync::Arc;
//!
//! # fn main() -> fluvial_core::Result<()> { futures::executor::block_on(async {
//! let views: ArrayRef = Arc::new(Int64Array::from(vec![3, 4]));
//! let rows = RecordBatch::try_from_iter([("views", views)])?;
//! let sink = MemorySink::new("views");
//! let (query, run, schema) = (QueryId::new("query")?, RunId::new("run-1")?, rows.schema());
//! let mode = OutputMode::Append;
//! sink.open(&SinkSpec { query, sink: SinkId::new("sink-0")?, run, schema, mode }).await?;
//!
//! let mut writer = sink.writer(BatchId(0), PartitionId(0)).await?;
//! writer.write(rows.clone()).await?;
//! let staged = writer.stage().await?;
//! assert!(sink.snapshot().is_empty());
//!
//! let note = Note("what the engine remembers".into());
//! let first = sink.commit(BatchId(0), vec![staged.clone()], &note).await?;
//! assert_eq!(first, CommitOutcome::Committed);
//! let again = sink.commit(BatchId(0), vec![staged], &note).await?;
//! assert_eq!(again, CommitOutcome::AlreadyCommitted(Some(note)));
//! assert_eq!(sink.snapshot(), [rows]);
//! # Ok(()) }) }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cell;
mod console;
mod file;
mod foreach;
mod foreach_batch;
mod in_process;
mod memory;
mod noop;
mod table;
#[cfg(test)]
mod testing;

pub use console::{ConsoleSink, Truncate};
#[cfg(any(feature = "avro", feature = "orc"))]
pub use file::{BlockCompression, ContainerFormat};
pub use file::{
    CsvForm, FileFormat, FileOptions, FileSink, ParquetCompression, TextCompression, TextTimes,
    committed_files,
};
pub use foreach::{ForeachSink, ForeachWriter};
pub use foreach_batch::ForeachBatchSink;
pub use memory::{MemoryLimits, MemorySink};
pub use noop::{NoopCounts, NoopSink};
pub use table::{TableStyle, draw};
