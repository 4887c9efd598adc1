//! `session.read_stream()`: describes a stream.

use crate::formats;
use crate::session::Session;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use fluvial_core::ddl::parse_ddl;
use fluvial_core::options::Options;
use fluvial_core::{Error, Result, Source, SourceId};
use fluvial_datafusion::from_datafusion;
use fluvial_datafusion::plan::{OpenSource, StreamDefinition, StreamTable};
use std::sync::Arc;

/// A schema, as an Arrow schema or as Spark's DDL: `"user_id STRING, ts TIMESTAMP"`.
#[derive(Debug, Clone)]
pub enum SchemaText {
    /// An Arrow schema.
    Arrow(arrow::datatypes::SchemaRef),
    /// DDL text.
    Ddl(String),
}

impl SchemaText {
    /// The schema; every column may be null.
    pub(crate) fn resolve(&self) -> Result<arrow::datatypes::SchemaRef> {
        match self {
            Self::Arrow(schema) => Ok(Arc::clone(schema)),
            Self::Ddl(text) => parse_ddl(text).map(Arc::new),
        }
    }
}

impl From<&str> for SchemaText {
    fn from(text: &str) -> Self {
        Self::Ddl(text.to_owned())
    }
}

impl From<String> for SchemaText {
    fn from(text: String) -> Self {
        Self::Ddl(text)
    }
}

impl From<arrow::datatypes::SchemaRef> for SchemaText {
    fn from(schema: arrow::datatypes::SchemaRef) -> Self {
        Self::Arrow(schema)
    }
}

/// Describes a stream: format, schema, options, path. `load` makes it a DataFrame.
#[must_use = "a reader reads nothing until load()"]
pub struct DataStreamReader {
    session: Session,
    format: String,
    schema: Option<SchemaText>,
    options: Options,
    name: Option<String>,
}

impl DataStreamReader {
    pub(crate) fn new(session: Session) -> Self {
        let options = Options::new(Vec::<(String, String)>::new());
        Self { session, format: "parquet".into(), schema: None, options, name: None }
    }

    /// The format: `json`, `csv`, `text`, `parquet`, `delta`, `rate`, `rate-micro-batch`.
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = format.into();
        self
    }

    /// The schema of the rows.
    pub fn schema(mut self, schema: impl Into<SchemaText>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// An option by Spark's name; case does not matter.
    pub fn option(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.options.set(name, value.to_string());
        self
    }

    /// Names the source in the checkpoint, so that it keeps its place when others come or go.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Reads a folder, a file or a glob pattern.
    ///
    /// # Errors
    ///
    /// `Invalid`: an unknown format or option, a schema that is missing or does not parse.
    pub async fn load(mut self, path: impl Into<String>) -> Result<DataFrame> {
        self.options.set("path", path.into());
        self.load_options().await
    }

    /// Reads a source that needs no path, or whose path is an option.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn load_options(self) -> Result<DataFrame> {
        let Self { session, format, schema, options, name } = self;
        let schema = schema.as_ref().map(SchemaText::resolve).transpose()?;
        let definition = formats::stream(&session, &format, schema, options).await?;
        dataframe(&session, name, definition)
    }

    /// A Delta table of the catalog, or of a place: ``delta.`/warehouse/clicks` ``.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such table, `Invalid` for a table of another format, or an option
    /// that a Delta source does not have.
    #[cfg(feature = "delta")]
    pub async fn table(self, name: &str) -> Result<DataFrame> {
        if self.schema.is_some() {
            return Err(Error::invalid("a table has its own schema: give none"));
        }
        let parts: Vec<String> = match name.split_once(".`") {
            Some((format, path)) => vec![format.into(), path.trim_end_matches('`').into()],
            None => name.split('.').map(str::to_owned).collect(),
        };
        let definition = crate::delta_stream::table(&self.session, &parts, self.options).await?;
        dataframe(&self.session, self.name, definition)
    }

    /// JSON lines.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn json(self, path: impl Into<String>) -> Result<DataFrame> {
        self.format("json").load(path).await
    }

    /// CSV.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn csv(self, path: impl Into<String>) -> Result<DataFrame> {
        self.format("csv").load(path).await
    }

    /// Lines of text, in the column `value`.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn text(self, path: impl Into<String>) -> Result<DataFrame> {
        self.format("text").load(path).await
    }

    /// Parquet.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn parquet(self, path: impl Into<String>) -> Result<DataFrame> {
        self.format("parquet").load(path).await
    }

    /// A source of your own, or a [`fluvial_sources::MemorySource`].
    ///
    /// # Errors
    ///
    /// `Invalid` if a format's options were given: they are not used here.
    pub fn source(self, source: Arc<dyn Source>) -> Result<DataFrame> {
        if !self.options.is_empty() || self.schema.is_some() {
            return Err(Error::invalid(
                "a source of your own has its own schema and options: give none to read_stream()",
            ));
        }
        dataframe(&self.session, self.name, Arc::new(OpenSource(source)))
    }
}

/// A DataFrame of the rows of a stream. `name` is the source's in the checkpoint.
pub(crate) fn dataframe(
    session: &Session,
    name: Option<String>,
    definition: Arc<dyn StreamDefinition>,
) -> Result<DataFrame> {
    let name = name.map(SourceId::new).transpose()?;
    let table = StreamTable::new(name, definition);
    let source = provider_as_source(Arc::new(table));
    let plan = LogicalPlanBuilder::scan("stream", source, None)
        .and_then(|plan| plan.build())
        .map_err(from_datafusion)?;
    Ok(DataFrame::new(session.state(), plan))
}
