//! Numbers as text in other forms.

use crate::functions::cast::{decimal_text, parse_decimal};
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Decimal128Type, Int32Type};
use datafusion::common::Result;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Int, Number, Text};
    vec![
        Spec::new(&["format_number"], &[Number, Int], Gives::Text, format_number).may_be_null(),
        Spec::new(&["conv"], &[Text, Int, Int], Gives::Text, conv).may_be_null(),
    ]
}

/// `1,234,567.89`: rounded half to even, as Java's number formats do.
fn format_number(call: &Call<'_>) -> Result<ArrayRef> {
    let places = call.args[1].as_primitive::<Int32Type>();
    let numbers = &call.args[0];
    let doubles = arrow::compute::cast(numbers, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<arrow::datatypes::Float64Type>();
    let one = |row: usize| -> Option<String> {
        if numbers.is_null(row) || places.is_null(row) || places.value(row) < 0 {
            return None;
        }
        let places = places.value(row) as usize;
        let text = match numbers.data_type() {
            DataType::Decimal128(_, scale) => {
                let value = numbers.as_primitive::<Decimal128Type>().value(row);
                let exact = decimal_text(value, *scale);
                let rounded = parse_decimal(&exact, 38, places.min(38) as i8).ok().flatten();
                rounded.map_or(exact, |v| decimal_text(v, places.min(38) as i8))
            }
            _ => {
                let value = doubles.value(row);
                if value.is_nan() {
                    return Some("NaN".to_owned());
                }
                format!("{value:.places$}")
            }
        };
        Some(grouped(&text))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<StringArray>()))
}

/// Commas between groups of three digits before the point.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut out = sign.to_owned();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A number of one base as one of another.
fn conv(call: &Call<'_>) -> Result<ArrayRef> {
    let (from, to) =
        (call.args[1].as_primitive::<Int32Type>(), call.args[2].as_primitive::<Int32Type>());
    let text = call.text(0);
    let one = |row: usize| -> Option<String> {
        if text.is_null(row) || from.is_null(row) || to.is_null(row) {
            return None;
        }
        let (from, to) = (from.value(row).unsigned_abs(), to.value(row));
        if !(2..=36).contains(&from) || !(2..=36).contains(&to.unsigned_abs()) {
            return None;
        }
        let text = text.value(row).trim();
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        // Reading ends at the first character that is no digit of the base.
        let value = digits.chars().map_while(|c| c.to_digit(from)).try_fold(0_u64, |v, digit| {
            v.checked_mul(from.into()).and_then(|v| v.checked_add(digit.into()))
        });
        let value = value.unwrap_or(u64::MAX);
        let value = if negative { value.wrapping_neg() } else { value };
        Some(if to < 0 && (value as i64) < 0 {
            format!("-{}", in_base(value.wrapping_neg(), to.unsigned_abs()))
        } else {
            in_base(value, to.unsigned_abs())
        })
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<StringArray>()))
}

fn in_base(mut value: u64, base: u32) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = (value % u64::from(base)) as u32;
        digits.extend(char::from_digit(digit, base).map(|c| c.to_ascii_uppercase()));
        value /= u64::from(base);
        if value == 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}
