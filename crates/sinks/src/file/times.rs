//! Dates and times in files of text: as Spark writes them, or in a form that the user describes.

mod pattern;

use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, StringBuilder, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Field, Schema, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use arrow::temporal_conversions::{date32_to_datetime, timestamp_us_to_datetime};
use chrono::{FixedOffset, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;
use fluvial_core::{Options, Result};
use pattern::{Kind, Pattern};
use std::fmt::Write;
use std::sync::Arc;

/// How dates and times are written in JSON and CSV.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextTimes {
    date: Option<Pattern>,
    timestamp: Option<Pattern>,
    local: Option<Pattern>,
    /// In which zone a described timestamp is, and one that names a folder.
    zone: Zone,
}

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Zone {
    #[default]
    Utc,
    Fixed(FixedOffset),
    Named(Tz),
}

impl Zone {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "Z" | "UTC" | "GMT" => Some(Self::Utc),
            _ => {
                let fixed = || name.parse().ok().map(Self::Fixed);
                name.parse().ok().map(Self::Named).or_else(fixed)
            }
        }
    }

    /// Seconds east of UTC at a moment.
    fn offset(self, moment: &NaiveDateTime) -> i32 {
        match self {
            Self::Utc => 0,
            Self::Fixed(offset) => offset.local_minus_utc(),
            Self::Named(zone) => zone.offset_from_utc_datetime(moment).fix().local_minus_utc(),
        }
    }
}

/// The names of the options.
pub(crate) const TIME_OPTIONS: [&str; 4] =
    ["dateFormat", "timeZone", "timestampFormat", "timestampNTZFormat"];

impl TextTimes {
    /// Takes the options out.
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        let mut pattern = |name, kind| {
            let expected = "a pattern of letters such as yyyy-MM-dd HH:mm:ss[.SSS][XXX], without \
                            the letters of weeks, quarters and names of zones";
            options.take_with(name, expected, |text| Pattern::parse(text, kind))
        };
        let date = pattern("dateFormat", Kind::Date)?;
        let timestamp = pattern("timestampFormat", Kind::Instant)?;
        let local = pattern("timestampNTZFormat", Kind::Local)?;
        Ok(Self { date, timestamp, local, ..Self::in_zone(options)? })
    }

    /// Takes the zone out, where nothing else can be said.
    pub(crate) fn in_zone(options: &mut Options) -> Result<Self> {
        let expected = "a time zone such as UTC, +02:00 or Europe/Berlin";
        let zone = options.take_with("timeZone", expected, Zone::parse)?.unwrap_or_default();
        Ok(Self { zone, ..Self::default() })
    }

    /// The column as the clocks of the zone show it, if it has times with a zone.
    pub(crate) fn on_clocks(&self, column: &ArrayRef) -> Result<ArrayRef> {
        if !matches!(column.data_type(), DataType::Timestamp(_, Some(_))) || self.zone == Zone::Utc
        {
            return Ok(Arc::clone(column));
        }
        let micros = cast(column, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
        let shown = |micros: i64| {
            let offset = timestamp_us_to_datetime(micros).map_or(0, |time| self.zone.offset(&time));
            micros.saturating_add(i64::from(offset) * 1_000_000)
        };
        let shown: TimestampMicrosecondArray =
            micros.as_primitive::<TimestampMicrosecondType>().unary(shown);
        Ok(Arc::new(shown))
    }

    /// The rows, with texts in the place of dates and times.
    pub(crate) fn text_rows(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let mut fields = Vec::with_capacity(rows.num_columns());
        let mut columns = Vec::with_capacity(rows.num_columns());
        for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
            let Some(mut values) = Values::of(column, self)? else {
                fields.push(Arc::clone(field));
                columns.push(Arc::clone(column));
                continue;
            };
            let mut texts = StringBuilder::with_capacity(column.len(), column.len() * 24);
            for row in 0..column.len() {
                match column.is_null(row) {
                    true => texts.append_null(),
                    false => texts.append_value(values.text(row)),
                }
            }
            fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, field.is_nullable())));
            columns.push(Arc::new(texts.finish()));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

/// The values of a column of dates or times, one text at a time.
pub(crate) struct Values {
    form: Form,
    values: ArrayRef,
    text: String,
}

