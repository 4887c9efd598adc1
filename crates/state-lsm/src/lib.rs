//! Keyed state as sorted runs on object storage, read lazily within one memory budget.
//!
//! ```
//! use arrow::array::BinaryArray;
//! use fluvial_core::{
//!     KeyGroupCount, OperatorId, RunId, StateBackend, StateVersion, StoreId, StoreName,
//! };
//! use fluvial_state_lsm::{Lsm, Settings};
//! use object_store::{memory::InMemory, path::Path};
//! use std::sync::Arc;
//!
//! # fn main() -> fluvial_core::Result<()> { fluvial_sim::block_on(async {
//! let (run, root) = (RunId::new("run-1")?, Path::from("query/state"));
//! let backend = Lsm::new(Arc::new(InMemory::new()), root, run, Settings::default());
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
//!
//! [`Lsm`] needs memory for what a batch touches, not for what there is. A commit writes what
//! changed as one sorted run, with a small manifest; a version is a list of runs. Old runs are
//! merged as new ones come. Runs never change, so versions share them: opening an old version,
//! another range of key groups or a later attempt copies nothing.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod backend;
mod background;
mod block;
mod budget;
mod builder;
mod codec;
mod compaction;
mod count;
mod disk;
mod filter;
mod gone;
mod index;
mod inspect;
mod load;
mod lookup;
mod manifest;
mod merge;
mod objects;
mod overlay;
mod pace;
mod prefetch;
mod run;
mod scan;
mod seal;
mod settings;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod token;
mod verify;
mod version;

pub use backend::Lsm;
pub use budget::Budget;
pub use inspect::{
    ManifestSummary, RunSummary, TokenSummary, inspect_block, inspect_index, inspect_manifest,
    inspect_packed, inspect_token,
};
pub use settings::{Compression, LocalCache, Settings};
