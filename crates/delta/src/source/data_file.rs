//! A file that a batch reads, as it stands in the plan.

use deltalake::kernel::{Add, AddCDCFile, DeletionVectorDescriptor, LogicalFileView, Remove};
use fluvial_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// All that reading the file needs: a replay looks into no log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataFile {
    /// Below the table.
    pub(crate) path: String,
    /// Bytes; 0 if the log does not say.
    pub(crate) size: u64,
    /// The version that names it.
    pub(crate) version: u64,
    /// By the columns' names in files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) partition_values: BTreeMap<String, Option<String>>,
    /// Rows of the file that are not there any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_vector: Option<DeletionVectorDescriptor>,
    /// In a change feed: what happened to its rows, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<Change>,
    /// How many rows it has, if the log says so.
    #[serde(skip)]
    pub(crate) rows: Option<u64>,
}

/// What happened to the rows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    /// Milliseconds since the epoch.
    pub(crate) timestamp: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ChangeKind {
    Insert,
    Delete,
    /// The file says so, row by row.
    InFile,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    num_records: Option<u64>,
}

impl DataFile {
    pub(crate) fn added(version: u64, add: Add) -> Result<Self> {
        let deleted = add.deletion_vector.as_ref().map_or(0, |dv| dv.cardinality);
        let stats = add.stats.as_deref().and_then(|text| serde_json::from_str::<Stats>(text).ok());
        let records = stats.and_then(|stats| stats.num_records);
        Ok(Self {
            size: size(&add.path, add.size)?,
            path: add.path,
            version,
            partition_values: sorted(add.partition_values),
            deletion_vector: add.deletion_vector,
            change: None,
            rows: records.map(|all| all.saturating_sub(u64::try_from(deleted).unwrap_or(0))),
        })
    }

    pub(crate) fn listed(version: u64, file: &LogicalFileView) -> Result<Self> {
        let path = file.path().into_owned();
        let deletion_vector = file.deletion_vector_descriptor();
        let deleted = deletion_vector.as_ref().map_or(0, |dv| dv.cardinality);
        let records = file.num_records().map(|rows| rows as u64);
        Ok(Self {
            size: size(&path, file.size())?,
            path,
            version,
            partition_values: sorted(file.partition_values_map()),
            deletion_vector,
            change: None,
            rows: records.map(|all| all.saturating_sub(u64::try_from(deleted).unwrap_or(0))),
        })
    }

    /// A file whose rows are gone, for a change feed.
    pub(crate) fn removed(version: u64, remove: Remove) -> Result<Self> {
        let Some(values) = remove.partition_values else {
            return Err(Error::invalid(format!(
                "version {version} removes {} without saying its partition, so that its rows \
                 cannot be told: read without readChangeFeed",
                remove.path
            ))
            .with_condition("DELTA_FEATURE_NOT_SUPPORTED"));
        };
        Ok(Self {
            size: size(&remove.path, remove.size.unwrap_or(0))?,
            path: remove.path,
            version,
            partition_values: sorted(values),
            deletion_vector: remove.deletion_vector,
            change: None,
            rows: None,
        })
    }

    /// A file of changes.
    pub(crate) fn changes(version: u64, cdc: AddCDCFile) -> Result<Self> {
        Ok(Self {
            size: size(&cdc.path, cdc.size)?,
            path: cdc.path,
            version,
            partition_values: sorted(cdc.partition_values),
            deletion_vector: None,
            change: None,
            rows: None,
        })
    }

    pub(crate) fn with_change(self, kind: ChangeKind, timestamp: i64) -> Self {
        Self { change: Some(Change { kind, timestamp }), ..self }
    }
}

fn size(path: &str, size: i64) -> Result<u64> {
    u64::try_from(size)
        .map_err(|_| Error::corrupt(format!("the log says that {path} has {size} bytes")))
}

fn sorted(values: HashMap<String, Option<String>>) -> BTreeMap<String, Option<String>> {
    values.into_iter().collect()
}
