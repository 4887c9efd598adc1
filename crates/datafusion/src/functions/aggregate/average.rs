//! `avg` and `try_avg`.

use super::definition::{Arguments, Definition, OneGroup, udaf};
use super::groups::{StateBuilder, each_valid, emit, nullable, own_groups};
use super::sum::Summable;
use crate::functions::cast::{CastMode, fit_decimal, is_string};
use crate::functions::error::{overflow, unexpected_type, wrong_arguments};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, i256};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};
use std::fmt::Debug;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [CastMode::Ansi, CastMode::Try].into_iter().map(|mode| udaf(Average { mode })).collect()
}

/// The mean of the values that are not null; null if there are none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Average {
    mode: CastMode,
}

/// The type of the sum below the mean.
fn sum_type(argument: &DataType) -> DataType {
    match argument {
        DataType::Decimal128(p, s) => DataType::Decimal128((*p + 10).min(38), *s),
        other => other.clone(),
    }
}

impl Definition for Average {
    fn names(&self) -> &'static [&'static str] {
        match self.mode {
            CastMode::Ansi => &["avg", "mean"],
            CastMode::Try => &["try_avg"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [t] = types else { return Err(wrong_arguments("avg", "1", types.len())) };
        Ok(vec![match t {
            DataType::Decimal128(..) => t.clone(),
            t if t.is_numeric() || is_string(t) || t.is_null() => DataType::Float64,
            other => return Err(unexpected_type("avg", "numbers", other)),
        }])
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Decimal128(p, s)] => {
                Ok(DataType::Decimal128((*p + 4).min(38), (*s + 4).min(38)))
            }
            [t] => Ok(t.clone()),
            _ => internal_err!("avg has one argument"),
        }
    }

    fn state(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [t] = types else { return internal_err!("avg has one argument") };
        Ok(vec![sum_type(t), DataType::Int64])
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match arguments.result {
            DataType::Decimal128(..) => {
                Box::new(OneGroup(Averages::<Decimal128Type>::new(self.mode, arguments)?))
            }
            _ => Box::new(OneGroup(Averages::<Float64Type>::new(self.mode, arguments)?)),
        })
    }

    fn groups(&self, arguments: &Arguments<'_>) -> Result<Option<Box<dyn GroupsAccumulator>>> {
        Ok(Some(match arguments.result {
            DataType::Decimal128(..) => {
                Box::new(Averages::<Decimal128Type>::new(self.mode, arguments)?)
            }
            _ => Box::new(Averages::<Float64Type>::new(self.mode, arguments)?),
        }))
    }
}

/// Types that have a mean.
trait Mean: Summable {
    /// `sum / count`, from the scale of the sum to that of the result; `None` if out of range.
    fn mean(sum: Self::Native, count: i64, from: &DataType, to: &DataType) -> Option<Self::Native>;
}

impl Mean for Float64Type {
    fn mean(sum: f64, count: i64, _: &DataType, _: &DataType) -> Option<f64> {
        Some(sum / count as f64)
    }
}

impl Mean for Decimal128Type {
    fn mean(sum: i128, count: i64, from: &DataType, to: &DataType) -> Option<i128> {
        let (DataType::Decimal128(_, from), DataType::Decimal128(precision, to)) = (from, to)
        else {
            return None;
        };
        let up = u32::try_from(i32::from(*to) - i32::from(*from)).ok()?;
        let sum = i256::from_i128(sum).checked_mul(i256::from_i128(10).checked_pow(up)?)?;
        let count = i256::from_i128(count.into());
        let (mean, rest) = (sum.wrapping_div(count), sum.wrapping_rem(count).wrapping_abs());
        let up = rest >= count.wrapping_sub(rest);
        let step = if sum < i256::ZERO { i256::MINUS_ONE } else { i256::ONE };
        let mean = if up { mean.wrapping_add(step) } else { mean };
        fit_decimal(mean.to_i128()?, *precision)
    }
}

/// Sums and counts of many groups. A negative count marks a sum that was lost.
#[derive(Debug)]
struct Averages<T: Mean> {
    mode: CastMode,
    sum_type: DataType,
    result: DataType,
    sums: Vec<T::Native>,
    counts: Vec<i64>,
}

