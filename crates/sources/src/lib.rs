//! The built-in sources of Fluvial: files, rate, rate per micro-batch, sockets and memory, and the decoders of file formats.
//!
//! A source plans what a batch reads, and reads it again whenever it is asked: see the laws of
//! [`fluvial_core::Source`]. No source here reads a clock or draws a random number of its own,
//! or starts a task; only [`SocketSource`] has a thread, which waits for its connection.
//!
//! ```
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use fluvial_core::{BatchId, PlanRequest, ReadLimit, RunId, Source};
//! use fluvial_sources::MemorySource;
//! use futures::TryStreamExt;
//! use std::sync::Arc;
//!
//! # fn main() -> fluvial_core::Result<()> { fluvial_sim::block_on(async {
//! let clicks: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
//! let rows = RecordBatch::try_from_iter([("click", clicks)])?;
//! let source = MemorySource::new("clicks", rows.schema());
//! source.add_data(rows.clone())?;
//!
//! // What a batch reads is planned, and then read as often as anybody asks.
//! let (run, start) = (RunId::new("run-1")?, source.initial().await?);
//! let (batch, limit, until) = (BatchId(0), ReadLimit::NONE, None);
//! let request = PlanRequest { batch, run: &run, start: &start, limit, until, splits: 1 };
//! let range = source.plan(request).await?.expect("there are rows");
//! source.adopt(&range).await?;
//! for _ in 0..2 {
//!     let read: Vec<_> = source.read(&range, &range.splits[0], None)?.try_collect().await?;
//!     assert_eq!(read, [rows.clone()]);
//! }
//! # Ok(()) }) }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod column;
mod file;
mod format;
mod memory;
mod numbers;
mod rate;
mod rate_micro_batch;
mod socket;
mod text;

pub use file::{
    FileNews, FileNotifications, FilePlace, FileSource, FileSourceBuilder, FolderNames, ListNames,
    LogNeeds, METADATA, NewsInProcess, check_local_folder, metadata_field, numbered_metadata_field,
    parse_log_object,
};
pub use format::FileFormat;
pub use memory::MemorySource;
pub use rate::RateSource;
pub use rate_micro_batch::RateMicroBatchSource;
pub use socket::SocketSource;

/// Rows of one record batch that a source yields, at most.
pub const BATCH_ROWS: usize = 8192;
