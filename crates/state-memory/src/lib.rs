//! Keyed state in memory, made durable as deltas and snapshots on object storage.
//!
//! [`MemoryBackend`] holds all state in memory: reads cost no I/O and no decoding. A commit
//! uploads what changed; every so often it uploads everything, so that a restart reads little.
//! State that does not fit in memory needs another backend.
//!
//! Inside, a version is hash tables in few allocations, one for each (key group, time), so that
//! what expires together is dropped together. A batch is an overlay on it that becomes part of it
//! only when a later batch opens the result.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arena;
mod backend;
mod cache;
mod codec;
mod inspect;
mod load;
mod objects;
mod order;
mod overlay;
mod pack;
mod prefix;
mod ranges;
mod runs;
mod segment;
mod settings;
mod store;
mod table;
mod token;

pub use backend::MemoryBackend;
pub use inspect::{FrameSummary, TokenSummary, inspect_frame, inspect_token};
pub use settings::{Compression, Settings};
