//! Between times and text, by Java's patterns.

use super::pattern::Pattern;
use crate::functions::calendar::MICROS_PER_SECOND;
use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::spark;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{DataFusionError, Result};
use fluvial_core::ddl::timestamp;
use std::sync::Arc;

const DEFAULT_PATTERN: &str = "yyyy-MM-dd HH:mm:ss";

fn local_timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Any, Long, Text, Timestamp};
    vec![
        Spec::new(&["date_format"], &[Timestamp, Text], Gives::Text, date_format),
        Spec::new(&["from_unixtime"], &[Long, Text], Gives::Text, from_unixtime).optional_from(1),
        Spec::new(&["to_timestamp", "to_timestamp_ltz"], &[Any, Text], Gives::Timestamp, |c| {
            to_time(c, CastMode::Ansi)
        })
        .optional_from(1),
        Spec::new(&["try_to_timestamp"], &[Any, Text], Gives::Timestamp, |c| {
            to_time(c, CastMode::Try)
        })
        .optional_from(1)
        .may_be_null(),
        Spec::new(&["to_timestamp_ntz"], &[Any, Text], Gives::Of(|_| Ok(local_timestamp())), |c| {
            to_time(c, CastMode::Ansi)
        })
        .optional_from(1),
        Spec::new(&["to_date"], &[Any, Text], Gives::Date, |c| to_time(c, CastMode::Ansi))
            .optional_from(1),
        Spec::new(&["try_to_date"], &[Any, Text], Gives::Date, |c| to_time(c, CastMode::Try))
            .optional_from(1)
            .may_be_null(),
        Spec::new(
            &["unix_timestamp", "to_unix_timestamp"],
            &[Any, Text],
            Gives::Long,
            unix_timestamp,
        )
        .optional_from(1),
    ]
}

/// Patterns of a call: taken apart once if they are the same in every row.
enum Patterns<'a> {
    One(Pattern),
    ByRow(&'a Call<'a>, usize),
}

impl<'a> Patterns<'a> {
    fn of(call: &'a Call<'a>, i: usize) -> Result<Self> {
        Ok(match call.constant_text(i) {
            Some(text) => Self::One(Pattern::parse(text)?),
            None if call.count() <= i => Self::One(Pattern::parse(DEFAULT_PATTERN)?),
            None => Self::ByRow(call, i),
        })
    }

    /// The pattern of a row; `None` if it is null.
    fn with<T>(&self, row: usize, f: impl FnOnce(&Pattern) -> T) -> Result<Option<T>> {
        match self {
            Self::One(pattern) => Ok(Some(f(pattern))),
            Self::ByRow(call, i) if call.text(*i).is_null(row) => Ok(None),
            Self::ByRow(call, i) => Ok(Some(f(&Pattern::parse(call.text(*i).value(row))?))),
        }
    }
}

fn date_format(call: &Call<'_>) -> Result<ArrayRef> {
    let times = call.args[0].as_primitive::<TimestampMicrosecondType>();
    write_all(call, times, 1)
}

fn from_unixtime(call: &Call<'_>) -> Result<ArrayRef> {
    let seconds = call.args[0].as_primitive::<Int64Type>();
    let times: TimestampMicrosecondArray = seconds.unary(|s| s.saturating_mul(MICROS_PER_SECOND));
    write_all(call, &times, 1)
}

fn write_all(call: &Call<'_>, times: &TimestampMicrosecondArray, i: usize) -> Result<ArrayRef> {
    let patterns = Patterns::of(call, i)?;
    let mut out = StringBuilder::with_capacity(times.len(), times.len() * 20);
    let mut text = String::new();
    for (row, time) in times.iter().enumerate() {
        text.clear();
        let written = match time {
            Some(time) => patterns.with(row, |p| p.write(time, call.zone, &mut text))?,
            None => None,
        };
        match written {
            Some(()) => out.append_value(&text),
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn unreadable(text: &str) -> DataFusionError {
    spark(
        "CANNOT_PARSE_TIMESTAMP",
        format!("the text '{text}' does not fit the pattern; try_to_timestamp gives null instead"),
    )
}

/// A value, or text by a pattern, as the result's type.
fn to_time(call: &Call<'_>, mode: CastMode) -> Result<ArrayRef> {
    let value = &call.args[0];
    if call.count() == 1 || *value.data_type() != DataType::Utf8 {
        return cast_array(value, call.result, mode, call.zone);
    }
    let patterns = Patterns::of(call, 1)?;
    let is_local = *call.result == local_timestamp();
    let read = |row: usize, text: &str| {
        patterns.with(row, |p| if is_local { p.read_local(text) } else { p.read(text, call.zone) })
    };
    let mut times = TimestampMicrosecondArray::builder(call.rows);
    for (row, text) in call.text(0).iter().enumerate() {
        let time = match text {
            Some(text) => read(row, text)?.map(|time| (text, time)),
            None => None,
        };
        match time {
            Some((_, Some(time))) => times.append_value(time),
            Some((text, None)) if mode == CastMode::Ansi => return Err(unreadable(text)),
            _ => times.append_null(),
        }
    }
    let read_as = if is_local { local_timestamp() } else { timestamp() };
    let times: ArrayRef = Arc::new(times.finish().with_data_type(read_as));
    cast_array(&times, call.result, mode, call.zone)
}

fn unix_timestamp(call: &Call<'_>) -> Result<ArrayRef> {
    let value = &call.args[0];
    let times = if *value.data_type() == DataType::Utf8 {
        let patterns = Patterns::of(call, 1)?;
        let one = |(row, text): (usize, Option<&str>)| -> Result<Option<i64>> {
            let Some(text) = text else { return Ok(None) };
            match patterns.with(row, |p| p.read(text, call.zone))? {
                Some(None) => Err(unreadable(text)),
                Some(time) => Ok(time),
                None => Ok(None),
            }
        };
        let times = call.text(0).iter().enumerate().map(one);
        times.collect::<Result<TimestampMicrosecondArray>>()?
    } else {
        let times = cast_array(value, &timestamp(), CastMode::Ansi, call.zone)?;
        times.as_primitive::<TimestampMicrosecondType>().clone()
    };
    // Towards zero, as in Spark; `unix_seconds` rounds down.
    let seconds: Int64Array = times.unary(|t| t / MICROS_PER_SECOND);
    Ok(Arc::new(seconds))
}
