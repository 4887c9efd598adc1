//! One JSON value into one column, by the rules of Spark.
//!
//! A value of another kind than its column is *bad*: it leaves a null and marks the line, and
//! the rest of the line is kept. What is not JSON at all ends the line.

use super::object::Shape;
use super::scan::{Cursor, Number, Quoted, Syntax};
use super::unescape::unescape;
use crate::column::{Bytes, Column, List, Map, Numbers};
use crate::text::pattern::Pattern;
use crate::text::timestamp::Reading;
use crate::text::{base64, decimal, read_date};
use arrow::array::types::ArrowPrimitiveType;

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Appended.
    Good,
    /// Appended, with a part of it missing.
    Partial,
    /// Skipped: nothing was appended.
    Bad,
}

use Outcome::{Bad, Good, Partial};

/// A column with what is needed to fill it.
#[derive(Debug)]
pub(super) enum Reader {
    Scalar,
    List(Box<Reader>),
    Map(Box<Reader>),
    Struct(Box<Shape>),
}

impl Reader {
    /// Reads the value at the cursor and appends it to `column`.
    #[inline]
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        column: &mut Column,
        scratch: &mut Vec<u8>,
    ) -> Result<Outcome, Syntax> {
        // What machines write most, before all else.
        match (cursor.peek(), &mut *column) {
            (b'"', Column::Utf8(out)) => {
                push_text(cursor.quoted()?, out);
                return Ok(Good);
            }
            (b'0'..=b'9', Column::Int64(out)) => {
                return integer(cursor, out, |n| i64::try_from(n).ok());
            }
            (b'0'..=b'9', Column::Float64(out)) => return double(cursor, out),
            (b'n', column) if cursor.word(b"null") => {
                column.push_null();
                return Ok(Good);
            }
            _ => {}
        }
        match (self, column) {
            (Self::List(reader), Column::List(list)) if cursor.peek() == b'[' => {
                reader.read_list(cursor, list, scratch)
            }
            (Self::Map(reader), Column::Map(map)) if cursor.peek() == b'{' => {
                reader.read_map(cursor, map, scratch)
            }
            (Self::Struct(shape), Column::Struct(fields)) if cursor.peek() == b'{' => {
                let good = shape.read(cursor, &mut fields.children, scratch)?;
                fields.close();
                Ok(if good { Good } else { Partial })
            }
            (Self::Scalar, column) => scalar(cursor, column, scratch),
            _ => skip(cursor),
        }
    }

    /// A list with a bad item is bad as a whole, as in Spark: a null in place of the item would
    /// look like data.
    fn read_list(
        &mut self,
        cursor: &mut Cursor<'_>,
        list: &mut List,
        scratch: &mut Vec<u8>,
    ) -> Result<Outcome, Syntax> {
        let start = list.items.len();
        let mut outcome = Good;
        cursor.need(b'[')?;
        cursor.blanks();
        let mut more = !cursor.eat(b']');
        while more {
            outcome = match (outcome, self.read(cursor, &mut list.items, scratch)?) {
                (Bad, _) | (_, Bad) => Bad,
                (Good, Good) => Good,
                _ => Partial,
            };
            more = cursor.more(b']')?;
        }
        if outcome == Bad {
            list.items.truncate(start);
        } else {
            list.close();
        }
        Ok(outcome)
    }

    fn read_map(
        &mut self,
        cursor: &mut Cursor<'_>,
        map: &mut Map,
        scratch: &mut Vec<u8>,
    ) -> Result<Outcome, Syntax> {
        let start = map.keys.len();
        let mut outcome = Good;
        cursor.need(b'{')?;
        cursor.blanks();
        let mut more = !cursor.eat(b'}');
        while more {
            let key = cursor.quoted()?;
            cursor.blanks();
            cursor.need(b':')?;
            cursor.blanks();
            push_text(key, &mut map.keys);
            outcome = match (outcome, self.read(cursor, &mut map.values, scratch)?) {
                (Bad, _) | (_, Bad) => Bad,
                (Good, Good) => Good,
                _ => Partial,
            };
            more = cursor.more(b'}')?;
        }
        if outcome == Bad {
            map.keys.truncate(start);
            map.values.truncate(start);
        } else {
            map.close();
        }
        Ok(outcome)
    }
}

