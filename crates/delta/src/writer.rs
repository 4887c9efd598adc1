//! Writes one partition of a batch into data files that no version names yet.

use crate::conform::conform_batch;
use crate::error::delta_error;
use crate::form::Form;
use crate::uploads::{Failure, Uploads};
use arrow::array::RecordBatch;
use async_trait::async_trait;
use deltalake::datafile::writer::{DeltaWriter, WriterConfig};
use deltalake::kernel::Add;
use deltalake::logstore::ObjectStoreRef;
use deltalake::table::config::TablePropertiesExt;
use deltalake::table::state::DeltaTableState;
use fluvial_core::{BatchId, Error, PartitionId, Result, SinkWriter, Staged};
use std::sync::Arc;

/// How data files of a table are written.
pub(crate) fn config(state: &DeltaTableState) -> WriterConfig {
    let properties = state.table_config();
    let stats_columns = properties.data_skipping_stats_columns.as_ref();
    WriterConfig::new(
        state.snapshot().arrow_schema(),
        state.metadata().partition_columns().to_vec(),
        None,
        Some(properties.target_file_size()),
        None,
        properties.num_indexed_cols(),
        stats_columns.map(|names| names.iter().map(ToString::to_string).collect()),
    )
}

/// Data files of one partition of one batch. Dropped, it leaves files that nothing names; the
/// table's VACUUM removes them.
pub(crate) struct DeltaPartWriter {
    partition: PartitionId,
    form: Arc<Form>,
    writer: DeltaWriter,
    failure: Failure,
    rows: u64,
    place: String,
}

impl DeltaPartWriter {
    pub(crate) fn new(
        batch: BatchId,
        partition: PartitionId,
        form: Arc<Form>,
        store: ObjectStoreRef,
    ) -> Self {
        let failure = Failure::default();
        let store = Arc::new(Uploads::new(store, failure.clone()));
        let writer = DeltaWriter::new(store, form.config.clone());
        let place = format!("batch {batch}, partition {partition}");
        Self { partition, form, writer, failure, rows: 0, place }
    }

    /// What an upload failed at, which the library does not know.
    fn check(&self) -> Result<()> {
        match self.failure.take() {
            None => Ok(()),
            Some(error) => Err(Error::from(error).at(&self.place)),
        }
    }
}

#[async_trait]
impl SinkWriter for DeltaPartWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        let Form { schema, partitions, rules, .. } = &*self.form;
        let rows = conform_batch(&rows, schema, partitions, rules);
        let rows = rows.map_err(|e| e.at(&self.place))?;
        self.rows += rows.num_rows() as u64;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.writer.write(&rows).await.map_err(|e| delta_error(e).at(&self.place))?;
        self.check()
    }

    async fn stage(self: Box<Self>) -> Result<Staged> {
        let Self { partition, writer, failure, rows, place, .. } = *self;
        let adds = writer.close().await;
        if let Some(error) = failure.take() {
            return Err(Error::from(error).at(place));
        }
        let adds = adds.map_err(|e| delta_error(e).at(&place))?;
        let token = serde_json::to_vec(&adds).map_err(|e| {
            Error::invalid(format!("{place}: the data files cannot be described: {e}"))
        })?;
        Ok(Staged { partition, rows, token: token.into() })
    }
}

/// The data files that a writer staged.
pub(crate) fn files(staged: &Staged) -> Result<Vec<Add>> {
    serde_json::from_slice(&staged.token).map_err(|e| {
        Error::corrupt(format!("partition {} was not staged here: {e}", staged.partition))
    })
}
