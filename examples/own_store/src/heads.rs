//! Which commit is which version: `heads/<version>`, each written once.

use fluvial_core::{Error, Result, Snapshot, StateVersion};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use std::sync::Arc;

const FOLDER: &str = "heads";

#[derive(Debug)]
pub(crate) struct Heads(Arc<dyn ObjectStore>);

fn path(version: StateVersion) -> Path {
    Path::from(FOLDER).join(format!("{:020}", version.0))
}

impl Heads {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self(objects)
    }

    /// The newest version and its snapshots; version 0, which has none, if nothing was committed.
    pub(crate) async fn newest(&self) -> Result<(StateVersion, Vec<Snapshot>)> {
        match self.versions().await?.pop() {
            None => Ok((StateVersion(0), Vec::new())),
            Some(version) => Ok((version, self.of(version).await?)),
        }
    }

    pub(crate) async fn of(&self, version: StateVersion) -> Result<Vec<Snapshot>> {
        let bytes = self.0.get(&path(version)).await?.bytes().await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::corrupt(format!("version {version} is damaged: {error}")))
    }

    /// Makes these snapshots the version, unless others are it already.
    pub(crate) async fn elect(
        &self,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<bool> {
        let text = serde_json::to_vec(snapshots)
            .map_err(|error| Error::invalid(format!("snapshots cannot be written: {error}")))?;
        match self.0.put_opts(&path(version), text.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes all but the newest; returns the snapshots of those that stay.
    pub(crate) async fn keep(&self, newest: usize) -> Result<Vec<Snapshot>> {
        let mut versions = self.versions().await?;
        let kept = versions.split_off(versions.len().saturating_sub(newest.max(1)));
        for version in versions {
            self.0.delete(&path(version)).await?;
        }
        let mut snapshots = Vec::new();
        for version in kept {
            snapshots.extend(self.of(version).await?);
        }
        Ok(snapshots)
    }

    /// In order.
    async fn versions(&self) -> Result<Vec<StateVersion>> {
        let found: Vec<_> = self.0.list(Some(&Path::from(FOLDER))).try_collect().await?;
        let version = |path: &Path| path.filename()?.parse().ok().map(StateVersion);
        let mut versions: Vec<_> =
            found.iter().filter_map(|meta| version(&meta.location)).collect();
        versions.sort_unstable();
        Ok(versions)
    }
}
