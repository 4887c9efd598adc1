//! From timestamps and dates.

use super::CastContext;
use super::numeric::convert;
use crate::functions::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, write_timestamp};
use arrow::array::{ArrayRef, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use datafusion::common::Result;
use std::sync::Arc;

/// The day of an instant in a zone.
pub(crate) fn local_day(micros: i64) -> i32 {
    micros.div_euclid(MICROS_PER_DAY) as i32
}

pub(super) fn from_timestamps(
    input: &PrimitiveArray<TimestampMicrosecondType>,
    context: &CastContext<'_>,
) -> Result<ArrayRef> {
    let zone = context.zone;
    // Without a zone the value is a local reading already.
    let has_zone = matches!(context.from, DataType::Timestamp(_, Some(_)));
    let seconds = |v: i64| v.div_euclid(MICROS_PER_SECOND);
    let overflow = |v: i64| {
        let mut text = String::new();
        write_timestamp(zone.to_local(v), &mut text);
        context.overflow(&text)
    };
    Ok(match context.to {
        DataType::Int8 => Arc::new(convert::<_, Int8Type>(
            input,
            context,
            |v| seconds(v).try_into().ok(),
            overflow,
        )?),
        DataType::Int16 => Arc::new(convert::<_, Int16Type>(
            input,
            context,
            |v| seconds(v).try_into().ok(),
            overflow,
        )?),
        DataType::Int32 => Arc::new(convert::<_, Int32Type>(
            input,
            context,
            |v| seconds(v).try_into().ok(),
            overflow,
        )?),
        DataType::Int64 => Arc::new(input.unary::<_, Int64Type>(seconds)),
        DataType::Float64 => {
            Arc::new(input.unary::<_, Float64Type>(|v| v as f64 / MICROS_PER_SECOND as f64))
        }
        DataType::Float32 => Arc::new(
            input.unary::<_, Float32Type>(|v| (v as f64 / MICROS_PER_SECOND as f64) as f32),
        ),
        to @ DataType::Decimal128(p, s) => {
            let (p, s) = (*p, *s);
            let array = convert::<_, Decimal128Type>(
                input,
                context,
                |v| super::rescale(i128::from(v), 6, s, p),
                overflow,
            )?;
            Arc::new(array.with_data_type(to.clone()))
        }
        DataType::Date32 => Arc::new(
            input
                .unary::<_, Date32Type>(|v| local_day(if has_zone { zone.to_local(v) } else { v })),
        ),
        to => {
            let target_has_zone = matches!(to, DataType::Timestamp(_, Some(_)));
            let array: PrimitiveArray<TimestampMicrosecondType> =
                input.unary(|v| match (has_zone, target_has_zone) {
                    (true, false) => zone.to_local(v),
                    (false, true) => zone.to_utc(v),
                    _ => v,
                });
            Arc::new(array.with_data_type(to.clone()))
        }
    })
}

pub(super) fn from_dates(
    input: &PrimitiveArray<Date32Type>,
    context: &CastContext<'_>,
) -> Result<ArrayRef> {
    let has_zone = matches!(context.to, DataType::Timestamp(_, Some(_)));
    let array: PrimitiveArray<TimestampMicrosecondType> = input.unary(|days| {
        let midnight = i64::from(days).saturating_mul(MICROS_PER_DAY);
        if has_zone { context.zone.to_utc(midnight) } else { midnight }
    });
    Ok(Arc::new(array.with_data_type(context.to.clone())))
}