fn skip(cursor: &mut Cursor<'_>) -> Result<Outcome, Syntax> {
    cursor.skip().map(|()| Bad)
}

fn push_text(text: Quoted<'_>, out: &mut Bytes) {
    if text.escaped {
        unescape(text, &mut out.values);
        out.close();
    } else {
        out.push(text.raw);
    }
}

#[inline]
fn scalar(
    cursor: &mut Cursor<'_>,
    column: &mut Column,
    scratch: &mut Vec<u8>,
) -> Result<Outcome, Syntax> {
    match column {
        Column::Utf8(out) => text(cursor, out),
        Column::Int64(out) => integer(cursor, out, |n| i64::try_from(n).ok()),
        Column::Float64(out) => double(cursor, out),
        Column::Timestamp(out, reading, form) => {
            instant(cursor, out, (*reading, form.as_deref()), scratch)
        }
        Column::Int32(out) => integer(cursor, out, |n| i32::try_from(n).ok()),
        Column::Int16(out) => integer(cursor, out, |n| i16::try_from(n).ok()),
        Column::Int8(out) => integer(cursor, out, |n| i8::try_from(n).ok()),
        Column::Float32(out) => single(cursor, out),
        Column::Boolean(out) => {
            let value = cursor.word(b"true");
            if !value && !cursor.word(b"false") {
                return skip(cursor);
            }
            out.push(value);
            Ok(Good)
        }
        Column::Decimal(out, precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            let value = if is_number(cursor) {
                decimal::parse(cursor.number()?.raw, precision, scale)
            } else {
                string(cursor, scratch)?
                    .and_then(|text| decimal::parse_text(text, precision, scale))
            };
            Ok(push(out, value))
        }
        Column::Date(out, form) => {
            let form = form.as_deref();
            let text = string(cursor, scratch)?;
            // As in Spark, digits alone are days since the epoch where no form is given.
            let days = |text: &[u8]| str::from_utf8(text).ok()?.parse().ok();
            let value = text.and_then(|text| match form {
                Some(_) => read_date(text, form),
                None => read_date(text, form).or_else(|| days(text)),
            });
            Ok(push(out, value))
        }
        Column::Binary(out) => match string(cursor, scratch)? {
            Some(text) if base64::decode(text, &mut out.values) => {
                out.close();
                Ok(Good)
            }
            _ => {
                out.abandon();
                Ok(Bad)
            }
        },
        Column::Void(_) | Column::List(_) | Column::Struct(_) | Column::Map(_) => skip(cursor),
    }
}

fn push<T: ArrowPrimitiveType>(out: &mut Numbers<T>, value: Option<T::Native>) -> Outcome {
    match value {
        Some(value) => {
            out.push(value);
            Good
        }
        None => Bad,
    }
}

fn is_number(cursor: &Cursor<'_>) -> bool {
    match cursor.rest() {
        [b'0'..=b'9', ..] => true,
        [b'-', next, ..] => *next != b'I',
        _ => false,
    }
}

/// The string at the cursor; `None` if it is another value, which is skipped.
fn string<'r, 'a: 'r>(
    cursor: &mut Cursor<'a>,
    scratch: &'r mut Vec<u8>,
) -> Result<Option<&'r [u8]>, Syntax> {
    if !matches!(cursor.peek(), b'"' | b'\'') {
        cursor.skip()?;
        return Ok(None);
    }
    let text = cursor.quoted()?;
    if !text.escaped {
        return Ok(Some(text.raw));
    }
    scratch.clear();
    unescape(text, scratch);
    Ok(Some(scratch))
}

