//! `df.write()`: writes rows once.

use crate::catalog::reading_options;
use crate::formats::{self, SinkRequest};
use crate::session::Session;
use datafusion::dataframe::DataFrame;
use datafusion::physical_plan::{ExecutionPlanProperties, execute_stream_partitioned};
use fluvial_core::options::Options;
use fluvial_core::{
    BatchId, Error, Note, OutputMode, PartitionId, QueryId, Result, RunId, Sink, SinkId, SinkSpec,
};
use fluvial_datafusion::from_datafusion;
use futures::StreamExt;
use std::sync::Arc;

/// What to do with rows that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SaveMode {
    /// Keep them.
    #[default]
    Append,
    /// Replace them.
    Overwrite,
}

/// Describes where the rows of a DataFrame go. `save` writes them, once.
#[must_use = "nothing is written until save()"]
pub struct DataFrameWriter {
    session: Session,
    frame: DataFrame,
    format: String,
    mode: SaveMode,
    partition_by: Vec<String>,
    options: Options,
    once: Option<String>,
}

impl DataFrameWriter {
    pub(crate) fn new(session: Session, frame: DataFrame) -> Self {
        let options = Options::new(Vec::<(String, String)>::new());
        let mode = SaveMode::default();
        Self {
            session,
            frame,
            format: "delta".into(),
            mode,
            partition_by: Vec::new(),
            options,
            once: None,
        }
    }

    /// The format: `delta` (the default), `parquet`, `json`.
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = format.into();
        self
    }

    /// Append (the default) or overwrite.
    pub fn mode(mut self, mode: SaveMode) -> Self {
        self.mode = mode;
        self
    }

    /// Columns that name folders.
    pub fn partition_by<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.partition_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// An option by Spark's name.
    pub fn option(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.options.set(name, value.to_string());
        self
    }

    /// Inside of `foreach_batch`, into a Delta table: the rows are written once for each batch,
    /// however often the batch comes. `name` must be another one for each write or merge of a
    /// batch into one table. Outside of it, use the options `txnAppId` and `txnVersion`.
    pub fn exactly_once(mut self, name: impl Into<String>) -> Self {
        self.once = Some(name.into());
        self
    }

    /// Who writes and what, for a Delta table that skips what it has.
    fn transaction(&mut self) -> Result<Option<(String, u64)>> {
        let app = self.options.take("txnAppId");
        let version = self.options.take_parsed("txnVersion", "a number")?;
        let transaction = match (&self.once, app, version) {
            (Some(name), None, None) => Some(self.session.batch()?.transaction(name)),
            (None, Some(app), Some(version)) => Some((app, version)),
            (None, None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "txnAppId and txnVersion belong together, and exactly_once(..) gives both",
                )
                .with_condition("INVALID_OPTION_VALUE"));
            }
        };
        if transaction.is_some() && !self.format.eq_ignore_ascii_case("delta") {
            return Err(Error::invalid(format!(
                "only Delta tables remember what was written: {} files do not",
                self.format
            ))
            .with_condition("OPTION_NOT_SUPPORTED"));
        }
        Ok(transaction)
    }

    /// Writes to a table of the catalog, which is created if there is none.
    ///
    /// # Errors
    ///
    /// As [`Self::save`].
    pub async fn save_as_table(self, name: &str) -> Result<()> {
        let location = self.session.catalog().location_of(name)?;
        let reading = reading_options(&self.format, &self.options);
        let catalog = self.session.catalog();
        catalog.create(name, &self.format, &location, None, reading).await?;
        self.save(&location).await
    }

    /// Writes to a path or URL.
    ///
    /// # Errors
    ///
    /// `Invalid`: a bad option, rows that do not fit the table, an error of the query.
    pub async fn save(mut self, path: &str) -> Result<()> {
        self.options.set("path", path);
        let transaction = self.transaction()?;
        let (app, version) = transaction.unzip();
        let plan = self.frame.clone().create_physical_plan().await.map_err(from_datafusion)?;
        let schema = plan.schema();
        let mode = match self.mode {
            SaveMode::Append => OutputMode::Append,
            SaveMode::Overwrite => OutputMode::Complete,
        };
        let request = SinkRequest {
            session: &self.session,
            format: &self.format,
            name: None,
            partition_by: self.partition_by,
            comment: None,
            mode,
            schema: &schema,
            gaps: false,
            app,
        };
        let sink = formats::sink(request, self.options).await?.sink;
        let spec = SinkSpec {
            // Every save is a writer of its own: saving twice writes twice.
            query: QueryId::new(self.session.unique_name())?,
            sink: SinkId::new("save")?,
            run: RunId::new(self.session.unique_name())?,
            schema,
            mode,
        };
        let last = sink.open(&spec).await?;
        if version.is_some_and(|version| last >= Some(BatchId(version))) {
            return Ok(());
        }
        let context = Arc::new(self.frame.task_ctx());
        let partitions = plan.output_partitioning().partition_count();
        let streams = execute_stream_partitioned(plan, context).map_err(from_datafusion)?;
        debug_assert_eq!(streams.len(), partitions);
        write_all(sink.as_ref(), streams, BatchId(version.unwrap_or(0))).await
    }
}

async fn write_all(
    sink: &dyn Sink,
    streams: Vec<datafusion::execution::SendableRecordBatchStream>,
    batch: BatchId,
) -> Result<()> {
    let writes = streams.into_iter().enumerate().map(|(partition, mut rows)| async move {
        let partition = u32::try_from(partition)
            .map_err(|_| Error::invalid("a query has too many partitions"))?;
        let mut writer = sink.writer(batch, PartitionId(partition)).await?;
        while let Some(rows) = rows.next().await {
            writer.write(rows.map_err(from_datafusion)?).await?;
        }
        writer.stage().await
    });
    let staged = futures::future::try_join_all(writes).await?;
    sink.commit(batch, staged, &Note(bytes::Bytes::new())).await?;
    Ok(())
}
