//! Times as text: `2026-01-31T12:30:00.123456+02:00`, with most parts optional, as Spark reads
//! them where no format is given.
//!
//! A time without a date (which would be today's) is refused: it would mean something else in
//! every replay.

use super::date::{Reader, days, trim};
use super::pattern::Pattern;
use super::zone::Zone;

const SECOND: i64 = 1_000_000;

/// What a time means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// What a clock on the wall shows, wherever it hangs.
    Local,
    /// An instant; a time without a zone is in this one.
    Instant(Zone),
}

impl Reading {
    /// As [`Reading::parse`], in the form that the user gave, if any.
    #[inline]
    pub(crate) fn read(self, text: &[u8], form: Option<&Pattern>) -> Option<i64> {
        match (form, self) {
            (None, _) => self.parse(text),
            (Some(form), Self::Local) => form.local(text),
            (Some(form), Self::Instant(zone)) => form.instant(text, zone),
        }
    }

    /// Microseconds since 1970-01-01 00:00, in UTC if it is an instant.
    #[inline]
    pub(crate) fn parse(self, text: &[u8]) -> Option<i64> {
        match self {
            Self::Local => parse_local(text),
            Self::Instant(zone) => parse_instant(text, zone),
        }
    }
}

/// Reads an instant in microseconds since the epoch; without a zone it is in the given one.
#[inline]
fn parse_instant(text: &[u8], session: Zone) -> Option<i64> {
    if let Some(micros) = parse_common(text) {
        return Some(micros);
    }
    let (local, zone) = parse(text)?;
    zone.map_or(Some(session), Zone::parse)?.to_utc(local)
}

/// Reads a time without a zone, in microseconds since 1970-01-01 00:00; a zone is refused.
fn parse_local(text: &[u8]) -> Option<i64> {
    parse(text).filter(|(_, zone)| zone.is_none()).map(|(micros, _)| micros)
}

/// The form that nearly all machines write: `2026-01-31T12:30:00[.123[456]]Z`.
#[inline]
fn parse_common(text: &[u8]) -> Option<i64> {
    let (head, tail) = text.split_first_chunk::<19>()?;
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T' | b' ',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
    ] = *head
    else {
        return None;
    };
    let fraction = match tail {
        b"Z" => 0,
        [b'.', a, b, c, b'Z'] => number(&[*a, *b, *c])? * 1000,
        [b'.', a, b, c, d, e, f, b'Z'] => number(&[*a, *b, *c, *d, *e, *f])?,
        _ => return None,
    };
    let (century, year) = (two(y1, y2), two(y3, y4));
    let (hour, minute, second) = (two(h1, h2), two(n1, n2), two(s1, s2));
    let (month, day) = (two(m1, m2), two(d1, d2));
    // What is no digit makes a number too large for any of these.
    if century.max(year).max(month).max(day) > 99 || hour > 23 || minute.max(second) > 59 {
        return None;
    }
    // Four digits of a year cannot overflow.
    let day = days(century * 100 + year, month, day)?;
    Some(((day * 24 + hour) * 60 + minute) * 60 * SECOND + second * SECOND + fraction)
}

/// The number of two digits, or one above 99.
#[inline]
fn two(tens: u8, ones: u8) -> i64 {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens.max(ones) > 9 { 100 } else { i64::from(tens) * 10 + i64::from(ones) }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })
}

