//! Between times and counts of seconds since 1970.

use crate::functions::calendar::MICROS_PER_SECOND;
use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::overflow;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::compute;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use datafusion::common::Result;
use fluvial_core::ddl::timestamp;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Date, Int, Long, Number, Timestamp};
    vec![
        Spec::new(&["timestamp_seconds"], &[Number], Gives::Timestamp, timestamp_seconds),
        Spec::new(&["timestamp_millis"], &[Long], Gives::Timestamp, |c| from_units(c, 1_000)),
        Spec::new(&["timestamp_micros"], &[Long], Gives::Timestamp, |c| from_units(c, 1)),
        Spec::new(&["unix_seconds"], &[Timestamp], Gives::Long, |c| to_units(c, MICROS_PER_SECOND)),
        Spec::new(&["unix_millis"], &[Timestamp], Gives::Long, |c| to_units(c, 1_000)),
        Spec::new(&["unix_micros"], &[Timestamp], Gives::Long, |c| to_units(c, 1)),
        Spec::new(&["unix_date"], &[Date], Gives::Int, |c| {
            Ok(compute::cast(&c.args[0], &DataType::Int32)?)
        }),
        Spec::new(&["date_from_unix_date"], &[Int], Gives::Date, |c| {
            let days = c.args[0].as_primitive::<Int32Type>();
            Ok(Arc::new(days.unary::<_, Date32Type>(|d| d)))
        }),
    ]
}

fn to_units(call: &Call<'_>, micros: i64) -> Result<ArrayRef> {
    let times = call.args[0].as_primitive::<TimestampMicrosecondType>();
    Ok(Arc::new(times.unary::<_, Int64Type>(|t| t.div_euclid(micros))))
}

fn from_units(call: &Call<'_>, micros: i64) -> Result<ArrayRef> {
    let counts = call.args[0].as_primitive::<Int64Type>();
    let times: PrimitiveArray<TimestampMicrosecondType> =
        counts.try_unary(|n| n.checked_mul(micros).ok_or_else(|| overflow("a timestamp")))?;
    Ok(Arc::new(times.with_data_type(timestamp())))
}

/// Whole numbers, decimals and doubles of seconds.
fn timestamp_seconds(call: &Call<'_>) -> Result<ArrayRef> {
    let seconds = &call.args[0];
    let times: PrimitiveArray<TimestampMicrosecondType> = match seconds.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let seconds = compute::cast(seconds, &DataType::Float64)?;
            let micros = |s: f64| {
                let micros = s * MICROS_PER_SECOND as f64;
                (micros.is_finite() && micros.abs() < 9.2e18).then_some(micros as i64)
            };
            // What is not a time is null, as in Spark.
            seconds.as_primitive::<Float64Type>().unary_opt(micros)
        }
        DataType::Decimal128(_, scale) => {
            let unit = crate::functions::cast::power_of_ten(scale.unsigned_abs());
            seconds.as_primitive::<Decimal128Type>().try_unary(|s| {
                s.checked_mul(MICROS_PER_SECOND.into())
                    .and_then(|micros| i64::try_from(micros / unit).ok())
                    .ok_or_else(|| overflow("a timestamp"))
            })?
        }
        _ => {
            let seconds = cast_array(seconds, &DataType::Int64, CastMode::Ansi, call.zone)?;
            seconds.as_primitive::<Int64Type>().try_unary(|s| {
                s.checked_mul(MICROS_PER_SECOND).ok_or_else(|| overflow("a timestamp"))
            })?
        }
    };
    Ok(Arc::new(times.with_data_type(timestamp())))
}
