//! What rows must be like for a table: its columns, its rules and how its files are written, all of
//! one version. Rules look at columns by their place, so that none of the three goes without the
//! others.

use crate::error::delta_error;
use crate::rules::{Compile, Rules};
use crate::writer::config;
use arrow::datatypes::SchemaRef;
use deltalake::DeltaTable;
use deltalake::datafile::writer::WriterConfig;
use fluvial_core::Result;

/// The form of rows as one version of a table has it.
pub(crate) struct Form {
    pub(crate) schema: SchemaRef,
    pub(crate) partitions: Vec<String>,
    pub(crate) rules: Rules,
    pub(crate) config: WriterConfig,
}

impl Form {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// `Invalid` (`DELTA_FEATURE_NOT_SUPPORTED`) for a rule that `compile` does not know.
    pub(crate) fn of(table: &DeltaTable, compile: &Compile) -> Result<Self> {
        let state = table.snapshot().map_err(delta_error)?;
        let rules = Rules::new(state, compile)?;
        let partitions = state.metadata().partition_columns().to_vec();
        let (schema, config) = (state.snapshot().arrow_schema(), config(state));
        Ok(Self { schema, partitions, rules, config })
    }
}
