//! The laws of state, stamped on the backend under several settings, and what it promises
//! beyond them.

#![allow(clippy::unwrap_used)]

mod budget;
mod memory;
mod verify;

use arrow::array::BinaryArray;
use fluvial_core::{OperatorId, RunId, StoreId, StoreName};
use fluvial_state_memory::{Compression, MemoryBackend, Settings};
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A backend of a new run.
fn backend(store: Arc<dyn ObjectStore>, settings: Settings) -> MemoryBackend {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RunId::new(format!("run-{}", RUNS.fetch_add(1, Ordering::Relaxed))).unwrap();
    MemoryBackend::new(store, Path::from("q/state"), run, settings)
}

fn id(store: &str) -> StoreId {
    StoreId { operator: OperatorId::new("count").unwrap(), store: StoreName::new(store).unwrap() }
}

fn key_column<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> BinaryArray {
    keys.into_iter().map(Some).collect()
}

const SHORT: Settings = Settings { deltas_max: 1, compression: Compression::None };
const FULL: Settings = Settings { deltas_max: 0, compression: Compression::Zstd };

fluvial_conformance::state_backend!(default_settings, |store| Box::new(backend(
    store,
    Settings::default()
)));
fluvial_conformance::state_backend!(short_chains, |store| Box::new(backend(store, SHORT)));
fluvial_conformance::state_backend!(no_deltas, |store| Box::new(backend(store, FULL)));
