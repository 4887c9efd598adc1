//! Intervals as users write them: `10 minutes`, `interval '1 2:3:4' day to second`, `30s`.
//!
//! The rules are Spark's. Text that starts with `interval` is SQL; everything else is pairs of a
//! number and a unit. Both are case-insensitive, units may be plural, values may be negative, and
//! only seconds have a fraction. Nothing here knows of calendars: how long a month is, is decided
//! by who asks ([`CalendarInterval::to_delay`], [`CalendarInterval::to_fixed`]).

mod sql;
mod words;

use crate::error::{Error, Result};
use crate::time::EventDuration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Microseconds of a day: days of intervals have 24 hours, as event time is UTC.
const DAY: i64 = 86_400_000_000;

/// The fixed length of a month in a watermark delay, in days, as in Spark.
const DELAY_MONTH_DAYS: i64 = 31;

/// An interval in the three units that do not convert into each other: months, days and
/// microseconds, each with its own sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CalendarInterval {
    /// Months; a year is twelve.
    pub months: i32,
    /// Days; a week is seven.
    pub days: i32,
    /// Microseconds of everything smaller than a day.
    pub micros: i64,
}

/// Why and where (in bytes) a text is not an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    at: usize,
    what: &'static str,
}

impl CalendarInterval {
    /// Reads an interval.
    ///
    /// # Errors
    ///
    /// `Invalid` with condition `CANNOT_PARSE_INTERVAL`: what is wrong and at which byte.
    pub fn parse(text: &str) -> Result<Self> {
        let start = text.len() - text.trim_start_matches(is_blank).len();
        let is_sql = text.as_bytes()[start..]
            .get(..words::PREFIX.len())
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case(words::PREFIX));
        let parsed = if is_sql {
            sql::parse(text, start + words::PREFIX.len())
        } else {
            words::parse(text.as_bytes())
        };
        parsed.map_err(|fault| cannot_parse(text, fault))
    }

    /// As the delay of a watermark: a month is 31 days, and fractions of milliseconds are cut
    /// off, since watermarks have none.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is negative as a whole or longer than 292 000 years.
    pub fn to_delay(self) -> Result<EventDuration> {
        let days = i64::from(self.months) * DELAY_MONTH_DAYS + i64::from(self.days);
        let micros = self.plus_days(days)?;
        if micros < 0 {
            return Err(Error::invalid(format!(
                "delay threshold ({self}) should not be negative: a watermark cannot run ahead \
                 of the events"
            ))
            .with_condition("WATERMARK_DELAY_NEGATIVE"));
        }
        Ok(EventDuration(micros - micros % 1000))
    }

    /// As a span of fixed length: the size, slide or start of a window.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has months, which have no fixed length, or is longer than 292 000 years.
    pub fn to_fixed(self) -> Result<EventDuration> {
        if self.months != 0 {
            return Err(Error::invalid(format!(
                "the interval {self} has months, which differ in length: use days or weeks"
            ))
            .with_condition("INTERVAL_WITH_MONTHS"));
        }
        self.plus_days(i64::from(self.days)).map(EventDuration)
    }

    /// `days` in microseconds plus the microseconds of this interval.
    fn plus_days(self, days: i64) -> Result<i64> {
        days.checked_mul(DAY).and_then(|micros| micros.checked_add(self.micros)).ok_or_else(|| {
            Error::invalid(format!("the interval {self} is longer than 292000 years"))
                .with_condition("INTERVAL_ARITHMETIC_OVERFLOW")
        })
    }
}

impl FromStr for CalendarInterval {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for CalendarInterval {
    /// In a form that [`CalendarInterval::parse`] reads as the same interval.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |value: i64, unit: &str| {
            if value != 0 {
                let plural = if value.abs() == 1 { "" } else { "s" };
                parts.push(format!("{value} {unit}{plural}"));
            }
        };
        part(i64::from(self.months / 12), "year");
        part(i64::from(self.months % 12), "month");
        part(i64::from(self.days), "day");
        part(self.micros / 3_600_000_000, "hour");
        part(self.micros / 60_000_000 % 60, "minute");
        let rest = self.micros % 60_000_000;
        if rest % 1_000_000 == 0 {
            part(rest / 1_000_000, "second");
        } else {
            let sign = if rest < 0 { "-" } else { "" };
            let digits = format!("{:06}", rest.abs() % 1_000_000);
            let (whole, digits) = (rest.abs() / 1_000_000, digits.trim_end_matches('0'));
            parts.push(format!("{sign}{whole}.{digits} seconds"));
        }
        if parts.is_empty() { f.write_str("0 seconds") } else { f.write_str(&parts.join(" ")) }
    }
}

/// Reads a duration of the processing side, such as the pause between triggers: an interval
/// (`10 seconds`), or the short form of command lines (`30s`, `500ms`, `1h30m`), whose units are
/// `us`, `ms`, `s`, `m`, `h` and `d`.
///
/// # Errors
///
/// `Invalid`: not an interval (`CANNOT_PARSE_INTERVAL`), negative, or with months.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let interval = match words::parse_short(text.trim_matches(is_blank).as_bytes()) {
        Some(short) => short.map_err(|fault| cannot_parse(text, fault))?,
        None => CalendarInterval::parse(text)?,
    };
    let micros = interval.to_fixed()?.0;
    u64::try_from(micros).map(Duration::from_micros).map_err(|_| {
        Error::invalid(format!("the duration {interval} is negative"))
            .with_condition("DURATION_NEGATIVE")
    })
}

/// Blanks are what Spark trims: spaces and control characters.
fn is_blank(c: char) -> bool {
    c <= ' '
}

fn cannot_parse(text: &str, fault: Fault) -> Error {
    const SHOWN: usize = 100;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    let Fault { at, what } = fault;
    Error::invalid(format!(
        "unable to parse the interval {shown:?}: {what} at byte {at}; write it like '10 minutes', \
         '1 day 2.5 seconds' or \"interval '1 2:3:4' day to second\""
    ))
    .with_condition("CANNOT_PARSE_INTERVAL")
}

#[cfg(test)]
mod tests;
