//! Values as text: how Spark reads times, dates, decimals and bytes from text files.

pub(crate) mod base64;
pub(crate) mod date;
pub(crate) mod decimal;
pub(crate) mod locale;
pub(crate) mod pattern;
pub(crate) mod timestamp;
pub(crate) mod zone;

use crate::column::Column;
use pattern::Pattern;

/// Appends the value that `text` means; `false` if it is none of the column's type, when nothing
/// is appended.
pub(crate) fn push(column: &mut Column, text: &str) -> bool {
    let bytes = text.as_bytes();
    let pushed = match column {
        Column::Utf8(out) | Column::Binary(out) => {
            out.push(bytes);
            Some(())
        }
        Column::Boolean(out) => {
            let value = text.eq_ignore_ascii_case("true");
            (value || text.eq_ignore_ascii_case("false")).then(|| out.push(value))
        }
        Column::Int8(out) => text.parse().ok().map(|value| out.push(value)),
        Column::Int16(out) => text.parse().ok().map(|value| out.push(value)),
        Column::Int32(out) => text.parse().ok().map(|value| out.push(value)),
        Column::Int64(out) => text.parse().ok().map(|value| out.push(value)),
        Column::Float32(out) => float(text).map(|value| out.push(value)),
        Column::Float64(out) => float(text).map(|value| out.push(value)),
        Column::Decimal(out, precision, scale) => {
            decimal::parse_text(bytes, *precision, *scale).map(|value| out.push(value))
        }
        Column::Date(out, form) => read_date(bytes, form.as_deref()).map(|days| out.push(days)),
        Column::Timestamp(out, reading, form) => {
            reading.read(bytes, form.as_deref()).map(|micros| out.push(micros))
        }
        Column::Void(_) | Column::List(_) | Column::Struct(_) | Column::Map(_) => None,
    };
    pushed.is_some()
}

/// A date, in the form that the user gave or the usual one.
pub(crate) fn read_date(text: &[u8], form: Option<&Pattern>) -> Option<i32> {
    match form {
        Some(form) => form.date(text),
        None => date::parse(text),
    }
}

/// A number as Java reads one, with blanks around it and the mark of a type behind it, or one of
/// Java's words for what is none.
fn float<T: std::str::FromStr + From<f32>>(text: &str) -> Option<T> {
    let text = text.trim_matches(|c: char| c <= ' ');
    match text {
        "NaN" | "+NaN" | "-NaN" => return Some(f32::NAN.into()),
        "Infinity" | "+Infinity" => return Some(f32::INFINITY.into()),
        "-Infinity" => return Some(f32::NEG_INFINITY.into()),
        _ => {}
    }
    let number = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    // The standard library knows more words.
    let words = number.contains(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
    if words { None } else { number.parse().ok() }
}
