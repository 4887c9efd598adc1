//! Checkpoints of the table's log: what keeps opening it cheap.

use crate::commit::Head;
use crate::error::delta_error;
use deltalake::checkpoints::{cleanup_metadata, create_checkpoint};
use deltalake::table::config::TablePropertiesExt;
use fluvial_core::Result;

/// Writes a checkpoint if `head` stands at a version that is due, and removes the part of the log
/// that has expired, as the table's properties say.
///
/// The batch is published already, so an error here must not fail it.
pub(crate) async fn write_if_due(head: &mut Head) -> Result<()> {
    let interval = head.table.snapshot().map_err(delta_error)?.table_config().checkpoint_interval();
    if !(head.version + 1).is_multiple_of(interval.get()) {
        return Ok(());
    }
    head.table.update_incremental(Some(head.version)).await.map_err(delta_error)?;
    create_checkpoint(&head.table, None).await.map_err(delta_error)?;
    let properties = head.table.snapshot().map_err(delta_error)?.table_config();
    if properties.enable_expired_log_cleanup() {
        cleanup_metadata(&head.table, None).await.map_err(delta_error)?;
    }
    Ok(())
}
