//! `abs`, `ceil`, `floor`, `round` and `bround`, in the types of Spark.

use crate::functions::arithmetic::{decimal_of_integer, decimal_type};
use crate::functions::cast::{CastMode, cast_array, div_half_up, fit_decimal, power_of_ten};
use crate::functions::error::{overflow, spark};
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute;
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Int, Number};
    const ONE: &[Kind] = &[Number];
    const SCALED: &[Kind] = &[Number, Int];
    let same = || Gives::Of(|types| Ok(types[0].clone()));
    let whole = || Gives::OfConstants(whole_type);
    let rounded = || Gives::OfConstants(|types, constants| rounded_type(&types[0], constants));
    vec![
        Spec::new(&["abs"], ONE, same(), abs),
        Spec::new(&["positive"], ONE, same(), |c| Ok(Arc::clone(&c.args[0]))),
        Spec::new(&["ceil", "ceiling"], SCALED, whole(), |c| to_whole(c, Way::Up)).optional_from(1),
        Spec::new(&["floor"], SCALED, whole(), |c| to_whole(c, Way::Down)).optional_from(1),
        Spec::new(&["round"], SCALED, rounded(), |c| round(c, Way::HalfUp)).optional_from(1),
        Spec::new(&["bround"], SCALED, rounded(), |c| round(c, Way::HalfEven)).optional_from(1),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
    HalfUp,
    HalfEven,
}

/// Without a scale a whole number, with one a decimal.
fn whole_type(types: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    match (types, &types[0]) {
        ([_], DataType::Decimal128(p, s)) => Ok(decimal_type(i32::from(*p) - i32::from(*s) + 1, 0)),
        ([_], _) => Ok(DataType::Int64),
        (_, DataType::Decimal128(..)) => rounded_type(&types[0], constants),
        (_, other) => {
            let exact = decimal_of_integer(other).unwrap_or(DataType::Decimal128(30, 15));
            rounded_type(&exact, constants)
        }
    }
}

/// Decimals lose the digits that are rounded away; other numbers keep their type.
fn rounded_type(t: &DataType, constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    let DataType::Decimal128(p, s) = t else { return Ok(t.clone()) };
    let (whole, own) = (i32::from(*p) - i32::from(*s) + 1, i32::from(*s));
    let scale = match constants.get(1) {
        None => 0,
        Some(Some(ScalarValue::Int32(Some(scale)))) => *scale,
        // Not known yet: the value keeps its digits.
        Some(_) => own,
    };
    if scale < 0 {
        return Ok(decimal_type(whole.max(1 - scale), 0));
    }
    let scale = own.min(scale);
    Ok(DataType::Decimal128((whole + scale).min(38) as u8, scale as i8))
}

fn abs(call: &Call<'_>) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(
        array: &ArrayRef,
        f: impl Fn(T::Native) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        let values = array.as_primitive::<T>();
        let values: PrimitiveArray<T> =
            values.try_unary(|v| f(v).ok_or_else(|| overflow("the result of `abs`")))?;
        Ok(Arc::new(values.with_data_type(array.data_type().clone())))
    }
    let array = &call.args[0];
    match array.data_type() {
        DataType::Int8 => of::<Int8Type>(array, i8::checked_abs),
        DataType::Int16 => of::<Int16Type>(array, i16::checked_abs),
        DataType::Int32 => of::<Int32Type>(array, i32::checked_abs),
        DataType::Int64 => of::<Int64Type>(array, i64::checked_abs),
        DataType::Float32 => of::<Float32Type>(array, |v| Some(v.abs())),
        DataType::Float64 => of::<Float64Type>(array, |v| Some(v.abs())),
        DataType::Decimal128(..) => of::<Decimal128Type>(array, i128::checked_abs),
        other => internal_err!("abs of {other}"),
    }
}

/// Division in one of the ways.
fn divided(value: i128, by: i128, way: Way) -> i128 {
    let (floor, rest) = (value.div_euclid(by), value.rem_euclid(by));
    match way {
        Way::Down => floor,
        Way::Up => floor + i128::from(rest != 0),
        Way::HalfUp => div_half_up(value, by),
        Way::HalfEven => match (rest * 2).cmp(&by) {
            std::cmp::Ordering::Less => floor,
            std::cmp::Ordering::Greater => floor + 1,
            std::cmp::Ordering::Equal => floor + floor.rem_euclid(2),
        },
    }
}

fn to_whole(call: &Call<'_>, way: Way) -> Result<ArrayRef> {
    let array = &call.args[0];
    if let DataType::Decimal128(..) = call.result {
        let exact = match array.data_type() {
            DataType::Decimal128(..) => Arc::clone(array),
            other => {
                let to = decimal_of_integer(other).unwrap_or(DataType::Decimal128(30, 15));
                cast_array(array, &to, CastMode::Ansi, call.zone)?
            }
        };
        return round_decimals(&exact, call.result, scale_of(call)?, way);
    }
    match array.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let doubles = compute::cast(array, &DataType::Float64)?;
            let doubles = doubles.as_primitive::<Float64Type>();
            let to_long = |v: f64| if way == Way::Up { v.ceil() as i64 } else { v.floor() as i64 };
            Ok(Arc::new(doubles.unary::<_, Int64Type>(to_long)))
        }
        _ => Ok(compute::cast(array, &DataType::Int64)?),
    }
}