/// Microseconds of the local time, and what follows it.
fn parse(text: &[u8]) -> Option<(i64, Option<&[u8]>)> {
    let mut reader = Reader(trim(text));
    let day = reader.date(6)?;
    let midnight = day.checked_mul(86_400 * SECOND)?;
    if reader.0.is_empty() {
        return Some((midnight, None));
    }
    // `date` stops at a blank or a T only.
    reader.0 = &reader.0[1..];
    let hour = reader.number(1, 2)?;
    reader.eat(b':').then_some(())?;
    let minute = reader.number(1, 2)?;
    let (mut second, mut fraction) = (0, 0);
    if reader.eat(b':') {
        second = reader.number(1, 2)?;
        if reader.eat(b'.') {
            fraction = micros(&mut reader);
        }
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let time = ((hour * 60 + minute) * 60 + second) * SECOND + fraction;
    let zone = trim(reader.0);
    Some((midnight.checked_add(time)?, (!zone.is_empty()).then_some(zone)))
}

/// Digits after the point; those after the sixth are cut off.
fn micros(reader: &mut Reader<'_>) -> i64 {
    let (mut value, mut count) = (0, 0);
    while let Some(digit) = reader.0.first().filter(|b| b.is_ascii_digit()) {
        if count < 6 {
            value = value * 10 + i64::from(digit - b'0');
            count += 1;
        }
        reader.0 = &reader.0[1..];
    }
    value * 10i64.pow(6 - count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Seconds after 2026-01-01T00:00:00Z.
    const START: i64 = 1_767_225_600;

    #[test]
    fn reads_what_spark_reads() {
        for (text, seconds) in [
            ("2026-01-01T02:00:00+02:00", Some(0.0)),
            ("2026-01-01 02:00:00", Some(7200.0)),
            ("2026-01-01", Some(0.0)),
            (" 2026-01-01 ", Some(0.0)),
            ("2026", Some(0.0)),
            ("2026-01-01T00:00:00.123456789Z", Some(0.123456)),
            ("2026-01-01T00:00:00.1Z", Some(0.1)),
            ("2026-01-01T00:00:00.", Some(0.0)),
            ("2026-01-01T00:01", Some(60.0)),
            ("2026-01-01 1:2:3", Some(3723.0)),
            ("2026-01-01T00:00:00 Europe/Berlin", Some(-3600.0)),
            ("2026-01-01T00:00:00+0200", Some(-7200.0)),
            ("2026-01-01T00:00:00+02", Some(-7200.0)),
            ("2026-01-01T00:00:00+2:00", Some(-7200.0)),
            ("2026-01-01T00:00:00-02:30", Some(9000.0)),
            ("2026-01-01T00:00:00UTC", Some(0.0)),
            ("2026-01-01T00:00:00 UTC", Some(0.0)),
            ("2026-01-01T00:00:00 GMT+2", Some(-7200.0)),
            ("2026-01-01T00:00:00 PST", Some(28_800.0)),
            ("2026-01-01T00:00:00 Nowhere/City", None),
            ("2026-01-01T00:00:00+19:00", None),
            ("2026-01-01T25:00:00Z", None),
            ("2026-01-01T24:00:00", None),
            ("2026-01-01T23:59:60", None),
            ("2026-02-29", None),
            ("2026-01-01T", None),
            ("1767225600", None),
            ("294248-01-01", None),
            ("10:30", None),
            ("T10:30", None),
            ("", None),
            ("garbage", None),
        ] {
            let micros = seconds.map(|s: f64| START * SECOND + (s * 1e6).round() as i64);
            assert_eq!(parse_instant(text.as_bytes(), Zone::UTC), micros, "{text}");
        }
        assert_eq!(parse_instant(b"1969-12-31T23:59:59.999Z", Zone::UTC), Some(-1000));
        assert!(parse_instant(b"294247-01-01", Zone::UTC).is_some());
        assert!(parse_instant(b"-0001-01-01", Zone::UTC).is_some());
    }

    #[test]
    fn a_time_without_a_zone_is_in_the_given_one() {
        let berlin = Zone::parse(b"Europe/Berlin").unwrap();
        for (text, hours) in [
            ("2026-01-01 02:00:00", 1),
            ("2026-01-01T02:00:00Z", 2),
            ("2026-01-01T02:00:00+03:00", -1),
            ("2026-01-01", -1),
        ] {
            let expected = (START + hours * 3600) * SECOND;
            assert_eq!(parse_instant(text.as_bytes(), berlin), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_local_time_has_no_zone() {
        assert_eq!(parse_local(b"2026-01-01T00:00:00"), Some(START * SECOND));
        assert_eq!(parse_local(b"2026-01-01"), Some(START * SECOND));
        assert_eq!(parse_local(b"2026-01-01T00:00:00Z"), None);
    }

    proptest! {
        #[test]
        fn the_common_form_means_the_same(
            text in "[0-9]{4}-(0[1-9]|1[0-3])-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{3}|\\.[0-9]{6}|)Z"
        ) {
            let (whole, _) = text.split_at(text.len() - 1);
            let general = parse(whole.as_bytes()).map(|(micros, _)| micros);
            prop_assert_eq!(parse_common(text.as_bytes()), general);
        }

        #[test]
        fn no_text_panics(text in "[0-9T :.+-]{0,30}|\\PC{0,12}") {
            let _ = parse_instant(text.as_bytes(), Zone::UTC);
        }
    }
}
