//! `first`, `last` and `any_value`: by the order in which rows arrive.

use super::definition::{Arguments, Definition, scalar_at, udaf};
use crate::functions::error::wrong_arguments;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [End::First, End::Last, End::Any].into_iter().map(udaf).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    First,
    Last,
    Any,
}

impl Definition for End {
    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::First => &["first", "first_value"],
            Self::Last => &["last", "last_value"],
            Self::Any => &["any_value"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_] => Ok(types.to_vec()),
            _ => Err(wrong_arguments(self.names()[0], "1 or 2", types.len())),
        }
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [t] => Ok(t.clone()),
            _ => internal_err!("one argument"),
        }
    }

    fn ignores_nulls(&self) -> bool {
        true
    }

    fn state(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![self.result(types)?, DataType::Boolean])
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Held {
            keeps_first: *self != Self::Last,
            ignore_nulls: arguments.ignore_nulls,
            value: ScalarValue::try_from(arguments.result)?,
            seen: false,
        }))
    }
}

#[derive(Debug)]
struct Held {
    keeps_first: bool,
    ignore_nulls: bool,
    value: ScalarValue,
    seen: bool,
}

impl Held {
    fn take(&mut self, values: &ArrayRef, counts: impl Fn(usize) -> bool) -> Result<()> {
        if self.keeps_first && self.seen {
            return Ok(());
        }
        let fits = |row: &usize| counts(*row) && !(self.ignore_nulls && values.is_null(*row));
        let mut rows = 0..values.len();
        let row = if self.keeps_first { rows.find(fits) } else { rows.rev().find(fits) };
        if let Some(row) = row {
            self.value = scalar_at(values, row)?;
            self.value.compact();
            self.seen = true;
        }
        Ok(())
    }
}

impl Accumulator for Held {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("no argument") };
        self.take(values, |_| true)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, seen] = states else { return internal_err!("two states") };
        let seen = seen.as_boolean();
        self.take(values, |row| seen.is_valid(row) && seen.value(row))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Boolean(Some(self.seen))])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value.size() - size_of::<ScalarValue>()
    }
}
