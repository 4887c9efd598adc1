//! `percentile`, `median` and `percentile_disc`: exact, from all values.

use super::collect::list_scalar;
use super::definition::{Arguments, Definition, udaf};
use super::frequency::{Distinct, as_doubles};
use crate::functions::cast::is_string;
use crate::functions::error::{spark, unexpected_type, wrong_arguments};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use fluvial_core::ddl::array_of;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [Percentile::Interpolated, Percentile::Median, Percentile::Continuous, Percentile::Discrete]
        .into_iter()
        .map(udaf)
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Percentile {
    /// `percentile(x, p[, frequency])`
    Interpolated,
    Median,
    /// `percentile_cont(p) WITHIN GROUP (ORDER BY x)`, with `x`, `p` and whether it descends.
    Continuous,
    /// `percentile_disc(p) WITHIN GROUP (ORDER BY x)`, with the same.
    Discrete,
}

/// One percentage or an array of them.
#[derive(Debug, Clone)]
pub(super) enum Percentages {
    One(f64),
    Many(Vec<f64>),
}

impl Percentages {
    /// The constant argument `i`.
    ///
    /// # Errors
    ///
    /// `DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE` if one is not within 0 and 1.
    pub(super) fn of(function: &str, arguments: &Arguments<'_>, i: usize) -> Result<Self> {
        let all = |values: &ArrayRef| -> Result<Vec<f64>> {
            let values = values.as_primitive::<Float64Type>();
            let all: Vec<f64> = values.iter().flatten().collect();
            match all.iter().find(|p| !(0.0..=1.0).contains(*p)) {
                None if all.len() == values.len() => Ok(all),
                wrong => Err(spark(
                    "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
                    format!(
                        "the percentages of `{function}` lie between 0 and 1, not {}",
                        wrong.map_or("null".to_owned(), f64::to_string)
                    ),
                )),
            }
        };
        if matches!(arguments.types[i], DataType::List(_)) {
            let list = arguments.constant(function, i, &array_of(DataType::Float64))?;
            return Ok(Self::Many(all(&list.as_list::<i32>().value(0))?));
        }
        let one = arguments.constant(function, i, &DataType::Float64)?;
        match all(&one)?.as_slice() {
            [p] => Ok(Self::One(*p)),
            _ => internal_err!("one percentage"),
        }
    }
}

impl Definition for Percentile {
    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::Interpolated => &["percentile"],
            Self::Median => &["median"],
            Self::Continuous => &["percentile_cont"],
            Self::Discrete => &["percentile_disc"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.names()[0];
        let (Some(value), true) = (types.first(), self.takes(types.len())) else {
            let expected = match self {
                Self::Median => "1",
                Self::Interpolated => "2 or 3",
                Self::Continuous | Self::Discrete => {
                    return Err(spark(
                        "INVALID_WITHIN_GROUP_EXPRESSION.WITHIN_GROUP_MISSING",
                        format!("`{name}(p)` needs WITHIN GROUP (ORDER BY ..)"),
                    ));
                }
            };
            return Err(wrong_arguments(name, expected, types.len()));
        };
        if !(value.is_numeric() || is_string(value) || value.is_null()) {
            return Err(unexpected_type(name, "numbers", value));
        }
        let mut coerced = vec![DataType::Float64];
        if let Some(percentages) = types.get(1) {
            coerced.push(percentage_type(percentages));
        }
        if types.len() == 3 {
            coerced.push(match self {
                Self::Continuous | Self::Discrete => DataType::Boolean,
                _ => DataType::Int64,
            });
        }
        Ok(coerced)
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types.get(1) {
            Some(DataType::List(_)) => array_of(DataType::Float64),
            _ => DataType::Float64,
        })
    }

    fn state(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        Ok(Distinct::state_types(&DataType::Float64))
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let percentages = match self {
            Self::Median => Percentages::One(0.5),
            _ => Percentages::of(self.names()[0], arguments, 1)?,
        };
        let ordered = matches!(self, Self::Continuous | Self::Discrete);
        let descending = ordered && {
            let flag = arguments.constant(self.names()[0], 2, &DataType::Boolean)?;
            flag.as_boolean().value(0)
        };
        let weighted = *self == Self::Interpolated && arguments.count() == 3;
        let values = Distinct::new(&DataType::Float64)?;
        let of = if *self == Self::Discrete { discrete } else { interpolated };
        Ok(Box::new(Exact { percentages, weighted, descending, of, values }))
    }
}

