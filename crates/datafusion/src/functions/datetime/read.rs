//! Text into times by a pattern.

use super::pattern::{DAYS, Item, MONTHS, Pattern};
use crate::functions::calendar::{Civil, MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::functions::zone::Zone;

/// What was read; what was not has no value.
#[derive(Debug, Clone, Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// 0 to 23.
    hour: Option<i64>,
    /// 0 to 11.
    half_hour: Option<i64>,
    afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    micros: Option<i64>,
    zone: Option<Zone>,
}

impl Pattern {
    /// Reads an instant. Text without a zone is read in `zone`; a missing date is 1970-01-01.
    pub(crate) fn read(&self, text: &str, zone: Zone) -> Option<i64> {
        let (fields, rest) = read_all(&self.items, text, Fields::default())?;
        if !rest.is_empty() {
            return None;
        }
        let local = fields.local()?;
        Some(fields.zone.unwrap_or(zone).to_utc(local))
    }

    /// Reads a local time; a zone in the text is read and ignored.
    pub(crate) fn read_local(&self, text: &str) -> Option<i64> {
        let (fields, rest) = read_all(&self.items, text, Fields::default())?;
        rest.is_empty().then(|| fields.local()).flatten()
    }
}

impl Fields {
    fn local(&self) -> Option<i64> {
        let year = self.year.unwrap_or(1970);
        let days = match (self.day_of_year, self.month) {
            (Some(of_year), None) => {
                let first = Civil::new(year, 1, 1)?;
                let date = Civil::from_days(first.days() + of_year - 1);
                (date.year == year && of_year >= 1).then(|| date.days())?
            }
            _ => Civil::new(year, self.month.unwrap_or(1), self.day.unwrap_or(1))?.days(),
        };
        let hour = match (self.hour, self.half_hour) {
            (Some(hour), _) => hour,
            (None, Some(half)) => half + if self.afternoon.unwrap_or(false) { 12 } else { 0 },
            (None, None) => 0,
        };
        let (minute, second) = (self.minute.unwrap_or(0), self.second.unwrap_or(0));
        if !(0..24).contains(&hour) || minute > 59 || second > 59 {
            return None;
        }
        let of_day = (hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND;
        days.checked_mul(MICROS_PER_DAY)?.checked_add(of_day)?.checked_add(self.micros.unwrap_or(0))
    }
}

fn read_all<'a>(items: &[Item], text: &'a str, fields: Fields) -> Option<(Fields, &'a str)> {
    let Some((item, others)) = items.split_first() else { return Some((fields, text)) };
    match item {
        Item::Literal(literal) => {
            let head = text.get(..literal.len())?;
            if !head.eq_ignore_ascii_case(literal) {
                return None;
            }
            read_all(others, &text[literal.len()..], fields)
        }
        Item::Optional(inner) => {
            let with = read_all(inner, text, fields.clone())
                .and_then(|(fields, rest)| read_all(others, rest, fields));
            with.or_else(|| read_all(others, text, fields))
        }
        Item::Field(letter, count) => {
            let adjacent =
                matches!(others.first(), Some(Item::Field(next, n)) if is_number(*next, *n));
            let mut fields = fields;
            let rest = fields.take(*letter, *count, adjacent, text)?;
            read_all(others, rest, fields)
        }
    }
}

/// Whether so many of a letter are written in digits.
fn is_number(letter: char, count: usize) -> bool {
    match letter {
        'M' | 'L' => count < 3,
        'y' | 'u' | 'd' | 'D' | 'h' | 'K' | 'H' | 'k' | 'm' | 's' | 'S' => true,
        _ => false,
    }
}

/// A number of `min` to `max` digits.
fn digits(text: &str, min: usize, max: usize) -> Option<(i64, &str)> {
    let length = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    if length < min {
        return None;
    }
    Some((text[..length].parse().ok()?, &text[length..]))
}

/// One of some names, whole or by its first three letters.
fn name<'a>(text: &'a str, names: &[&str], whole: bool) -> Option<(i64, &'a str)> {
    let at = |name: &str| {
        let name = if whole { name } else { &name[..3] };
        let head = text.get(..name.len())?;
        head.eq_ignore_ascii_case(name).then(|| &text[name.len()..])
    };
    (1..).zip(names).find_map(|(i, name)| at(name).map(|rest| (i, rest)))
}

