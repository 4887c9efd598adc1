//! Checkpoints of the table's log: what keeps opening it cheap.

use crate::commit::Head;
use crate::error::delta_error;
use delta_kernel::snapshot::Snapshot;
use deltalake::checkpoints::cleanup_expired_logs_for;
use deltalake::logstore::commit_uri_from_version;
use deltalake::table::config::TablePropertiesExt;
use fluvial_core::{Error, Result};
use object_store::ObjectStoreExt;

/// Writes a checkpoint if `head` stands at a version that is due, and removes the part of the log
/// that has expired, as the table's properties say.
///
/// The batch is published already, so an error here must not fail it.
pub(crate) async fn write_if_due(head: &Head) -> Result<()> {
    let properties = head.table.snapshot().map_err(delta_error)?.table_config();
    let (log_store, version) = (head.table.log_store(), head.version);
    if !(version + 1).is_multiple_of(properties.checkpoint_interval().get()) {
        return Ok(());
    }
    // The list of files goes from the last checkpoint into the next one piece by piece. A table
    // that is loaded first has all of it, and what is said of each file, in memory.
    let (table, engine) = (log_store.transaction_url(None), log_store.engine(None));
    let table = table.map_err(delta_error)?;
    let write = move || {
        let snapshot = Snapshot::builder_for(table).at_version(version).build(engine.as_ref())?;
        snapshot.checkpoint(engine.as_ref(), None)
    };
    let written = tokio::task::spawn_blocking(write).await;
    let written = written.map_err(|e| Error::unavailable(format!("it was given up: {e}")))?;
    written.map_err(|e| delta_error(e.into()))?;
    if properties.enable_expired_log_cleanup() {
        let (store, path) = (log_store.object_store(None), commit_uri_from_version(Some(version)));
        let newest = store.head(&path).await?.last_modified.timestamp_millis();
        let kept = i64::try_from(properties.log_retention_duration().as_millis());
        let expired = newest.saturating_sub(kept.unwrap_or(i64::MAX));
        let cleaned = cleanup_expired_logs_for(version, log_store.as_ref(), expired, None).await;
        cleaned.map_err(delta_error)?;
    }
    Ok(())
}
