//! The table's log, one version at a time: what is new is read, and nothing is listed for it.

use crate::entry::empty;
use bytes::Bytes;
use deltalake::logstore::{LogStore, ObjectStoreRef, commit_uri_from_version};
use fluvial_core::{Error, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
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
    pub(crate) fn of(log_store: &dyn LogStore) -> Self {
        Self { store: log_store.object_store(None), folder: log_store.log_path().clone() }
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

    /// Checks that a version is made of versions that have something in them. The library passes
    /// over those that are empty. One listing.
    ///
    /// # Errors
    ///
    /// `Corrupt` naming the first empty one.
    pub(crate) async fn check(&self, version: u64) -> Result<()> {
        let hint = self.checkpoint().await?.filter(|checkpoint| *checkpoint <= version);
        let (mut checkpoint, mut hollow) = (None, Vec::new());
        for object in self.list(hint.unwrap_or(0)).await? {
            match self.numbered(&object) {
                Some((number, _)) if number > version => {}
                Some((number, ".json")) if object.size == 0 => hollow.push(number),
                Some((number, rest)) if rest.starts_with(".checkpoint.") => {
                    checkpoint = checkpoint.max(Some(number));
                }
                _ => {}
            }
        }
        match hollow.into_iter().filter(|number| Some(*number) > checkpoint).min() {
            None => Ok(()),
            Some(number) => Err(empty(number)),
        }
    }

    /// The versions from `first` on and the times of their files, in order. One listing.
    pub(crate) async fn versions(&self, first: u64) -> Result<Vec<(u64, i64)>> {
        let objects = self.list(first).await?;
        let version = |object: &ObjectMeta| {
            let (version, rest) = self.numbered(object)?;
            (rest == ".json").then(|| (version, object.last_modified.timestamp_millis()))
        };
        let mut versions: Vec<_> = objects.iter().filter_map(version).collect();
        versions.retain(|(version, _)| *version >= first);
        versions.sort_unstable();
        Ok(versions)
    }

    /// What is in the log from version `first` on.
    async fn list(&self, first: u64) -> Result<Vec<ObjectMeta>> {
        match first.checked_sub(1) {
            None => self.store.list(Some(&self.folder)),
            Some(before) => {
                let offset = commit_uri_from_version(Some(before));
                self.store.list_with_offset(Some(&self.folder), &offset)
            }
        }
        .try_collect()
        .await
        .map_err(|e| Error::from(e).at("listing the log"))
    }

    /// The version in the name of an object of the log, and what follows it.
    fn numbered<'a>(&self, object: &'a ObjectMeta) -> Option<(u64, &'a str)> {
        let name = object.location.filename()?;
        let (digits, rest) = name.split_at_checked(20)?;
        let direct = self.folder.clone().join(name) == object.location;
        Some((digits.parse().ok().filter(|_| direct)?, rest))
    }
}
