//! `sum` and `try_sum`.

use super::definition::{Arguments, Definition, OneGroup, udaf};
use super::groups::{StateBuilder, each_valid, emit, nullable, own_groups};
use crate::functions::cast::{CastMode, fit_decimal, is_string};
use crate::functions::error::{overflow, unexpected_type, wrong_arguments};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, DurationMicrosecondType, Float64Type, Int64Type,
    TimeUnit,
};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};
use std::fmt::Debug;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [CastMode::Ansi, CastMode::Try].into_iter().map(|mode| udaf(Sum { mode })).collect()
}

/// The sum of the values that are not null; null if there are none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sum {
    mode: CastMode,
}

impl Definition for Sum {
    fn names(&self) -> &'static [&'static str] {
        match self.mode {
            CastMode::Ansi => &["sum"],
            CastMode::Try => &["try_sum"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [t] = types else { return Err(wrong_arguments("sum", "1", types.len())) };
        Ok(vec![match t {
            t if t.is_integer() => DataType::Int64,
            DataType::Float32 | DataType::Float64 | DataType::Null => DataType::Float64,
            t if is_string(t) => DataType::Float64,
            DataType::Decimal128(..) => t.clone(),
            DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
            other => return Err(unexpected_type("sum", "numbers or intervals", other)),
        }])
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Decimal128(p, s)] => Ok(DataType::Decimal128((*p + 10).min(38), *s)),
            [t] => Ok(t.clone()),
            _ => internal_err!("sum has one argument"),
        }
    }

    fn state(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let sum = self.result(types)?;
        Ok(match self.mode {
            CastMode::Ansi => vec![sum],
            CastMode::Try => vec![sum, DataType::Boolean],
        })
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let (mode, result) = (self.mode, arguments.result);
        Ok(match result {
            DataType::Int64 => Box::new(OneGroup(Sums::<Int64Type>::new(mode, result))),
            DataType::Float64 => Box::new(OneGroup(Sums::<Float64Type>::new(mode, result))),
            DataType::Decimal128(..) => {
                Box::new(OneGroup(Sums::<Decimal128Type>::new(mode, result)))
            }
            _ => Box::new(OneGroup(Sums::<DurationMicrosecondType>::new(mode, result))),
        })
    }

    fn groups(&self, arguments: &Arguments<'_>) -> Result<Option<Box<dyn GroupsAccumulator>>> {
        let (mode, result) = (self.mode, arguments.result);
        Ok(Some(match result {
            DataType::Int64 => Box::new(Sums::<Int64Type>::new(mode, result)),
            DataType::Float64 => Box::new(Sums::<Float64Type>::new(mode, result)),
            DataType::Decimal128(..) => Box::new(Sums::<Decimal128Type>::new(mode, result)),
            _ => Box::new(Sums::<DurationMicrosecondType>::new(mode, result)),
        }))
    }
}

/// Types that can be summed: `None` on overflow.
pub(super) trait Summable: ArrowPrimitiveType {
    fn plus(a: Self::Native, b: Self::Native, precision: u8) -> Option<Self::Native>;
}

impl Summable for Int64Type {
    fn plus(a: i64, b: i64, _: u8) -> Option<i64> {
        a.checked_add(b)
    }
}

impl Summable for DurationMicrosecondType {
    fn plus(a: i64, b: i64, _: u8) -> Option<i64> {
        a.checked_add(b)
    }
}

impl Summable for Float64Type {
    fn plus(a: f64, b: f64, _: u8) -> Option<f64> {
        Some(a + b)
    }
}

impl Summable for Decimal128Type {
    fn plus(a: i128, b: i128, precision: u8) -> Option<i128> {
        fit_decimal(a.checked_add(b)?, precision)
    }
}

/// Sums of many groups.
#[derive(Debug)]
struct Sums<T: Summable> {
    mode: CastMode,
    result: DataType,
    precision: u8,
    sums: Vec<T::Native>,
    /// Whether a group has had a value.
    seen: Vec<bool>,
    /// Whether the sum of a group is lost. Only when trying: else the query fails.
    lost: Vec<bool>,
}

impl<T: Summable> Sums<T> {
    fn new(mode: CastMode, result: &DataType) -> Self {
        let precision = match result {
            DataType::Decimal128(precision, _) => *precision,
            _ => 0,
        };
        let (sums, seen, lost) = (Vec::new(), Vec::new(), Vec::new());
        Self { mode, result: result.clone(), precision, sums, seen, lost }
    }

    fn add(&mut self, group: usize, value: T::Native) -> Result<()> {
        self.seen[group] = true;
        match T::plus(self.sums[group], value, self.precision) {
            Some(sum) => self.sums[group] = sum,
            None if self.mode == CastMode::Try => self.lost[group] = true,
            None => return Err(overflow("the sum")),
        }
        Ok(())
    }

    fn sums_of(&self, sums: Vec<T::Native>, seen: &[bool], lost: &[bool]) -> ArrayRef {
        let valid = seen.iter().zip(lost).map(|(seen, lost)| *seen && !lost).collect();
        Arc::new(nullable::<T>(sums, valid).with_data_type(self.result.clone()))
    }

    fn states_of(&self, sums: Vec<T::Native>, seen: &[bool], lost: Vec<bool>) -> Vec<ArrayRef> {
        let mut state = vec![self.sums_of(sums, seen, &lost)];
        if self.mode == CastMode::Try {
            state.push(Arc::new(BooleanArray::from(lost)));
        }
        state
    }
}

impl<T: Summable> StateBuilder for Sums<T> {
    fn grow(&mut self, groups: usize) {
        if groups > self.sums.len() {
            self.sums.resize(groups, T::default_value());
            self.seen.resize(groups, false);
            self.lost.resize(groups, false);
        }
    }

    fn peek(&self) -> Result<ArrayRef> {
        Ok(self.sums_of(self.sums.clone(), &self.seen, &self.lost))
    }

    fn peek_state(&self) -> Result<Vec<ArrayRef>> {
        Ok(self.states_of(self.sums.clone(), &self.seen, self.lost.clone()))
    }
}

impl<T: Summable + Send> GroupsAccumulator for Sums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.grow(count);
        let Some(values) = values.first() else { return internal_err!("sum of nothing") };
        each_valid(values.as_primitive::<T>(), groups, filter, |g, v| self.add(g, v))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.grow(count);
        let Some(sums) = values.first() else { return internal_err!("sum of nothing") };
        each_valid(sums.as_primitive::<T>(), groups, None, |g, v| self.add(g, v))?;
        if let Some(lost) = values.get(1) {
            let lost = lost.as_boolean();
            for (row, group) in groups.iter().enumerate() {
                if lost.is_valid(row) && lost.value(row) {
                    self.lost[*group] = true;
                    self.seen[*group] = true;
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit(emit_to, &mut self.sums);
        let (seen, lost) = (emit(emit_to, &mut self.seen), emit(emit_to, &mut self.lost));
        Ok(self.sums_of(sums, &seen, &lost))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit(emit_to, &mut self.sums);
        let (seen, lost) = (emit(emit_to, &mut self.seen), emit(emit_to, &mut self.lost));
        Ok(self.states_of(sums, &seen, lost))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |v| v.len());
        let mut one_each = Self::new(self.mode, &self.result);
        one_each.update_batch(values, &own_groups(rows), filter, rows)?;
        one_each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<T::Native>() + self.seen.capacity() + self.lost.capacity()
    }
}
