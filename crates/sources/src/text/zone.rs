//! Names and offsets of time zones, as they follow a time.

use super::date::Reader;
use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::Tz;
use fluvial_core::{Options, Result};

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Seconds east of UTC.
    Fixed(i64),
    /// With its history.
    Named(Tz),
}

/// Java's three-letter names that are not names of zones; the first three are fixed.
const SHORT: [(&str, &str); 25] = [
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
];

impl Zone {
    /// Greenwich.
    pub(crate) const UTC: Self = Self::Fixed(0);

    /// Takes the option `timeZone` out: the zone of times that name none.
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        let expected = "a time zone such as UTC, +02:00 or Europe/Berlin";
        let zone = options.take_with("timeZone", expected, |text| Self::parse(text.as_bytes()))?;
        Ok(zone.unwrap_or(Self::UTC))
    }

    /// Reads a name or an offset.
    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        let fixed = |hours: i64| Some(Self::Fixed(hours * 3600));
        match name {
            b"Z" => return fixed(0),
            b"EST" => return fixed(-5),
            b"MST" => return fixed(-7),
            b"HST" => return fixed(-10),
            [b'+' | b'-', ..] => return parse_offset(name).map(Self::Fixed),
            _ => {}
        }
        for prefix in ["UTC", "GMT", "UT"] {
            if let Some(rest) = name.strip_prefix(prefix.as_bytes()) {
                if rest.is_empty() {
                    return fixed(0);
                }
                if matches!(rest[0], b'+' | b'-') {
                    return parse_offset(rest).map(Self::Fixed);
                }
            }
        }
        let name = std::str::from_utf8(name).ok()?;
        let name = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long);
        name.parse().ok().map(Self::Named)
    }

    /// The instant of a local time. Of two, the earlier one; in a gap, as if the clock had not
    /// been set forward yet: what Java does.
    pub(super) fn to_utc(self, local: i64) -> Option<i64> {
        let tz = match self {
            Self::Fixed(seconds) => return local.checked_sub(seconds * 1_000_000),
            Self::Named(tz) => tz,
        };
        let time = naive(local)?;
        let offset = tz.offset_from_local_datetime(&time).earliest().or_else(|| {
            // No gap is as long as a day.
            let before = time.checked_sub_signed(TimeDelta::days(1))?;
            tz.offset_from_local_datetime(&before).earliest()
        })?;
        local.checked_sub(i64::from(offset.fix().local_minus_utc()) * 1_000_000)
    }
}

fn naive(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc())
}

/// `+2`, `+02`, `+2:00`, `+02:30`, `+0230`, `+02:30:15`, in seconds; at most 18 hours.
fn parse_offset(text: &[u8]) -> Option<i64> {
    let negative = text.first() == Some(&b'-');
    let mut reader = Reader(text.get(1..)?);
    let mut digits = reader.0.iter().take_while(|b| b.is_ascii_digit()).count();
    let (mut minute, mut second) = (0, 0);
    let hour = if digits > 2 {
        let all = reader.number(4, 6)?;
        digits = digits.saturating_sub(4);
        match digits {
            0 => minute = all % 100,
            2 => (minute, second) = (all / 100 % 100, all % 100),
            _ => return None,
        }
        if digits == 0 { all / 100 } else { all / 10_000 }
    } else {
        let hour = reader.number(1, 2)?;
        if reader.eat(b':') {
            minute = reader.number(2, 2)?;
            if reader.eat(b':') {
                second = reader.number(2, 2)?;
            }
        }
        hour
    };
    let seconds = (hour * 60 + minute) * 60 + second;
    let fits = reader.0.is_empty() && minute < 60 && second < 60 && seconds <= 18 * 3600;
    fits.then_some(if negative { -seconds } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(zone: &str, local_seconds: i64) -> i64 {
        Zone::parse(zone.as_bytes()).unwrap().to_utc(local_seconds * 1_000_000).unwrap() / 1_000_000
    }

    #[test]
    fn offsets_have_many_forms() {
        for (text, seconds) in [
            ("+2", Some(7200)),
            ("-02", Some(-7200)),
            ("+02:30", Some(9000)),
            ("+0230", Some(9000)),
            ("+02:30:15", Some(9015)),
            ("+023015", Some(9015)),
            ("+18:00", Some(64_800)),
            ("+18:01", None),
            ("+02:60", None),
            ("+2:3", None),
            ("+023", None),
            ("+02301", None),
            ("+", None),
            ("+2x", None),
        ] {
            assert_eq!(parse_offset(text.as_bytes()), seconds, "{text}");
        }
    }

    #[test]
    fn clocks_set_forward_or_back_are_read_as_java_does() {
        // 2026-03-29 02:30 does not exist in Berlin: read as 03:30 summer time, 01:30 UTC.
        assert_eq!(utc("Europe/Berlin", 1_774_751_400), 1_774_747_800);
        // 2026-10-25 02:30 comes twice: the first one is 00:30 UTC.
        assert_eq!(utc("Europe/Berlin", 1_792_895_400), 1_792_888_200);
    }

    #[test]
    fn every_short_name_is_known() {
        for (short, _) in SHORT {
            assert!(Zone::parse(short.as_bytes()).is_some(), "{short}");
        }
    }
}
