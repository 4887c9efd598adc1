//! How often each value comes: `mode`, and what the exact percentiles are built on.

use super::collect::{elements, list_scalar};
use super::definition::{Arguments, Definition, scalar_at, udaf};
use crate::functions::error::wrong_arguments;
use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use fluvial_core::ddl::array_of;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    vec![udaf(Mode::Usual), udaf(Mode::Descending)]
}

/// Distinct values with their counts, in the order of their first coming. Nulls do not count;
/// the two zeros are one value, and so are all NaN.
pub(super) struct Distinct {
    converter: RowConverter,
    /// From a value to its place.
    places: BTreeMap<OwnedRow, usize>,
    counts: Vec<i64>,
    size: usize,
}

impl std::fmt::Debug for Distinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Distinct").field("values", &self.counts.len()).finish_non_exhaustive()
    }
}

impl Distinct {
    pub(super) fn new(data_type: &DataType) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
        Ok(Self { converter, places: BTreeMap::new(), counts: Vec::new(), size: 0 })
    }

    /// Counts every value of a column as often as its row says.
    pub(super) fn add(&mut self, values: &ArrayRef, times: impl Fn(usize) -> i64) -> Result<()> {
        let values = normalized(values);
        let rows = self.converter.convert_columns(std::slice::from_ref(&values))?;
        for (i, row) in rows.iter().enumerate() {
            let times = times(i);
            if values.is_null(i) || times == 0 {
                continue;
            }
            let next = self.counts.len();
            let row = row.owned();
            let size = row.row().as_ref().len();
            let place = *self.places.entry(row).or_insert(next);
            if place == next {
                self.counts.push(0);
                self.size += size;
            }
            self.counts[place] = self.counts[place].saturating_add(times);
        }
        Ok(())
    }

    /// The values in the order of their first coming.
    pub(super) fn values(&self) -> Result<ArrayRef> {
        let mut rows: Vec<(&OwnedRow, usize)> = self.places.iter().map(|(r, p)| (r, *p)).collect();
        rows.sort_by_key(|(_, place)| *place);
        let columns = self.converter.convert_rows(rows.iter().map(|(row, _)| row.row()))?;
        match columns.into_iter().next() {
            Some(column) => Ok(column),
            None => internal_err!("no column"),
        }
    }

    /// Places in ascending order of their values.
    pub(super) fn ascending(&self) -> Vec<usize> {
        self.places.values().copied().collect()
    }

    /// The counts in the order of the values' first coming.
    pub(super) fn counts(&self) -> &[i64] {
        &self.counts
    }

    pub(super) fn size(&self) -> usize {
        self.size + self.counts.capacity() * 8 + self.places.len() * size_of::<OwnedRow>()
    }

    /// Values and counts as a state.
    pub(super) fn state(&self) -> Result<Vec<ScalarValue>> {
        let counts: ArrayRef = Arc::new(Int64Array::from(self.counts.clone()));
        Ok(vec![list_scalar(self.values()?)?, list_scalar(counts)?])
    }

    /// Takes states in.
    pub(super) fn merge(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else { return internal_err!("two states") };
        let (values, counts) = (elements(values)?, elements(counts)?);
        if values.len() != counts.len() {
            return internal_err!("{} values, {} counts", values.len(), counts.len());
        }
        let counts = counts.as_primitive::<Int64Type>();
        self.add(&values, |row| counts.value(row))
    }

    /// The types of the state of values of a type.
    pub(super) fn state_types(data_type: &DataType) -> Vec<DataType> {
        vec![array_of(data_type.clone()), array_of(DataType::Int64)]
    }
}

/// One zero, one NaN.
pub(super) fn normalized(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let floats = values.as_primitive::<Float64Type>();
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            Arc::new(floats.unary::<_, Float64Type>(one)) as ArrayRef
        }
        DataType::Float32 => {
            let floats: &Float32Array = values.as_primitive();
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            Arc::new(floats.unary::<_, Float32Type>(one)) as ArrayRef
        }
        _ => Arc::clone(values),
    }
}

/// The most frequent value; nulls do not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Mode {
    /// Of several the one that came first, or the least if a second argument says so.
    Usual,
    /// Of several the greatest: `mode() WITHIN GROUP (ORDER BY x DESC)`.
    Descending,
}

/// Which of several most frequent values is meant.
#[derive(Debug, Clone, Copy)]
enum Tie {
    First,
    Least,
    Greatest,
}

impl Definition for Mode {
    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::Usual => &["mode"],
            Self::Descending => &["mode_descending"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self, types) {
            (_, [_]) => Ok(types.to_vec()),
            (Self::Usual, [value, _]) => Ok(vec![value.clone(), DataType::Boolean]),
            _ => Err(wrong_arguments("mode", "1 or 2", types.len())),
        }
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [t, ..] => Ok(t.clone()),
            [] => internal_err!("one argument"),
        }
    }

    fn state(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(Distinct::state_types(&self.result(types)?))
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let tie = match self {
            Self::Descending => Tie::Greatest,
            Self::Usual if arguments.count() == 2 => {
                let least = arguments.constant("mode", 1, &DataType::Boolean)?;
                if least.is_valid(0) && least.as_boolean().value(0) {
                    Tie::Least
                } else {
                    Tie::First
                }
            }
            Self::Usual => Tie::First,
        };
        Ok(Box::new(Modes { tie, values: Distinct::new(arguments.result)? }))
    }
}

#[derive(Debug)]
struct Modes {
    tie: Tie,
    values: Distinct,
}

impl Accumulator for Modes {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("one argument") };
        self.values.add(values, |_| 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.values.values()?;
        let counts = self.values.counts();
        let most = counts.iter().max();
        let most_frequent = |place: &usize| Some(&counts[*place]) == most;
        let ascending = || self.values.ascending().into_iter();
        let place = match self.tie {
            Tie::First => (0..counts.len()).find(most_frequent),
            Tie::Least => ascending().find(most_frequent),
            Tie::Greatest => ascending().rfind(most_frequent),
        };
        match place {
            Some(place) => scalar_at(&values, place),
            None => ScalarValue::try_from(values.data_type()),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.size()
    }
}

/// Values as doubles, for what calculates with them.
pub(super) fn as_doubles(values: &ArrayRef) -> &Float64Array {
    values.as_primitive::<Float64Type>()
}
