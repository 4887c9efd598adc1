//! Keyed state in memory, made durable as deltas and snapshots on object storage.
//!
//! [`MemoryBackend`] holds all state in memory: reads cost no I/O and no decoding. A commit
//! uploads what changed; every so often it uploads everything, so that a restart reads little.
//! State that does not fit in memory needs another backend.
//!
//! Inside, a version is hash tables in few allocations, one for each (key group, time), so that
//! what expires together is dropped together. A batch is an overlay on it that becomes part of it
//! only when a later batch opens the result.
//!
//! ```
//! use arrow::array::BinaryArray;
//! use fluvial_core::{
//!     KeyGroupCount, OperatorId, RunId, StateBackend, StateVersion, StoreId, StoreName,
//! };
//! use fluvial_state_memory::{MemoryBackend, Settings};
//! use object_store::{memory::InMemory, path::Path};
//! use std::sync::Arc;
//!
//! # fn main() -> fluvial_core::Result<()> { fluvial_sim::block_on(async {
//! let (run, root) = (RunId::new("run-1")?, Path::from("query/state"));
//! let backend = MemoryBackend::new(Arc::new(InMemory::new()), root, run, Settings::default());
//! let id = StoreId { operator: OperatorId::new("count")?, store: StoreName::new("default")? };
//! let groups = KeyGroupCount::DEFAULT.all();
//!
//! // Batch 0 turns version 0, which is empty, into version 1. A key begins with its group.
//! let keys = BinaryArray::from(vec![&b"\0\x07/home"[..]]);
//! let mut store = backend.open(&id, groups, StateVersion(0), &[]).await?;
//! store.put_many(&keys, &BinaryArray::from(vec![&b"1 view"[..]]))?;
//! let snapshots = backend.commit(vec![store.seal()?]).await?;
//!
//! let store = backend.open(&id, groups, StateVersion(1), &snapshots).await?;
//! assert_eq!(store.get_many(&keys)?.value(0), b"1 view");
//! # Ok(()) }) }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arena;
mod backend;
mod budget;
mod cache;
mod codec;
mod frame;
mod inspect;
mod load;
mod objects;
mod order;
mod overlay;
mod pack;
mod prefix;
mod runs;
mod segment;
mod settings;
mod store;
mod table;
mod token;
mod verify;

pub use backend::MemoryBackend;
pub use budget::Budget;
pub use inspect::{FrameSummary, TokenSummary, inspect_frame, inspect_token};
pub use settings::{Compression, Settings};
