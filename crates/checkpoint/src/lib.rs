//! What a query remembers of itself on any object store: its plans and commits, and what may change between two runs.
//!
//! ```text
//! <checkpoint>/metadata                   the query's id
//! <checkpoint>/offsets/7                  the plan of batch 7
//! <checkpoint>/commits/7                  batch 7 is done
//! <checkpoint>/low-water                  entries below this batch may be gone
//! <checkpoint>/sources/<source>/...       what sources write beside their plans
//! <checkpoint>/state/...                  the state backend's own
//! ```
//!
//! [`ObjectLog`] is the log. Its entries are created once and never changed, so two runs that
//! meet on one checkpoint cannot damage it. On a local disk it should stand on a store that
//! returns only when a power cut can no longer undo what it did (`fluvial-local-store`); other
//! stores are [`probe`]d for the one thing that the log needs of them.
//!
//! ```
//! use fluvial_checkpoint::ObjectLog;
//! use fluvial_core::{BatchLog, QueryId};
//! use object_store::path::Path;
//! # fn main() -> fluvial_core::Result<()> {
//! # let disk = fluvial_sim::Disk::new();
//! # let store = || disk.process().store();
//! # fluvial_sim::block_on(async {
//! let log = ObjectLog::new(store(), Path::from("checkpoints/clicks"));
//! let id = log.query_id(&QueryId::new("made-up-now")?).await?;
//!
//! let later = ObjectLog::new(store(), Path::from("checkpoints/clicks"));
//! assert_eq!(later.query_id(&QueryId::new("another")?).await?, id);
//! assert!(later.latest_plan().await?.is_none(), "no batch was planned yet");
//! # Ok(()) })
//! # }
//! ```
//!
//! This crate is *not* the engine: it decides neither what a batch contains nor what to do after
//! a crash. It says what is there.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod create;
mod entry;
pub mod evolution;
pub mod format;
mod layout;
mod low_water;
mod object_log;
mod probe;
mod retention;

pub use evolution::compare;
pub use layout::Layout;
pub use object_log::ObjectLog;
pub use probe::probe;
pub use retention::{Retention, retain_from};
