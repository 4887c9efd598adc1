//! `string_agg` and `listagg`: text put together in the order in which it arrives.

use super::definition::{Arguments, Definition, udaf};
use crate::functions::error::wrong_arguments;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use std::sync::Arc;

pub(super) fn function() -> Arc<AggregateUDF> {
    udaf(StringAgg)
}

/// The texts that are not null, with a delimiter between them; null if there are none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StringAgg;

impl Definition for StringAgg {
    fn names(&self) -> &'static [&'static str] {
        &["string_agg", "listagg"]
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types.len() {
            1 | 2 => Ok(vec![DataType::Utf8; types.len()]),
            count => Err(wrong_arguments("string_agg", "1 or 2", count)),
        }
    }

    fn result(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn state(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Utf8])
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let mut delimiter = String::new();
        if arguments.count() == 2 {
            let value = arguments.constant("string_agg", 1, &DataType::Utf8)?;
            let value = value.as_string::<i32>();
            if value.is_valid(0) {
                value.value(0).clone_into(&mut delimiter);
            }
        }
        Ok(Box::new(Joined { delimiter, text: None }))
    }
}

#[derive(Debug)]
struct Joined {
    delimiter: String,
    text: Option<String>,
}

impl Accumulator for Joined {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("no argument") };
        for value in values.as_string::<i32>().iter().flatten() {
            match &mut self.text {
                Some(text) => {
                    text.push_str(&self.delimiter);
                    text.push_str(value);
                }
                None => self.text = Some(value.to_owned()),
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Utf8(self.text.clone()))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.text.as_ref().map_or(0, String::capacity)
    }
}
