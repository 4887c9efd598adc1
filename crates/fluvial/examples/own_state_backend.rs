//! A state backend of your own, chosen through the session.
//!
//! ```text
//! cargo run -p fluvial --example own_state_backend
//! ```
//!
//! This one counts what each batch writes and leaves the work to ours. A backend from scratch
//! implements the same two traits, `StateBackend` and `StateStore`; `fluvial-conformance` has a
//! test for each of their laws.

use async_trait::async_trait;
use fluvial::prelude::*;
use fluvial_core::{
    Change, KeyGroupRange, SealedStore, Snapshot, StateBackend, StateStore, StateVersion, StoreId,
    Verification,
};
use fluvial_state_memory::{MemoryBackend, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes that another backend is given to keep.
pub(crate) struct Metered<B> {
    inner: B,
    bytes: Arc<AtomicUsize>,
}

#[async_trait]
impl<B: StateBackend> StateBackend for Metered<B> {
    fn format(&self) -> &str {
        self.inner.format()
    }

    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> fluvial::Result<Box<dyn StateStore>> {
        self.inner.open(id, groups, version, snapshots).await
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> fluvial::Result<Vec<Snapshot>> {
        for store in &sealed {
            if let Change::Bytes { bytes, .. } = &store.change {
                self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
            }
        }
        self.inner.commit(sealed).await
    }

    async fn retain(&self, live: &[Snapshot]) -> fluvial::Result<()> {
        self.inner.retain(live).await
    }

    // Verification may be left out: then everything is opened and read.
    async fn verify(
        &self,
        snapshots: &[Snapshot],
        report: &dyn Verification,
    ) -> fluvial::Result<()> {
        self.inner.verify(snapshots, report).await
    }
}

/// A session whose queries keep their state in a [`Metered`] backend.
pub(crate) fn metered_session(bytes: Arc<AtomicUsize>) -> fluvial::Result<Session> {
    Session::builder()
        // Called for every run of a stateful query, with the place that its checkpoint has for it.
        .state_backend(move |place| {
            let settings = Settings::default();
            let inner = MemoryBackend::new(place.store, place.folder, place.run, settings);
            Ok(Arc::new(Metered { inner, bytes: Arc::clone(&bytes) }))
        })
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = Arc::new(AtomicUsize::new(0));
    let session = metered_session(Arc::clone(&bytes))?;
    let query = session
        .read_stream()
        .format("rate-micro-batch")
        .option("rowsPerBatch", 1000)
        .load_options()
        .await?
        .group_by(vec![col("value") % lit(100_i64)])
        .count()?
        .write_stream()?
        .format("memory")
        .query_name("counts")
        .output_mode(OutputMode::Complete)
        .trigger(Trigger::Once)
        .start()
        .await?;
    query.await_termination().await?;
    println!("{} bytes of state were written", bytes.load(Ordering::Relaxed));
    Ok(())
}
