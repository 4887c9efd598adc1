//! The built-in sources of Fluvial: files, rate, rate per micro-batch and memory, and the decoders of file formats.
//!
//! A source plans what a batch reads, and reads it again whenever it is asked: see the laws of
//! [`fluvial_core::Source`]. No source here reads a clock or draws a random number of its own,
//! or starts a task.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod column;
mod file;
mod format;
mod memory;
mod numbers;
mod rate;
mod rate_micro_batch;
mod text;

pub use file::{
    FilePlace, FileSource, FileSourceBuilder, METADATA, check_local_folder, metadata_field,
    parse_log_object,
};
pub use format::FileFormat;
pub use memory::MemorySource;
pub use rate::RateSource;
pub use rate_micro_batch::RateMicroBatchSource;

/// Rows of one record batch that a source yields, at most.
pub const BATCH_ROWS: usize = 8192;