impl Percentile {
    fn takes(self, count: usize) -> bool {
        match self {
            Self::Median => count == 1,
            Self::Interpolated => (2..=3).contains(&count),
            Self::Continuous | Self::Discrete => count == 3,
        }
    }
}

/// Percentages are doubles, alone or in an array.
pub(super) fn percentage_type(given: &DataType) -> DataType {
    match given {
        DataType::List(_) => array_of(DataType::Float64),
        _ => DataType::Float64,
    }
}

#[derive(Debug)]
struct Exact {
    percentages: Percentages,
    /// Whether the third argument says how often a value counts.
    weighted: bool,
    /// Whether percentages count from the greatest value.
    descending: bool,
    /// The value at a percentage of values in order, with the number of them up to each.
    of: fn(&[f64], &[i64], f64) -> f64,
    values: Distinct,
}

impl Exact {
    /// Values in order with the number of values up to and including each.
    fn cumulated(&self) -> Result<(Vec<f64>, Vec<i64>)> {
        let values = self.values.values()?;
        let (values, counts) = (as_doubles(&values), self.values.counts());
        let mut total = 0_i64;
        let mut order = self.values.ascending();
        if self.descending {
            order.reverse();
        }
        Ok(order
            .into_iter()
            .map(|place| {
                total = total.saturating_add(counts[place]);
                (values.value(place), total)
            })
            .unzip())
    }
}

/// The value at a percentage of all values, between two neighbours if need be.
fn interpolated(values: &[f64], totals: &[i64], p: f64) -> f64 {
    let last = totals.last().copied().unwrap_or(1) - 1;
    let position = last as f64 * p;
    let (low, high) = (position.floor(), position.ceil());
    let at = |rank: f64| {
        let rank = rank as i64 + 1;
        let i = totals.partition_point(|total| *total < rank);
        values[i.min(values.len() - 1)]
    };
    let (below, above) = (at(low), at(high));
    if low == high || below == above {
        return below;
    }
    (high - position) * below + (position - low) * above
}

/// The first value that so many of all values do not come behind.
fn discrete(values: &[f64], totals: &[i64], p: f64) -> f64 {
    let wanted = totals.last().copied().unwrap_or(0) as f64 * p;
    let i = totals.partition_point(|total| (*total as f64) < wanted);
    values[i.min(values.len() - 1)]
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(column) = values.first() else { return internal_err!("no argument") };
        if !self.weighted {
            return self.values.add(column, |_| 1);
        }
        let Some(times) = values.get(2) else { return internal_err!("no frequencies") };
        let times = times.as_primitive::<Int64Type>();
        if times.iter().flatten().any(|times| times < 0) {
            return Err(spark(
                "INVALID_PARAMETER_VALUE",
                "the frequencies of `percentile` must not be negative",
            ));
        }
        self.values.add(column, |row| if times.is_null(row) { 0 } else { times.value(row) })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (values, totals) = self.cumulated()?;
        match (&self.percentages, values.is_empty()) {
            (Percentages::One(_), true) => Ok(ScalarValue::Float64(None)),
            (Percentages::Many(_), true) => ScalarValue::try_from(&array_of(DataType::Float64)),
            (Percentages::One(p), false) => {
                Ok(ScalarValue::Float64(Some((self.of)(&values, &totals, *p))))
            }
            (Percentages::Many(all), false) => {
                let all = all.iter().map(|p| Some((self.of)(&values, &totals, *p)));
                list_scalar(Arc::new(all.collect::<Float64Array>()))
            }
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.size()
    }
}
