//! Functions of whole numbers.

use crate::functions::error::overflow;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, Int8Array, Int32Array, Int64Array, StringArray};
use arrow::compute;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::common::Result;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Any, Int, Long};
    vec![
        Spec::new(&["bin"], &[Long], Gives::Text, |c| {
            let values = c.args[0].as_primitive::<Int64Type>().iter();
            let text = values.map(|v| v.map(|v| format!("{v:b}")));
            Ok(Arc::new(text.collect::<StringArray>()))
        }),
        Spec::new(&["factorial"], &[Int], Gives::Long, |c| {
            let values = c.args[0].as_primitive::<Int32Type>().iter();
            let of = |n: i32| (0..=20).contains(&n).then(|| (1..=i64::from(n)).product::<i64>());
            Ok(Arc::new(values.map(|v| v.and_then(of)).collect::<Int64Array>()))
        })
        .may_be_null(),
        Spec::new(&["bit_count"], &[Any], Gives::Int, |c| {
            let values = compute::cast(&c.args[0], &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>().iter();
            let counts = values.map(|v| v.map(|v| v.count_ones() as i32));
            Ok(Arc::new(counts.collect::<Int32Array>()))
        }),
        Spec::new(&["bit_get", "getbit"], &[Long, Int], Gives::Of(|_| Ok(DataType::Int8)), bit_get),
    ]
}

fn bit_get(call: &Call<'_>) -> Result<ArrayRef> {
    let (values, places) =
        (call.args[0].as_primitive::<Int64Type>(), call.args[1].as_primitive::<Int32Type>());
    let one = |row: usize| -> Result<Option<i8>> {
        if values.is_null(row) || places.is_null(row) {
            return Ok(None);
        }
        match u32::try_from(places.value(row)) {
            Ok(place) if place < 64 => Ok(Some((values.value(row) >> place & 1) as i8)),
            _ => Err(overflow("the position of a bit")),
        }
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<Int8Array>>()?))
}
