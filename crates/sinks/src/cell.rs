//! One value of a column as text for people, as Spark's `show` writes it: points in time in the
//! zone of the session.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, FixedSizeBinaryArray, LargeBinaryArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::TimeZone;
use chrono_tz::Tz;
use fluvial_core::Result;
use std::fmt::Write;

/// Appends the value at `row` to `out`; null is `NULL`.
pub(crate) fn push_cell(out: &mut String, column: &ArrayRef, row: usize, zone: Tz) -> Result<()> {
    if column.is_null(row) {
        out.push_str("NULL");
        return Ok(());
    }
    match column.data_type() {
        DataType::Float32 => push_float(out, column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => push_float(out, column.as_primitive::<Float64Type>().value(row)),
        DataType::Timestamp(_, of) => {
            // What has no zone is shown as it is.
            let zone = of.as_ref().map_or(Tz::UTC, |_| zone);
            push_timestamp(out, &column.slice(row, 1), zone)?;
        }
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            push_bytes(out, bytes_at(column, row));
        }
        DataType::Struct(_) => push_struct(out, column.as_struct(), row, zone)?,
        DataType::List(_) => push_list(out, &column.as_list::<i32>().value(row), zone)?,
        DataType::LargeList(_) => push_list(out, &column.as_list::<i64>().value(row), zone)?,
        DataType::FixedSizeList(_, _) => {
            push_list(out, &column.as_fixed_size_list().value(row), zone)?;
        }
        DataType::Map(_, _) => push_map(out, &column.as_map().value(row), zone)?,
        DataType::Dictionary(_, value) => {
            push_cell(out, &cast(&column.slice(row, 1), value)?, 0, zone)?;
        }
        _ => {
            let plain = ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default())?;
            // Writing to a String cannot fail; the formatter can, on values out of range.
            write!(out, "{}", plain.value(row).try_to_string()?).expect("a string takes all");
        }
    }
    Ok(())
}

/// As Java: shortest digits, always a decimal point, an exponent outside `1e-3..1e7`.
fn push_float<F>(out: &mut String, value: F)
where
    F: Into<f64> + Copy + std::fmt::Display + std::fmt::LowerExp,
{
    let size: f64 = value.into();
    if size.is_nan() {
        out.push_str("NaN");
    } else if size.is_infinite() {
        out.push_str(if size > 0.0 { "Infinity" } else { "-Infinity" });
    } else if size == 0.0 || (1e-3..1e7).contains(&size.abs()) {
        let text = value.to_string();
        out.push_str(&text);
        if !text.contains('.') {
            out.push_str(".0");
        }
    } else {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        out.push_str(digits);
        if !digits.contains('.') {
            out.push_str(".0");
        }
        out.push('E');
        out.push_str(exponent);
    }
}

