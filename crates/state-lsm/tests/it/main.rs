//! The laws of state, stamped on the backend under several settings, and what it promises
//! beyond them.

#![allow(clippy::unwrap_used)]

mod budget;
mod fixtures;
mod histories;
mod inputs;
mod mutations;
mod promises;
mod world;

use fluvial_core::RunId;
use fluvial_state_lsm::{Compression, Lsm, Settings};
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A backend of a new run.
fn backend(store: Arc<dyn ObjectStore>, settings: Settings) -> Lsm {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RunId::new(format!("run-{}", RUNS.fetch_add(1, Ordering::Relaxed))).unwrap();
    Lsm::new(store, Path::from("q/state"), run, settings)
}

/// Every batch merges, every entry is a block, nothing stays in memory, all is read lazily.
fn tiny() -> Settings {
    Settings {
        memory_bytes: 0,
        block_bytes: 1,
        filter_bits: 10,
        compression: Compression::None,
        fanout: 2,
        fetch_whole_bytes: 0,
        local_cache: None,
    }
}

fluvial_conformance::state_backend!(usual, |store| Box::new(backend(store, Settings::default())));
fluvial_conformance::state_backend!(lazy_and_tiny, |store| Box::new(backend(store, tiny())));
fluvial_conformance::state_backend!(zstd_without_filters, |store| {
    let settings = Settings {
        compression: Compression::Zstd,
        filter_bits: 0,
        block_bytes: 100,
        fanout: 3,
        ..Settings::default()
    };
    Box::new(backend(store, settings))
});