/// Decimals at a scale, in the type of the result.
fn round_decimals(array: &ArrayRef, to: &DataType, scale: i32, way: Way) -> Result<ArrayRef> {
    let (DataType::Decimal128(_, own), DataType::Decimal128(precision, result)) =
        (array.data_type(), to)
    else {
        return internal_err!("a decimal stays one");
    };
    let (own, result) = (i32::from(*own), i32::from(*result));
    let unit = |places: i32| power_of_ten(u8::try_from(places.clamp(0, 38)).unwrap_or(0));
    // Cut what the scale does not have, then bring the rest to the result's own scale.
    let (cut, up) = (unit(own - scale), unit(result - scale.min(own)));
    let values = array.as_primitive::<Decimal128Type>();
    let values: PrimitiveArray<Decimal128Type> = values.try_unary(|v| {
        divided(v, cut, way)
            .checked_mul(up)
            .and_then(|v| fit_decimal(v, *precision))
            .ok_or_else(|| overflow("a rounded number"))
    })?;
    Ok(Arc::new(values.with_data_type(to.clone())))
}

/// The scale of a call, which is a constant.
fn scale_of(call: &Call<'_>) -> Result<i32> {
    let Some(scales) = call.args.get(1) else { return Ok(0) };
    let scales = scales.as_primitive::<Int32Type>();
    let first = scales.iter().next().flatten().unwrap_or(0);
    if scales.iter().any(|scale| scale != Some(first)) {
        return Err(spark(
            "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT",
            format!("the scale of `{}` must be a constant", call.name),
        ));
    }
    Ok(first)
}

fn round(call: &Call<'_>, way: Way) -> Result<ArrayRef> {
    let scale = scale_of(call)?;
    let array = &call.args[0];
    match array.data_type() {
        DataType::Decimal128(..) => round_decimals(array, call.result, scale, way),
        DataType::Float32 | DataType::Float64 => {
            let doubles = compute::cast(array, &DataType::Float64)?;
            let doubles = doubles.as_primitive::<Float64Type>();
            let rounded = doubles.unary::<_, Float64Type>(|v| round_double(v, scale, way));
            Ok(compute::cast(&rounded, call.result)?)
        }
        _ if scale >= 0 => Ok(Arc::clone(array)),
        t => {
            let longs = compute::cast(array, &DataType::Int64)?;
            let unit = power_of_ten(u8::try_from(-scale).unwrap_or(38));
            let longs = longs.as_primitive::<Int64Type>();
            let rounded: PrimitiveArray<Int64Type> = longs.try_unary(|v| {
                i64::try_from(divided(v.into(), unit, way) * unit)
                    .map_err(|_| overflow("a rounded number"))
            })?;
            let rounded: ArrayRef = Arc::new(rounded);
            cast_array(&rounded, t, CastMode::Ansi, call.zone)
        }
    }
}

/// By the shortest decimal text of the double, as Spark does: 2.675 becomes 2.68.
fn round_double(value: f64, scale: i32, way: Way) -> f64 {
    if !value.is_finite() || scale > 30 {
        return value;
    }
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return value };
    let Ok(exponent) = exponent.parse::<i32>() else { return value };
    let negative = mantissa.starts_with('-');
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let Ok(unscaled) = digits.parse::<i128>() else { return value };
    let own = digits.len() as i32 - 1 - exponent;
    let cut = own - scale;
    if cut <= 0 {
        return value;
    }
    if cut > 38 {
        return if negative { -0.0 } else { 0.0 };
    }
    let signed = if negative { -unscaled } else { unscaled };
    let rounded = divided(signed, power_of_ten(cut as u8), way);
    let result = format!("{}e{}", rounded, -scale).parse().unwrap_or(value);
    if rounded == 0 && negative { -0.0 } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_round_by_their_text() {
        for (value, scale, up, even) in [
            (2.5, 0, 3.0, 2.0),
            (-2.5, 0, -3.0, -2.0),
            (2.675, 2, 2.68, 2.68),
            (1.005, 2, 1.01, 1.0),
            (1e300, 2, 1e300, 1e300),
            (12_345.0, -2, 12_300.0, 12_300.0),
            (1e-300, 2, 0.0, 0.0),
        ] {
            assert_eq!(round_double(value, scale, Way::HalfUp), up, "{value}");
            assert_eq!(round_double(value, scale, Way::HalfEven), even, "{value}");
        }
    }
}
