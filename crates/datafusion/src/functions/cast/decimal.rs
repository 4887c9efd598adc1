//! Decimals: rounding half up, ranges, and their text.

use super::numeric::convert;
use super::{CastContext, CastMode};
use crate::functions::calendar::MICROS_PER_SECOND;
use crate::functions::error::decimal_out_of_range;
use arrow::array::{ArrayRef, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use datafusion::common::Result;
use std::sync::Arc;

/// 10^n for n up to 38.
pub(crate) fn power_of_ten(n: u8) -> i128 {
    10_i128.pow(u32::from(n.min(38)))
}

/// The value if it has no more digits than the precision allows.
pub(crate) fn fit(unscaled: i128, precision: u8) -> Option<i128> {
    (unscaled.unsigned_abs() < power_of_ten(precision).unsigned_abs()).then_some(unscaled)
}

/// Division rounded half away from zero.
pub(crate) fn div_half_up(value: i128, by: i128) -> i128 {
    let (quotient, rest) = (value / by, value % by);
    if rest.unsigned_abs() >= by.unsigned_abs().div_ceil(2) {
        quotient + value.signum() * by.signum()
    } else {
        quotient
    }
}

/// Brings an unscaled value from one scale to another, rounding half up; `None` if it has too
/// many digits.
pub(crate) fn rescale(unscaled: i128, from: i8, to: i8, precision: u8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    let value = match shift {
        0 => unscaled,
        1..=38 => unscaled.checked_mul(power_of_ten(shift as u8))?,
        -38..=-1 => div_half_up(unscaled, power_of_ten(-shift as u8)),
        _ => 0,
    };
    fit(value, precision)
}

/// `-12.50`: all digits of the scale, never an exponent.
pub(crate) fn decimal_text(unscaled: i128, scale: i8) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let sign = if unscaled < 0 { "-" } else { "" };
    match usize::try_from(scale) {
        Ok(0) => format!("{sign}{digits}"),
        Ok(scale) => {
            let digits = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            format!("{sign}{whole}.{fraction}")
        }
        Err(_) => format!("{sign}{digits}{}", "0".repeat(usize::from(scale.unsigned_abs()))),
    }
}

/// Reads `12`, `-1.5`, `.5`, `1e3`; blanks around it are ignored. `Err` if it is malformed,
/// `Ok(None)` if it has too many digits before the point.
pub(crate) fn parse_decimal(text: &str, precision: u8, scale: i8) -> Result<Option<i128>, ()> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        None => (body, 0_i64),
        Some(at) => (&body[..at], body[at + 1..].parse::<i32>().map_err(|_| ())?.into()),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return Err(());
    }
    let digits = whole.bytes().chain(fraction.bytes());
    // Position of the decimal point in the digits, then of the last digit that is kept.
    let point = whole.len() as i64 + exponent;
    let kept = point + i64::from(scale);
    let total = (whole.len() + fraction.len()) as i64;
    let mut value: i128 = 0;
    let mut round_up = false;
    for (i, digit) in (0_i64..).zip(digits) {
        let digit = i128::from(digit - b'0');
        if i < kept {
            value = match value.checked_mul(10).and_then(|v| v.checked_add(digit)) {
                Some(value) => value,
                None => return Ok(None),
            };
        } else {
            round_up = i == kept && digit >= 5;
            break;
        }
    }
    if value != 0 {
        for _ in total..kept {
            value = match value.checked_mul(10) {
                Some(value) => value,
                None => return Ok(None),
            };
        }
    }
    value += i128::from(round_up);
    Ok(fit(if negative { -value } else { value }, precision))
}

/// A double by its shortest text, as Spark does; `None` if it is not a number or too big.
pub(super) fn decimal_from_double(value: f64, precision: u8, scale: i8) -> Option<i128> {
    if !value.is_finite() {
        return None;
    }
    parse_decimal(&format!("{value:e}"), precision, scale).ok().flatten()
}

