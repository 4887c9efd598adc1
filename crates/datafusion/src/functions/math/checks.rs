//! Questions about values, and values that stop a query.

use crate::functions::error::spark;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array};
use arrow::compute;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Any, Boolean, Double, Text};
    let void = || Gives::Of(|_| Ok(DataType::Null));
    vec![
        Spec::new(&["isnan"], &[Double], Gives::Boolean, |c| {
            let values = c.args[0].as_primitive::<Float64Type>();
            let nan = values.iter().map(|v| Some(v.is_some_and(f64::is_nan)));
            Ok(Arc::new(nan.collect::<BooleanArray>()))
        })
        .never_null(),
        Spec::new(&["isnull"], &[Any], Gives::Boolean, |c| {
            Ok(Arc::new(compute::is_null(&c.args[0])?))
        })
        .never_null(),
        Spec::new(&["isnotnull"], &[Any], Gives::Boolean, |c| {
            Ok(Arc::new(compute::is_not_null(&c.args[0])?))
        })
        .never_null(),
        Spec::new(&["assert_true"], &[Boolean, Text], void(), assert_true)
            .optional_from(1)
            .may_be_null(),
        Spec::new(&["raise_error"], &[Text], void(), |c| {
            let message = c.text(0).iter().flatten().next().unwrap_or("null").to_owned();
            if c.rows == 0 {
                return Ok(new_null_array(&DataType::Null, 0));
            }
            Err(spark("USER_RAISED_EXCEPTION", message))
        })
        .may_be_null(),
    ]
}

fn assert_true(call: &Call<'_>) -> Result<ArrayRef> {
    let holds = call.args[0].as_boolean();
    if let Some(row) = holds.iter().position(|holds| holds != Some(true)) {
        let message = match call.count() {
            2 if call.text(1).is_valid(row) => call.text(1).value(row).to_owned(),
            _ => "the condition is not true".to_owned(),
        };
        return Err(spark("USER_RAISED_EXCEPTION", message));
    }
    Ok(new_null_array(&DataType::Null, call.rows))
}
