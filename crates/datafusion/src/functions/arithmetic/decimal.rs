//! Decimals: exact, then rounded half up to the scale of the result.

use super::Op;
use crate::functions::cast::{CastMode, decimal_text};
use crate::functions::error::{decimal_out_of_range, divide_by_zero, overflow, remainder_by_zero};
use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, Int64Type, i256};
use datafusion::common::{DataFusionError, Result, internal_err};
use std::sync::Arc;

/// Why a row has no result.
enum Failure {
    ZeroDivisor,
    /// The value, unscaled, does not fit the result's precision.
    OutOfRange(i256),
}

/// One operation with the scales it works at.
struct Kernel {
    op: Op,
    scales: [i8; 2],
    precision: u8,
    scale: i8,
}

pub(super) fn apply(
    op: Op,
    mode: CastMode,
    left: &dyn Datum,
    right: &dyn Datum,
    result: &DataType,
) -> Result<ArrayRef> {
    let ((l, l_one), (r, r_one)) = (left.get(), right.get());
    let (l, r) = (l.as_primitive::<Decimal128Type>(), r.as_primitive::<Decimal128Type>());
    let (precision, scale) = match result {
        DataType::Decimal128(p, s) => (*p, *s),
        DataType::Int64 => (Decimal128Type::MAX_PRECISION, 0),
        other => return internal_err!("decimal arithmetic gives no {other}"),
    };
    let kernel = Kernel { op, scales: [l.scale(), r.scale()], precision, scale };
    let rows = if l_one && !r_one { r.len() } else { l.len() };
    let at = |array: &Decimal128Array, one: bool, row: usize| {
        let row = if one { 0 } else { row };
        array.is_valid(row).then(|| array.value(row))
    };
    let mut builder = Decimal128Array::builder(rows);
    for row in 0..rows {
        let (Some(a), Some(b)) = (at(l, l_one, row), at(r, r_one, row)) else {
            builder.append_null();
            continue;
        };
        match (kernel.value(a, b), mode) {
            (Ok(value), _) => builder.append_value(value),
            (Err(_), CastMode::Try) => builder.append_null(),
            (Err(failure), CastMode::Ansi) => return Err(kernel.error(failure)),
        }
    }
    let array = builder.finish();
    if *result == DataType::Int64 {
        let whole: PrimitiveArray<Int64Type> = match mode {
            CastMode::Try => array.unary_opt(|v| i64::try_from(v).ok()),
            CastMode::Ansi => array
                .try_unary(|v| i64::try_from(v).map_err(|_| overflow("the result of `div`")))?,
        };
        return Ok(Arc::new(whole));
    }
    Ok(Arc::new(array.with_data_type(result.clone())))
}

impl Kernel {
    fn value(&self, l: i128, r: i128) -> Result<i128, Failure> {
        if let Some(value) = self.narrow(l, r) {
            return Ok(value);
        }
        self.wide(i256::from_i128(l), i256::from_i128(r))
    }

    /// Sums of equal scales and small products, in 128 bits; `None` if in doubt.
    fn narrow(&self, l: i128, r: i128) -> Option<i128> {
        let [s1, s2] = self.scales;
        let value = match self.op {
            Op::Add if s1 == s2 && s1 == self.scale => l.checked_add(r)?,
            Op::Subtract if s1 == s2 && s1 == self.scale => l.checked_sub(r)?,
            Op::Multiply if i32::from(s1) + i32::from(s2) == i32::from(self.scale) => {
                l.checked_mul(r)?
            }
            _ => return None,
        };
        crate::functions::cast::fit_decimal(value, self.precision)
    }

    fn wide(&self, l: i256, r: i256) -> Result<i128, Failure> {
        let [s1, s2] = self.scales.map(i32::from);
        let scale = i32::from(self.scale);
        let aligned = s1.max(s2);
        let up = |v: i256, by: i32| shift(v, by).ok_or(Failure::OutOfRange(v));
        let (value, value_scale) = match self.op {
            Op::Add => (up(l, aligned - s1)?.wrapping_add(up(r, aligned - s2)?), aligned),
            Op::Subtract => (up(l, aligned - s1)?.wrapping_sub(up(r, aligned - s2)?), aligned),
            Op::Multiply => (l.checked_mul(r).ok_or(Failure::OutOfRange(l))?, s1 + s2),
            _ if r == i256::ZERO => return Err(Failure::ZeroDivisor),
            Op::Divide => {
                // Bring the dividend up so that the quotient has the result's scale.
                let by = scale - s1 + s2;
                (div_half_up(up(l, by.max(0))?, up(r, (-by).max(0))?), scale)
            }
            Op::IntegralDivide => (up(l, aligned - s1)?.wrapping_div(up(r, aligned - s2)?), 0),
            Op::Remainder | Op::PositiveRemainder => {
                let (l, r) = (up(l, aligned - s1)?, up(r, aligned - s2)?);
                let mut rest = l.wrapping_rem(r);
                if self.op == Op::PositiveRemainder && rest < i256::ZERO {
                    rest = rest.wrapping_add(r).wrapping_rem(r);
                }
                (rest, aligned)
            }
        };
        let value = match scale - value_scale {
            by if by >= 0 => up(value, by)?,
            by => div_half_up(value, shift(i256::ONE, -by).ok_or(Failure::OutOfRange(value))?),
        };
        value
            .to_i128()
            .and_then(|v| crate::functions::cast::fit_decimal(v, self.precision))
            .ok_or(Failure::OutOfRange(value))
    }

    fn error(&self, failure: Failure) -> DataFusionError {
        match failure {
            Failure::ZeroDivisor => match self.op {
                Op::Remainder | Op::PositiveRemainder => remainder_by_zero(),
                _ => divide_by_zero(),
            },
            Failure::OutOfRange(value) => {
                let text = match value.to_i128() {
                    Some(value) => decimal_text(value, self.scale),
                    None => format!("{value} (unscaled)"),
                };
                decimal_out_of_range(&text, self.precision, self.scale)
            }
        }
    }
}

/// `value * 10^by`.
fn shift(value: i256, by: i32) -> Option<i256> {
    let ten = i256::from_i128(10);
    value.checked_mul(ten.checked_pow(u32::try_from(by).ok()?)?)
}

fn div_half_up(value: i256, by: i256) -> i256 {
    let (quotient, rest) = (value.wrapping_div(by), value.wrapping_rem(by));
    if rest.wrapping_abs() >= by.wrapping_abs().wrapping_sub(rest.wrapping_abs()) {
        let up = (value < i256::ZERO) == (by < i256::ZERO);
        let one = if up { i256::ONE } else { i256::MINUS_ONE };
        quotient.wrapping_add(one)
    } else {
        quotient
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_away_from_zero() {
        let div = |a: i128, b: i128| {
            div_half_up(i256::from_i128(a), i256::from_i128(b)).to_i128().unwrap()
        };
        assert_eq!([div(5, 2), div(-5, 2), div(5, -2), div(-5, -2)], [3, -3, -3, 3]);
        assert_eq!([div(4, 3), div(5, 3), div(-4, 3), div(0, 7)], [1, 2, -1, 0]);
    }
}
