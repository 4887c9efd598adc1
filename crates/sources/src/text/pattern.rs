//! Dates and times in a form that the user describes: `dd/MM/yyyy HH:mm`, the patterns of Java's
//! `DateTimeFormatter` as Spark restricts them.
//!
//! Not for what has no form given: that is [`super::timestamp`] and [`super::date`].

use super::date::days;
use super::zone::Zone;
use fluvial_core::date_pattern::{MONTHS, PatternItem, parse_pattern};
use fluvial_core::{Options, Result};
use std::sync::Arc;

/// In UTC, in the forms that need no description.
pub(crate) static UTC_TIMES: Times = Times::plain(Zone::UTC);

/// How dates and times are written, where a user says so.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    /// The zone of times that name none.
    pub(crate) zone: Zone,
    pub(crate) date: Option<Arc<Pattern>>,
    pub(crate) timestamp: Option<Arc<Pattern>>,
    /// For times without a zone.
    pub(crate) local: Option<Arc<Pattern>>,
}

impl Times {
    /// In the forms that need no description.
    pub(crate) const fn plain(zone: Zone) -> Self {
        Self { zone, date: None, timestamp: None, local: None }
    }

    /// Takes `timeZone`, `dateFormat`, `timestampFormat` and `timestampNTZFormat` out.
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        let mut pattern = |name| {
            let expected = "a pattern of letters such as yyyy-MM-dd HH:mm:ss[.SSS][XXX], without \
                            the letters of weeks, quarters and names of days";
            options.take_with(name, expected, |text| Pattern::parse(text).map(Arc::new))
        };
        let (date, timestamp) = (pattern("dateFormat")?, pattern("timestampFormat")?);
        let local = pattern("timestampNTZFormat")?;
        Ok(Self { zone: Zone::take(options)?, date, timestamp, local })
    }
}

/// A form of dates and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A letter, and how often it stands there.
    Field(u8, usize),
    Optional(Vec<Part>),
}

/// What was found in a text.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: Option<i64>,
    /// 0 to 11.
    hour_of_half: Option<i64>,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    micros: i64,
    zone: Option<Zone>,
}

impl Pattern {
    /// Reads a pattern; `None` if it is none, or has letters that no text is read by.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts = parts(parse_pattern(text).ok()?)?;
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// The day that `text` means, since the epoch.
    pub(crate) fn date(&self, text: &[u8]) -> Option<i32> {
        i32::try_from(self.read(text)?.day()?).ok()
    }

    /// The microseconds since the epoch that `text` means; a time that names no zone is in
    /// `zone`.
    pub(crate) fn instant(&self, text: &[u8], zone: Zone) -> Option<i64> {
        let found = self.read(text)?;
        found.zone.unwrap_or(zone).to_utc(found.local()?)
    }

    /// The microseconds since 1970-01-01 00:00 that `text` shows; `None` if it names a zone.
    pub(crate) fn local(&self, text: &[u8]) -> Option<i64> {
        let found = self.read(text)?;
        if found.zone.is_some() { None } else { found.local() }
    }

    fn read(&self, text: &[u8]) -> Option<Found> {
        let mut found = Found::default();
        let mut rest = std::str::from_utf8(text).ok()?;
        read_all(&self.0, &mut rest, &mut found)?;
        rest.is_empty().then_some(found)
    }
}

fn parts(items: Vec<PatternItem>) -> Option<Vec<Part>> {
    let part = |item| {
        Some(match item {
            PatternItem::Literal(text) => Part::Text(text),
            PatternItem::Optional(inner) => Part::Optional(parts(inner)?),
            PatternItem::Field(letter, count) => {
                Part::Field(field(u8::try_from(letter).ok()?, count)?, count)
            }
        })
    };
    items.into_iter().map(part).collect()
}

/// The letter that stands for a field, if text is read by so many of it.
fn field(letter: u8, count: usize) -> Option<u8> {
    let most = match letter {
        b'y' => 6,
        b'M' | b'L' => 4,
        b'D' => 3,
        b'S' => 9,
        b'd' | b'H' | b'h' | b'k' | b'K' | b'm' | b's' | b'V' => 2,
        b'a' => 1,
        b'X' | b'x' | b'Z' => 5,
        b'z' | b'O' => 4,
        _ => 0,
    };
    (count <= most).then_some(match letter {
        b'L' => b'M',
        other => other,
    })
}

fn read_all(parts: &[Part], rest: &mut &str, found: &mut Found) -> Option<()> {
    for (i, part) in parts.iter().enumerate() {
        match part {
            Part::Text(text) => {
                let head = rest.get(..text.len())?;
                head.eq_ignore_ascii_case(text).then_some(())?;
                *rest = &rest[text.len()..];
            }
            Part::Optional(inner) => {
                let (before, so_far) = (*rest, *found);
                if read_all(inner, rest, found).is_none() {
                    (*rest, *found) = (before, so_far);
                }
            }
            Part::Field(letter, count) => {
                // Digits that follow each other are told apart by their number.
                let touches =
                    matches!(parts.get(i + 1), Some(Part::Field(next, _)) if is_number(*next));
                read_field(*letter, *count, touches, rest, found)?;
            }
        }
    }
    Some(())
}

