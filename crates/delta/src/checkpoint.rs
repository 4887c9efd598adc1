//! Checkpoints of the table's log: what keeps opening it cheap.

use crate::commit::Head;
use crate::error::delta_error;
use deltalake::DeltaTable;
use deltalake::checkpoints::{cleanup_metadata, create_checkpoint};
use deltalake::table::config::TablePropertiesExt;
use fluvial_core::Result;

/// Writes a checkpoint if `head` stands at a version that is due, and removes the part of the log
/// that has expired, as the table's properties say.
///
/// The batch is published already, so an error here must not fail it.
pub(crate) async fn write_if_due(head: &Head) -> Result<()> {
    let interval = head.table.snapshot().map_err(delta_error)?.table_config().checkpoint_interval();
    if !(head.version + 1).is_multiple_of(interval.get()) {
        return Ok(());
    }
    // Read anew, and let go: a table that is kept up to date keeps what it read of each version as
    // it read it, some hundred kilobytes each.
    let mut table = DeltaTable::new(head.table.log_store());
    table.load_version(head.version).await.map_err(delta_error)?;
    create_checkpoint(&table, None).await.map_err(delta_error)?;
    let properties = table.snapshot().map_err(delta_error)?.table_config();
    if properties.enable_expired_log_cleanup() {
        cleanup_metadata(&table, None).await.map_err(delta_error)?;
    }
    Ok(())
}
