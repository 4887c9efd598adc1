//! What a source knows of its table: who it is, its columns, and from which version it knows.

use super::options::DeltaReading;
use crate::error::{delta_error, is_missing, transaction_error};
use crate::location::TableLocation;
use crate::provider::no_table;
use crate::types::{Gap, find, gap, physical_name};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use deltalake::kernel::engine::arrow_conversion::TryIntoArrow;
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
    /// Reads a version's metadata; the newest one's if none is named.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no table, `Invalid` naming what cannot be read.
    pub(crate) async fn open(
        location: &TableLocation,
        reading: DeltaReading,
        version: Option<u64>,
    ) -> Result<Self> {
        let log_store = location.log_store()?;
        let snapshot = match Snapshot::try_new(log_store.as_ref(), version).await {
            Ok(snapshot) => snapshot,
            Err(error) if is_missing(&error) => {
                return Err(no_table(location));
            }
            Err(error) => return Err(delta_error(error)),
        };
        check_protocol(snapshot.protocol())?;
        check_settings(snapshot.metadata(), reading)?;
        let metadata = snapshot.metadata();
        let columns = columns(metadata)?;
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
        Ok(Self {
            id: metadata.id().to_owned(),
            version: snapshot.version(),
            newest: snapshot.version(),
            partitions: metadata.partition_columns().to_vec(),
            schema: Arc::new(Schema::new(fields)),
            times_in_log: is_on(metadata, "delta.enableInCommitTimestamps"),
            columns,
            reading,
            log_store,
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
        let theirs = columns(metadata).map_err(place)?;
        let found = difference(&theirs, &self.columns).or_else(|| {
            let same = metadata.partition_columns() == self.partitions.as_slice();
            (!same).then(|| "its partition columns are others".to_owned())
        });
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

fn columns(metadata: &Metadata) -> Result<Fields> {
    let unreadable = |e: String| Error::corrupt(format!("the schema cannot be read: {e}"));
    let schema = metadata.parse_schema().map_err(|e| unreadable(e.to_string()))?;
    let schema: Schema = (&schema).try_into_arrow().map_err(|e| unreadable(e.to_string()))?;
    Ok(schema.fields().clone())
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

/// What of `from` has no place in `to`.
fn difference(from: &Fields, to: &Fields) -> Option<String> {
    from.iter().find_map(|field| {
        let name = field.name();
        let Some(i) = to.iter().position(|f| f.name() == name) else {
            return Some(format!("column {name:?} is not in both"));
        };
        if physical_name(field) != physical_name(&to[i]) {
            return Some(format!("column {name:?} was dropped and made anew"));
        }
        (gap(field.data_type(), to[i].data_type()) != Gap::None)
            .then(|| format!("column {name:?} is {} and {}", field.data_type(), to[i].data_type()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PHYSICAL_NAME;

    fn fields(list: &[(&str, DataType)]) -> Fields {
        list.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect()
    }

    #[test]
    fn more_and_wider_columns_hold_older_rows() {
        let old = fields(&[("a", DataType::Int32)]);
        let new = fields(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
        assert_eq!(difference(&old, &new), None);
        assert!(difference(&new, &old).is_some());
        let other = fields(&[("a", DataType::Utf8)]);
        assert!(difference(&old, &other).is_some_and(|what| what.contains("\"a\"")));
    }

    #[test]
    fn a_column_made_anew_is_another_one() {
        let physical = |name: &str| {
            let metadata = [(PHYSICAL_NAME.to_owned(), name.to_owned())].into();
            Fields::from(vec![Field::new("a", DataType::Int64, true).with_metadata(metadata)])
        };
        assert_eq!(difference(&physical("x"), &physical("x")), None);
        assert!(difference(&physical("x"), &physical("y")).is_some());
    }
}