/// The nearest double.
pub(crate) fn double_from_decimal(unscaled: i128, scale: i8) -> f64 {
    const EXACT: u128 = 1 << 53;
    if unscaled.unsigned_abs() <= EXACT && (0..=22).contains(&scale) {
        return unscaled as f64 / 10_f64.powi(i32::from(scale));
    }
    decimal_text(unscaled, scale).parse().unwrap_or(f64::NAN)
}

pub(super) fn from_decimals(
    input: &PrimitiveArray<Decimal128Type>,
    context: &CastContext<'_>,
) -> Result<ArrayRef> {
    let scale = input.scale();
    let unit = power_of_ten(scale.unsigned_abs());
    let text = |v: i128| decimal_text(v, scale);
    let overflow = |v: i128| context.overflow(&text(v));
    let whole = |v: i128| if scale >= 0 { Some(v / unit) } else { v.checked_mul(unit) };
    Ok(match context.to {
        DataType::Int8 => Arc::new(convert::<_, Int8Type>(
            input,
            context,
            |v| whole(v)?.try_into().ok(),
            overflow,
        )?),
        DataType::Int16 => Arc::new(convert::<_, Int16Type>(
            input,
            context,
            |v| whole(v)?.try_into().ok(),
            overflow,
        )?),
        DataType::Int32 => Arc::new(convert::<_, Int32Type>(
            input,
            context,
            |v| whole(v)?.try_into().ok(),
            overflow,
        )?),
        DataType::Int64 => Arc::new(convert::<_, Int64Type>(
            input,
            context,
            |v| whole(v)?.try_into().ok(),
            overflow,
        )?),
        DataType::Float64 => {
            Arc::new(input.unary::<_, Float64Type>(|v| double_from_decimal(v, scale)))
        }
        DataType::Float32 => {
            Arc::new(input.unary::<_, Float32Type>(|v| text(v).parse::<f32>().unwrap_or(f32::NAN)))
        }
        DataType::Boolean => Arc::new(BooleanArray::from_unary(input, |v| v != 0)),
        to @ DataType::Decimal128(p, s) => {
            let (p, s) = (*p, *s);
            let array = convert::<_, Decimal128Type>(
                input,
                context,
                |v| rescale(v, scale, s, p),
                |v| decimal_out_of_range(&text(v), p, s),
            )?;
            Arc::new(array.with_data_type(to.clone()))
        }
        to => {
            debug_assert!(matches!(to, DataType::Timestamp(..)) || context.mode == CastMode::Try);
            let micros = |v: i128| {
                let product = v.checked_mul(i128::from(MICROS_PER_SECOND))?;
                i64::try_from(if scale >= 0 { product / unit } else { product * unit }).ok()
            };
            let array = convert::<_, TimestampMicrosecondType>(input, context, micros, overflow)?;
            Arc::new(array.with_data_type(to.clone()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_half_up() {
        for (text, precision, scale, value) in [
            ("1.25", 10, 1, Ok(Some(13))),
            ("-2.5", 10, 0, Ok(Some(-3))),
            ("1e2", 10, 0, Ok(Some(100))),
            ("1.5e-3", 10, 4, Ok(Some(15))),
            (" .5 ", 5, 2, Ok(Some(50))),
            ("0.04", 5, 1, Ok(Some(0))),
            ("0.05", 5, 1, Ok(Some(1))),
            ("123.4", 3, 1, Ok(None)),
            ("1e40", 38, 0, Ok(None)),
            ("1e-400", 38, 10, Ok(Some(0))),
            ("", 5, 0, Err(())),
            ("1.2.3", 5, 0, Err(())),
            ("abc", 5, 0, Err(())),
            ("1e", 5, 0, Err(())),
        ] {
            assert_eq!(parse_decimal(text, precision, scale), value, "{text}");
        }
    }

    #[test]
    fn text_is_written_plain() {
        assert_eq!(decimal_text(1, 7), "0.0000001");
        assert_eq!(decimal_text(-150, 2), "-1.50");
        assert_eq!(decimal_text(0, 8), "0.00000000");
    }
}
