//! `DeltaTable`: a table to merge into.

use crate::catalog::Reading;
use crate::delta_stream::path_of;
use crate::formats;
use crate::merge::MergeBuilder;
use crate::session::Session;
use crate::stream_reader::SchemaText;
use datafusion::dataframe::DataFrame;
#[cfg(feature = "sql")]
use fluvial_core::options::Options;
use fluvial_core::{Error, Result};
use fluvial_datafusion::from_datafusion;
use fluvial_delta::{DeltaOptions, OptimizeReport, TableLocation, TableVersion, VacuumMode};
use std::fmt;
use std::time::Duration;

/// A Delta table, by its place or its name. It is looked at when something is done with it.
#[derive(Clone)]
pub struct DeltaTable {
    session: Session,
    location: TableLocation,
    alias: Option<String>,
}

impl DeltaTable {
    /// The table at a path or URL.
    ///
    /// # Errors
    ///
    /// `Invalid` if that is no place of a table.
    pub fn for_path(session: &Session, path: &str) -> Result<Self> {
        let location = formats::delta_location(session, path)?;
        Ok(Self { session: session.clone(), location, alias: None })
    }

    /// The table with a name in the catalog.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none, `Invalid` if it is not a Delta table.
    pub async fn for_name(session: &Session, name: &str) -> Result<Self> {
        let parts: Vec<String> = name.split('.').map(str::to_owned).collect();
        Self::for_parts(session, &parts).await
    }

    pub(crate) async fn for_parts(session: &Session, parts: &[String]) -> Result<Self> {
        if let Some(path) = path_of(parts) {
            return Self::for_path(session, path);
        }
        let name = parts.join(".");
        match session.catalog().place(&name).await? {
            Some((format, location)) if format == "delta" => Self::for_path(session, &location),
            Some((format, _)) => Err(Error::invalid(format!(
                "{name} is a table of {format} files: only Delta tables can be changed"
            ))
            .with_condition("DELTA_ONLY_OPERATION")),
            None => Err(Error::not_found(format!("the catalog has no table {name}"))
                .with_condition("TABLE_OR_VIEW_NOT_FOUND")),
        }
    }

    /// Makes the table at a path if there is none, with the columns of `schema`: an Arrow schema,
    /// or Spark's DDL.
    ///
    /// # Errors
    ///
    /// `Invalid` if a table cannot have these columns or partitions.
    pub async fn create_if_not_exists(
        session: &Session,
        path: &str,
        schema: impl Into<SchemaText>,
        partition_by: &[&str],
    ) -> Result<Self> {
        let table = Self::for_path(session, path)?;
        let partition_by = partition_by.iter().map(|name| (*name).to_owned()).collect();
        let options = DeltaOptions { partition_by, ..DeltaOptions::default() };
        let schema = schema.into().resolve()?;
        fluvial_delta::create_table(&table.location, &schema, &options).await?;
        Ok(table)
    }

    /// Makes the table with a name of the catalog if there is none, as
    /// [`Self::create_if_not_exists`] does.
    ///
    /// # Errors
    ///
    /// As there, and `Invalid` if the name is that of a table of another format.
    pub async fn create_named_if_not_exists(
        session: &Session,
        name: &str,
        schema: impl Into<SchemaText>,
        partition_by: &[&str],
    ) -> Result<Self> {
        let location = session.catalog().location_of(name)?;
        session.catalog().check(name, "delta", &location, &Reading::new()).await?;
        let table = Self::create_if_not_exists(session, &location, schema, partition_by).await?;
        session.catalog().create(name, "delta", &location, None, Reading::new()).await?;
        Ok(table)
    }

    /// What it is called in the expressions of a merge; `target` if not given.
    #[must_use]
    pub fn alias(mut self, name: impl Into<String>) -> Self {
        self.alias = Some(name.into());
        self
    }

    /// All rows of the newest version.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no table.
    pub async fn to_df(&self) -> Result<DataFrame> {
        let provider = fluvial_delta::table_provider(&self.location, TableVersion::Newest).await?;
        self.session.context().read_table(provider).map_err(from_datafusion)
    }

    /// All rows of the version that `versionAsOf` or `timestampAsOf` name.
    #[cfg(feature = "sql")]
    pub(crate) async fn as_of(&self, options: Options) -> Result<DataFrame> {
        let version = TableVersion::parse(options, &self.session.settings().timezone)?;
        let provider = fluvial_delta::table_provider(&self.location, version).await?;
        self.session.context().read_table(provider).map_err(from_datafusion)
    }

    /// Its versions, the newest first: what was done, when, and with which numbers.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no table.
    pub async fn history(&self, limit: Option<usize>) -> Result<DataFrame> {
        let rows = fluvial_delta::history(&self.location, limit).await?;
        self.session.create_dataframe(vec![rows])
    }

    /// Writes small files together into larger ones. Rows and streams do not change.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no table.
    pub async fn optimize(&self) -> Result<OptimizeReport> {
        fluvial_delta::optimize(&self.location).await
    }

    /// Removes files that no version of the last while names, and gives their paths; a week, or
    /// what the table's property says, if `retain` does not.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no table, `Invalid` if `retain` is shorter than the property.
    pub async fn vacuum(&self, retain: Option<Duration>, mode: VacuumMode) -> Result<Vec<String>> {
        fluvial_delta::vacuum(&self.location, retain, mode).await
    }

    /// Merges rows into the table: `table.merge(updates.alias("s")?, "t.id = s.id")`, then what
    /// happens to which rows.
    pub fn merge(&self, source: DataFrame, condition: impl Into<String>) -> MergeBuilder {
        let target = self.alias.clone().unwrap_or_else(|| "target".into());
        MergeBuilder::new(
            self.session.clone(),
            self.location.clone(),
            target,
            source,
            condition.into(),
        )
    }
}

impl fmt::Debug for DeltaTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaTable").field("location", &self.location).finish_non_exhaustive()
    }
}
