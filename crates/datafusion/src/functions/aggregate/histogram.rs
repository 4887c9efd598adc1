//! `histogram_numeric`: bins of unequal width around the values that came.

use super::collect::{elements, list_scalar};
use super::definition::{Arguments, Definition, udaf};
use crate::functions::cast::{CastMode, cast_array, is_string};
use crate::functions::error::{spark, unexpected_type, wrong_arguments};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StructArray};
use arrow::compute;
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int32Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use fluvial_core::ddl::array_of;
use std::sync::Arc;

pub(super) fn function() -> Arc<AggregateUDF> {
    udaf(Histogram)
}

const MAX_BINS: i32 = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Histogram;

impl Definition for Histogram {
    fn names(&self) -> &'static [&'static str] {
        &["histogram_numeric"]
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, _] = types else {
            return Err(wrong_arguments("histogram_numeric", "2", types.len()));
        };
        let value = match value {
            t if is_string(t) || t.is_null() => DataType::Float64,
            t if t.is_numeric() || matches!(t, DataType::Date32 | DataType::Timestamp(..)) => {
                t.clone()
            }
            other => return Err(unexpected_type("histogram_numeric", "numbers or times", other)),
        };
        Ok(vec![value, DataType::Int32])
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        let Some(value) = types.first() else { return internal_err!("no argument") };
        Ok(array_of(DataType::Struct(bin_fields(value))))
    }

    fn state(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![array_of(DataType::Float64), array_of(DataType::Float64)])
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let bins = arguments.constant("histogram_numeric", 1, &DataType::Int32)?;
        let bins = bins.as_primitive::<Int32Type>().iter().flatten().next().unwrap_or(0);
        if !(2..=MAX_BINS).contains(&bins) {
            return Err(spark(
                "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
                format!("`histogram_numeric` has 2 to {MAX_BINS} bins, not {bins}"),
            ));
        }
        let value = arguments.types[0].clone();
        Ok(Box::new(Bins { limit: bins as usize, value, bins: Vec::new() }))
    }
}

fn bin_fields(value: &DataType) -> Fields {
    vec![Field::new("x", value.clone(), true), Field::new("y", DataType::Float64, true)].into()
}

/// Numbers and times as doubles: times by their days or microseconds.
pub(super) fn doubles_of(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Date32 => {
            let days = compute::cast(values, &DataType::Int32)?;
            Ok(compute::cast(&days, &DataType::Float64)?)
        }
        DataType::Timestamp(..) => {
            let micros = compute::cast(values, &DataType::Int64)?;
            Ok(compute::cast(&micros, &DataType::Float64)?)
        }
        _ => cast_array(values, &DataType::Float64, CastMode::Ansi, Zone::UTC),
    }
}

/// Bins by their centre.
#[derive(Debug)]
struct Bins {
    limit: usize,
    value: DataType,
    bins: Vec<(f64, f64)>,
}

impl Bins {
    fn add(&mut self, centre: f64, height: f64) {
        match self.bins.binary_search_by(|(x, _)| x.total_cmp(&centre)) {
            Ok(at) => self.bins[at].1 += height,
            Err(at) => {
                self.bins.insert(at, (centre, height));
                if self.bins.len() > self.limit {
                    self.join_nearest();
                }
            }
        }
    }

    /// Makes one bin of the two that are nearest to each other.
    fn join_nearest(&mut self) {
        let distance = |i: &usize| self.bins[i + 1].0 - self.bins[*i].0;
        let nearest = (0..self.bins.len() - 1).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        if let Some(i) = nearest {
            let ((x1, y1), (x2, y2)) = (self.bins[i], self.bins[i + 1]);
            self.bins[i] = ((x1 * y1 + x2 * y2) / (y1 + y2), y1 + y2);
            self.bins.remove(i + 1);
        }
    }

    fn columns(&self) -> (ArrayRef, ArrayRef) {
        let (x, y): (Vec<f64>, Vec<f64>) = self.bins.iter().copied().unzip();
        (Arc::new(Float64Array::from(x)), Arc::new(Float64Array::from(y)))
    }
}

impl Accumulator for Bins {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("no argument") };
        let doubles = doubles_of(values)?;
        for value in doubles.as_primitive::<Float64Type>().iter().flatten() {
            self.add(value, 1.0);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [x, y] = states else { return internal_err!("two states") };
        let (x, y) = (elements(x)?, elements(y)?);
        let (x, y) = (x.as_primitive::<Float64Type>(), y.as_primitive::<Float64Type>());
        if x.len() != y.len() {
            return internal_err!("bins have a centre and a height");
        }
        for (centre, height) in x.values().iter().zip(y.values()) {
            self.add(*centre, *height);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let fields = bin_fields(&self.value);
        if self.bins.is_empty() {
            return ScalarValue::try_from(&array_of(DataType::Struct(fields)));
        }
        let (x, y) = self.columns();
        let x = match &self.value {
            DataType::Date32 => compute::cast(&compute::cast(&x, &DataType::Int32)?, &self.value)?,
            DataType::Timestamp(..) => {
                compute::cast(&compute::cast(&x, &DataType::Int64)?, &self.value)?
            }
            value => cast_array(&x, value, CastMode::Ansi, Zone::UTC)?,
        };
        list_scalar(Arc::new(StructArray::try_new(fields, vec![x, y], None)?))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (x, y) = self.columns();
        Ok(vec![list_scalar(x)?, list_scalar(y)?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bins.capacity() * 16
    }
}
