//! Text into values: numbers, booleans, dates and timestamps, as Spark reads them.

use super::decimal::parse_decimal;
use super::{CastContext, CastMode};
use crate::functions::calendar::{Civil, MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::functions::error::decimal_out_of_range;
use crate::functions::zone::Zone;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanBuilder, PrimitiveBuilder, StringArray,
};
use arrow::compute;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    TimestampMicrosecondType,
};
use datafusion::common::{Result, internal_err};
use fluvial_core::interval::CalendarInterval;
use std::sync::Arc;

pub(super) fn from_strings(input: &StringArray, context: &CastContext<'_>) -> Result<ArrayRef> {
    let zone = context.zone;
    match context.to {
        DataType::Int8 => primitive::<Int8Type>(input, context, |s| narrow(parse_long(s)?)),
        DataType::Int16 => primitive::<Int16Type>(input, context, |s| narrow(parse_long(s)?)),
        DataType::Int32 => primitive::<Int32Type>(input, context, |s| narrow(parse_long(s)?)),
        DataType::Int64 => primitive::<Int64Type>(input, context, parse_long),
        DataType::Float32 => primitive::<Float32Type>(input, context, parse_float),
        DataType::Float64 => primitive::<Float64Type>(input, context, parse_double),
        DataType::Decimal128(p, s) => decimals(input, context, *p, *s),
        DataType::Boolean => booleans(input, context),
        DataType::Date32 => {
            primitive::<Date32Type>(input, context, |s| i32::try_from(parse_date(s)?).ok())
        }
        DataType::Timestamp(_, Some(_)) => {
            primitive::<TimestampMicrosecondType>(input, context, |s| parse_timestamp(s, zone))
        }
        DataType::Timestamp(_, None) => {
            primitive::<TimestampMicrosecondType>(input, context, parse_local_timestamp)
        }
        DataType::Interval(_) => primitive::<IntervalMonthDayNanoType>(input, context, |s| {
            let CalendarInterval { months, days, micros } = CalendarInterval::parse(s).ok()?;
            let nanos = micros.checked_mul(1000)?;
            Some(IntervalMonthDayNano::new(months, days, nanos))
        }),
        DataType::Duration(_) => primitive::<DurationMicrosecondType>(input, context, |s| {
            Some(CalendarInterval::parse(s).ok()?.to_fixed().ok()?.0)
        }),
        DataType::Binary => Ok(compute::cast(input, context.to)?),
        other if super::is_binary(other) => Ok(compute::cast(input, other)?),
        other => internal_err!("no cast from text to {other}"),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    input: &StringArray,
    context: &CastContext<'_>,
    parse: impl Fn(&str) -> Option<T::Native>,
) -> Result<ArrayRef> {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(input.len());
    for text in input {
        match text.map(|text| (text, parse(text))) {
            Some((_, Some(value))) => builder.append_value(value),
            Some((text, None)) if context.mode == CastMode::Ansi => {
                return Err(context.malformed(text));
            }
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish().with_data_type(context.to.clone())))
}

fn decimals(input: &StringArray, context: &CastContext<'_>, p: u8, s: i8) -> Result<ArrayRef> {
    let mut builder = PrimitiveBuilder::<Decimal128Type>::with_capacity(input.len());
    for text in input {
        match text.map(|text| (text, parse_decimal(text, p, s))) {
            Some((_, Ok(Some(value)))) => builder.append_value(value),
            Some((text, failure)) if context.mode == CastMode::Ansi => {
                return Err(match failure {
                    Err(()) => context.malformed(text),
                    Ok(_) => decimal_out_of_range(text, p, s),
                });
            }
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish().with_data_type(context.to.clone())))
}

fn booleans(input: &StringArray, context: &CastContext<'_>) -> Result<ArrayRef> {
    let mut builder = BooleanBuilder::with_capacity(input.len());
    for text in input {
        let value = text.map(|text| (text, parse_boolean(text)));
        match value {
            Some((_, Some(value))) => builder.append_value(value),
            Some((text, None)) if context.mode == CastMode::Ansi => {
                return Err(context.malformed(text));
            }
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Java's idea of white space around numbers: everything up to the blank.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

fn narrow<T: TryFrom<i64>>(value: i64) -> Option<T> {
    T::try_from(value).ok()
}

fn parse_long(text: &str) -> Option<i64> {
    trim(text).parse().ok()
}

fn parse_boolean(text: &str) -> Option<bool> {
    let text = trim(text);
    let is = |names: &[&str]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    if is(&["t", "true", "y", "yes", "1"]) {
        Some(true)
    } else if is(&["f", "false", "n", "no", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// What Java's `Double.parseDouble` takes, and the names of the special values in any case.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let text = trim(text);
    match special(text) {
        Some(value) => Some(value),
        None => number(text)?.parse().ok(),
    }
}

fn parse_float(text: &str) -> Option<f32> {
    let text = trim(text);
    match special(text) {
        Some(value) => Some(value as f32),
        None => number(text)?.parse().ok(),
    }
}

fn special(text: &str) -> Option<f64> {
    let is = |names: &[&str]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    if is(&["nan"]) {
        Some(f64::NAN)
    } else if is(&["infinity", "+infinity", "inf", "+inf"]) {
        Some(f64::INFINITY)
    } else if is(&["-infinity", "-inf"]) {
        Some(f64::NEG_INFINITY)
    } else {
        None
    }
}

/// Digits, point and exponent, without Java's type suffix. Rust also reads names: not here.
fn number(text: &str) -> Option<&str> {
    let digits = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let allowed = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-' | b'e' | b'E');
    digits.bytes().all(allowed).then_some(digits)
}

/// A cursor over the bytes of a date or time.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    /// A number of `min` to `max` digits; more digits are not a number.
    fn digits(&mut self, min: usize, max: usize) -> Option<i64> {
        let bytes = &self.text.as_bytes()[self.at..];
        let length = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
        if length < min || length > max {
            return None;
        }
        let value = bytes[..length].iter().fold(0, |v, b| v * 10 + i64::from(b - b'0'));
        self.at += length;
        Some(value)
    }

    /// `[+-]yyyy[-m[-d]]`; whether a day was given.
    fn date(&mut self, max_year_digits: usize) -> Option<(Civil, bool)> {
        let negative = self.eat(b'-');
        if !negative {
            self.eat(b'+');
        }
        let year = self.digits(4, max_year_digits)?;
        let year = if negative { -year } else { year };
        let (mut month, mut day, mut whole) = (1, 1, false);
        if self.eat(b'-') {
            month = self.digits(1, 2)?;
            if self.eat(b'-') {
                day = self.digits(1, 2)?;
                whole = true;
            }
        }
        Some((Civil::new(year, month, day)?, whole))
    }

    /// `h[:m[:s[.f]]]` as microseconds of the day.
    fn time(&mut self) -> Option<i64> {
        let hour = self.digits(1, 2)?;
        let (mut minute, mut second, mut micros) = (0, 0, 0);
        if self.eat(b':') {
            minute = self.digits(1, 2)?;
            if self.eat(b':') {
                second = self.digits(1, 2)?;
                if self.eat(b'.') {
                    let bytes = &self.text.as_bytes()[self.at..];
                    let length = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
                    // Microseconds have six digits: missing ones are zeros, more are cut off.
                    let digits = bytes[..length].iter().copied().chain(std::iter::repeat(b'0'));
                    micros = digits.take(6).fold(0, |v, digit| v * 10 + i64::from(digit - b'0'));
                    self.at += length;
                }
            }
        }
        let fits = hour < 24 && minute < 60 && second < 60;
        fits.then_some((hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + micros)
    }
}

/// Days since the epoch. After a whole date, a blank or `T`, anything may follow.
pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let mut scanner = Scanner { text: trim(text), at: 0 };
    let (date, whole) = scanner.date(7)?;
    let ends = match scanner.rest().as_bytes().first() {
        None => true,
        Some(b' ' | b'T') => whole,
        Some(_) => false,
    };
    ends.then(|| date.days())
}

/// Microseconds since the epoch; a text without a zone is read in `zone`.
///
/// A time without a date, which Spark reads as of today, is refused: a batch must give the same
/// result on any day.
pub(crate) fn parse_timestamp(text: &str, zone: Zone) -> Option<i64> {
    let (local, named) = parse_parts(text)?;
    let micros = named.unwrap_or(zone).to_utc(local);
    Some(micros)
}

/// A local reading; a zone in the text is checked and ignored.
fn parse_local_timestamp(text: &str) -> Option<i64> {
    parse_parts(text).map(|(local, _)| local)
}

fn parse_parts(text: &str) -> Option<(i64, Option<Zone>)> {
    let mut scanner = Scanner { text: trim(text), at: 0 };
    let (date, whole) = scanner.date(6)?;
    let midnight = date.days().checked_mul(MICROS_PER_DAY)?;
    if scanner.rest().is_empty() {
        return Some((midnight, None));
    }
    if !whole || !(scanner.eat(b' ') || scanner.eat(b'T')) {
        return None;
    }
    let local = midnight.checked_add(scanner.time()?)?;
    match scanner.rest().trim() {
        "" => Some((local, None)),
        name => Some((local, Some(Zone::parse(name)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = (parse_date(&text), parse_timestamp(&text, Zone::UTC), parse_double(&text));
        }

        #[test]
        fn what_is_written_is_read(micros in -62_135_596_800_000_000_i64..253_402_300_799_999_999) {
            let mut text = String::new();
            crate::functions::calendar::write_timestamp(micros, &mut text);
            prop_assert_eq!(parse_timestamp(&text, Zone::UTC), Some(micros));
        }
    }

    #[test]
    fn a_time_without_a_date_is_refused() {
        assert_eq!(parse_timestamp("12:34:56", Zone::UTC), None);
        assert_eq!(parse_timestamp("T12:34", Zone::UTC), None);
    }
}
