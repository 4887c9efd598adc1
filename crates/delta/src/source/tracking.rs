//! Which columns a stream reads with, kept beside its checkpoint: `schemaTrackingLocation`.
//!
//! Without it a stream has the columns of the newest version, and versions from before a column
//! was dropped or renamed cannot be read any more. With it a stream keeps the columns that it
//! began with until it comes to the version that changes them.
//!
//! An entry has all that is needed of a version, as the log may have been cleaned up to there, and
//! says whose it is. When entries are written is in `evolve`.

use super::columns::Columns;
use fluvial_core::{Error, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where the columns of one query's stream are kept. Two streams need two places.
#[derive(Debug, Clone)]
pub struct DeltaTracking {
    store: Arc<dyn ObjectStore>,
    folder: Path,
}

/// The columns from one version on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tracked {
    /// Its number, from 0.
    pub(super) number: u64,
    /// The version whose columns they are.
    pub(super) delta_commit_version: u64,
    pub(super) columns: Columns,
    /// The source and the query that keep it.
    pub(super) owner: Option<String>,
}

impl Tracked {
    /// Whether it was written for `owner`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was not.
    pub(super) fn check_owner(&self, owner: Option<&str>) -> Result<()> {
        match (self.owner.as_deref(), owner) {
            (Some(theirs), Some(ours)) if theirs != ours => {
                Err(conflict(&format!("it is kept there for {theirs}, and this is {ours}")))
            }
            _ => Ok(()),
        }
    }
}

/// The error for a place that is not this stream's.
pub(super) fn conflict(how: &str) -> Error {
    Error::invalid(format!(
        "another stream keeps its columns in schemaTrackingLocation, too: {how}; give each stream \
         of each query a folder of its own, below its checkpoint"
    ))
    .with_condition("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT")
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
            Error::corrupt(format!(
                "{place} of schemaTrackingLocation is no entry of a stream: name another folder, \
                 the stream goes on with the columns of its checkpoint"
            ))
            .with_source(e)
        })
    }

    /// Writes an entry.
    ///
    /// # Errors
    ///
    /// `Invalid` if another one is there: each stream needs a place of its own.
    pub(super) async fn add(&self, table: &str, entry: &Tracked) -> Result<()> {
        let place = self.place(table, entry.number);
        let bytes = serde_json::to_vec(entry)
            .map_err(|e| Error::invalid("an entry has no JSON form").with_source(e))?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = self.store.put_opts(&place, bytes.into(), options).await;
        let Err(error) = put else { return Ok(()) };
        // Whatever went wrong, what is there decides.
        match self.read(table, entry.number).await {
            Ok(found) if found == *entry => Ok(()),
            Ok(found) => {
                found.check_owner(entry.owner.as_deref())?;
                Err(conflict(&format!(
                    "{place} is of version {}, not {}",
                    found.delta_commit_version, entry.delta_commit_version
                )))
            }
            Err(_) => Err(error.into()),
        }
    }
}
