//! Sinks of Fluvial without heavy dependencies: memory, console, noop, foreachBatch and files.
//!
//! | sink | modes | a batch appears |
//! |---|---|---|
//! | [`MemorySink`] | all | once per value; forgets with the process |
//! | [`ConsoleSink`] | all | at least once; forgets with the process |
//! | [`NoopSink`] | all | nowhere; it is counted |
//! | [`ForeachBatchSink`] | all | at least once: the callback gets the batch id |
//! | [`FileSink`] | append | exactly once |

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cell;
mod console;
mod file;
mod foreach_batch;
mod in_process;
mod memory;
mod noop;
mod table;
#[cfg(test)]
mod testing;

pub use console::{ConsoleSink, Truncate};
pub use file::{FileFormat, FileOptions, FileSink, ParquetCompression, committed_files};
pub use foreach_batch::ForeachBatchSink;
pub use memory::{MemoryLimits, MemorySink};
pub use noop::{NoopCounts, NoopSink};
pub use table::draw;
