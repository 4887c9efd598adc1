//! `min` and `max`. DataFusion's, but for floats: NaN is the greatest number; and for rows and
//! arrays: a null in them is the least value.

use super::definition::OneGroup;
use super::groups::{StateBuilder, each_valid, emit, nullable, own_groups};
use super::sliding::Sliding;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, UInt64Array, make_comparator,
};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature,
};
use datafusion::scalar::ScalarValue;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [(Extreme::Min, min_udaf()), (Extreme::Max, max_udaf())]
        .into_iter()
        .map(|(extreme, inner)| Arc::new(AggregateUDF::from(MinMax { extreme, inner })))
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Extreme {
    Min,
    Max,
}

impl Extreme {
    /// Whether a value that compares like this to the best so far is better.
    fn prefers(self, order: Ordering) -> bool {
        match self {
            Self::Min => order.is_lt(),
            Self::Max => order.is_gt(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MinMax {
    extreme: Extreme,
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for MinMax {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match args.return_field.data_type() {
            DataType::Float32 => Box::new(OneGroup(Floats::<Float32Type>::new(self.extreme))),
            DataType::Float64 => Box::new(OneGroup(Floats::<Float64Type>::new(self.extreme))),
            nested if is_nested(nested) => Box::new(Nested::new(self.extreme, nested)),
            _ => self.inner.accumulator(args)?,
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let (extreme, result) = (self.extreme, args.return_field.data_type().clone());
        let of: fn(Extreme, &DataType) -> Box<dyn Accumulator> = match &result {
            DataType::Float32 => {
                |extreme, _| Box::new(OneGroup(Floats::<Float32Type>::new(extreme)))
            }
            DataType::Float64 => {
                |extreme, _| Box::new(OneGroup(Floats::<Float64Type>::new(extreme)))
            }
            nested if is_nested(nested) => |extreme, nested| Box::new(Nested::new(extreme, nested)),
            _ => return self.inner.create_sliding_accumulator(args),
        };
        Ok(Box::new(Sliding::new(Box::new(move || Ok(of(extreme, &result))))))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match args.return_field.data_type() {
            DataType::Float32 | DataType::Float64 => true,
            nested if is_nested(nested) => false,
            _ => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match args.return_field.data_type() {
            DataType::Float32 => Box::new(Floats::<Float32Type>::new(self.extreme)),
            DataType::Float64 => Box::new(Floats::<Float64Type>::new(self.extreme)),
            _ => self.inner.create_groups_accumulator(args)?,
        })
    }
}

fn is_nested(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Struct(_)
            | DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
    )
}

/// The extreme of rows or arrays.
#[derive(Debug)]
struct Nested {
    extreme: Extreme,
    /// One value.
    best: Option<ArrayRef>,
    data_type: DataType,
}

impl Nested {
    fn new(extreme: Extreme, data_type: &DataType) -> Self {
        Self { extreme, best: None, data_type: data_type.clone() }
    }
}

impl Accumulator for Nested {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("extreme of nothing") };
        let options = SortOptions { descending: false, nulls_first: true };
        let compare = make_comparator(values, values, options)?;
        let rows = (0..values.len()).filter(|row| values.is_valid(*row));
        let better = |a, b| if self.extreme.prefers(compare(b, a)) { b } else { a };
        let Some(found) = rows.reduce(better) else { return Ok(()) };
        let found = take(values, &UInt64Array::from(vec![found as u64]), None)?;
        let replaces = match &self.best {
            Some(best) => self.extreme.prefers(make_comparator(&found, best, options)?(0, 0)),
            None => true,
        };
        if replaces {
            self.best = Some(found);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &self.best {
            Some(best) => ScalarValue::try_from_array(best, 0),
            None => ScalarValue::try_from(&self.data_type),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.best.as_ref().map_or(0, |best| best.get_array_memory_size())
    }
}

/// Floats in Spark's order: the two zeros are equal, NaN is above infinity and equal to itself.
fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

#[derive(Debug)]
struct Floats<T: ArrowPrimitiveType> {
    extreme: Extreme,
    values: Vec<T::Native>,
    seen: Vec<bool>,
}

impl<T: ArrowPrimitiveType> Floats<T>
where
    T::Native: Into<f64>,
{
    fn new(extreme: Extreme) -> Self {
        Self { extreme, values: Vec::new(), seen: Vec::new() }
    }

    fn take(&mut self, group: usize, value: T::Native) {
        let better = match (self.seen[group], self.extreme) {
            (false, _) => true,
            (true, Extreme::Min) => order(value.into(), self.values[group].into()).is_lt(),
            (true, Extreme::Max) => order(value.into(), self.values[group].into()).is_gt(),
        };
        if better {
            self.values[group] = value;
            self.seen[group] = true;
        }
    }
}

impl<T: ArrowPrimitiveType> StateBuilder for Floats<T> {
    fn grow(&mut self, groups: usize) {
        if groups > self.values.len() {
            self.values.resize(groups, T::default_value());
            self.seen.resize(groups, false);
        }
    }

    fn peek(&self) -> Result<ArrayRef> {
        Ok(Arc::new(nullable::<T>(self.values.clone(), self.seen.clone())))
    }

    fn peek_state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.peek()?])
    }
}

impl<T: ArrowPrimitiveType + Send> GroupsAccumulator for Floats<T>
where
    T::Native: Into<f64>,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.grow(count);
        let Some(values) = values.first() else { return internal_err!("extreme of nothing") };
        each_valid(values.as_primitive::<T>(), groups, filter, |group, value| {
            self.take(group, value);
            Ok(())
        })
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(values, groups, None, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (values, seen) = (emit(emit_to, &mut self.values), emit(emit_to, &mut self.seen));
        Ok(Arc::new(nullable::<T>(values, seen)))
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
        let mut one_each = Self::new(self.extreme);
        one_each.update_batch(values, &own_groups(rows), filter, rows)?;
        one_each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.seen.capacity()
    }
}
