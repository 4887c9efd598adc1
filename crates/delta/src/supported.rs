//! Which tables this sink may write to: what it cannot keep, it refuses. What it keeps is in
//! [`crate::rules`].

use crate::error::transaction_error;
use arrow::datatypes::{DataType, FieldRef, Fields};
use deltalake::kernel::transaction::PROTOCOL;
use deltalake::table::config::TablePropertiesExt;
use deltalake::table::state::DeltaTableState;
use fluvial_core::{Error, OutputMode, Result};

/// Keys of column metadata that oblige a writer to more than we do.
const DUTIES: [(&str, &str); 3] = [
    ("delta.identity.start", "an identity"),
    ("delta.columnMapping.physicalName", "a mapped name"),
    ("CURRENT_DEFAULT", "a default value"),
];

/// What we keep to on columns of a table, and not on fields inside of them.
const TOP_ONLY: [(&str, &str); 2] =
    [("delta.invariants", "an invariant"), ("delta.generationExpression", "a generated value")];

/// Checks the table's protocol, features and properties.
///
/// # Errors
///
/// `Invalid` naming what this sink cannot do.
pub(crate) fn check(state: &DeltaTableState, mode: OutputMode) -> Result<()> {
    PROTOCOL.can_write_to(state).map_err(transaction_error)?;
    let properties = state.table_config();
    if mode == OutputMode::Complete && properties.append_only() {
        return Err(Error::invalid(
            "the table is append-only (delta.appendOnly); complete mode replaces all rows: use \
             append mode or another table",
        )
        .with_condition("DELTA_CANNOT_MODIFY_APPEND_ONLY"));
    }
    let schema = state.snapshot().arrow_schema();
    check_columns(schema.fields(), &DUTIES)?;
    schema.fields().iter().try_for_each(|field| check_inside(field.data_type()))
}

/// Fields at any depth below a column.
fn check_inside(of: &DataType) -> Result<()> {
    match of {
        DataType::Struct(fields) => {
            check_columns(fields, &DUTIES)?;
            check_columns(fields, &TOP_ONLY)?;
            fields.iter().try_for_each(|field| check_inside(field.data_type()))
        }
        DataType::List(field) | DataType::Map(field, _) => check_inside(field.data_type()),
        _ => Ok(()),
    }
}

fn check_columns(fields: &Fields, duties: &[(&str, &str)]) -> Result<()> {
    let duty = |field: &FieldRef| {
        duties.iter().find(|(key, _)| field.metadata().contains_key(*key)).map(|(_, what)| *what)
    };
    match fields.iter().find_map(|field| Some((field, duty(field)?))) {
        Some((field, what)) => Err(unsupported(&format!("{what} on column {:?}", field.name()))),
        None => Ok(()),
    }
}

fn unsupported(what: &str) -> Error {
    Error::invalid(format!(
        "the table has {what}, which this sink does not support yet: drop it, or write to a table \
         without it"
    ))
    .with_condition("DELTA_FEATURE_NOT_SUPPORTED")
}