/// `yyyy-MM-dd HH:mm:ss[.SSSSSS]`, without zeros at the end of the fraction.
fn push_timestamp(out: &mut String, one: &ArrayRef, zone: Tz) -> Result<()> {
    let micros = cast(one, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    let value = micros.as_primitive::<TimestampMicrosecondType>().value(0);
    let Some(time) = arrow::temporal_conversions::timestamp_us_to_datetime(value) else {
        // Beyond the calendar of the library: the number is still the truth.
        out.push_str(&format!("{value} us"));
        return Ok(());
    };
    let local = zone.from_utc_datetime(&time).naive_local();
    out.push_str(&local.format("%Y-%m-%d %H:%M:%S").to_string());
    let fraction = value.rem_euclid(1_000_000);
    if fraction != 0 {
        out.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    Ok(())
}

fn bytes_at(column: &ArrayRef, row: usize) -> &[u8] {
    let any = column.as_any();
    if let Some(short) = any.downcast_ref::<BinaryArray>() {
        short.value(row)
    } else if let Some(large) = any.downcast_ref::<LargeBinaryArray>() {
        large.value(row)
    } else {
        any.downcast_ref::<FixedSizeBinaryArray>().map_or(&[], |fixed| fixed.value(row))
    }
}

/// `[48 65 6C]`.
fn push_bytes(out: &mut String, bytes: &[u8]) {
    out.push('[');
    for (i, byte) in bytes.iter().enumerate() {
        let gap = if i == 0 { "" } else { " " };
        out.push_str(&format!("{gap}{byte:02X}"));
    }
    out.push(']');
}

fn push_struct(out: &mut String, column: &StructArray, row: usize, zone: Tz) -> Result<()> {
    out.push('{');
    for (i, field) in column.columns().iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        push_cell(out, field, row, zone)?;
    }
    out.push('}');
    Ok(())
}

fn push_list(out: &mut String, items: &ArrayRef, zone: Tz) -> Result<()> {
    out.push('[');
    for row in 0..items.len() {
        if row > 0 {
            out.push_str(", ");
        }
        push_cell(out, items, row, zone)?;
    }
    out.push(']');
    Ok(())
}

fn push_map(out: &mut String, entries: &StructArray, zone: Tz) -> Result<()> {
    out.push('{');
    for row in 0..entries.len() {
        if row > 0 {
            out.push_str(", ");
        }
        push_cell(out, entries.column(0), row, zone)?;
        out.push_str(" -> ");
        push_cell(out, entries.column(1), row, zone)?;
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DictionaryArray, Float64Array, Int64Array, ListArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Field, Int32Type, Int64Type};
    use std::sync::Arc;

    fn texts(column: ArrayRef) -> Vec<String> {
        texts_in(Tz::UTC, column)
    }

    fn texts_in(zone: Tz, column: ArrayRef) -> Vec<String> {
        let text = |row| {
            let mut out = String::new();
            push_cell(&mut out, &column, row, zone).unwrap();
            out
        };
        (0..column.len()).map(text).collect()
    }

    #[test]
    fn floats_are_written_as_java_does() {
        let values = vec![1.0, -0.0, 0.1, 1e7, 12345678.5, 1e-3, 0.0001, f64::NAN, -f64::INFINITY];
        let expected =
            ["1.0", "-0.0", "0.1", "1.0E7", "1.23456785E7", "0.001", "1.0E-4", "NaN", "-Infinity"];
        assert_eq!(texts(Arc::new(Float64Array::from(values))), expected);
    }

    #[test]
    fn timestamps_lose_only_zeros_and_may_be_negative_or_far_away() {
        let column = TimestampMicrosecondArray::from(vec![
            Some(1_500_000),
            Some(-1),
            Some(60_000_000),
            None,
            Some(i64::MAX),
        ])
        .with_timezone("UTC");
        let expected = [
            "1970-01-01 00:00:01.5",
            "1969-12-31 23:59:59.999999",
            "1970-01-01 00:01:00",
            "NULL",
            "9223372036854775807 us",
        ];
        assert_eq!(texts(Arc::new(column)), expected);
    }

    /// As Spark's `show` with `spark.sql.session.timeZone` = Europe/Berlin.
    #[test]
    fn points_in_time_are_shown_in_the_zone_and_local_times_as_they_are() {
        // Before and in the hour that comes twice, and before zones were made.
        let times = vec![1_729_987_200_000_000, 1_729_990_800_000_000, -2_500_000_000_000_000];
        let plain = TimestampMicrosecondArray::from(times);
        let expected = ["2024-10-27 02:00:00", "2024-10-27 02:00:00", "1890-10-11 20:26:48"];
        let in_zone: ArrayRef = Arc::new(plain.clone().with_timezone("UTC"));
        assert_eq!(texts_in(Tz::Europe__Berlin, in_zone), expected);
        let utc = ["2024-10-27 00:00:00", "2024-10-27 01:00:00", "1890-10-11 19:33:20"];
        assert_eq!(texts_in(Tz::Europe__Berlin, Arc::new(plain)), utc);
    }

    #[test]
    fn nested_values_are_shown_in_place() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])]);
        let window = StructArray::from(vec![
            (
                Arc::new(Field::new("start", list.data_type().clone(), true)),
                Arc::new(list) as ArrayRef,
            ),
            (
                Arc::new(Field::new("end", DataType::Int64, true)),
                Arc::new(Int64Array::from(vec![2])) as ArrayRef,
            ),
        ]);
        assert_eq!(texts(Arc::new(window)), ["{[1, NULL], 2}"]);
        let none = StructArray::new_empty_fields(1, None);
        assert_eq!(texts(Arc::new(none)), ["{}"]);
    }

    #[test]
    fn bytes_and_dictionaries() {
        assert_eq!(
            texts(Arc::new(BinaryArray::from(vec![&b"Hel"[..], b""]))),
            ["[48 65 6C]", "[]"]
        );
        let words: DictionaryArray<Int32Type> =
            vec![Some("a"), None, Some("a")].into_iter().collect();
        assert_eq!(texts(Arc::new(words)), ["a", "NULL", "a"]);
    }
}
