//! Columns of a query as columns of the table: by name, without losing a value.

use crate::partition_text::as_partition;
use crate::rules::Rules;
use crate::types::{find, physical_name};
use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, SchemaRef};
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// A value that does not fit is an error, not a null.
const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

/// The rows with the schema of the table, and by its rules; columns that the query does not have
/// are computed, or null.
pub(crate) fn conform_batch(
    rows: &RecordBatch,
    table: &SchemaRef,
    partitions: &[String],
    rules: &Rules,
) -> Result<RecordBatch> {
    let schema = rows.schema();
    let mut columns = Vec::with_capacity(table.fields().len());
    for field in table.fields() {
        columns.push(match find(schema.fields(), field.name()) {
            Some(i) => conform(rows.column(i), field.data_type())
                .map_err(|e| e.at(format!("column {:?}", field.name())))?,
            None => new_null_array(field.data_type(), rows.num_rows()),
        });
    }
    rules.generate(&mut columns, |name| find(schema.fields(), name).is_some())?;
    for (column, field) in columns.iter_mut().zip(table.fields()) {
        if partitions.contains(field.name()) {
            *column = as_partition(column.clone())?;
        }
        check_nulls(column, field)?;
    }
    let rows = RecordBatch::try_new(table.clone(), columns)?;
    rules.check(&rows)?;
    Ok(rows)
}

fn check_nulls(column: &ArrayRef, field: &FieldRef) -> Result<()> {
    let nulls = column.logical_null_count();
    if field.is_nullable() || nulls == 0 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "column {:?} of the table must not be null, but {nulls} of {} rows are: filter them out, \
         or drop NOT NULL from the table",
        field.name(),
        column.len()
    ))
    .with_condition("DELTA_NOT_NULL_CONSTRAINT_VIOLATED"))
}

/// The column with another type, into which it fits.
pub(crate) fn conform(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if column.data_type() == to {
        return Ok(column.clone());
    }
    match (column.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            conform_struct(column.as_struct(), fields).map(|column| Arc::new(column) as _)
        }
        (DataType::List(_), DataType::List(element)) => {
            let list = column.as_list::<i32>();
            let values = conform(list.values(), element.data_type())?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(element.clone(), offsets, values, nulls)?))
        }
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => {
            let map = column.as_map();
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(Error::invalid("a map's entries must be a struct"));
            };
            let values = conform_entries(map.entries(), fields)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let map = MapArray::try_new(entries.clone(), offsets, values, nulls, *sorted)?;
            Ok(Arc::new(map))
        }
        // Other lists first become plain ones with the elements that they have.
        (
            DataType::LargeList(f)
            | DataType::FixedSizeList(f, _)
            | DataType::ListView(f)
            | DataType::LargeListView(f),
            DataType::List(_),
        ) => {
            let plain = cast_with_options(column, &DataType::List(f.clone()), &STRICT)?;
            conform(&plain, to)
        }
        _ => Ok(cast_with_options(column, to, &STRICT)?),
    }
}

/// Fields by name. What is written has no mapped names: such tables are refused.
fn conform_struct(column: &StructArray, fields: &Fields) -> Result<StructArray> {
    let part = |field: &FieldRef| match find(column.fields(), physical_name(field)) {
        Some(i) => conform(column.column(i), field.data_type()),
        None => Ok(new_null_array(field.data_type(), column.len())),
    };
    let parts = fields.iter().map(part).collect::<Result<Vec<_>>>()?;
    let nulls = column.nulls().cloned();
    Ok(StructArray::try_new_with_length(fields.clone(), parts, nulls, column.len())?)
}

/// Key and value by position: producers name them differently.
fn conform_entries(entries: &StructArray, fields: &Fields) -> Result<StructArray> {
    let pairs = entries.columns().iter().zip(fields);
    let parts = pairs.map(|(column, field)| conform(column, field.data_type()));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    Ok(StructArray::try_new_with_length(fields.clone(), parts, None, entries.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, Int64Array, StringViewArray};
    use arrow::datatypes::{Field, Int64Type, Schema};

    fn table(fields: Vec<Field>) -> SchemaRef {
        Arc::new(Schema::new(fields))
    }

    #[test]
    fn columns_are_matched_by_name_and_widened() {
        let rows = RecordBatch::try_from_iter([
            ("S", Arc::new(StringViewArray::from(vec!["x"])) as ArrayRef),
            ("n", Arc::new(Int32Array::from(vec![1]))),
        ])
        .unwrap();
        let table = table(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("new", DataType::Utf8, true),
            Field::new("s", DataType::Utf8, true),
        ]);
        let conformed = conform_batch(&rows, &table, &[], &Rules::none(&table)).unwrap();
        assert_eq!(conformed.column(0).as_primitive::<Int64Type>().value(0), 1);
        assert!(conformed.column(1).is_null(0));
        assert_eq!(conformed.column(2).as_string::<i32>().value(0), "x");
    }

    #[test]
    fn nested_fields_are_matched_by_name() {
        let inner = StructArray::from(vec![
            (
                Arc::new(Field::new("b", DataType::Int32, true)),
                Arc::new(Int32Array::from(vec![2])) as ArrayRef,
            ),
            (
                Arc::new(Field::new("a", DataType::Int32, true)),
                Arc::new(Int32Array::from(vec![1])) as ArrayRef,
            ),
        ]);
        let rows = RecordBatch::try_from_iter([("s", Arc::new(inner) as ArrayRef)]).unwrap();
        let field = |name| Field::new(name, DataType::Int64, true);
        let fields: Fields = ["a", "b", "c"].into_iter().map(field).collect();
        let table = table(vec![Field::new("s", DataType::Struct(fields), true)]);
        let conformed = conform_batch(&rows, &table, &[], &Rules::none(&table)).unwrap();
        let s = conformed.column(0).as_struct();
        let value = |i: usize| s.column(i).as_primitive::<Int64Type>().value(0);
        assert_eq!((value(0), value(1)), (1, 2));
        assert!(s.column(2).is_null(0));
    }

    #[test]
    fn a_null_in_a_not_null_column_is_an_error_that_names_it() {
        let rows = RecordBatch::try_from_iter_with_nullable([(
            "n",
            Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef,
            true,
        )])
        .unwrap();
        let table = table(vec![Field::new("n", DataType::Int64, false)]);
        let error = conform_batch(&rows, &table, &[], &Rules::none(&table)).unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_NOT_NULL_CONSTRAINT_VIOLATED"));
        assert!(error.message().contains("\"n\""), "{error}");
    }
}
