//! The patterns of Java's `DateTimeFormatter`, as Spark restricts them, to write by.

use chrono::{Datelike, NaiveDateTime, Timelike};
use fluvial_core::date_pattern::{DAYS, MONTHS, PatternItem, parse_pattern};
use std::fmt::Write;

/// What is written: it decides which letters there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Date,
    /// A time without a zone.
    Local,
    Instant,
}

/// A form of dates and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A letter, and how often it stands there.
    Field(char, usize),
}

/// What a letter is for a kind.
enum Letter {
    Known,
    /// Nothing of this kind has it: an optional part with it is left out.
    Absent,
    Bad,
}

impl Pattern {
    /// Reads a pattern; `None` if it is none, or has letters that this kind has no value for.
    pub(super) fn parse(text: &str, kind: Kind) -> Option<Self> {
        let parts = parts(parse_pattern(text).ok()?, kind)??;
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// Appends a time; `offset` is how many seconds it is east of UTC.
    pub(super) fn write(&self, time: NaiveDateTime, offset: i32, out: &mut String) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Field(letter, count) => field(*letter, *count, time, offset, out),
            }
        }
    }
}

/// The parts that are written; within, `None` if one of them has no value.
fn parts(items: Vec<PatternItem>, kind: Kind) -> Option<Option<Vec<Part>>> {
    let (mut found, mut complete) = (Vec::new(), true);
    for item in items {
        match item {
            PatternItem::Literal(text) => found.push(Part::Text(text)),
            PatternItem::Optional(inner) => found.extend(parts(inner, kind)?.unwrap_or_default()),
            PatternItem::Field(letter, count) => match check(letter, count, kind) {
                Letter::Known => found.push(Part::Field(letter, count)),
                Letter::Absent => complete = false,
                Letter::Bad => return None,
            },
        }
    }
    Some(complete.then_some(found))
}

fn check(letter: char, count: usize, kind: Kind) -> Letter {
    let (most, there) = match letter {
        'y' => (6, true),
        'M' | 'L' | 'E' => (4, true),
        'd' => (2, true),
        'D' => (3, true),
        'H' | 'h' | 'k' | 'K' | 'm' | 's' => (2, kind != Kind::Date),
        'a' => (1, kind != Kind::Date),
        'S' => (9, kind != Kind::Date),
        'X' | 'x' => (3, kind == Kind::Instant),
        'Z' => (5, kind == Kind::Instant),
        _ => return Letter::Bad,
    };
    match (count <= most, there) {
        (false, _) => Letter::Bad,
        (true, true) => Letter::Known,
        (true, false) => Letter::Absent,
    }
}

/// Appends one field. Writing to a String does not fail.
fn field(letter: char, count: usize, time: NaiveDateTime, offset: i32, out: &mut String) {
    let mut number = |value: u32| {
        let _ = write!(out, "{value:0count$}");
    };
    let twelve = |hour: u32| if hour == 0 { 12 } else { hour };
    match letter {
        'y' => {
            // The year of its era.
            let year = if time.year() > 0 { time.year() } else { 1 - time.year() };
            number(if count == 2 { year.unsigned_abs() % 100 } else { year.unsigned_abs() });
        }
        'M' | 'L' => match (count, MONTHS.get(time.month0() as usize)) {
            (3, Some(name)) => out.push_str(&name[..3]),
            (4, Some(name)) => out.push_str(name),
            _ => number(time.month()),
        },
        'E' => {
            let name = DAYS[time.weekday().num_days_from_monday() as usize];
            out.push_str(if count < 4 { &name[..3] } else { name });
        }
        'd' => number(time.day()),
        'D' => number(time.ordinal()),
        'H' => number(time.hour()),
        'k' => number(if time.hour() == 0 { 24 } else { time.hour() }),
        'K' => number(time.hour() % 12),
        'h' => number(twelve(time.hour() % 12)),
        'm' => number(time.minute()),
        's' => number(time.second()),
        'a' => out.push_str(if time.hour() < 12 { "AM" } else { "PM" }),
        'S' => {
            let digits = format!("{:09}", time.nanosecond());
            out.push_str(&digits[..count.min(9)]);
        }
        _ => zone(letter, count, offset, out),
    }
}

fn zone(letter: char, count: usize, offset: i32, out: &mut String) {
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
    let zulu = letter == 'X' || (letter == 'Z' && count == 5);
    let _ = match (letter, count) {
        _ if zulu && offset == 0 => write!(out, "Z"),
        ('X' | 'x', 1) if minutes == 0 => write!(out, "{sign}{hours:02}"),
        ('X' | 'x', 3) | ('Z', 5) => write!(out, "{sign}{hours:02}:{minutes:02}"),
        ('Z', 4) if offset == 0 => write!(out, "GMT"),
        ('Z', 4) => write!(out, "GMT{sign}{hours:02}:{minutes:02}"),
        _ => write!(out, "{sign}{hours:02}{minutes:02}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::NaiveDate;

    fn written(text: &str, offset: i32) -> String {
        let day = NaiveDate::from_ymd_opt(2026, 6, 9).unwrap();
        let time = day.and_hms_micro_opt(0, 5, 7, 1_250).unwrap();
        let mut out = String::new();
        Pattern::parse(text, Kind::Instant).unwrap().write(time, offset, &mut out);
        out
    }

    #[test]
    fn letters_are_fields_of_a_width() {
        assert_eq!(written("yyyy-MM-dd'T'HH:mm:ss.SSS", 0), "2026-06-09T00:05:07.001");
        assert_eq!(written("y/M/d H:m:s.SSSSSSSSS", 0), "2026/6/9 0:5:7.001250000");
        assert_eq!(written("yy MMM MMMM E EEEE", 0), "26 Jun June Tue Tuesday");
        assert_eq!(written("DDD hh KK kk a", 0), "160 12 00 24 AM");
    }

    #[test]
    fn zones_are_offsets() {
        assert_eq!(written("X XX XXX x xxx Z ZZZZ ZZZZZ", 0), "Z Z Z +00 +00:00 +0000 GMT Z");
        let half = -(5 * 3600 + 1800);
        assert_eq!(written("X XX XXX Z ZZZZ", half), "-0530 -0530 -05:30 -0530 GMT-05:30");
        assert_eq!(written("X", 7200), "+02");
    }
}