enum Form {
    Date(Pattern),
    /// With what stands behind it: the zone, or nothing.
    Iso(&'static str),
    Time(Pattern, Zone),
}

impl Values {
    /// `None` for a column that has a text of its own.
    pub(crate) fn of(
        column: &dyn Array,
        times: &TextTimes,
    ) -> std::result::Result<Option<Self>, ArrowError> {
        let form = match (column.data_type(), &times.date) {
            (DataType::Date32 | DataType::Date64, Some(pattern)) => Form::Date(pattern.clone()),
            (DataType::Timestamp(_, Some(_)), _) => match &times.timestamp {
                Some(pattern) => Form::Time(pattern.clone(), times.zone),
                None => Form::Iso("Z"),
            },
            (DataType::Timestamp(_, None), _) => match &times.local {
                Some(pattern) => Form::Time(pattern.clone(), Zone::Utc),
                None => Form::Iso(""),
            },
            _ => return Ok(None),
        };
        let values = match &form {
            Form::Date(_) => cast(column, &DataType::Date32)?,
            _ => cast(column, &DataType::Timestamp(TimeUnit::Microsecond, None))?,
        };
        Ok(Some(Self { form, values, text: String::new() }))
    }

    /// The text of a value that is not null.
    pub(crate) fn text(&mut self, row: usize) -> &str {
        let Self { form, values, text: out } = self;
        out.clear();
        let micros = || values.as_primitive::<TimestampMicrosecondType>().value(row);
        let written = match &*form {
            Form::Date(pattern) => {
                let days = values.as_primitive::<Date32Type>().value(row);
                date32_to_datetime(days).map(|time| pattern.write(time, 0, out))
            }
            Form::Iso(suffix) => {
                timestamp_us_to_datetime(micros()).map(|time| iso(time, micros(), suffix, out))
            }
            Form::Time(pattern, zone) => timestamp_us_to_datetime(micros()).map(|time| {
                let offset = zone.offset(&time);
                let there = time.checked_add_signed(chrono::TimeDelta::seconds(offset.into()));
                pattern.write(there.unwrap_or(time), offset, out);
            }),
        };
        if written.is_none() {
            // Beyond the calendar of the library: the number is still the truth.
            let number = match &*form {
                Form::Date(_) => values.as_primitive::<Date32Type>().value(row).into(),
                _ => micros(),
            };
            let _ = write!(out, "{number}");
        }
        out
    }
}

/// `2026-01-01T00:00:01.500Z`. Spark writes milliseconds and loses the rest; we do not.
fn iso(time: NaiveDateTime, micros: i64, suffix: &str, out: &mut String) {
    let seconds = time.format("%Y-%m-%dT%H:%M:%S");
    let fraction = micros.rem_euclid(1_000_000);
    // Writing to a String does not fail.
    let _ = if fraction % 1000 == 0 {
        write!(out, "{seconds}.{:03}{suffix}", fraction / 1000)
    } else {
        write!(out, "{seconds}.{fraction:06}{suffix}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Date32Array;

    fn texts(options: &[(&str, &str)]) -> Vec<String> {
        let times = TextTimes::take(&mut Options::new(options.iter().copied())).unwrap();
        let micros = TimestampMicrosecondArray::from(vec![1_767_225_660_123_000]);
        let columns: [(&str, ArrayRef); 3] = [
            ("ts", Arc::new(micros.clone().with_timezone("UTC"))),
            ("local", Arc::new(micros)),
            ("d", Arc::new(Date32Array::from(vec![20_454]))),
        ];
        let rows = times.text_rows(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        let shown = |c: &ArrayRef| arrow::util::display::array_value_to_string(c, 0).unwrap();
        rows.columns().iter().map(shown).collect()
    }

    #[test]
    fn times_have_milliseconds_and_the_forms_that_are_asked_for() {
        let plain = ["2026-01-01T00:01:00.123Z", "2026-01-01T00:01:00.123", "2026-01-01"];
        assert_eq!(texts(&[]), plain);
        let options = [
            ("dateFormat", "d.M.yy[ HH:mm]"),
            ("timestampFormat", "dd/MM/yyyy HH:mm[:ss.SSSSSS][XXX]"),
            ("timestampNTZFormat", "EEE, d MMM yyyy hh 'o''clock' a[XXX]"),
            ("timeZone", "Europe/Berlin"),
        ];
        let described =
            ["01/01/2026 01:01:00.123000+01:00", "Thu, 1 Jan 2026 12 o'clock AM", "1.1.26"];
        assert_eq!(texts(&options), described);
    }

    #[test]
    fn what_cannot_be_written_is_refused_by_name() {
        for (name, value) in [
            ("dateFormat", "yyyy HH"),
            ("timestampNTZFormat", "yyyy XXX"),
            ("timestampFormat", "YYYY-ww"),
            ("timestampFormat", "yyyy VV"),
            ("timestampFormat", "[yyyy"),
            ("timeZone", "Mars"),
        ] {
            let error = TextTimes::take(&mut Options::new([(name, value)])).unwrap_err();
            assert_eq!(error.condition(), Some("INVALID_OPTION_VALUE"), "{name} {value}");
            assert!(error.message().contains(name), "{error}");
        }
    }
}
