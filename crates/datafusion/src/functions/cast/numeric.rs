//! From integers, doubles and booleans.

use super::decimal::{decimal_from_double, fit, power_of_ten};
use super::text::double_text;
use super::{CastContext, CastMode};
use crate::functions::calendar::MICROS_PER_SECOND;
use crate::functions::error::decimal_out_of_range;
use arrow::array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow::compute;
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result};
use std::sync::Arc;

/// Converts value by value; `None` is a failure, or null when trying.
pub(super) fn convert<I: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    input: &PrimitiveArray<I>,
    context: &CastContext<'_>,
    f: impl Fn(I::Native) -> Option<O::Native>,
    fail: impl Fn(I::Native) -> DataFusionError,
) -> Result<PrimitiveArray<O>> {
    match context.mode {
        CastMode::Try => Ok(input.unary_opt::<_, O>(f)),
        CastMode::Ansi => input.try_unary(|v| f(v).ok_or_else(|| fail(v))),
    }
}

fn shared<O: ArrowPrimitiveType>(array: PrimitiveArray<O>, to: &DataType) -> ArrayRef {
    Arc::new(array.with_data_type(to.clone()))
}

pub(super) fn from_integers(
    input: &PrimitiveArray<Int64Type>,
    context: &CastContext<'_>,
) -> Result<ArrayRef> {
    let overflow = |v: i64| context.overflow(&v.to_string());
    let to = context.to;
    Ok(match to {
        DataType::Int8 => {
            Arc::new(convert::<_, Int8Type>(input, context, |v| v.try_into().ok(), overflow)?)
        }
        DataType::Int16 => {
            Arc::new(convert::<_, Int16Type>(input, context, |v| v.try_into().ok(), overflow)?)
        }
        DataType::Int32 => {
            Arc::new(convert::<_, Int32Type>(input, context, |v| v.try_into().ok(), overflow)?)
        }
        DataType::Boolean => Arc::new(BooleanArray::from_unary(input, |v| v != 0)),
        DataType::Decimal128(precision, scale) => {
            let (p, s) = (*precision, *scale);
            let unit = power_of_ten(s.unsigned_abs());
            let array = convert::<_, Decimal128Type>(
                input,
                context,
                |v| fit(i128::from(v).checked_mul(unit)?, p),
                |v| decimal_out_of_range(&v.to_string(), p, s),
            )?;
            shared(array, to)
        }
        DataType::Timestamp(..) => {
            let array: PrimitiveArray<TimestampMicrosecondType> =
                input.unary(|v| v.saturating_mul(MICROS_PER_SECOND));
            shared(array, to)
        }
        _ => compute::cast(input, to)?,
    })
}

pub(super) fn from_doubles(
    input: &PrimitiveArray<Float64Type>,
    context: &CastContext<'_>,
) -> Result<ArrayRef> {
    let overflow = |v: f64| context.overflow(&double_text(v));
    let to = context.to;
    // The bounds are exact as doubles but for i64::MAX, which rounds up to one that is too big.
    let within = |v: f64, min: f64, max: f64| (v.ceil() >= min && v.floor() <= max).then_some(v);
    Ok(match to {
        DataType::Int8 => Arc::new(convert::<_, Int8Type>(
            input,
            context,
            |v| within(v, i8::MIN.into(), i8::MAX.into()).map(|v| v as i8),
            overflow,
        )?),
        DataType::Int16 => Arc::new(convert::<_, Int16Type>(
            input,
            context,
            |v| within(v, i16::MIN.into(), i16::MAX.into()).map(|v| v as i16),
            overflow,
        )?),
        DataType::Int32 => Arc::new(convert::<_, Int32Type>(
            input,
            context,
            |v| within(v, i32::MIN.into(), i32::MAX.into()).map(|v| v as i32),
            overflow,
        )?),
        DataType::Int64 => {
            Arc::new(convert::<_, Int64Type>(input, context, double_to_long, overflow)?)
        }
        DataType::Boolean => Arc::new(BooleanArray::from_unary(input, |v| v != 0.0)),
        DataType::Decimal128(precision, scale) => {
            let (p, s) = (*precision, *scale);
            let array = convert::<_, Decimal128Type>(
                input,
                context,
                |v| decimal_from_double(v, p, s),
                |v| decimal_out_of_range(&double_text(v), p, s),
            )?;
            shared(array, to)
        }
        DataType::Timestamp(..) => {
            let array = convert::<_, TimestampMicrosecondType>(
                input,
                context,
                |v| double_to_long(v * MICROS_PER_SECOND as f64),
                |v| {
                    if v.is_finite() { overflow(v) } else { context.malformed(&double_text(v)) }
                },
            )?;
            shared(array, to)
        }
        _ => compute::cast(input, to)?,
    })
}

/// Cut towards zero; `None` for what is not a 64-bit integer then.
fn double_to_long(v: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (v > -LIMIT - 1.0 && v < LIMIT).then_some(v as i64)
}

pub(super) fn from_booleans(input: &BooleanArray, context: &CastContext<'_>) -> Result<ArrayRef> {
    match context.to {
        DataType::Decimal128(..) => {
            let ints = compute::cast(input, &DataType::Int64)?;
            super::cast_array(&ints, context.to, context.mode, context.zone)
        }
        to => Ok(compute::cast(input, to)?),
    }
}
