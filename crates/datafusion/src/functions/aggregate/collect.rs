//! `collect_list` and `collect_set`: arrays of the values that are not null, in the order in which
//! they arrive; empty if there are none.

use super::definition::{Arguments, Definition, udaf};
use super::frequency::Distinct;
use crate::functions::error::wrong_arguments;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use fluvial_core::ddl::array_of;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [Collect::List, Collect::Set].into_iter().map(udaf).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Collect {
    List,
    Set,
}

impl Definition for Collect {
    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::List => &["collect_list", "array_agg"],
            Self::Set => &["collect_set"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_] => Ok(types.to_vec()),
            _ => Err(wrong_arguments(self.names()[0], "1", types.len())),
        }
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [t] => Ok(array_of(t.clone())),
            _ => internal_err!("one argument"),
        }
    }

    fn nullable(&self) -> bool {
        false
    }

    fn state(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![self.result(types)?])
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let [item] = arguments.types.as_slice() else { return internal_err!("one argument") };
        Ok(match self {
            Self::List => Box::new(List { item: item.clone(), parts: Vec::new() }),
            Self::Set => Box::new(Set(Distinct::new(item)?)),
        })
    }
}

/// One array as a scalar.
pub(super) fn list_scalar(values: ArrayRef) -> Result<ScalarValue> {
    let item = Arc::new(Field::new("item", values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    Ok(ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, values, None)?)))
}

/// The elements of all arrays of a column, in order.
pub(super) fn elements(column: &ArrayRef) -> Result<ArrayRef> {
    let lists = column.as_list::<i32>();
    if lists.null_count() == 0 {
        let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
        return Ok(lists.values().slice(first as usize, (last - first) as usize));
    }
    let parts: Vec<ArrayRef> =
        (0..lists.len()).filter(|row| lists.is_valid(*row)).map(|row| lists.value(row)).collect();
    concat(&parts, &lists.value_type())
}

fn concat(parts: &[ArrayRef], item: &DataType) -> Result<ArrayRef> {
    if parts.is_empty() {
        return Ok(new_empty_array(item));
    }
    let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
    Ok(compute::concat(&parts)?)
}

/// The values without the nulls, in memory of their own.
fn present(values: &ArrayRef) -> Result<ArrayRef> {
    let keep = compute::is_not_null(values)?;
    Ok(compute::filter(values, &keep)?)
}

#[derive(Debug)]
struct List {
    item: DataType,
    parts: Vec<ArrayRef>,
}

impl Accumulator for List {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("one argument") };
        let values = present(values)?;
        if !values.is_empty() {
            self.parts.push(values);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first() else { return internal_err!("one state") };
        let values = elements(lists)?;
        if !values.is_empty() {
            self.parts.push(values);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = concat(&self.parts, &self.item)?;
        self.parts = vec![Arc::clone(&values)];
        list_scalar(values)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.get_array_memory_size()).sum();
        size_of::<Self>() + parts
    }
}

#[derive(Debug)]
struct Set(Distinct);

impl Accumulator for Set {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("one argument") };
        self.0.add(values, |_| 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first() else { return internal_err!("one state") };
        self.0.add(&elements(lists)?, |_| 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        list_scalar(self.0.values()?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.0.size()
    }
}
