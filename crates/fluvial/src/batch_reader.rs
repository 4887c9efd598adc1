//! `session.read()`: reads files once.

use crate::batch_table::BatchTable;
use crate::formats;
use crate::session::Session;
use crate::settings::SchemaInference;
use crate::stream_reader::SchemaText;
use datafusion::dataframe::DataFrame;
use fluvial_core::options::Options;
use fluvial_core::{Error, Result};
use fluvial_datafusion::from_datafusion;
use std::sync::Arc;

/// Describes files or a table to read once: format, schema, options, path.
#[must_use = "a reader reads nothing until load()"]
pub struct DataFrameReader {
    session: Session,
    format: String,
    schema: Option<SchemaText>,
    options: Options,
}

impl DataFrameReader {
    pub(crate) fn new(session: Session) -> Self {
        let options = Options::new(Vec::<(String, String)>::new());
        Self { session, format: "parquet".into(), schema: None, options }
    }

    /// The format: `delta`, `json`, `csv`, `text`, `parquet`.
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = format.into();
        self
    }

    /// The schema; found in the files if not given.
    pub fn schema(mut self, schema: impl Into<SchemaText>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// An option by Spark's name; case does not matter.
    pub fn option(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.options.set(name, value.to_string());
        self
    }

    /// Reads a folder, a file or a glob pattern.
    ///
    /// # Errors
    ///
    /// `Invalid`: an unknown format or option, a schema that does not parse; `NotFound` if there
    /// is nothing at the path.
    pub async fn load(mut self, path: impl Into<String>) -> Result<DataFrame> {
        let path = path.into();
        #[cfg(feature = "delta")]
        if self.format.eq_ignore_ascii_case("delta") {
            let zone = self.session.settings().timezone;
            let version = fluvial_delta::TableVersion::parse(self.options, &zone)?;
            let provider = formats::delta_table(&self.session, &path, version).await?;
            return self.session.context().read_table(provider).map_err(from_datafusion);
        }
        self.options.set("path", path);
        let schema = self.schema.as_ref().map(SchemaText::resolve).transpose()?;
        let session = &self.session;
        let infer = SchemaInference::Allowed;
        let definition =
            formats::stream_inferring(session, &self.format, schema, self.options, infer).await?;
        let table = Arc::new(BatchTable::new(definition));
        session.context().read_table(table).map_err(from_datafusion)
    }

    /// Reads a source that needs no path: what topics of Kafka have now.
    ///
    /// # Errors
    ///
    /// `Invalid`: another format than `kafka`, an option that is missing or unknown.
    pub async fn load_options(self) -> Result<DataFrame> {
        if !self.format.eq_ignore_ascii_case("kafka") {
            let message = format!("{} needs a path: load(path)", self.format);
            return Err(Error::invalid(message).with_condition("PATH_NOT_SPECIFIED"));
        }
        let schema = self.schema.as_ref().map(SchemaText::resolve).transpose()?;
        let definition = formats::kafka_table(&self.session, schema, self.options)?;
        let table = Arc::new(BatchTable::new(definition));
        self.session.context().read_table(table).map_err(from_datafusion)
    }

    /// A Delta table; options `versionAsOf` or `timestampAsOf` choose an older version.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(feature = "delta")]
    pub async fn delta(self, path: impl Into<String>) -> Result<DataFrame> {
        self.format("delta").load(path).await
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
}
