//! Tables for queries over all of their rows.

use crate::error::delta_error;
use crate::location::TableLocation;
use datafusion::catalog::TableProvider;
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// The newest version of a table, to register with a DataFusion session. It does not move when
/// the table does.
///
/// # Errors
///
/// `NotFound` if there is no table.
pub async fn table_provider(location: &TableLocation) -> Result<Arc<dyn TableProvider>> {
    let table = location.load().await?.ok_or_else(|| {
        Error::not_found(format!("there is no Delta table at {location}"))
            .with_condition("DELTA_TABLE_NOT_FOUND")
    })?;
    table.table_provider().await.map_err(|error| {
        // The library speaks DataFusion here.
        delta_error(deltalake::DeltaTableError::GenericError { source: Box::new(error) })
            .at(format!("table {location}"))
    })
}
