//! The table's log, one version at a time: what is new is read, and nothing is listed for it.

use bytes::Bytes;
use deltalake::logstore::{ObjectStoreRef, commit_uri_from_version};
use fluvial_core::{Error, Result};
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::Value;

/// The versions of one table.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    /// Its root is the table's.
    store: ObjectStoreRef,
    folder: Path,
}

/// One version as the store has it.
pub(crate) struct Written {
    pub(crate) bytes: Bytes,
    /// When it was written: milliseconds since the epoch.
    pub(crate) modified: i64,
}

impl Log {
    pub(crate) fn new(store: ObjectStoreRef, folder: Path) -> Self {
        Self { store, folder }
    }

    /// A version; `None` if there is none.
    pub(crate) async fn read(&self, version: u64) -> Result<Option<Written>> {
        let path = commit_uri_from_version(Some(version));
        let place = |error| Error::from(error).at(format!("version {version} of the log"));
        let found = match self.store.get(&path).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(place(error)),
        };
        let modified = found.meta.last_modified.timestamp_millis();
        Ok(Some(Written { bytes: found.bytes().await.map_err(place)?, modified }))
    }

    /// The newest version of which somebody says that a checkpoint holds it.
    pub(crate) async fn checkpoint(&self) -> Result<Option<u64>> {
        let bytes = match self.store.get(&self.folder.clone().join("_last_checkpoint")).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A hint that cannot be read is no hint.
        let hint: Option<Value> = serde_json::from_slice(&bytes).ok();
        Ok(hint.and_then(|hint| hint.get("version")?.as_u64()))
    }

    /// The versions from `first` on and the times of their files, in order. One listing.
    pub(crate) async fn versions(&self, first: u64) -> Result<Vec<(u64, i64)>> {
        let objects: Vec<_> = match first.checked_sub(1) {
            None => self.store.list(Some(&self.folder)),
            Some(before) => {
                let offset = commit_uri_from_version(Some(before));
                self.store.list_with_offset(Some(&self.folder), &offset)
            }
        }
        .try_collect()
        .await
        .map_err(|e| Error::from(e).at("listing the log"))?;
        let version = |object: &object_store::ObjectMeta| {
            let name = object.location.filename()?;
            let direct = self.folder.clone().join(name) == object.location;
            let digits =
                name.strip_suffix(".json").filter(|digits| direct && digits.len() == 20)?;
            Some((digits.parse().ok()?, object.last_modified.timestamp_millis()))
        };
        let mut versions: Vec<_> = objects.iter().filter_map(version).collect();
        versions.retain(|(version, _)| *version >= first);
        versions.sort_unstable();
        Ok(versions)
    }
}
