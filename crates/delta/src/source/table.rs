//! What a source knows of its table: who it is, its columns, and from which version it knows.

use super::columns::{Columns, difference};
use super::options::DeltaReading;
use super::times::in_log;
use crate::error::{delta_error, is_missing, transaction_error};
use crate::location::TableLocation;
use crate::provider::no_table;
use crate::types::find;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use deltalake::kernel::transaction::PROTOCOL;
use deltalake::kernel::{Metadata, Protocol, Snapshot};
use deltalake::logstore::LogStoreRef;
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// The condition of a version that changes the columns.
pub(super) const CHANGED: &str = "DELTA_SCHEMA_CHANGED_WITH_VERSION";

/// The column that says what happened to a row of a change feed.
pub(crate) const CHANGE_TYPE: &str = "_change_type";
/// The version that made the change.
pub(crate) const COMMIT_VERSION: &str = "_commit_version";
/// When that was.
pub(crate) const COMMIT_TIMESTAMP: &str = "_commit_timestamp";

/// A table as of one version. Older files are read with its columns, too.
pub(crate) struct Table {
    pub(crate) log_store: LogStoreRef,
    /// Stays the same until somebody makes another table in the same place.
    pub(crate) id: String,
    pub(crate) version: u64,
    /// The newest version when it was opened.
    pub(crate) newest: u64,
    /// Its columns; metadata says how they are called in files.
    pub(crate) columns: Fields,
    /// Of the columns, which are in no file.
    pub(crate) partitions: Vec<String>,
    /// The rows of the source.
    pub(crate) schema: SchemaRef,
    /// Whether the times of its versions are in the log rather than in the store.
    pub(crate) times_in_log: bool,
    reading: DeltaReading,
}

impl Table {
    /// Reads the newest version's metadata.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no table, `Invalid` naming what cannot be read.
    pub(crate) async fn open(location: &TableLocation, reading: DeltaReading) -> Result<Self> {
        let log_store = location.log_store()?;
        let snapshot = match Snapshot::try_new(log_store.as_ref(), None).await {
            Ok(snapshot) => snapshot,
            Err(error) if is_missing(&error) => {
                return Err(no_table(location));
            }
            Err(error) => return Err(delta_error(error)),
        };
        check_protocol(snapshot.protocol())?;
        let metadata = snapshot.metadata();
        check_settings(metadata, reading)?;
        let (columns, schema) = rows(&Columns::of(metadata)?, reading)?;
        Ok(Self {
            id: metadata.id().to_owned(),
            version: snapshot.version(),
            newest: snapshot.version(),
            partitions: metadata.partition_columns().to_vec(),
            schema,
            times_in_log: in_log(metadata),
            columns,
            reading,
            log_store,
        })
    }

    /// The same table with the columns of another version.
    ///
    /// # Errors
    ///
    /// `Invalid` naming a column that cannot be read.
    pub(super) fn with_columns(&self, version: u64, of: &Columns) -> Result<Self> {
        let (columns, schema) = rows(of, self.reading)?;
        Ok(Self {
            log_store: self.log_store.clone(),
            id: self.id.clone(),
            version,
            newest: self.newest,
            columns,
            partitions: of.partition_columns.clone(),
            schema,
            times_in_log: self.times_in_log,
            reading: self.reading,
        })
    }

    /// In what other columns are not its own.
    pub(super) fn differs(&self, other: &Columns) -> Result<Option<String>> {
        let fields = other.fields()?;
        let found = self.lacks(&fields, &other.partition_columns);
        Ok(found.or_else(|| difference(&self.columns, &fields)))
    }

    /// What of other columns has no place in its own.
    fn lacks(&self, fields: &Fields, partitions: &[String]) -> Option<String> {
        difference(fields, &self.columns).or_else(|| {
            let same = partitions == self.partitions.as_slice();
            (!same).then(|| "its partition columns are others".to_owned())
        })
    }