fn is_number(letter: u8) -> bool {
    b"yMdDHhkKmsS".contains(&letter)
}

fn read_field(
    letter: u8,
    count: usize,
    touches: bool,
    rest: &mut &str,
    found: &mut Found,
) -> Option<()> {
    let most = match (letter, count) {
        (b'y', 1) if !touches => 9,
        _ if touches || count > 1 => count,
        _ => 9,
    };
    match letter {
        b'y' if count == 2 => found.year = Some(2000 + digits(rest, 2, 2)?),
        b'y' => {
            let negative = eat(rest, '-');
            let year = digits(rest, count, most.max(count))?;
            found.year = Some(if negative { -year } else { year });
        }
        b'M' if count >= 3 => found.month = Some(month(rest, count == 3)?),
        b'M' => found.month = Some(digits(rest, count, most)?),
        b'd' => found.day = Some(digits(rest, count, most)?),
        b'D' => found.day_of_year = Some(digits(rest, count, most)?),
        b'H' => found.hour = Some(within(digits(rest, count, most)?, 0, 23)?),
        b'k' => found.hour = Some(within(digits(rest, count, most)?, 1, 24)? % 24),
        b'h' => found.hour_of_half = Some(within(digits(rest, count, most)?, 1, 12)? % 12),
        b'K' => found.hour_of_half = Some(within(digits(rest, count, most)?, 0, 11)?),
        b'm' => found.minute = within(digits(rest, count, most)?, 0, 59)?,
        b's' => found.second = within(digits(rest, count, most)?, 0, 59)?,
        b'S' => found.micros = fraction(rest, count)?,
        b'a' => {
            let half = rest.get(..2)?.to_ascii_uppercase();
            found.afternoon = Some(match half.as_str() {
                "AM" => false,
                "PM" => true,
                _ => return None,
            });
            *rest = &rest[2..];
        }
        _ => found.zone = Some(zone(letter, rest)?),
    }
    Some(())
}

fn eat(rest: &mut &str, sign: char) -> bool {
    let after = rest.strip_prefix(sign);
    *rest = after.unwrap_or(rest);
    after.is_some()
}

fn within(value: i64, least: i64, most: i64) -> Option<i64> {
    (least..=most).contains(&value).then_some(value)
}

/// A number of `least..=most` digits.
fn digits(rest: &mut &str, least: usize, most: usize) -> Option<i64> {
    let count = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return None;
    }
    let (number, after) = rest.split_at(count);
    *rest = after;
    number.parse().ok()
}

/// Up to `most` digits behind the point, in microseconds.
fn fraction(rest: &mut &str, most: usize) -> Option<i64> {
    let before = rest.len();
    let value = digits(rest, 1, most)?;
    let count = before - rest.len();
    Some((0..6).fold((value, count), |(value, count), _| {
        if count < 6 { (value * 10, count + 1) } else { (value, count) }
    }))
    .map(|(value, count)| (6..count).fold(value, |value, _| value / 10))
}

fn month(rest: &mut &str, short: bool) -> Option<i64> {
    let found = MONTHS.iter().zip(1..).find_map(|(name, number)| {
        let name = if short { &name[..3] } else { name };
        let head = rest.get(..name.len())?;
        head.eq_ignore_ascii_case(name).then_some((number, name.len()))
    });
    let (number, length) = found?;
    *rest = &rest[length..];
    Some(number)
}

/// An offset or a name, up to what cannot be a part of one.
fn zone(letter: u8, rest: &mut &str) -> Option<Zone> {
    let part = |c: char| match letter {
        b'X' | b'x' | b'Z' => matches!(c, '0'..='9' | '+' | '-' | ':' | 'Z' | 'G' | 'M' | 'T'),
        _ => c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | ':' | '/' | '_'),
    };
    let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    *rest = after;
    if name == "Z" && letter == b'x' {
        return None;
    }
    Zone::parse(name.as_bytes())
}

impl Found {
    fn day(&self) -> Option<i64> {
        let year = self.year.unwrap_or(1970);
        match self.day_of_year {
            Some(day) => {
                let (first, next) = (days(year, 1, 1)?, days(year + 1, 1, 1)?);
                within(day, 1, next - first).map(|day| first + day - 1)
            }
            None => days(year, self.month.unwrap_or(1), self.day.unwrap_or(1)),
        }
    }

    fn local(&self) -> Option<i64> {
        let half =
            self.hour_of_half.map(|hour| hour + 12 * i64::from(self.afternoon == Some(true)));
        let hour = self.hour.or(half).unwrap_or(0);
        let seconds = ((self.day()? * 24 + hour) * 60 + self.minute) * 60 + self.second;
        seconds.checked_mul(1_000_000)?.checked_add(self.micros)
    }
}

#[cfg(test)]
mod tests;