impl Fields {
    /// Reads a field and gives what follows it.
    fn take<'a>(
        &mut self,
        letter: char,
        count: usize,
        adjacent: bool,
        text: &'a str,
    ) -> Option<&'a str> {
        // Two or more letters ask for as many digits, one for as many as there are.
        let two = |text: &'a str| match count {
            1 if !adjacent => digits(text, 1, 2),
            1 => digits(text, 1, 1),
            _ => digits(text, count, count),
        };
        let (slot, (value, rest)) = match letter {
            'y' | 'u' => (&mut self.year, year(text, count, adjacent)?),
            'M' | 'L' if count >= 3 => (&mut self.month, name(text, &MONTHS, count > 3)?),
            'M' | 'L' => (&mut self.month, two(text)?),
            'd' => (&mut self.day, two(text)?),
            'D' => (&mut self.day_of_year, digits(text, count, 3)?),
            'H' => (&mut self.hour, two(text)?),
            'k' => {
                let (hour, rest) = two(text)?;
                (&mut self.hour, (hour % 24, rest))
            }
            'K' => (&mut self.half_hour, two(text)?),
            'h' => {
                let (hour, rest) = two(text)?;
                if !(1..=12).contains(&hour) {
                    return None;
                }
                (&mut self.half_hour, (hour % 12, rest))
            }
            'm' => (&mut self.minute, two(text)?),
            's' => (&mut self.second, two(text)?),
            'S' => {
                let (value, rest) = digits(text, 1, count)?;
                let length = text.len() - rest.len();
                let micros = if length <= 6 {
                    value * 10_i64.pow(6 - length as u32)
                } else {
                    value / 10_i64.pow(length as u32 - 6)
                };
                (&mut self.micros, (micros, rest))
            }
            'a' => {
                let head = text.get(..2)?;
                self.afternoon = Some(match head.to_ascii_uppercase().as_str() {
                    "AM" => false,
                    "PM" => true,
                    _ => return None,
                });
                return Some(&text[2..]);
            }
            'E' => return name(text, &DAYS, count > 3).map(|(_, rest)| rest),
            'G' => {
                let head = text.get(..2)?;
                return head.eq_ignore_ascii_case("AD").then(|| &text[2..]);
            }
            'V' | 'z' | 'O' | 'X' | 'x' | 'Z' => return self.take_zone(letter, text),
            _ => return None,
        };
        *slot = Some(value);
        Some(rest)
    }

    fn take_zone<'a>(&mut self, letter: char, text: &'a str) -> Option<&'a str> {
        if letter == 'X'
            && let Some(rest) = text.strip_prefix(['Z', 'z'])
        {
            self.zone = Some(Zone::UTC);
            return Some(rest);
        }
        let is_offset = matches!(letter, 'X' | 'x' | 'Z');
        let part = |c: char| {
            c.is_ascii_digit()
                || matches!(c, '+' | '-' | ':')
                || (!is_offset && (c.is_ascii_alphabetic() || matches!(c, '/' | '_')))
        };
        let length = text.find(|c: char| !part(c)).unwrap_or(text.len());
        // The longest text that is a zone: others may follow.
        let end = (1..=length)
            .rev()
            .find(|end| text.is_char_boundary(*end) && Zone::parse(&text[..*end]).is_some())?;
        if is_offset && !text.starts_with(['+', '-']) {
            return None;
        }
        self.zone = Zone::parse(&text[..end]);
        Some(&text[end..])
    }
}

fn year(text: &str, count: usize, adjacent: bool) -> Option<(i64, &str)> {
    if count == 2 {
        let (value, rest) = digits(text, 2, 2)?;
        return Some((2000 + value, rest));
    }
    let negative = text.starts_with('-');
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (value, rest) = digits(text, count, if adjacent { count } else { count.max(6) })?;
    Some((if negative { -value } else { value }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pattern: &str, text: &str) -> Option<String> {
        let micros = Pattern::parse(pattern).unwrap().read(text, Zone::UTC)?;
        let mut out = String::new();
        crate::functions::calendar::write_timestamp(micros, &mut out);
        Some(out)
    }

    #[test]
    fn text_is_read_by_patterns() {
        for (pattern, text, time) in [
            ("yyyyMMddHHmmss", "20260203040506", "2026-02-03 04:05:06"),
            ("d/M/yy", "3/2/26", "2026-02-03 00:00:00"),
            ("yyyy-DDD", "2026-034", "2026-02-03 00:00:00"),
            ("yyyy-MM-dd[ HH:mm]", "2026-02-03", "2026-02-03 00:00:00"),
            ("yyyy-MM-dd[ HH:mm]", "2026-02-03 04:05", "2026-02-03 04:05:00"),
            ("yyyy-MM-dd HH:mm VV", "2026-02-03 04:05 Europe/Berlin", "2026-02-03 03:05:00"),
            ("EEE, d MMM yyyy hh:mm a", "Tue, 3 feb 2026 12:05 am", "2026-02-03 00:05:00"),
            ("HH:mm:ss.SSS", "04:05:06.5", "1970-01-01 04:05:06.5"),
        ] {
            assert_eq!(read(pattern, text).as_deref(), Some(time), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("yyyy-MM-dd", "2026-02-30"),
            ("yyyy-MM-dd", "2026-02-03 "),
            ("yyyy-MM-dd", "2026-2-3"),
            ("HH", "24"),
            ("hh a", "13 PM"),
        ] {
            assert_eq!(read(pattern, text), None, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(pattern in "\\PC{0,12}", text in "\\PC{0,20}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                let _ = pattern.read(&text, Zone::UTC);
                pattern.write(0, Zone::UTC, &mut String::new());
            }
        }

        #[test]
        fn what_is_written_is_read(micros in 0..253_402_300_799_999_999_i64) {
            let pattern = Pattern::parse("yyyy-MM-dd HH:mm:ss.SSSSSS XXX").unwrap();
            let zone = Zone::Fixed(7_200);
            let mut text = String::new();
            pattern.write(micros, zone, &mut text);
            prop_assert_eq!(pattern.read(&text, Zone::UTC), Some(micros));
        }
    }
}
