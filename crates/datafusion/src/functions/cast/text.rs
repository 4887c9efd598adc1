//! Values as text, as Spark prints them: `1.0E20`, `[1, null]`, `{a -> 1}`.

use super::decimal::decimal_text;
use crate::functions::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, write_date, write_timestamp};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::compute;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use std::fmt::Write;
use std::sync::Arc;

/// Every value of a column as text.
pub(super) fn to_strings(array: &ArrayRef, zone: Zone) -> Result<ArrayRef> {
    let mut builder = StringBuilder::with_capacity(array.len(), array.len() * 8);
    let mut text = String::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
        } else {
            text.clear();
            write_value(&array, row, zone, &mut text)?;
            builder.append_value(&text);
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Text in another form, or bytes read as UTF-8 (what is not becomes U+FFFD).
pub(super) fn bytes_as_text(array: &ArrayRef) -> Result<ArrayRef> {
    if super::is_string(array.data_type()) {
        return Ok(compute::cast(array, &DataType::Utf8)?);
    }
    let bytes = compute::cast(array, &DataType::Binary)?;
    let text = bytes.as_binary::<i32>().iter();
    let text = text.map(|value| value.map(String::from_utf8_lossy));
    Ok(Arc::new(text.collect::<StringArray>()))
}

/// Appends one value; `null` for null.
pub(crate) fn write_value(
    array: &dyn Array,
    row: usize,
    zone: Zone,
    out: &mut String,
) -> Result<()> {
    if array.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    // Writing to a string cannot fail.
    let _ = match array.data_type() {
        DataType::Boolean => write!(out, "{}", array.as_boolean().value(row)),
        DataType::Int8 => write!(out, "{}", array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => write!(out, "{}", array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => write!(out, "{}", array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => write!(out, "{}", array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => {
            write_float(array.as_primitive::<Float32Type>().value(row), out);
            Ok(())
        }
        DataType::Float64 => {
            write_double(array.as_primitive::<Float64Type>().value(row), out);
            Ok(())
        }
        DataType::Decimal128(_, scale) => {
            let value = array.as_primitive::<Decimal128Type>().value(row);
            write!(out, "{}", decimal_text(value, *scale))
        }
        DataType::Utf8 => write!(out, "{}", array.as_string::<i32>().value(row)),
        DataType::Binary => {
            write!(out, "{}", String::from_utf8_lossy(array.as_binary::<i32>().value(row)))
        }
        DataType::Date32 => {
            write_date(array.as_primitive::<Date32Type>().value(row).into(), out);
            Ok(())
        }
        DataType::Timestamp(TimeUnit::Microsecond, has_zone) => {
            let value = array.as_primitive::<TimestampMicrosecondType>().value(row);
            write_timestamp(if has_zone.is_some() { zone.to_local(value) } else { value }, out);
            Ok(())
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            write_day_time(array.as_primitive::<DurationMicrosecondType>().value(row), out);
            Ok(())
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            write_calendar(value.months, value.days, value.nanoseconds / 1000, out);
            Ok(())
        }
        DataType::List(_) => {
            let values = array.as_list::<i32>().value(row);
            out.push('[');
            for i in 0..values.len() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_value(&values, i, zone, out)?;
            }
            out.push(']');
            Ok(())
        }
        DataType::Struct(_) => {
            out.push('{');
            for (i, column) in array.as_struct().columns().iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_value(column, row, zone, out)?;
            }
            out.push('}');
            Ok(())
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            out.push('{');
            for i in 0..entries.len() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_value(keys, i, zone, out)?;
                out.push_str(" -> ");
                write_value(values, i, zone, out)?;
            }
            out.push('}');
            Ok(())
        }
        _ => {
            let options = FormatOptions::default().with_null("null");
            write!(out, "{}", ArrayFormatter::try_new(array, &options)?.value(row))
        }
    };
    Ok(())
}

/// `1.0`, `1.0E20`, `NaN`: as `Double.toString` in Java.
pub(crate) fn double_text(value: f64) -> String {
    let mut out = String::new();
    write_double(value, &mut out);
    out
}

fn write_double(value: f64, out: &mut String) {
    if !write_special(value, out) {
        if plain(value.abs()) {
            let _ = write!(out, "{value:?}");
        } else {
            write_exponent(&format!("{value:e}"), out);
        }
    }
}

fn write_float(value: f32, out: &mut String) {
    if !write_special(value.into(), out) {
        if plain(value.abs().into()) {
            let _ = write!(out, "{value:?}");
        } else {
            write_exponent(&format!("{value:e}"), out);
        }
    }
}

/// Java writes no exponent from a thousandth to ten million.
fn plain(magnitude: f64) -> bool {
    magnitude == 0.0 || (1e-3..1e7).contains(&magnitude)
}

fn write_special(value: f64, out: &mut String) -> bool {
    let text = if value.is_nan() {
        "NaN"
    } else if value == f64::INFINITY {
        "Infinity"
    } else if value == f64::NEG_INFINITY {
        "-Infinity"
    } else {
        return false;
    };
    out.push_str(text);
    true
}

/// `1e20` as `1.0E20`.
fn write_exponent(text: &str, out: &mut String) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    out.push_str(digits);
    if !digits.contains('.') {
        out.push_str(".0");
    }
    out.push('E');
    out.push_str(exponent);
}

/// `INTERVAL '1 02:03:04.5' DAY TO SECOND`.
fn write_day_time(micros: i64, out: &mut String) {
    let sign = if micros < 0 { "-" } else { "" };
    let total = i128::from(micros).unsigned_abs();
    let per_second = MICROS_PER_SECOND.unsigned_abs();
    let days = total / u128::from(MICROS_PER_DAY.unsigned_abs());
    let seconds = total / u128::from(per_second) % 86_400;
    let fraction = total % u128::from(per_second);
    let _ = write!(
        out,
        "INTERVAL '{sign}{days} {:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    if fraction != 0 {
        let _ = write!(out, ".{fraction:06}");
        out.truncate(out.trim_end_matches('0').len());
    }
    out.push_str("' DAY TO SECOND");
}

/// `1 years 2 months 3 days 4 hours 5 minutes 6.5 seconds`, without what is zero.
fn write_calendar(months: i32, days: i32, micros: i64, out: &mut String) {
    let start = out.len();
    let mut part = |value: i64, unit: &str| {
        if value != 0 {
            let _ = write!(out, "{}{value} {unit}", if out.len() == start { "" } else { " " });
        }
    };
    part((months / 12).into(), "years");
    part((months % 12).into(), "months");
    part(days.into(), "days");
    let seconds = micros / MICROS_PER_SECOND;
    part(seconds / 3600, "hours");
    part(seconds / 60 % 60, "minutes");
    let rest = micros % (60 * MICROS_PER_SECOND);
    if rest != 0 {
        let separator = if out.len() == start { "" } else { " " };
        let mut text = decimal_text(rest.into(), 6);
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        let _ = write!(out, "{separator}{text} seconds");
    }
    if out.len() == start {
        out.push_str("0 seconds");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_look_as_in_java() {
        for (value, text) in [
            (1.0, "1.0"),
            (1e20, "1.0E20"),
            (1e7, "1.0E7"),
            (1_234_567.0, "1234567.0"),
            (12_345_678.9, "1.23456789E7"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(value), text);
        }
        let mut out = String::new();
        write_float(0.1, &mut out);
        write_float(123_456_789.0, &mut out);
        assert_eq!(out, "0.11.2345679E8");
    }

    #[test]
    fn intervals_leave_out_what_is_zero() {
        let mut out = String::new();
        write_calendar(14, -3, 5_400_500_000, &mut out);
        assert_eq!(out, "1 years 2 months -3 days 1 hours 30 minutes 0.5 seconds");
    }
}
