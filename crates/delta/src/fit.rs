//! Whether the rows of a query fit into a table, and if not, why.

use crate::rules::generation;
use crate::types::{Gap, delta_fields, find, gap};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use fluvial_core::{Error, Result};

/// Fields of the query that the table lacks, whole or in part: the query fits once they are
/// added. Empty if it fits already.
///
/// # Errors
///
/// `Invalid` (`DELTA_SCHEMA_MISMATCH`) naming every column that can never fit.
pub(crate) fn missing(query: &Schema, table: &Schema) -> Result<Vec<FieldRef>> {
    let query = delta_fields(query.fields())?;
    let (mut new, mut wrong) = (Vec::new(), Vec::new());
    check_names(&query)?;
    for field in &query {
        let Some(i) = find(table.fields(), field.name()) else {
            new.push(field.clone());
            continue;
        };
        let column = table.field(i);
        match gap(field.data_type(), column.data_type()) {
            Gap::None => {}
            Gap::New => new.push(field.clone()),
            Gap::Types => wrong.push(format!(
                "column {:?} has type {} in the table and {} in the query",
                column.name(),
                column.data_type(),
                field.data_type()
            )),
        }
    }
    for column in table.fields() {
        let computed = generation(column).is_some();
        if !column.is_nullable() && !computed && find(&query, column.name()).is_none() {
            wrong.push(format!(
                "column {:?} of the table must not be null and the query does not write it",
                column.name()
            ));
        }
    }
    if wrong.is_empty() { Ok(new) } else { Err(mismatch(&wrong)) }
}

/// The error for fields that are missing and may not be added.
pub(crate) fn not_in_table(fields: &[FieldRef]) -> Error {
    let one = |field: &FieldRef| {
        format!("column {:?} ({}) is not in the table", field.name(), field.data_type())
    };
    let mut all: Vec<_> = fields.iter().map(one).collect();
    if let Some(last) = all.last_mut() {
        last.push_str("; option mergeSchema adds new columns");
    }
    mismatch(&all)
}

fn mismatch(all: &[String]) -> Error {
    Error::invalid(format!("the rows do not fit into the table: {}", all.join("; ")))
        .with_condition("DELTA_SCHEMA_MISMATCH")
}

/// Two columns whose names differ only in case are one column in Delta.
fn check_names(fields: &Fields) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    for field in fields {
        if !seen.insert(field.name().to_lowercase()) {
            return Err(Error::invalid(format!(
                "column {:?} comes twice; names in a Delta table differ by more than case: rename \
                 one",
                field.name()
            ))
            .with_condition("DELTA_DUPLICATE_COLUMNS_FOUND"));
        }
    }
    Ok(())
}

/// Refuses names, also of fields inside of columns, that Parquet files of a table without mapped
/// names cannot have.
pub(crate) fn check_new_names(fields: &Fields) -> Result<()> {
    check_names(fields)?;
    for field in fields {
        if let Some(bad) = field.name().chars().find(|c| " ,;{}()\n\t=".contains(*c)) {
            return Err(Error::invalid(format!(
                "column name {:?} contains {bad:?}, which a Delta table does not allow: rename it",
                field.name()
            ))
            .with_condition("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"));
        }
        check_inside(field.data_type()).map_err(|e| e.at(format!("column {:?}", field.name())))?;
    }
    Ok(())
}

fn check_inside(of: &DataType) -> Result<()> {
    match of {
        DataType::Struct(fields) => check_new_names(fields),
        DataType::List(field) | DataType::Map(field, _) => check_inside(field.data_type()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    fn schema(fields: &[(&str, DataType, bool)]) -> Schema {
        Schema::new(
            fields.iter().map(|(n, t, null)| Field::new(*n, t.clone(), *null)).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn every_column_that_cannot_fit_is_named() {
        let table = schema(&[
            ("a", DataType::Int64, true),
            ("b", DataType::Utf8, true),
            ("must", DataType::Utf8, false),
        ]);
        let query = schema(&[("a", DataType::Utf8, true), ("b", DataType::Int64, true)]);
        let error = missing(&query, &table).unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_SCHEMA_MISMATCH"));
        for name in ["\"a\"", "\"b\"", "\"must\""] {
            assert!(error.message().contains(name), "{error}");
        }
    }

    #[test]
    fn new_columns_are_found_and_fewer_columns_fit() {
        let table = schema(&[("a", DataType::Int64, true), ("b", DataType::Utf8, true)]);
        let fewer = schema(&[("A", DataType::Int32, false)]);
        assert!(missing(&fewer, &table).unwrap().is_empty());
        let more = schema(&[("a", DataType::Int64, true), ("c", DataType::Utf8View, true)]);
        let new = missing(&more, &table).unwrap();
        assert_eq!((new.len(), new[0].name().as_str()), (1, "c"));
        assert_eq!(new[0].data_type(), &DataType::Utf8);
    }

    #[test]
    fn names_that_delta_cannot_hold_are_refused() {
        let twice = schema(&[("a", DataType::Int64, true), ("A", DataType::Int64, true)]);
        let error = check_new_names(twice.fields()).unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_DUPLICATE_COLUMNS_FOUND"));
        let blank = schema(&[("a b", DataType::Int64, true)]);
        let error = check_new_names(blank.fields()).unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"));
        let inside = DataType::Struct(blank.fields().clone());
        let error = check_new_names(schema(&[("s", inside, true)]).fields()).unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"));
    }
}
