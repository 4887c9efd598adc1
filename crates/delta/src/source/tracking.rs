//! Which columns a stream reads with, kept beside its checkpoint: `schemaTrackingLocation`.
//!
//! Without it a stream has the columns of the newest version, and versions from before a column
//! was dropped or renamed cannot be read any more. With it a stream keeps the columns that it
//! began with until it comes to the version that changes them.

use super::DeltaSource;
use super::options::{DeltaSourceOptions, DeltaStart};
use super::table::Table;
use crate::location::TableLocation;
use fluvial_core::{Error, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where the columns of one query's stream are kept. Two queries need two places.
#[derive(Debug, Clone)]
pub struct DeltaTracking {
    store: Arc<dyn ObjectStore>,
    folder: Path,
}

/// From which version on the columns are those of that version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tracked {
    /// Its number, from 0.
    pub(super) number: u64,
    /// The version whose columns they are.
    pub(super) delta_commit_version: u64,
}

impl DeltaTracking {
    /// Keeps it in a folder of a store whose create-if-absent elects.
    pub fn new(store: Arc<dyn ObjectStore>, folder: Path) -> Self {
        Self { store, folder }
    }

    fn log(&self, table: &str) -> Path {
        self.folder.clone().join(format!("_schema_log_{table}"))
    }

    fn place(&self, table: &str, number: u64) -> Path {
        self.log(table).join(format!("{number:020}.json"))
    }

    /// The newest entry.
    pub(super) async fn newest(&self, table: &str) -> Result<Option<Tracked>> {
        let log = self.log(table);
        let objects: Vec<_> = self.store.list(Some(&log)).try_collect().await?;
        let number = |object: &object_store::ObjectMeta| -> Option<u64> {
            object.location.filename()?.strip_suffix(".json")?.parse().ok()
        };
        match objects.iter().filter_map(number).max() {
            None => Ok(None),
            Some(number) => self.read(table, number).await.map(Some),
        }
    }

    async fn read(&self, table: &str, number: u64) -> Result<Tracked> {
        let place = self.place(table, number);
        let bytes = self.store.get(&place).await?.bytes().await?;
        serde_json::from_slice(&bytes).map_err(|e| {
            Error::corrupt(format!("{place} of schemaTrackingLocation is no entry of a stream"))
                .with_source(e)
        })
    }

    /// Writes an entry.
    ///
    /// # Errors
    ///
    /// `Invalid` if another query wrote another one: each needs a place of its own.
    pub(super) async fn add(&self, table: &str, entry: Tracked) -> Result<()> {
        let place = self.place(table, entry.number);
        let bytes = serde_json::to_vec(&entry)
            .map_err(|e| Error::invalid("an entry has no JSON form").with_source(e))?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = self.store.put_opts(&place, bytes.into(), options).await;
        let Err(error) = put else { return Ok(()) };
        // Whatever went wrong, what is there decides.
        match self.read(table, entry.number).await {
            Ok(found) if found == entry => Ok(()),
            Ok(found) => Err(Error::invalid(format!(
                "another stream keeps its columns there too: {place} is of version {}, not {}: \
                 give each query a schemaTrackingLocation of its own, below its checkpoint",
                found.delta_commit_version, entry.delta_commit_version
            ))
            .with_condition("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT")),
            Err(_) => Err(error.into()),
        }
    }
}

impl DeltaSource {
    /// The table with the columns to read it with.
    pub(super) async fn columns(
        location: &TableLocation,
        options: &DeltaSourceOptions,
    ) -> Result<(Table, Option<Tracked>)> {
        let newest = Table::open(location, options.reading, None).await?;
        let Some(tracking) = &options.tracking else { return Ok((newest, None)) };
        let tracked = tracking.newest(&newest.id).await?;
        let version = match (tracked, options.start) {
            (Some(tracked), _) => tracked.delta_commit_version,
            (None, DeltaStart::Version(version)) => version.min(newest.version),
            (None, _) => newest.version,
        };
        if version == newest.version {
            return Ok((newest, tracked));
        }
        let mut older = Table::open(location, options.reading, Some(version)).await?;
        older.newest = newest.version;
        Ok((older, tracked))
    }

    /// Remembers a version that changes the columns; the query ends, and goes on with them.
    pub(super) async fn evolve(&self, version: u64, error: Error) -> Result<Error> {
        let Some(tracking) = &self.options.tracking else { return Ok(error) };
        let number = self.tracked.map_or(1, |tracked| tracked.number + 1);
        let entry = Tracked { number, delta_commit_version: version };
        tracking.add(&self.table.id, entry).await?;
        Ok(Error::invalid(error.message().to_owned())
            .with_condition("DELTA_STREAMING_METADATA_EVOLUTION"))
    }
}
