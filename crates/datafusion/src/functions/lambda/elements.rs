//! The elements of the arrays or maps of all rows, one after the other.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{take, take_arrays};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::LambdaArgument;
use std::sync::Arc;

/// Columns of elements, cut into rows.
pub(super) struct Elements {
    /// Where the elements of each row begin and end; none for a row that is null.
    pub(super) offsets: OffsetBuffer<i32>,
    /// An entry per element.
    pub(super) columns: Vec<ArrayRef>,
    /// Which rows are null.
    pub(super) nulls: Option<NullBuffer>,
}

impl Elements {
    /// Those of an array or a map (its keys, then its values).
    pub(super) fn of(rows: &ArrayRef) -> Result<Self> {
        let (offsets, columns) = match rows.data_type() {
            DataType::List(_) => {
                let list = rows.as_list::<i32>();
                (list.offsets(), vec![Arc::clone(list.values())])
            }
            DataType::Map(..) => {
                let map = rows.as_map();
                (map.offsets(), map.entries().columns().to_vec())
            }
            other => return exec_err!("elements of {other}"),
        };
        let nulls = rows.nulls().cloned();
        // What a null row hides is not looked at: a lambda might fail on it.
        let hidden = nulls.as_ref().is_some_and(|nulls| {
            (0..rows.len()).any(|row| nulls.is_null(row) && offsets[row] < offsets[row + 1])
        });
        if !hidden {
            let (first, last) = (offsets[0] as usize, offsets[rows.len()] as usize);
            let columns = columns.iter().map(|c| c.slice(first, last - first)).collect();
            let offsets = OffsetBuffer::from_lengths(offsets.lengths());
            return Ok(Self { offsets, columns, nulls });
        }
        let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(rows.len()));
        for row in 0..rows.len() {
            let seen = if rows.is_null(row) { 0..0 } else { offsets[row]..offsets[row + 1] };
            lengths.push(seen.len());
            places.extend(seen.map(|at| at as u32));
        }
        let columns = take_arrays(&columns, &UInt32Array::from(places), None)?;
        Ok(Self { offsets: OffsetBuffer::from_lengths(lengths), columns, nulls })
    }

    /// How many there are in all rows.
    pub(super) fn count(&self) -> usize {
        self.offsets[self.offsets.len() - 1] as usize
    }

    /// The elements of a row.
    pub(super) fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether a row is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The row of each.
    fn row_of_each(&self) -> UInt32Array {
        let rows = self.offsets.lengths().enumerate();
        rows.flat_map(|(row, length)| std::iter::repeat_n(row as u32, length)).collect()
    }

    /// The place of each in its row, from 0.
    pub(super) fn positions(&self) -> ArrayRef {
        let places = self.offsets.lengths().flat_map(|length| 0..length as i32);
        Arc::new(places.collect::<Int32Array>())
    }

    /// What a lambda gives for each.
    pub(super) fn evaluate(
        &self,
        lambda: &LambdaArgument,
        parameters: &[&dyn Fn() -> Result<ArrayRef>],
    ) -> Result<ArrayRef> {
        let spread = |outer: &[ArrayRef]| Ok(take_arrays(outer, &self.row_of_each(), None)?);
        lambda.evaluate(parameters, spread)?.into_array(self.count())
    }

    /// Those for which `keep` is true.
    pub(super) fn filtered(&self, keep: &BooleanArray) -> Result<Self> {
        let kept = |at: usize| keep.is_valid(at) && keep.value(at);
        let lengths = (0..self.rows()).map(|row| self.range(row).filter(|at| kept(*at)).count());
        let offsets = OffsetBuffer::from_lengths(lengths);
        let columns = self.columns.iter().map(|c| arrow::compute::filter(c, keep));
        let columns = columns.collect::<std::result::Result<_, _>>()?;
        Ok(Self { offsets, columns, nulls: self.nulls.clone() })
    }
}

/// A lambda's conditions; one that is `NULL` alone is none.
pub(super) fn conditions(given: &ArrayRef) -> BooleanArray {
    match given.as_boolean_opt() {
        Some(conditions) => conditions.clone(),
        None => BooleanArray::new_null(given.len()),
    }
}

/// The entries of `column` at some places.
pub(super) fn at(column: &ArrayRef, places: &UInt32Array) -> Result<ArrayRef> {
    Ok(take(column, places, None)?)
}

/// A lambda once for each of some rows.
pub(super) fn for_rows(
    lambda: &LambdaArgument,
    rows: &UInt32Array,
    parameters: &[&dyn Fn() -> Result<ArrayRef>],
) -> Result<ArrayRef> {
    let spread = |outer: &[ArrayRef]| Ok(take_arrays(outer, rows, None)?);
    lambda.evaluate(parameters, spread)?.into_array(rows.len())
}
