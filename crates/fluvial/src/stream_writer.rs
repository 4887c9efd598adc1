//! `df.write_stream()`: where a stream goes, and how it runs.

use crate::catalog::reading_options;
use crate::formats;
use crate::late_rows::LateRows;
use crate::session::Session;
use crate::start::{self, Start};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::dataframe::DataFrame;
use fluvial_core::options::Options;
use fluvial_core::{BatchId, Error, OutputMode, Result, Sink};
use fluvial_engine::{StreamingQuery, Trigger};
use fluvial_sinks::{ForeachBatchSink, ForeachSink, ForeachWriter};
use std::sync::Arc;

/// Describes a streaming query's output. `start` starts the query.
#[must_use = "a query runs only after start()"]
pub struct DataStreamWriter {
    session: Session,
    frame: DataFrame,
    format: Option<String>,
    sink: Option<Arc<dyn Sink>>,
    mode: Option<OutputMode>,
    trigger: Trigger,
    name: Option<String>,
    partition_by: Vec<String>,
    comment: Option<String>,
    late: Option<LateRows>,
    options: Options,
}

impl DataStreamWriter {
    pub(crate) fn new(session: Session, frame: DataFrame) -> Self {
        let options = Options::new(Vec::<(String, String)>::new());
        Self {
            session,
            frame,
            format: None,
            sink: None,
            mode: None,
            trigger: Trigger::Default,
            name: None,
            partition_by: Vec::new(),
            comment: None,
            late: None,
            options,
        }
    }

    /// The format: `delta`, `parquet`, `json`, `csv`, `text`, `memory`, `console`, `noop`. Parquet if not
    /// given, delta for a table.
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// Append (the default), update or complete.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// When batches run; back to back if not given.
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.trigger = trigger;
        self
    }

    /// A name for people; unique among the running queries. A memory sink's table has it.
    pub fn query_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Columns that name folders.
    pub fn partition_by<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.partition_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// What the table is, for people: kept when [`Self::to_table`] makes it.
    pub fn comment(mut self, text: impl Into<String>) -> Self {
        self.comment = Some(text.into());
        self
    }

    /// An option by Spark's name: `checkpointLocation`, `path`, `mergeSchema`, ...
    pub fn option(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.options.set(name, value.to_string());
        self
    }

    /// A sink of your own.
    pub fn sink(mut self, sink: Arc<dyn Sink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Keeps the rows that come too late for any operator of the query, instead of only counting
    /// them: `batch_id`, `operator`, `input` (1 for the right side of a join), the `watermark` that
    /// judged them, and the row itself as a JSON `record` of the columns that the query uses.
    ///
    /// They are published with the batch that judged them, exactly once as far as the sink can
    /// remember. Until the batch ends they wait in memory. Without this they cost nothing.
    pub fn late_rows(mut self, to: LateRows) -> Self {
        self.late = Some(to);
        self
    }

    /// Gives the rows of each partition of each batch to a writer that `factory` makes. At least
    /// once: rows are written while the batch runs, and a batch that failed comes again.
    pub fn foreach<F, W>(self, factory: F) -> Self
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: ForeachWriter + 'static,
    {
        self.sink(Arc::new(ForeachSink::new(factory)))
    }

    /// Calls a function with every batch, as a DataFrame in a session of its own, and its id. At
    /// least once: a batch that failed after the call comes again, with the same id and the same
    /// rows. Writes and merges may be made to [happen once](crate::DataFrameWriter::exactly_once).
    ///
    /// Views that the function makes are seen by SQL of the DataFrame's session, and by nobody
    /// else; both last as long as the call. All rows of a batch are in memory.
    pub fn foreach_batch<F, Fut>(self, callback: F) -> Self
    where
        F: Fn(DataFrame, BatchId) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let sink = crate::foreach_batch::sink(&self.session, callback);
        self.sink(sink)
    }

    /// The same with the rows of the batch as they are, and without a session.
    pub fn foreach_batch_rows<F, Fut>(self, callback: F) -> Self
    where
        F: Fn(BatchId, Vec<RecordBatch>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.sink(Arc::new(ForeachBatchSink::new(callback)))
    }

    /// Writes to a path or URL, then as [`Self::start`].
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub async fn start_at(self, path: impl Into<String>) -> Result<StreamingQuery> {
        self.option("path", path.into()).start().await
    }

    /// Writes to a table of the catalog, which is created if there is none, then as
    /// [`Self::start`].
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub async fn to_table(mut self, name: &str) -> Result<StreamingQuery> {
        if self.sink.is_some() {
            return Err(Error::invalid("a query writes to a sink or to a table, not to both"));
        }
        let format = self.format.get_or_insert_with(|| "delta".into()).clone();
        let location = match self.options.peek("path") {
            Some(path) => path.to_owned(),
            None => self.session.catalog().location_of(name)?,
        };
        self.options.set("path", location.clone());
        if self.name.is_none() {
            self.name = Some(name.to_owned());
        }
        let session = self.session.clone();
        let reading = reading_options(&format, &self.options);
        session.catalog().check(name, &format, &location, &reading).await?;
        let comment = self.comment.clone();
        let query = self.start().await?;
        // Who waits for the query is told why it failed; a table there is not then.
        if query.ready().await.is_err() {
            return Ok(query);
        }
        let (catalog, comment) = (session.catalog(), comment.as_deref());
        catalog.create(name, &format, &location, comment, reading).await?;
        Ok(query)
    }

    /// Starts the query.
    ///
    /// # Errors
    ///
    /// `Invalid` for what cannot stream, a bad option, a changed query on an old checkpoint, a
    /// sink that belongs to another query; `Corrupt` for a damaged checkpoint.
    pub async fn start(mut self) -> Result<StreamingQuery> {
        let mode = self.mode.unwrap_or(OutputMode::Append);
        let checkpoint = self.options.take("checkpointLocation");
        let plan = start::prepare(&self.session, &self.frame, mode)?;
        check_partition_columns(plan.schema(), &self.partition_by)?;
        let output = match self.sink {
            Some(sink) => {
                self.options.finish(&["checkpointLocation"])?;
                formats::Output::durable(sink)
            }
            None => {
                let request = formats::SinkRequest {
                    session: &self.session,
                    format: self.format.as_deref().unwrap_or("parquet"),
                    name: self.name.as_deref(),
                    partition_by: self.partition_by,
                    comment: self.comment,
                    mode,
                    schema: plan.schema(),
                    gaps: false,
                    app: None,
                };
                formats::sink(request, self.options).await?
            }
        };
        let late = match &self.late {
            Some(late) => Some(late.open(&self.session).await?),
            None => None,
        };
        let session = self.session.clone();
        let query = start::start(Start {
            session: self.session,
            plan,
            output,
            late,
            mode,
            trigger: self.trigger,
            name: self.name,
            checkpoint,
        })
        .await?;
        if let Some(late) = &self.late {
            late.register(&session).await?;
        }
        Ok(query)
    }
}

/// Said before anything is made: a sink would find out in its first batch, and `to_table` would
/// have named the table by then.
fn check_partition_columns(schema: &Schema, partition_by: &[String]) -> Result<()> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let is_there = |column: &str| names.iter().any(|n| n.to_lowercase() == column.to_lowercase());
    match partition_by.iter().find(|column| !is_there(column)) {
        None => Ok(()),
        Some(missing) => Err(Error::invalid(format!(
            "partition column {missing} not found in existing columns ({})",
            names.join(", ")
        ))
        .with_condition("PARTITION_COLUMN_NOT_FOUND")),
    }
}
