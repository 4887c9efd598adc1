//! The manifests of an output folder: which batches are published, and which of them may be
//! forgotten.
//!
//! A batch is published by creating its manifest if absent. Old manifests are removed, so
//! "absent" alone does not mean "not published": before any manifest below `k * kept` is removed,
//! low-water mark `k` is created, after all marks below `k`. Marks are never removed, and there is
//! one for every `kept` batches. Whoever created the manifest of batch `n` looks for mark `n / kept + 1`, the first
//! above `n`: if it is there, `n` was published long ago and the manifest just created is a
//! zombie's, which no reader looks at.

use crate::file::layout::{Layout, number};
use crate::file::manifest::Manifest;
use crate::file::store::{Created, create, exists, read, remove_all};
use bytes::Bytes;
use fluvial_core::{BatchId, Result};
use futures::TryStreamExt;
use futures::future::ready;
use object_store::ObjectStore;
use object_store::path::Path;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Who published a batch.
pub(crate) enum Published {
    /// This call.
    Now,
    /// An earlier one; here is its manifest.
    Before(Manifest),
    /// An earlier one, so long ago that its manifest is gone.
    LongAgo,
}

/// The manifests below one folder.
#[derive(Clone)]
pub(crate) struct Commits {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) layout: Layout,
    pub(crate) kept: NonZeroU64,
}

impl Commits {
    /// The newest manifest.
    pub(crate) async fn newest(&self) -> Result<Option<Manifest>> {
        loop {
            let Some(batch) = self.numbers().await?.into_iter().max().map(BatchId) else {
                return Ok(None);
            };
            if let Some(bytes) = read(self.store.as_ref(), &self.layout.commit(batch)).await? {
                return Manifest::parse(batch, &bytes).map(Some);
            }
            // Removed since it was listed: so there is a newer one.
        }
    }

    async fn numbers(&self) -> Result<Vec<u64>> {
        self.numbered(&self.layout.commits()).await
    }

    async fn numbered(&self, folder: &Path) -> Result<Vec<u64>> {
        let found = self.store.list(Some(folder));
        Ok(found.try_filter_map(|meta| ready(Ok(number(&meta.location)))).try_collect().await?)
    }

    /// Publishes `manifest` unless its batch is published.
    pub(crate) async fn publish(&self, manifest: &Manifest) -> Result<Published> {
        let (batch, path) = (manifest.batch, self.layout.commit(manifest.batch));
        let created = create(self.store.as_ref(), &path, manifest.to_bytes()?).await?;
        let mark = self.layout.low_water(batch.0 / self.kept + 1);
        if exists(self.store.as_ref(), &mark).await? {
            // Ours is garbage if we created it; whatever is there is below the mark.
            self.remove(vec![path]).await?;
            return Ok(Published::LongAgo);
        }
        match created {
            Created::Ours => Ok(Published::Now),
            Created::Theirs(bytes) => Manifest::parse(batch, &bytes).map(Published::Before),
        }
    }

    /// Forgets manifests that are old, every `kept` batches. `newest` must be published whole.
    pub(crate) async fn trim(&self, newest: BatchId) -> Result<()> {
        if newest.0 == 0 || !newest.0.is_multiple_of(self.kept.get()) {
            return Ok(());
        }
        let manifests = self.numbers().await?;
        let marks = self.numbered(&self.layout.low_waters()).await?;
        // A run may have died before it made its mark. Without marks nothing was removed yet, so
        // the oldest manifest is the first there ever was.
        let oldest = || manifests.iter().min().map_or(0, |first| *first / self.kept);
        let highest = marks.into_iter().max().unwrap_or_else(oldest);
        for mark in highest + 1..=newest.0 / self.kept {
            create(self.store.as_ref(), &self.layout.low_water(mark), Bytes::new()).await?;
        }
        let old = manifests.into_iter().filter(|batch| *batch < newest.0);
        let old = old.map(|batch| self.layout.commit(BatchId(batch))).collect();
        self.remove(old).await
    }

    async fn remove(&self, paths: Vec<Path>) -> Result<()> {
        remove_all(self.store.as_ref(), paths).await
    }
}
