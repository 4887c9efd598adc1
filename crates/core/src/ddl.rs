//! Schemas as text: Spark's DDL (`event STRING, amount DECIMAL(10, 2), tags ARRAY<STRING>`) to
//! and from Arrow.
//!
//! Every column is nullable: what a file or a topic holds cannot be promised. Strings are
//! `Utf8`; `TIMESTAMP` is in microseconds, UTC; `TIMESTAMP_NTZ` has no zone.

mod names;
mod parse;

pub use names::ddl_name;
pub use parse::{parse_ddl, parse_type};

use crate::error::{Error, Result};
use crate::name_case::NameCase;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The Arrow type of `TIMESTAMP`: an instant, in microseconds.
pub fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The Arrow type of `ARRAY<element>`.
pub fn array_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", element, true)))
}

/// The Arrow type of `MAP<key, value>`.
pub fn map_of(key: DataType, value: DataType) -> DataType {
    let entry = vec![Field::new("key", key, false), Field::new("value", value, true)];
    let entries = Field::new("entries", DataType::Struct(entry.into()), false);
    DataType::Map(Arc::new(entries), false)
}

/// Checks that no two columns have the same name.
///
/// # Errors
///
/// `Invalid` (`COLUMN_ALREADY_EXISTS`) naming the first one that comes twice.
pub fn check_names(schema: &Schema, case: NameCase) -> Result<()> {
    let mut seen = BTreeSet::new();
    let key = |name: &str| match case {
        NameCase::Insensitive => name.to_lowercase(),
        NameCase::Sensitive => name.to_owned(),
    };
    match schema.fields().iter().find(|field| !seen.insert(key(field.name()))) {
        None => Ok(()),
        Some(field) => Err(Error::invalid(format!(
            "the column `{}` already exists: choose another name or rename the existing column",
            field.name()
        ))
        .with_condition("COLUMN_ALREADY_EXISTS")),
    }
}

#[cfg(test)]
mod tests;
