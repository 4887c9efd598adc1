//! `max_by` and `min_by`: the value beside the greatest or least of another column.

use super::definition::{Arguments, Definition, scalar_at, udaf};
use crate::functions::error::{spark, wrong_arguments};
use arrow::array::make_comparator;
use arrow::array::{Array, ArrayRef};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [Pick::Max, Pick::Min].into_iter().map(udaf).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pick {
    Max,
    Min,
}

impl Definition for Pick {
    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::Max => &["max_by"],
            Self::Min => &["min_by"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, DataType::Map(..)] => Err(spark(
                "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE",
                format!(
                    "`{}` compares by its second argument: maps have no order",
                    self.names()[0]
                ),
            )),
            [_, _] => Ok(types.to_vec()),
            _ => Err(wrong_arguments(self.names()[0], "2", types.len())),
        }
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value, _] => Ok(value.clone()),
            _ => internal_err!("two arguments"),
        }
    }

    fn state(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let [value, by] = arguments.types.as_slice() else {
            return internal_err!("two arguments");
        };
        let (value, by) = (ScalarValue::try_from(value)?, ScalarValue::try_from(by)?);
        Ok(Box::new(Picked { pick: *self, value, by }))
    }
}

#[derive(Debug)]
struct Picked {
    pick: Pick,
    value: ScalarValue,
    /// Null as long as there was none.
    by: ScalarValue,
}

impl Picked {
    /// Of equals the latest wins, as in Spark.
    fn wins(&self, order: Ordering) -> bool {
        match self.pick {
            Pick::Max => order.is_ge(),
            Pick::Min => order.is_le(),
        }
    }
}

impl Accumulator for Picked {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, by] = values else { return internal_err!("two arguments") };
        let options = SortOptions::default();
        let compare = make_comparator(by, by, options)?;
        let mut best: Option<usize> = None;
        for row in (0..by.len()).filter(|row| by.is_valid(*row)) {
            if best.is_none_or(|best| self.wins(compare(row, best))) {
                best = Some(row);
            }
        }
        let Some(best) = best else { return Ok(()) };
        if !self.by.is_null() {
            let held = self.by.to_array()?;
            if !self.wins(make_comparator(by, &held, options)?(best, 0)) {
                return Ok(());
            }
        }
        self.value = scalar_at(values, best)?;
        self.by = scalar_at(by, best)?;
        self.value.compact();
        self.by.compact();
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.by.clone()])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value.size() + self.by.size()
    }
}