impl<T: Mean> Averages<T> {
    fn new(mode: CastMode, arguments: &Arguments<'_>) -> Result<Self> {
        let [argument, ..] = arguments.types.as_slice() else {
            return internal_err!("avg has one argument");
        };
        let (sum_type, result) = (sum_type(argument), arguments.result.clone());
        Ok(Self { mode, sum_type, result, sums: Vec::new(), counts: Vec::new() })
    }

    fn precision(&self) -> u8 {
        match self.sum_type {
            DataType::Decimal128(precision, _) => precision,
            _ => 0,
        }
    }

    fn add(&mut self, group: usize, value: T::Native, count: i64) -> Result<()> {
        if self.counts[group] < 0 {
            return Ok(());
        }
        match T::plus(self.sums[group], value, self.precision()) {
            Some(sum) => {
                self.sums[group] = sum;
                self.counts[group] += count;
            }
            None if self.mode == CastMode::Try => self.counts[group] = -1,
            None => return Err(overflow("the sum below an average")),
        }
        Ok(())
    }

    fn results(&self, sums: &[T::Native], counts: &[i64]) -> Result<ArrayRef> {
        let mut builder = PrimitiveArray::<T>::builder(sums.len());
        for (sum, count) in sums.iter().zip(counts) {
            if *count <= 0 {
                builder.append_null();
                continue;
            }
            match T::mean(*sum, *count, &self.sum_type, &self.result) {
                Some(mean) => builder.append_value(mean),
                None if self.mode == CastMode::Try => builder.append_null(),
                None => return Err(overflow("the average")),
            }
        }
        Ok(Arc::new(builder.finish().with_data_type(self.result.clone())))
    }

    fn states_of(&self, sums: Vec<T::Native>, counts: Vec<i64>) -> Vec<ArrayRef> {
        let seen = counts.iter().map(|count| *count > 0).collect();
        let sums = nullable::<T>(sums, seen).with_data_type(self.sum_type.clone());
        vec![Arc::new(sums), Arc::new(Int64Array::from(counts))]
    }
}

impl<T: Mean> StateBuilder for Averages<T> {
    fn grow(&mut self, groups: usize) {
        if groups > self.sums.len() {
            self.sums.resize(groups, T::default_value());
            self.counts.resize(groups, 0);
        }
    }

    fn peek(&self) -> Result<ArrayRef> {
        self.results(&self.sums, &self.counts)
    }

    fn peek_state(&self) -> Result<Vec<ArrayRef>> {
        Ok(self.states_of(self.sums.clone(), self.counts.clone()))
    }
}

impl<T: Mean + Send> GroupsAccumulator for Averages<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.grow(count);
        let Some(values) = values.first() else { return internal_err!("mean of nothing") };
        each_valid(values.as_primitive::<T>(), groups, filter, |g, v| self.add(g, v, 1))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.grow(count);
        let [sums, counts] = values else { return internal_err!("a mean has two states") };
        let (sums, counts) = (sums.as_primitive::<T>(), counts.as_primitive::<Int64Type>());
        for (row, group) in groups.iter().enumerate() {
            if counts.is_null(row) {
                continue;
            }
            match counts.value(row) {
                0 => {}
                count if count < 0 || sums.is_null(row) => self.counts[*group] = -1,
                count => self.add(*group, sums.value(row), count)?,
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = (emit(emit_to, &mut self.sums), emit(emit_to, &mut self.counts));
        self.results(&sums, &counts)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = (emit(emit_to, &mut self.sums), emit(emit_to, &mut self.counts));
        Ok(self.states_of(sums, counts))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |v| v.len());
        let mut one_each = Self {
            mode: self.mode,
            sum_type: self.sum_type.clone(),
            result: self.result.clone(),
            sums: Vec::new(),
            counts: Vec::new(),
        };
        one_each.update_batch(values, &own_groups(rows), filter, rows)?;
        one_each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<T::Native>() + self.counts.capacity() * 8
    }
}
