//! `date_trunc` and `trunc`.

use crate::functions::calendar::{
    Civil, MICROS_PER_DAY, MICROS_PER_SECOND, iso_weekday, split_micros,
};
use crate::functions::function::{Call, Gives, Kind, Spec};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{Date32Type, TimestampMicrosecondType};
use datafusion::common::Result;
use fluvial_core::ddl::timestamp;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Date, Text, Timestamp};
    vec![
        Spec::new(&["date_trunc"], &[Text, Timestamp], Gives::Timestamp, date_trunc).may_be_null(),
        Spec::new(&["trunc"], &[Date, Text], Gives::Date, trunc).may_be_null(),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Of the clock: the same in every zone that is a whole number of minutes off.
    Micros(i64),
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Level {
    /// `None` for what is no level: the result is null then, as in Spark.
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MICROSECOND" => Self::Micros(1),
            "MILLISECOND" => Self::Micros(1_000),
            "SECOND" => Self::Micros(MICROS_PER_SECOND),
            "MINUTE" => Self::Micros(60 * MICROS_PER_SECOND),
            "HOUR" => Self::Hour,
            "DAY" | "DD" => Self::Day,
            _ => return Self::of_date(name),
        })
    }

    fn of_date(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "WEEK" => Self::Week,
            "MONTH" | "MON" | "MM" => Self::Month,
            "QUARTER" => Self::Quarter,
            "YEAR" | "YYYY" | "YY" => Self::Year,
            _ => return None,
        })
    }

    fn day(self, day: i64) -> i64 {
        let date = Civil::from_days(day);
        match self {
            Self::Week => day - (iso_weekday(day) - 1),
            Self::Month => Civil { day: 1, ..date }.days(),
            Self::Quarter => Civil { month: (date.month - 1) / 3 * 3 + 1, day: 1, ..date }.days(),
            Self::Year => Civil { month: 1, day: 1, ..date }.days(),
            _ => day,
        }
    }

    fn time(self, time: i64, zone: Zone) -> i64 {
        const HOUR: i64 = 3_600 * MICROS_PER_SECOND;
        match self {
            Self::Micros(unit) => time - time.rem_euclid(unit),
            Self::Hour => {
                let local = zone.to_local(time);
                // The offset of the time itself: an hour that comes twice stays apart.
                time.saturating_sub(local.rem_euclid(HOUR))
            }
            _ => {
                let (day, _) = split_micros(zone.to_local(time));
                zone.to_utc(self.day(day).saturating_mul(MICROS_PER_DAY))
            }
        }
    }
}

/// The level of each row; constant ones are looked up once.
fn levels<'a>(
    call: &'a Call<'a>,
    names: &'a StringArray,
    constant: Option<&str>,
    named: fn(&str) -> Option<Level>,
) -> impl Fn(usize) -> Option<Level> + 'a {
    let one = constant.map(named);
    move |row| match one {
        Some(level) => level,
        None if names.is_null(row) || row >= call.rows => None,
        None => named(names.value(row)),
    }
}

fn date_trunc(call: &Call<'_>) -> Result<ArrayRef> {
    let times = call.args[1].as_primitive::<TimestampMicrosecondType>();
    let level = levels(call, call.text(0), call.constant_text(0), Level::named);
    let truncated = times
        .iter()
        .enumerate()
        .map(|(row, time)| level(row).zip(time).map(|(level, time)| level.time(time, call.zone)));
    let truncated: PrimitiveArray<TimestampMicrosecondType> = truncated.collect();
    Ok(Arc::new(truncated.with_data_type(timestamp())))
}

fn trunc(call: &Call<'_>) -> Result<ArrayRef> {
    let dates = call.args[0].as_primitive::<Date32Type>();
    let level = levels(call, call.text(1), call.constant_text(1), Level::of_date);
    let truncated = dates
        .iter()
        .enumerate()
        .map(|(row, day)| level(row).zip(day).map(|(level, day)| level.day(day.into()) as i32));
    Ok(Arc::new(truncated.collect::<PrimitiveArray<Date32Type>>()))
}