/// A text column takes any value: what is not a string as it is written.
#[inline]
fn text(cursor: &mut Cursor<'_>, out: &mut Bytes) -> Result<Outcome, Syntax> {
    if matches!(cursor.peek(), b'"' | b'\'') {
        push_text(cursor.quoted()?, out);
    } else {
        let start = cursor.at;
        cursor.skip()?;
        out.push(&cursor.text[start..cursor.at]);
    }
    Ok(Good)
}

#[inline]
fn integer<T: ArrowPrimitiveType>(
    cursor: &mut Cursor<'_>,
    out: &mut Numbers<T>,
    narrow: impl Fn(i128) -> Option<T::Native>,
) -> Result<Outcome, Syntax> {
    if !is_number(cursor) {
        return skip(cursor);
    }
    let number = cursor.number()?;
    Ok(push(out, whole(number).and_then(narrow)))
}

#[inline]
fn whole(number: Number<'_>) -> Option<i128> {
    let magnitude = i128::from(number.mantissa);
    (number.integral && number.exact).then_some(if number.negative {
        -magnitude
    } else {
        magnitude
    })
}

#[inline]
fn double(
    cursor: &mut Cursor<'_>,
    out: &mut Numbers<arrow::array::types::Float64Type>,
) -> Result<Outcome, Syntax> {
    if is_number(cursor) {
        let number = cursor.number()?;
        return Ok(push(out, float(number)));
    }
    Ok(push(out, float_word(cursor)?))
}

fn single(
    cursor: &mut Cursor<'_>,
    out: &mut Numbers<arrow::array::types::Float32Type>,
) -> Result<Outcome, Syntax> {
    if is_number(cursor) {
        let number = cursor.number()?;
        // Not by way of a double: that would round twice.
        let text = std::str::from_utf8(number.raw).ok();
        return Ok(push(out, text.and_then(|text| text.parse().ok())));
    }
    Ok(push(out, float_word(cursor)?.map(|value| value as f32)))
}

/// The words for numbers that are none, bare or quoted.
fn float_word(cursor: &mut Cursor<'_>) -> Result<Option<f64>, Syntax> {
    if let Some(value) = cursor.word_number() {
        return Ok(Some(value));
    }
    if !matches!(cursor.peek(), b'"' | b'\'') {
        return cursor.skip().map(|()| None);
    }
    let mut word = Cursor::new(cursor.quoted()?.raw);
    Ok(word.word_number().filter(|_| word.done()))
}

#[inline]
fn float(number: Number<'_>) -> Option<f64> {
    const EXACT: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    // Both operands are exact doubles, so one operation rounds correctly (Clinger 1990).
    if number.exact && number.mantissa < 1 << 53 {
        let mantissa = number.mantissa as f64;
        let power = EXACT.get(number.exponent.unsigned_abs() as usize);
        if let Some(power) = power {
            let value = if number.exponent < 0 { mantissa / power } else { mantissa * power };
            return Some(if number.negative { -value } else { value });
        }
    }
    std::str::from_utf8(number.raw).ok()?.parse().ok()
}

/// A string, or a whole number of seconds since the epoch.
#[inline]
fn instant(
    cursor: &mut Cursor<'_>,
    out: &mut Numbers<arrow::array::types::TimestampMicrosecondType>,
    (reading, form): (Reading, Option<&Pattern>),
    scratch: &mut Vec<u8>,
) -> Result<Outcome, Syntax> {
    if is_number(cursor) {
        let number = cursor.number()?;
        let seconds = whole(number).filter(|_| reading != Reading::Local);
        let micros = seconds.and_then(|seconds| i64::try_from(seconds * 1_000_000).ok());
        return Ok(push(out, micros));
    }
    let Some(text) = string(cursor, scratch)? else { return Ok(Bad) };
    Ok(push(out, reading.read(text, form)))
}
