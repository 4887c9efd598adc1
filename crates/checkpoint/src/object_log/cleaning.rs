//! Deleting entries that no recovery needs.

use super::ObjectLog;
use crate::entry::Entry;
use crate::layout::entry_number;
use crate::low_water;
use fluvial_core::{BatchId, Commit, Error, Plan, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::Error as StoreError;
use object_store::path::Path;

impl ObjectLog {
    /// Deletes entries of batches before `batch`, but never the newest two commits, nor the
    /// plans of their batches, nor any later plan.
    ///
    /// Two, because a torn newest commit makes the one before it the newest. What this process
    /// takes for the newest may be old: then it deletes less.
    pub(super) async fn clean(&self, batch: BatchId) -> Result<()> {
        if !self.known(|known| known.listed) {
            self.take_stock().await?;
        }
        let newest = self.known(|known| known.newest_commit).and_then(BatchId::previous);
        let Some(bound) = newest.map(|newest| newest.min(batch)) else { return Ok(()) };
        let paths: Vec<Path> = self.known(|known| {
            known.objects.range(..bound).flat_map(|(_, paths)| paths).cloned().collect()
        });
        if paths.is_empty() {
            return Ok(());
        }
        let mark = self.layout.low_water();
        let mark = low_water::raise(self.store.as_ref(), &mark, bound).await?;
        self.known(|known| known.low_water = known.low_water.max(Some(mark)));
        self.delete(paths).await?;
        self.known(|known| {
            known.objects = known.objects.split_off(&bound);
            known.commits = known.commits.split_off(&bound);
        });
        Ok(())
    }

    async fn delete(&self, paths: Vec<Path>) -> Result<()> {
        let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
        let mut deleted = self.store.delete_stream(paths);
        while let Some(answer) = deleted.next().await {
            match answer {
                // Another run may clean at the same time.
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    let place = format!("cleaning the log in {}", self.layout.root());
                    return Err(Error::from(error).at(place));
                }
            }
        }
        Ok(())
    }

    /// Lists once what there is to clean; later it is known without listing.
    async fn take_stock(&self) -> Result<()> {
        self.list::<Plan>().await?;
        self.list::<Commit>().await?;
        // Only a commit that can be read counts as the newest.
        let newest = self.latest::<Commit>().await?;
        newest.iter().for_each(|commit| self.remember(commit));
        self.known(|known| known.listed = true);
        Ok(())
    }

    async fn list<E: Entry>(&self) -> Result<()> {
        let folder = self.layout.root().clone().join(E::FOLDER);
        let place = |e| Error::from(e).at(format!("listing {folder}"));
        let mut listed = self.store.list(Some(&folder));
        while let Some(meta) = listed.try_next().await.map_err(place)? {
            let Some(name) = meta.location.filename() else { continue };
            let Some(batch) = entry_number(name) else { continue };
            if folder.clone().join(name) == meta.location {
                self.known(|known| known.objects.entry(batch).or_default().insert(meta.location));
            }
        }
        Ok(())
    }
}
