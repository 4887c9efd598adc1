//! Deleting or archiving the files of batches that nobody will read again.

use super::entry::FileEntry;
use super::fetch::PlannedFile;
use super::options::Clean;
use super::place::{FilePlace, parse_path};
use fluvial_core::{Error, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::{Error as StoreError, ObjectStoreExt};

/// So many files are cleaned at once.
const CONCURRENCY: usize = 8;

/// Cleans up `files`. Those that are gone, or are other files by now, are left alone.
pub(crate) async fn clean(place: &FilePlace, how: &Clean, files: &[FileEntry]) -> Result<()> {
    if *how == Clean::Off {
        return Ok(());
    }
    let one = |file: FileEntry| async move {
        let cleaned = clean_one(place, how, &file).await;
        cleaned.map_err(|e| e.at(format!("cleaning up {}", place.show(&file.path))))
    };
    futures::stream::iter(files.to_vec())
        .map(one)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<()>>()
        .await
        .map(|_| ())
}

async fn clean_one(place: &FilePlace, how: &Clean, file: &FileEntry) -> Result<()> {
    let planned = PlannedFile::new(place, file)?;
    // A file that was put under the same name since then was never read: it is not ours.
    match planned.now().await? {
        Some(meta) if planned.is(&meta) => {}
        _ => return Ok(()),
    }
    let path = parse_path(&file.path)?;
    let done = match how {
        Clean::Off => Ok(()),
        Clean::Delete => place.store.delete(&path).await,
        Clean::Archive(folder) => {
            let target = parse_path(format!("{folder}/{path}").trim_start_matches('/'))?;
            place.store.rename(&path, &target).await
        }
    };
    match done {
        Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(Error::from(error)),
    }
}
