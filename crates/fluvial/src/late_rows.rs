//! Where a query's late rows go.

use crate::catalog::reading_options;
use crate::formats::{self, Output};
use crate::session::Session;
use fluvial_core::options::Options;
use fluvial_core::{Error, OutputMode, Result, Sink};
use fluvial_datafusion::late_schema;
use std::fmt;
use std::sync::Arc;

/// Where rows go that come too late for an operator: see [`crate::DataStreamWriter::late_rows`].
#[derive(Clone)]
pub struct LateRows(To);

#[derive(Clone)]
enum To {
    Table { name: String, format: String },
    Path { path: String, format: String },
    Memory(String),
    Sink(Arc<dyn Sink>),
}

impl LateRows {
    /// To a Delta table of the catalog, which is created if there is none.
    pub fn table(name: impl Into<String>) -> Self {
        Self(To::Table { name: name.into(), format: "delta".into() })
    }

    /// To a folder, in a format of files: `delta`, `parquet`, `json`, `csv`.
    pub fn path(format: impl Into<String>, path: impl Into<String>) -> Self {
        Self(To::Path { path: path.into(), format: format.into() })
    }

    /// To a table in memory, for tests and for looking.
    pub fn memory(name: impl Into<String>) -> Self {
        Self(To::Memory(name.into()))
    }

    /// To a sink of your own.
    pub fn sink(sink: Arc<dyn Sink>) -> Self {
        Self(To::Sink(sink))
    }

    /// To a table, in the format of [`Self::path`] or `memory`.
    #[cfg(feature = "sql")]
    pub(crate) fn of(name: &str, format: &str) -> Self {
        match format.eq_ignore_ascii_case("memory") {
            true => Self::memory(name),
            false => Self(To::Table { name: name.to_owned(), format: format.to_owned() }),
        }
    }

    /// The sink.
    ///
    /// # Errors
    ///
    /// `Invalid` for an unknown format, or a table that is something else.
    pub(crate) async fn open(&self, session: &Session) -> Result<Output> {
        let mut options = Options::new(Vec::<(String, String)>::new());
        let (format, name) = match &self.0 {
            To::Sink(sink) => return Ok(Output::durable(Arc::clone(sink))),
            To::Memory(name) => ("memory", Some(name.as_str())),
            To::Path { path, format } => {
                options.set("path", path.clone());
                (format.as_str(), None)
            }
            To::Table { name, format } => {
                let location = session.catalog().location_of(name)?;
                let reading = reading_options(format, &options);
                session.catalog().check(name, format, &location, &reading).await?;
                options.set("path", location);
                (format.as_str(), Some(name.as_str()))
            }
        };
        if !["delta", "parquet", "json", "csv", "memory"].contains(&format) {
            return Err(Error::invalid(format!(
                "late rows cannot be kept as {format}: use delta, parquet, json, csv or memory"
            ))
            .with_condition("UNKNOWN_OPTION"));
        }
        let request = formats::SinkRequest {
            session,
            format,
            name,
            partition_by: Vec::new(),
            comment: Some("Rows that came too late".into()),
            mode: OutputMode::Append,
            schema: &late_schema(),
            gaps: true,
            app: None,
        };
        formats::sink(request, options).await
    }

    /// Makes the table known, once the query runs.
    ///
    /// # Errors
    ///
    /// What the catalog says.
    pub(crate) async fn register(&self, session: &Session) -> Result<()> {
        let To::Table { name, format } = &self.0 else { return Ok(()) };
        let location = session.catalog().location_of(name)?;
        let options = Options::new(Vec::<(String, String)>::new());
        let (reading, comment) = (reading_options(format, &options), "Rows that came too late");
        let catalog = session.catalog();
        catalog.create(name, format, &location, Some(comment), reading).await
    }
}

impl fmt::Debug for LateRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            To::Table { name, .. } | To::Memory(name) => write!(f, "LateRows({name})"),
            To::Path { path, .. } => write!(f, "LateRows({path})"),
            To::Sink(sink) => write!(f, "LateRows({})", sink.description()),
        }
    }
}
