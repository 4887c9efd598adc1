//! Help for accumulators of many groups.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;

/// Reading a state without giving it away, as an accumulator of one group must.
pub(super) trait StateBuilder {
    /// Makes room for so many groups.
    fn grow(&mut self, groups: usize);
    /// The results of all groups.
    fn peek(&self) -> Result<ArrayRef>;
    /// The states of all groups.
    fn peek_state(&self) -> Result<Vec<ArrayRef>>;
}

/// Calls `f` for every row that is not null and that the filter lets through.
pub(super) fn each_valid<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    groups: &[usize],
    filter: Option<&BooleanArray>,
    mut f: impl FnMut(usize, T::Native) -> Result<()>,
) -> Result<()> {
    if filter.is_none() && values.null_count() == 0 {
        for (group, value) in groups.iter().zip(values.values()) {
            f(*group, *value)?;
        }
        return Ok(());
    }
    for (row, group) in groups.iter().enumerate() {
        if values.is_valid(row) && passes(filter, row) {
            f(*group, values.value(row))?;
        }
    }
    Ok(())
}

/// Whether a filter lets a row through.
pub(super) fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

/// Values of groups, null for the groups that have none.
pub(super) fn nullable<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    seen: Vec<bool>,
) -> PrimitiveArray<T> {
    PrimitiveArray::new(values.into(), Some(NullBuffer::from(seen)))
}

/// Takes what is to be emitted out of a vector of groups.
pub(super) fn emit<T>(emit_to: EmitTo, values: &mut Vec<T>) -> Vec<T> {
    emit_to.take_needed(values)
}

/// The groups 0, 1, 2, ... of as many rows: every row a group of its own.
pub(super) fn own_groups(rows: usize) -> Vec<usize> {
    (0..rows).collect()
}
