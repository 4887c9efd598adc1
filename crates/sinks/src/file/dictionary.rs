//! Which columns of a Parquet file a dictionary would not pay for.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use fluvial_core::Result;
use parquet::schema::types::ColumnPath;
use std::collections::HashSet;

/// Rows that are looked at.
const ROWS: usize = 4096;

/// Of so many values a dictionary is as large as writers let one become: what is left of it are the
/// look-ups.
const VALUES_MAX: usize = 1 << 16;

/// The columns of a file whose values hardly ever come again, guessed from its first rows.
///
/// Of `n` rows with any of `d` values, about `n² / 2d` have a value that came before. So fewer
/// repetitions than that mean more values.
pub(crate) fn unique_columns(rows: &RecordBatch) -> Result<Vec<ColumnPath>> {
    let rows = rows.slice(0, rows.num_rows().min(ROWS));
    let mut unique = Vec::new();
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        look_at(&mut vec![field.name().clone()], column, &mut unique)?;
    }
    Ok(unique)
}

/// Looks at a column, or at the fields of a struct. What is in lists and maps is left as it is.
fn look_at(path: &mut Vec<String>, column: &ArrayRef, unique: &mut Vec<ColumnPath>) -> Result<()> {
    if let DataType::Struct(fields) = column.data_type() {
        for (field, column) in fields.iter().zip(column.as_struct().columns()) {
            path.push(field.name().clone());
            look_at(path, column, unique)?;
            path.pop();
        }
    } else if !column.data_type().is_nested() && is_unique(column)? {
        unique.push(ColumnPath::new(path.clone()));
    }
    Ok(())
}

fn is_unique(column: &ArrayRef) -> Result<bool> {
    let repeated_max = column.len() * column.len() / (2 * VALUES_MAX);
    if repeated_max == 0 {
        return Ok(false);
    }
    let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())])?;
    let values = converter.convert_columns(&[ArrayRef::clone(column)])?;
    let mut seen = HashSet::with_capacity(column.len());
    let mut repeated = 0;
    Ok(values.iter().all(|value| {
        repeated += usize::from(!seen.insert(value.data()));
        repeated <= repeated_max
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, StringArray, StructArray};
    use std::sync::Arc;

    #[test]
    fn only_what_hardly_comes_again_has_no_dictionary() {
        let rows = |count: i64| {
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
            let pages: ArrayRef = Arc::new(StringArray::from_iter_values(
                (0..count).map(|i| format!("/{}", i % 900)),
            ));
            let sums: ArrayRef =
                Arc::new(Float64Array::from_iter((0..count).map(|i| (i > 10).then_some(i as f64))));
            let both = StructArray::try_from(vec![("id", ids.clone()), ("page", pages.clone())]);
            let columns = [("id", ids), ("page", pages), ("sum", sums)];
            let both: ArrayRef = Arc::new(both.unwrap());
            RecordBatch::try_from_iter(columns.into_iter().chain([("both", both)])).unwrap()
        };
        let names = |rows: &RecordBatch| -> Vec<String> {
            unique_columns(rows).unwrap().iter().map(ColumnPath::string).collect()
        };
        assert_eq!(names(&rows(5000)), ["id", "sum", "both.id"]);
        assert_eq!(names(&rows(1000)), ["id", "both.id"]);
        assert!(names(&rows(300)).is_empty(), "too few rows to tell");
        assert!(names(&rows(0)).is_empty());
    }
}
