//! Moves the files of a published batch to where plain readers look.
//!
//! The manifest has published them already; this is bookkeeping that any process may do, any
//! number of times, and that the next one does if this one dies.

use crate::file::layout::{Layout, staged_batch};
use crate::file::manifest::{DataFile, Manifest};
use crate::file::store::remove_all;
use fluvial_core::Result;
use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeSet;

/// Moves at once.
const MOVES_MAX: usize = 16;

/// Moves every file of `manifest` that has not been moved.
pub(crate) async fn publish_files(
    store: &dyn ObjectStore,
    layout: &Layout,
    manifest: &Manifest,
) -> Result<()> {
    let files = futures::stream::iter(manifest.files.iter().map(Ok));
    files.try_for_each_concurrent(MOVES_MAX, |file| publish_file(store, layout, file)).await
}

async fn publish_file(store: &dyn ObjectStore, layout: &Layout, file: &DataFile) -> Result<()> {
    let (from, to) = (layout.resolve(&file.staged), layout.resolve(&file.path));
    match store.rename(&from, &to).await {
        // Not there: moved before. Nobody removes the staged file of a published batch otherwise;
        // if its final file is gone too, the owner of the output removed it.
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes what was staged for batches up to the newest published one and not published: nothing
/// can publish it any more. Later batches are left alone, whoever staged them: that run may be
/// alive.
pub(crate) async fn collect_garbage(
    store: &dyn ObjectStore,
    layout: &Layout,
    newest: &Manifest,
) -> Result<()> {
    let published: BTreeSet<_> =
        newest.files.iter().map(|file| layout.resolve(&file.staged)).collect();
    let garbage = store
        .list(Some(&layout.staged()))
        .try_filter_map(|meta| {
            let path = meta.location;
            let old = staged_batch(&path).is_some_and(|batch| batch <= newest.batch);
            futures::future::ready(Ok((old && !published.contains(&path)).then_some(path)))
        })
        .try_collect::<Vec<_>>()
        .await?;
    remove_all(store, garbage).await
}
