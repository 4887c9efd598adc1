//! Accumulators whose state is a handful of doubles per group.

use super::groups::{StateBuilder, emit, own_groups, passes};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use std::fmt::Debug;
use std::sync::Arc;

/// The state of one group.
pub(super) trait Fixed: Debug + Copy + Default + Send + Sync + 'static {
    /// How many arguments a row has: all must be there.
    const ARGUMENTS: usize;
    /// How many doubles the state has.
    const WIDTH: usize;
    /// Takes a row in; `x` has as many values as there are arguments.
    fn update(&mut self, x: &[f64]);
    /// Takes another group's state in.
    fn merge(&mut self, other: Self);
    /// The `i`th double of the state.
    fn get(&self, i: usize) -> f64;
    /// Sets the `i`th double of the state.
    fn set(&mut self, i: usize, value: f64);
}

/// States of many groups and what is made of them in the end.
#[derive(Debug)]
pub(super) struct FixedGroups<S, F> {
    states: Vec<S>,
    finish: F,
}

impl<S: Fixed, F> FixedGroups<S, F> {
    pub(super) fn new(finish: F) -> Self {
        Self { states: Vec::new(), finish }
    }
}

/// The result of a state.
pub(super) trait Finish<S>: Debug + Clone + Send + Sync + 'static {
    /// Results of a column of states.
    fn finish(&self, states: &[S]) -> Result<ArrayRef>;
}

/// The types of the state's columns.
pub(super) fn state_types<S: Fixed>() -> Vec<DataType> {
    vec![DataType::Float64; S::WIDTH]
}

fn columns<S: Fixed>(states: &[S]) -> Vec<ArrayRef> {
    let column = |i: usize| -> ArrayRef {
        Arc::new(states.iter().map(|s| Some(s.get(i))).collect::<Float64Array>())
    };
    (0..S::WIDTH).map(column).collect()
}

impl<S: Fixed, F: Finish<S>> StateBuilder for FixedGroups<S, F> {
    fn grow(&mut self, groups: usize) {
        if groups > self.states.len() {
            self.states.resize(groups, S::default());
        }
    }

    fn peek(&self) -> Result<ArrayRef> {
        self.finish.finish(&self.states)
    }

    fn peek_state(&self) -> Result<Vec<ArrayRef>> {
        Ok(columns(&self.states))
    }
}

impl<S: Fixed, F: Finish<S>> GroupsAccumulator for FixedGroups<S, F> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.grow(count);
        if values.len() != S::ARGUMENTS {
            return internal_err!("{} arguments, not {}", S::ARGUMENTS, values.len());
        }
        let inputs: Vec<_> = values.iter().map(|v| v.as_primitive::<Float64Type>()).collect();
        let mut row_values = vec![0.0; S::ARGUMENTS];
        for (row, group) in groups.iter().enumerate() {
            if !passes(filter, row) || inputs.iter().any(|input| input.is_null(row)) {
                continue;
            }
            for (value, input) in row_values.iter_mut().zip(&inputs) {
                *value = input.value(row);
            }
            self.states[*group].update(&row_values);
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.grow(count);
        if values.len() != S::WIDTH {
            return internal_err!("{} columns of state, not {}", S::WIDTH, values.len());
        }
        let inputs: Vec<_> = values.iter().map(|v| v.as_primitive::<Float64Type>()).collect();
        for (row, group) in groups.iter().enumerate() {
            if inputs.iter().any(|input| input.is_null(row)) {
                continue;
            }
            let mut other = S::default();
            for (i, input) in inputs.iter().enumerate() {
                other.set(i, input.value(row));
            }
            self.states[*group].merge(other);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.finish.finish(&emit(emit_to, &mut self.states))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(columns(&emit(emit_to, &mut self.states)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |v| v.len());
        let mut one_each = Self::new(self.finish.clone());
        one_each.update_batch(values, &own_groups(rows), filter, rows)?;
        one_each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<S>()
    }
}
