//! What keeps a table in shape: its history, larger files for small ones, and the removal of
//! files that nobody needs any more.

use crate::entry::actions;
use crate::error::delta_error;
use crate::location::TableLocation;
use crate::partition_text::NULL;
use crate::provider::no_table;
use crate::source::Log;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use deltalake::kernel::{Action, CommitInfo};
use deltalake::{DeltaTable, FilterOp, FilterValue};
use fluvial_core::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

/// What an OPTIMIZE did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptimizeReport {
    /// Files that were written.
    pub files_added: u64,
    /// Files that they stand for.
    pub files_removed: u64,
}

/// Whether a VACUUM removes files or only names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VacuumMode {
    /// Files are removed.
    Remove,
    /// Nothing is removed.
    DryRun,
}

async fn load(location: &TableLocation) -> Result<DeltaTable> {
    location.load().await?.ok_or_else(|| no_table(location))
}

fn failed(location: &TableLocation, error: deltalake::DeltaTableError) -> Error {
    delta_error(error).at(format!("table {location}"))
}

/// Writes small files together into larger ones. Rows and streams over the table do not change.
///
/// # Errors
///
/// `NotFound` if there is no table, `Unavailable` if others changed the same files meanwhile.
pub async fn optimize(location: &TableLocation) -> Result<OptimizeReport> {
    let table = load(location).await?;
    let taken_for_null = taken_for_null(&table).map_err(|e| failed(location, e))?;
    let filters = taken_for_null.iter();
    let filters = filters.map(|name| (name.as_str(), FilterOp::Ne, FilterValue::Scalar(NULL)));
    let filters: Vec<_> = filters.collect();
    let optimized = table.optimize().with_filters(&filters).await;
    let (_, metrics) = optimized.map_err(|e| failed(location, e))?;
    Ok(OptimizeReport {
        files_added: metrics.num_files_added,
        files_removed: metrics.num_files_removed,
    })
}

/// Partition columns with a value that is written as null is: the library tells partitions apart by
/// the names of their folders, and would write both into one. Such files stay as they are.
fn taken_for_null(table: &DeltaTable) -> Result<Vec<String>, deltalake::DeltaTableError> {
    let state = table.snapshot()?;
    let mut found: Vec<String> = Vec::new();
    for file in state.log_data() {
        for (name, value) in file.partition_values_map() {
            if value.as_deref() == Some(NULL) && !found.contains(&name) {
                found.push(name);
            }
        }
    }
    Ok(found)
}

/// Removes files that no version of the last while names; the table's property
/// (`delta.deletedFileRetentionDuration`, a week) says how long that is unless `retain` does. Gives
/// the files. Versions before that cannot be read any more, nor streams that have not read them.
///
/// # Errors
///
/// `NotFound` if there is no table, `Invalid` if `retain` is shorter than the table's property.
pub async fn vacuum(
    location: &TableLocation,
    retain: Option<Duration>,
    mode: VacuumMode,
) -> Result<Vec<String>> {
    let vacuum = load(location).await?.vacuum().with_dry_run(mode == VacuumMode::DryRun);
    let vacuum = match retain {
        None => vacuum,
        Some(retain) => vacuum.with_retention_period(
            chrono::Duration::from_std(retain)
                .map_err(|e| Error::invalid("the time to retain is too long").with_source(e))?,
        ),
    };
    let (_, metrics) = vacuum.await.map_err(|error| {
        let short = error.to_string().contains("retention");
        let error = failed(location, error);
        // The library has no kind of its own for what it refuses.
        match (short, error.kind()) {
            (true, ErrorKind::Unavailable) => Error::invalid(error.message().to_owned())
                .with_condition("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"),
            _ => error,
        }
    })?;
    Ok(metrics.files_deleted)
}

/// The newest versions first: `version`, `timestamp`, `operation`, `operationParameters` and
/// `operationMetrics` as JSON, `engineInfo`. All that the log has, or `limit` of them.
///
/// # Errors
///
/// `NotFound` if there is no table, `Corrupt` for a version that cannot be read.
pub async fn history(location: &TableLocation, limit: Option<usize>) -> Result<RecordBatch> {
    let log_store = load(location).await?.log_store();
    let log = Log::of(log_store.as_ref());
    let versions = log.versions(0).await?;
    let (mut numbers, mut times, mut infos) = (Vec::new(), Vec::new(), Vec::new());
    for (version, modified) in versions.into_iter().rev().take(limit.unwrap_or(usize::MAX)) {
        let Some(written) = log.read(version).await? else { continue };
        let actions =
            actions(version, &written.bytes).map_err(|e| e.at(format!("table {location}")))?;
        let info = actions.into_iter().find_map(|action| match action {
            Action::CommitInfo(info) => Some(info),
            _ => None,
        });
        let info = info.unwrap_or_default();
        numbers.push(i64::try_from(version).unwrap_or(i64::MAX));
        times.push(info.in_commit_timestamp.unwrap_or(modified).saturating_mul(1000));
        infos.push(info);
    }
    let text = |get: fn(&CommitInfo) -> Option<String>| -> ArrayRef {
        Arc::new(infos.iter().map(get).collect::<StringArray>())
    };
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("version", Arc::new(Int64Array::from(numbers)), true),
        ("timestamp", Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")), true),
        ("operation", text(|info| info.operation.clone()), true),
        (
            "operationParameters",
            text(|info| serde_json::to_string(info.operation_parameters.as_ref()?).ok()),
            true,
        ),
        (
            "operationMetrics",
            text(|info| Some(info.info.get("operationMetrics")?.to_string())),
            true,
        ),
        ("engineInfo", text(|info| info.engine_info.clone()), true),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}
