//! Time zones as Spark names them, and the way from local time to UTC and back.

use super::calendar::MICROS_PER_SECOND;
use super::error::spark;
use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;

/// A time zone: an offset or a named region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Seconds east of Greenwich.
    Fixed(i32),
    Named(chrono_tz::Tz),
}

impl Zone {
    pub(crate) const UTC: Self = Self::Fixed(0);

    /// The zone of the session: DataFusion's `execution.time_zone`, UTC if unset.
    ///
    /// # Errors
    ///
    /// `INVALID_TIMEZONE` if it is not a zone.
    pub(crate) fn of_session(config: &ConfigOptions) -> Result<Self> {
        config.execution.time_zone.as_deref().map_or(Ok(Self::UTC), Self::resolve)
    }

    /// Like [`Zone::parse`], with an error that names the text.
    pub(crate) fn resolve(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| {
            spark(
                "INVALID_TIMEZONE",
                format!(
                    "`{text}` is not a time zone; write a region such as Europe/Berlin or an \
                     offset such as +02:00"
                ),
            )
        })
    }

    /// Reads `UTC`, `Z`, `+02:00`, `-0800`, `+3`, `GMT+3`, `UTC-03:30`, `Europe/Berlin`, `PST`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text {
            "Z" | "z" | "UTC" | "GMT" | "UT" => return Some(Self::UTC),
            _ => {}
        }
        let rest = ["UTC", "GMT", "UT"]
            .iter()
            .find_map(|prefix| text.strip_prefix(prefix).filter(|r| r.starts_with(['+', '-'])))
            .unwrap_or(text);
        if rest.starts_with(['+', '-']) {
            return parse_offset(rest).map(Self::Fixed);
        }
        let name = match text {
            "PST" => "America/Los_Angeles",
            "CST" => "America/Chicago",
            "IST" => "Asia/Kolkata",
            "JST" => "Asia/Tokyo",
            "CTT" => "Asia/Shanghai",
            "AET" => "Australia/Sydney",
            "ECT" => "Europe/Paris",
            "EST" => return Some(Self::Fixed(-5 * 3600)),
            "MST" => return Some(Self::Fixed(-7 * 3600)),
            "HST" => return Some(Self::Fixed(-10 * 3600)),
            other => other,
        };
        name.parse().ok().map(Self::Named)
    }

    /// The local reading of an instant, as microseconds.
    pub(crate) fn to_local(self, micros: i64) -> i64 {
        micros.saturating_add(self.offset_at(micros) * MICROS_PER_SECOND)
    }

    /// The instant of a local reading. Where the clock was put forward the reading moves on by
    /// the gap; where it was put back the earlier of the two instants counts: as in Java.
    pub(crate) fn to_utc(self, local_micros: i64) -> i64 {
        let offset = match self {
            Self::Fixed(seconds) => i64::from(seconds),
            Self::Named(tz) => match naive(local_micros) {
                None => 0,
                Some(local) => match tz.offset_from_local_datetime(&local) {
                    LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => {
                        i64::from(offset.fix().local_minus_utc())
                    }
                    // Inside a gap the offset before it counts.
                    LocalResult::None => {
                        self.offset_at(local_micros.saturating_sub(86_400 * MICROS_PER_SECOND))
                    }
                },
            },
        };
        local_micros.saturating_sub(offset * MICROS_PER_SECOND)
    }

    /// Seconds east of Greenwich at an instant.
    pub(crate) fn offset_at(self, micros: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => i64::from(seconds),
            Self::Named(tz) => naive(micros).map_or(0, |utc| {
                i64::from(tz.offset_from_utc_datetime(&utc).fix().local_minus_utc())
            }),
        }
    }

    /// As Spark prints it: the region's name or `+02:00`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Fixed(0) => "UTC".to_owned(),
            Self::Fixed(seconds) => offset_text(i64::from(seconds)),
            Self::Named(tz) => tz.name().to_owned(),
        }
    }
}

/// `+02:00`.
pub(crate) fn offset_text(seconds: i64) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let s = seconds.abs();
    match s % 60 {
        0 => format!("{sign}{:02}:{:02}", s / 3600, s / 60 % 60),
        rest => format!("{sign}{:02}:{:02}:{rest:02}", s / 3600, s / 60 % 60),
    }
}

fn naive(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp(micros.div_euclid(MICROS_PER_SECOND), 0).map(|t| t.naive_utc())
}

/// `+h`, `+hh`, `+hhmm`, `+h:m`, `+hh:mm`, `+hh:mm:ss`, up to 18 hours.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b':') {
        return None;
    }
    let mut parts = [0; 3];
    if digits.contains(':') {
        let mut pieces = digits.split(':');
        for part in &mut parts {
            match pieces.next() {
                Some(piece) if (1..=2).contains(&piece.len()) => *part = piece.parse().ok()?,
                Some(_) => return None,
                None => break,
            }
        }
        if pieces.next().is_some() {
            return None;
        }
    } else {
        let pieces: &[&str] = match digits.len() {
            1 | 2 => &[digits],
            4 => &[&digits[..2], &digits[2..]],
            6 => &[&digits[..2], &digits[2..4], &digits[4..]],
            _ => return None,
        };
        for (part, piece) in parts.iter_mut().zip(pieces) {
            *part = piece.parse().ok()?;
        }
    }
    let [hours, minutes, seconds] = parts;
    let total: i32 = hours * 3600 + minutes * 60 + seconds;
    (minutes < 60 && seconds < 60 && total <= 18 * 3600).then_some(sign * total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_spark_takes() {
        for (text, offset) in [
            ("UTC", 0),
            ("+02:00", 7200),
            ("-0800", -28_800),
            ("UTC+3", 10_800),
            ("GMT-03:30", -12_600),
            ("+5:30", 19_800),
        ] {
            assert_eq!(Zone::parse(text), Some(Zone::Fixed(offset)), "{text}");
        }
        for text in ["", "+", "+25:00", "+1:2:3:4", "Mars/Olympus", "+123"] {
            assert_eq!(Zone::parse(text), None, "{text}");
        }
    }

    #[test]
    fn gaps_move_on_and_overlaps_take_the_earlier() {
        let zone = Zone::parse("America/New_York").unwrap();
        let hour = 3_600 * MICROS_PER_SECOND;
        // 2026-03-08 02:30 does not exist: it is read as 03:30 EDT, 07:30 UTC.
        let gap = 1_772_937_000 * MICROS_PER_SECOND;
        assert_eq!(zone.to_utc(gap), gap + 5 * hour);
        // 2026-11-01 01:30 is there twice: the first is EDT.
        let overlap = 1_793_496_600 * MICROS_PER_SECOND;
        assert_eq!(zone.to_utc(overlap), overlap + 4 * hour);
        assert_eq!(zone.to_local(zone.to_utc(overlap)), overlap);
    }
}