    /// Whether files of a version with these settings can be read with the table's columns as
    /// they were when the source was opened.
    ///
    /// # Errors
    ///
    /// `Invalid` if they were changed since (start again), or if there is no way from the old
    /// columns to the newer ones.
    pub(crate) fn check(
        &self,
        version: u64,
        metadata: Option<&Metadata>,
        protocol: Option<&Protocol>,
    ) -> Result<()> {
        let place = |e: Error| e.at(format!("version {version}"));
        if let Some(protocol) = protocol {
            check_protocol(protocol).map_err(place)?;
        }
        let Some(metadata) = metadata else { return Ok(()) };
        check_settings(metadata, self.reading).map_err(place)?;
        let theirs = Columns::of(metadata).and_then(|theirs| theirs.fields()).map_err(place)?;
        let found = self.lacks(&theirs, metadata.partition_columns());
        if version <= self.version {
            return match found {
                None => Ok(()),
                Some(what) => Err(Error::invalid(format!(
                    "version {version} cannot be read with the columns that the table has in \
                     version {}: {what}; begin after that change, with a new checkpoint and \
                     startingVersion",
                    self.version
                ))
                .with_condition("DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE")),
            };
        }
        match found.or_else(|| difference(&self.columns, &theirs)) {
            None => Ok(()),
            Some(what) => Err(Error::invalid(format!(
                "version {version} changes the schema of the table ({what}): start the query \
                 again, it goes on with the new schema"
            ))
            .with_condition(CHANGED)),
        }
    }
}

/// The columns, and the rows that a source makes of them.
fn rows(of: &Columns, reading: DeltaReading) -> Result<(Fields, SchemaRef)> {
    let columns = of.fields()?;
    let mut fields: Vec<FieldRef> = columns.iter().map(plain).collect();
    if reading == DeltaReading::ChangeFeed {
        let clash = find(&columns, CHANGE_TYPE)
            .or_else(|| find(&columns, COMMIT_VERSION))
            .or_else(|| find(&columns, COMMIT_TIMESTAMP));
        if let Some(i) = clash {
            return Err(Error::invalid(format!(
                "column {:?} has the name of a column of the change feed: rename it",
                columns[i].name()
            ))
            .with_condition("DELTA_DUPLICATE_COLUMNS_FOUND"));
        }
        fields.extend(feed_fields());
    }
    Ok((columns, Arc::new(Schema::new(fields))))
}

/// A column for queries: files from before it was added have none.
fn plain(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), field.data_type().clone(), true))
}

fn feed_fields() -> [FieldRef; 3] {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    [
        Arc::new(Field::new(CHANGE_TYPE, DataType::Utf8, true)),
        Arc::new(Field::new(COMMIT_VERSION, DataType::Int64, true)),
        Arc::new(Field::new(COMMIT_TIMESTAMP, time, true)),
    ]
}

fn is_on(metadata: &Metadata, property: &str) -> bool {
    metadata.configuration().get(property).is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

fn check_protocol(protocol: &Protocol) -> Result<()> {
    PROTOCOL
        .can_read_from_protocol(protocol)
        .map_err(|e| transaction_error(e).with_condition("DELTA_FEATURE_NOT_SUPPORTED"))
}

fn check_settings(metadata: &Metadata, reading: DeltaReading) -> Result<()> {
    if metadata.configuration().get("delta.columnMapping.mode").is_some_and(|mode| mode == "id") {
        return Err(Error::invalid(
            "the table finds columns by id (delta.columnMapping.mode), which this source does not \
             support yet: it supports 'name'",
        )
        .with_condition("DELTA_FEATURE_NOT_SUPPORTED"));
    }
    if reading == DeltaReading::ChangeFeed && !is_on(metadata, "delta.enableChangeDataFeed") {
        return Err(Error::invalid(
            "the table keeps no change feed: set its property delta.enableChangeDataFeed to true, \
             and begin with a version after that, or read without readChangeFeed",
        )
        .with_condition("DELTA_MISSING_CHANGE_DATA"));
    }
    Ok(())
}
