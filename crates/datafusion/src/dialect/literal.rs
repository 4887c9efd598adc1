//! Literals, in the types that Spark gives them.

use super::types::{no_literal, type_named};
use crate::functions::cast::{bad_literal, cast_expr, is_string, parse_date, parse_timestamp};
use crate::functions::error::spark;
use crate::functions::zone::Zone;
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, lit};
use fluvial_core::interval::CalendarInterval;

/// The literal of a number: an integer in the smallest type from INT up, an exact decimal, or a
/// double if it has an exponent.
pub(super) fn number(digits: &str, suffix: &str) -> Result<Expr> {
    let out_of_range = |name: &str| {
        spark(
            "INVALID_NUMERIC_LITERAL_RANGE",
            format!("the number {digits} is outside the range of {name}"),
        )
    };
    Ok(match suffix {
        "L" => lit(digits.parse::<i64>().map_err(|_| out_of_range("BIGINT"))?),
        "S" => lit(digits.parse::<i16>().map_err(|_| out_of_range("SMALLINT"))?),
        "Y" => lit(digits.parse::<i8>().map_err(|_| out_of_range("TINYINT"))?),
        "D" => lit(digits.parse::<f64>().map_err(|_| out_of_range("DOUBLE"))?),
        "F" => lit(digits.parse::<f32>().map_err(|_| out_of_range("FLOAT"))?),
        "BD" => decimal(digits).ok_or_else(|| out_of_range("DECIMAL"))?,
        _ if digits.contains(['e', 'E']) => {
            lit(digits.parse::<f64>().map_err(|_| out_of_range("DOUBLE"))?)
        }
        _ => match (digits.parse::<i32>(), digits.parse::<i64>()) {
            (Ok(value), _) => lit(value),
            (_, Ok(value)) => lit(value),
            _ => decimal(digits).ok_or_else(|| out_of_range("DECIMAL"))?,
        },
    })
}

/// A decimal of as many digits as are written.
fn decimal(digits: &str) -> Option<Expr> {
    let mantissa = digits.split(['e', 'E']).next()?;
    let unsigned = mantissa.trim_start_matches(['-', '+']);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let exponent: i32 = match digits.split_once(['e', 'E']) {
        Some((_, exponent)) => exponent.parse().ok()?,
        None => 0,
    };
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?.max(0);
    let significant = whole.trim_start_matches('0').len() + fraction.len();
    let precision =
        i32::try_from(significant).ok()?.checked_add(exponent.max(0))?.max(scale).max(1);
    let (precision, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
    let value = crate::functions::cast::parse_decimal(digits, precision, scale).ok().flatten()?;
    (precision <= 38)
        .then(|| Expr::Literal(ScalarValue::Decimal128(Some(value), precision, scale), None))
}

/// The literal of an interval.
pub(super) fn interval(text: &str) -> Result<Expr> {
    let interval = CalendarInterval::parse(text).map_err(crate::error::plan)?;
    let nanos = interval.micros.checked_mul(1000).ok_or_else(|| {
        spark(
            "INTERVAL_ARITHMETIC_OVERFLOW",
            format!("the interval `{text}` is longer than 292 years"),
        )
    })?;
    let value = IntervalMonthDayNano::new(interval.months, interval.days, nanos);
    Ok(Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), None))
}

/// `DATE '...'`, `TIMESTAMP '...'`. Text without a zone is read in the session's, when it runs.
pub(super) fn typed(text: &str, name: &str, schema: &DFSchema) -> Result<Expr> {
    let to = type_named(name)?;
    let valid = match &to {
        DataType::Date32 => parse_date(text).is_some(),
        DataType::Timestamp(..) => parse_timestamp(text, Zone::UTC).is_some(),
        t if is_string(t) => true,
        _ => return Err(no_literal(name)),
    };
    if !valid {
        return Err(bad_literal(&to, text));
    }
    if to == DataType::Date32 {
        let days = parse_date(text).and_then(|days| i32::try_from(days).ok());
        return Ok(Expr::Literal(ScalarValue::Date32(days), None));
    }
    cast_expr(lit(text), &to, schema)
}
