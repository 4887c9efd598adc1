//! Creates a table, and adds columns to one.

use crate::error::delta_error;
use crate::fit::check_new_names;
use crate::location::TableLocation;
use crate::options::DeltaOptions;
use crate::types::{delta_fields, find};
use arrow::datatypes::{FieldRef, Fields, Schema};
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel;
use deltalake::kernel::transaction::{CommitData, TransactionError};
use deltalake::kernel::{Action, StructField, StructType};
use deltalake::logstore::{CommitOrBytes, StorageConfig, get_actions, logstore_with};
use deltalake::operations::create::CreateBuilder;
use deltalake::protocol::{DeltaOperation, SaveMode};
use deltalake::{DeltaTable, DeltaTableError};
use fluvial_core::{Error, Result};
use object_store::memory::InMemory;
use std::collections::HashMap;
use std::sync::Arc;
use url::Url;

/// Creates the table unless somebody else just did.
///
/// The library's own creation is not safe against another creator: it would write its metadata
/// over the other's. So it creates a table in memory, and version 0 of that is put here if absent.
///
/// # Errors
///
/// `Invalid` if a table cannot have this schema, these partition columns or properties.
pub(crate) async fn create(
    location: &TableLocation,
    query: &Schema,
    options: &DeltaOptions,
) -> Result<()> {
    let fields = delta_fields(query.fields())?;
    check_new_names(&fields)?;
    check_partition_columns(&fields, &options.partition_by)?;
    let (actions, operation) = version_0(location, &fields, options).await?;
    let data = CommitData::new(actions, operation, HashMap::new(), Vec::new());
    let bytes = data.get_bytes().map_err(crate::error::transaction_error)?;
    location.make_folder()?;
    let log_store = location.log_store()?;
    let put = log_store.write_commit_entry(0, CommitOrBytes::LogBytes(bytes), Default::default());
    match put.await {
        // Whoever created it: the caller loads what is there and compares.
        Ok(()) | Err(TransactionError::VersionAlreadyExists(_)) => Ok(()),
        Err(error) => Err(crate::error::transaction_error(error)),
    }
}

fn check_partition_columns(fields: &Fields, partition_by: &[String]) -> Result<()> {
    for name in partition_by {
        let Some(i) = find(fields, name) else {
            let names: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
            return Err(Error::invalid(format!(
                "partition column {name:?} not found in the columns {}",
                names.join(", ")
            ))
            .with_condition("PARTITION_COLUMN_NOT_FOUND"));
        };
        if fields[i].data_type().is_nested() {
            return Err(Error::invalid(format!(
                "column {name:?} has type {}; a table cannot be partitioned by it",
                fields[i].data_type()
            ))
            .with_condition("INVALID_PARTITION_COLUMN_DATA_TYPE"));
        }
    }
    if partition_by.len() == fields.len() {
        return Err(Error::invalid("a table cannot be partitioned by all of its columns")
            .with_condition("ALL_PARTITION_COLUMNS_NOT_ALLOWED"));
    }
    Ok(())
}

/// Makes a table with these columns if there is none.
///
/// # Errors
///
/// `Invalid` if a table cannot have them, or these partition columns or properties.
pub async fn create_table(
    location: &TableLocation,
    columns: &Schema,
    options: &DeltaOptions,
) -> Result<()> {
    match location.load().await? {
        Some(_) => Ok(()),
        None => {
            create(location, columns, options).await.map_err(|e| e.at(format!("table {location}")))
        }
    }
}

async fn version_0(
    location: &TableLocation,
    fields: &Fields,
    options: &DeltaOptions,
) -> Result<(Vec<Action>, DeltaOperation)> {
    let scratch = Url::parse("memory:///table").expect("a constant URL");
    let store = Arc::new(InMemory::new());
    let log_store =
        logstore_with(store, &scratch, StorageConfig::default()).map_err(delta_error)?;
    // Column names are the table's own, whatever case the option uses.
    let partitions = options.partition_by.iter().filter_map(|name| find(fields, name));
    let partitions: Vec<_> = partitions.map(|i| fields[i].name().clone()).collect();
    let properties = options.properties.iter().map(|(k, v)| (k.clone(), Some(v.clone())));
    let create = CreateBuilder::new()
        .with_log_store(log_store.clone())
        .with_columns(delta_columns(fields)?)
        .with_partition_columns(partitions)
        .with_configuration(properties);
    let create = match &options.comment {
        Some(comment) => create.with_comment(comment),
        None => create,
    };
    create.await.map_err(|e| {
        Error::invalid(format!("a table with these columns and properties cannot be made: {e}"))
            .with_source(e)
    })?;
    let bytes = log_store.read_commit_entry(0).await.map_err(delta_error)?;
    let bytes = bytes.ok_or_else(|| Error::corrupt("the table in memory has no version 0"))?;
    let actions = get_actions(0, &bytes).map_err(delta_error)?;
    let protocol = actions.iter().find_map(|action| match action {
        Action::Protocol(protocol) => Some(protocol.clone()),
        _ => None,
    });
    let metadata = actions.iter().find_map(|action| match action {
        Action::Metadata(metadata) => Some(metadata.clone()),
        _ => None,
    });
    let (Some(protocol), Some(metadata)) = (protocol, metadata) else {
        return Err(Error::corrupt("version 0 of the table in memory lacks protocol or metadata"));
    };
    let actions = vec![Action::Protocol(protocol.clone()), Action::Metadata(metadata.clone())];
    let location = location.url().clone();
    let mode = SaveMode::ErrorIfExists;
    Ok((actions, DeltaOperation::Create { mode, location, protocol, metadata }))
}

fn delta_columns(fields: &Fields) -> Result<Vec<StructField>> {
    let schema: StructType = (&Schema::new(fields.clone()))
        .try_into_kernel()
        .map_err(|e| Error::invalid(e.to_string()).with_source(e))?;
    Ok(schema.fields().cloned().collect())
}

/// Adds columns, or fields inside columns, in a version of its own.
///
/// # Errors
///
/// `Unavailable` if the table changed meanwhile: load it and compare again.
pub(crate) async fn add_columns(table: DeltaTable, fields: &[FieldRef]) -> Result<()> {
    let fields: Fields = fields.iter().cloned().collect();
    check_new_names(&fields)?;
    let columns = delta_columns(&fields)?;
    match table.add_columns().with_fields(columns).await {
        Ok(_) => Ok(()),
        Err(DeltaTableError::Transaction {
            source: TransactionError::CommitConflict(conflict),
        }) => Err(Error::unavailable(conflict.to_string()).with_source(conflict)),
        Err(error) => Err(delta_error(error)),
    }
}
