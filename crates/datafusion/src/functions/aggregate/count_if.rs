//! `count_if`.

use super::definition::{Arguments, Definition, OneGroup, udaf};
use super::groups::{StateBuilder, each_valid, emit, own_groups, passes};
use crate::functions::error::{unexpected_type, wrong_arguments};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};
use std::sync::Arc;

pub(super) fn function() -> Arc<AggregateUDF> {
    udaf(CountIf)
}

/// How many values are true.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CountIf;

impl Definition for CountIf {
    fn names(&self) -> &'static [&'static str] {
        &["count_if"]
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Boolean | DataType::Null] => Ok(vec![DataType::Boolean]),
            [other] => Err(unexpected_type("count_if", "a condition", other)),
            _ => Err(wrong_arguments("count_if", "1", types.len())),
        }
    }

    fn result(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn nullable(&self) -> bool {
        false
    }

    fn state(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Int64])
    }

    fn accumulator(&self, _: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup(Counts::default())))
    }

    fn groups(&self, _: &Arguments<'_>) -> Result<Option<Box<dyn GroupsAccumulator>>> {
        Ok(Some(Box::new(Counts::default())))
    }
}

#[derive(Debug, Default)]
struct Counts {
    counts: Vec<i64>,
}

impl StateBuilder for Counts {
    fn grow(&mut self, groups: usize) {
        if groups > self.counts.len() {
            self.counts.resize(groups, 0);
        }
    }

    fn peek(&self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(self.counts.clone())))
    }

    fn peek_state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.peek()?])
    }
}

impl GroupsAccumulator for Counts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.grow(count);
        let Some(values) = values.first() else { return internal_err!("count of nothing") };
        let values = values.as_boolean();
        for (row, group) in groups.iter().enumerate() {
            let counts = values.is_valid(row) && values.value(row) && passes(filter, row);
            self.counts[*group] += i64::from(counts);
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.grow(count);
        let Some(values) = values.first() else { return internal_err!("count of nothing") };
        each_valid(values.as_primitive::<Int64Type>(), groups, None, |group, n| {
            self.counts[group] += n;
            Ok(())
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(emit(emit_to, &mut self.counts))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |v| v.len());
        let mut one_each = Self::default();
        one_each.update_batch(values, &own_groups(rows), filter, rows)?;
        one_each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.counts.capacity() * 8
    }
}
