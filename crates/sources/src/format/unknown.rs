//! What becomes of data that the schema has no column for.

use arrow::datatypes::{DataType, Fields};
use fluvial_core::{Error, Result, ddl};
use std::collections::BTreeSet;

/// The column that takes what no other does, unless another is named.
pub(crate) const RESCUED_DATA: &str = "_rescued_data";

/// What becomes of columns that the schema has not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unknown {
    /// The column that takes them, and values that are none of their column's type.
    pub(crate) column: Option<String>,
    /// A column that the schema has not is an error.
    pub(crate) stop: bool,
}

impl Unknown {
    pub(crate) fn is_column(&self, name: &str) -> bool {
        self.column.as_deref() == Some(name)
    }

    pub(crate) fn has_column(&self) -> bool {
        self.column.is_some()
    }

    pub(crate) fn stops(&self) -> bool {
        self.stop
    }

    pub(crate) fn is_looked_for(&self) -> bool {
        self.stop || self.column.is_some()
    }

    /// Checks the column's type.
    ///
    /// # Errors
    ///
    /// `Invalid` (`INVALID_RESCUED_DATA_TYPE`) if it is no STRING.
    pub(crate) fn check(&self, fields: &Fields) -> Result<()> {
        match fields.iter().find(|field| self.is_column(field.name())) {
            Some(field) if *field.data_type() != DataType::Utf8 => Err(Error::invalid(format!(
                "the column `{}` takes what no other column does: it must be a STRING, not {}",
                field.name(),
                ddl::ddl_name(field.data_type())
            ))
            .with_condition("INVALID_RESCUED_DATA_TYPE")),
            _ => Ok(()),
        }
    }
}

/// The condition of [`unknown_columns`].
pub(crate) const UNKNOWN_FIELD: &str = "UNKNOWN_FIELD_EXCEPTION";

/// The error of a record with columns that the schema has not.
pub(crate) fn unknown_columns(place: &str, record: u64, names: &BTreeSet<String>) -> Error {
    const SHOWN: usize = 20;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    Error::invalid(format!(
        "{place}, record {record}: the schema has no column {}",
        shown.join(", ")
    ))
    .with_condition(UNKNOWN_FIELD)
}
