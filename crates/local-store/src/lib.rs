//! An object store in a local folder that syncs before it returns, so that a power cut takes nothing back.
//!
//! ```
//! use fluvial_local_store::{Durability, DurableLocal};
//! use object_store::path::Path;
//! use object_store::{ObjectStore, PutMode};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let root = folder.path();
//! # fluvial_sim::block_on(async {
//! let store = DurableLocal::open(root, Durability::Synced)?;
//! let path = Path::from("offsets/7");
//! store.put_opts(&path, "the plan".into(), PutMode::Create.into()).await?;
//! let again = store.put_opts(&path, "another".into(), PutMode::Create.into()).await;
//! assert!(again.is_err(), "the first one is there, and stays there");
//! # Ok(()) })
//! # }
//! ```
//!
//! This crate is *not* part of the checkpoint: it knows nothing of plans and commits, and the
//! checkpoint takes any object store. It stands alone because `object_store`'s file system brings
//! an async runtime along, which whoever keeps a checkpoint in a bucket need not have.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod durable_local;

pub use durable_local::{Durability, DurableLocal, Offload};
