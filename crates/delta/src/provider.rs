//! Tables for queries over all of their rows.

use crate::error::{delta_error, is_missing};
use crate::location::TableLocation;
use crate::source::{Log, Times, in_log};
use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use deltalake::DeltaTable;
use deltalake::delta_datafusion::{DeltaScanConfig, DeltaScanNext};
use fluvial_core::options::Options;
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// Which version of a table is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TableVersion {
    /// The newest one.
    #[default]
    Newest,
    /// The one with this number.
    Number(u64),
    /// The newest that was there then: milliseconds since the epoch.
    AsOf(i64),
}

impl TableVersion {
    /// Takes `versionAsOf` and `timestampAsOf`, of which one may be set. A time without a zone is
    /// one of `zone`.
    ///
    /// # Errors
    ///
    /// `Invalid` for a wrong value, both, or another option.
    pub fn parse(mut options: Options, zone: &str) -> Result<Self> {
        let number = options.take_parsed("versionAsOf", "the number of a version")?;
        let zone: Tz = zone.parse().map_err(|e| {
            Error::invalid(format!("the session's time zone {zone:?} is none")).with_source(e)
        })?;
        let expected = "a time such as '2026-11-30' or '2026-11-30T12:00:00Z'";
        let time = options.take_with("timestampAsOf", expected, |text| {
            string_to_datetime(&zone, text).ok().map(|time| time.timestamp_millis())
        })?;
        options.finish(&["versionAsOf", "timestampAsOf"])?;
        match (number, time) {
            (Some(_), Some(_)) => {
                Err(Error::invalid("versionAsOf and timestampAsOf were both set: choose one")
                    .with_condition("DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS"))
            }
            (Some(number), None) => Ok(Self::Number(number)),
            (None, Some(time)) => Ok(Self::AsOf(time)),
            (None, None) => Ok(Self::Newest),
        }
    }
}

/// One version of a table, to register with a DataFusion session. It does not move when the table
/// does.
///
/// # Errors
///
/// `NotFound` if there is no table, or not this version of it.
pub async fn table_provider(
    location: &TableLocation,
    version: TableVersion,
) -> Result<Arc<dyn TableProvider>> {
    let place = |e: Error| e.at(format!("table {location}"));
    let table = location.load_any().await?.ok_or_else(|| no_table(location))?;
    let table = travel(table, version).await.map_err(place)?;
    let log = Log::of(table.log_store().as_ref());
    log.check(table.version().unwrap_or_default()).await.map_err(place)?;
    let state = table.snapshot().map_err(|e| place(delta_error(e)))?;
    // As text, as every other column: a dictionary is another type to who compares.
    let config = DeltaScanConfig::new().with_wrap_partition_values(false);
    let scan = DeltaScanNext::new(state.snapshot().clone(), config).map_err(|error| {
        // The library speaks DataFusion here.
        place(delta_error(deltalake::DeltaTableError::GenericError { source: Box::new(error) }))
    })?;
    Ok(Arc::new(PlainTable { table, scan }))
}

/// The library's scan of one version, with the store that reaches it.
#[derive(Debug)]
struct PlainTable {
    table: DeltaTable,
    scan: DeltaScanNext,
}

#[async_trait]
impl TableProvider for PlainTable {
    fn schema(&self) -> SchemaRef {
        self.scan.schema()
    }

    fn table_type(&self) -> TableType {
        self.scan.table_type()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.table.update_datafusion_session(session)?;
        self.scan.scan(session, projection, filters, limit).await
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DfResult<Vec<TableProviderFilterPushDown>> {
        self.scan.supports_filters_pushdown(filters)
    }
}

pub(crate) fn no_table(location: &TableLocation) -> Error {
    Error::not_found(format!("there is no Delta table at {location}"))
        .with_condition("DELTA_TABLE_NOT_FOUND")
}

async fn travel(mut table: DeltaTable, version: TableVersion) -> Result<DeltaTable> {
    let newest = table.version().unwrap_or_default();
    let missing = |number: u64| {
        Error::not_found(format!("there is no version {number}; the newest is {newest}"))
            .with_condition("DELTA_VERSION_NOT_FOUND")
    };
    match version {
        TableVersion::Newest => {}
        TableVersion::Number(number) if number > newest => return Err(missing(number)),
        TableVersion::Number(number) => match table.load_version(number).await {
            Ok(()) => {}
            Err(error) if is_missing(&error) => return Err(missing(number)),
            Err(error) => return Err(delta_error(error).at(format!("version {number}"))),
        },
        TableVersion::AsOf(time) => {
            let version = version_at(&table, time).await?;
            table.load_version(version).await.map_err(delta_error)?;
        }
    }
    Ok(table)
}

/// The newest version that was there at a time, which must not be before or after all of them: as
/// in Delta, where "the newest" would be another one tomorrow.
async fn version_at(table: &DeltaTable, time: i64) -> Result<u64> {
    let log = Log::of(table.log_store().as_ref());
    let in_log = in_log(table.snapshot().map_err(delta_error)?.metadata());
    let times = Times::read(&log, in_log).await?;
    if times.since(time).await?.is_none() {
        return Err(Error::invalid(format!(
            "the time {time} ms since 1970 is after the newest version of the table: leave \
             timestampAsOf out to read that one"
        ))
        .with_condition("DELTA_TIMESTAMP_GREATER_THAN_COMMIT"));
    }
    times.until(time).await?.ok_or_else(|| {
        Error::invalid(format!(
            "the time {time} ms since 1970 is before the oldest version that the table's log has: \
             choose a later time, or a version by its number (versionAsOf)"
        ))
        .with_condition("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_or_a_time_is_chosen() {
        let parse =
            |pairs: &[(&str, &str)]| TableVersion::parse(Options::new(pairs.to_vec()), "UTC");
        assert_eq!(parse(&[]).unwrap(), TableVersion::Newest);
        assert_eq!(parse(&[("versionasof", "3")]).unwrap(), TableVersion::Number(3));
        let time = parse(&[("timestampAsOf", "1970-01-01 00:00:01")]).unwrap();
        assert_eq!(time, TableVersion::AsOf(1000));
        assert!(parse(&[("versionAsOf", "3"), ("timestampAsOf", "1970-01-01")]).is_err());
        assert!(parse(&[("version", "3")]).unwrap_err().message().contains("versionAsOf"));
    }
}
