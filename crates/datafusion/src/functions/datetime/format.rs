//! Times as text by a pattern.

use super::pattern::{DAYS, Item, MONTHS, Pattern};
use crate::functions::calendar::{Civil, MICROS_PER_SECOND, iso_weekday, split_micros};
use crate::functions::zone::{Zone, offset_text};
use chrono::{DateTime, Offset, TimeZone};
use std::fmt::Write;

/// An instant as it reads in a zone.
struct Local {
    date: Civil,
    days: i64,
    /// Seconds and microseconds of the day.
    second: i64,
    micros: i64,
    /// Seconds east of Greenwich.
    offset: i64,
    instant: i64,
    zone: Zone,
}

impl Pattern {
    /// Writes an instant.
    pub(crate) fn write(&self, instant: i64, zone: Zone, out: &mut String) {
        let (days, of_day) = split_micros(zone.to_local(instant));
        let local = Local {
            date: Civil::from_days(days),
            days,
            second: of_day / MICROS_PER_SECOND,
            micros: of_day % MICROS_PER_SECOND,
            offset: zone.offset_at(instant),
            instant,
            zone,
        };
        local.write_all(&self.items, out);
    }
}

impl Local {
    fn write_all(&self, items: &[Item], out: &mut String) {
        for item in items {
            match item {
                Item::Literal(text) => out.push_str(text),
                Item::Field(letter, count) => self.write_field(*letter, *count, out),
                Item::Optional(items) => self.write_all(items, out),
            }
        }
    }

    fn write_field(&self, letter: char, count: usize, out: &mut String) {
        let (hour, minute) = (self.second / 3600, self.second / 60 % 60);
        let padded = |value: i64, out: &mut String| {
            // Writing to a string cannot fail.
            let _ = write!(out, "{value:0count$}");
        };
        match letter {
            'G' => out.push_str(if self.date.year > 0 { "AD" } else { "BC" }),
            'y' | 'u' => self.write_year(letter, count, out),
            'M' | 'L' => text_or_number(self.date.month, count, &MONTHS, out),
            'd' => padded(self.date.day, out),
            'D' => padded(self.date.day_of_year(), out),
            'E' => {
                let name = DAYS[(iso_weekday(self.days) - 1) as usize];
                out.push_str(if count < 4 { &name[..3] } else { name });
            }
            'F' => padded((self.date.day - 1) / 7 + 1, out),
            'Q' | 'q' => {
                let quarter = (self.date.month - 1) / 3 + 1;
                let _ = match count {
                    1 | 2 => write!(out, "{quarter:0count$}"),
                    3 => write!(out, "Q{quarter}"),
                    _ => {
                        let names = ["1st", "2nd", "3rd", "4th"];
                        write!(out, "{} quarter", names[(quarter - 1) as usize])
                    }
                };
            }
            'a' => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            'h' => padded(if hour % 12 == 0 { 12 } else { hour % 12 }, out),
            'K' => padded(hour % 12, out),
            'H' => padded(hour, out),
            'k' => padded(if hour == 0 { 24 } else { hour }, out),
            'm' => padded(minute, out),
            's' => padded(self.second % 60, out),
            'S' => {
                let fraction = format!("{:06}000", self.micros);
                out.push_str(&fraction[..count.min(9)]);
            }
            'V' => out.push_str(&self.zone.name()),
            'z' => out.push_str(&self.zone_name()),
            'O' => self.write_gmt(count, out),
            'X' if self.offset == 0 => out.push('Z'),
            'X' | 'x' => self.write_offset(count, out),
            'Z' => match count {
                4 => self.write_gmt(4, out),
                5 if self.offset == 0 => out.push('Z'),
                5 => self.write_offset(3, out),
                _ => self.write_offset(2, out),
            },
            _ => {}
        }
    }

    fn write_year(&self, letter: char, count: usize, out: &mut String) {
        // Years of the era, unless asked for by `u`.
        let year = match letter {
            'y' if self.date.year <= 0 => 1 - self.date.year,
            _ => self.date.year,
        };
        let _ = match count {
            2 => write!(out, "{:02}", year.rem_euclid(100)),
            _ if year > 9_999 && count >= 4 => write!(out, "+{year:0count$}"),
            _ if year < 0 => write!(out, "-{:0count$}", -year),
            _ => write!(out, "{year:0count$}"),
        };
    }

    /// `+02`, `+0200`, `+02:00`, by the number of letters.
    fn write_offset(&self, count: usize, out: &mut String) {
        let sign = if self.offset < 0 { '-' } else { '+' };
        let (h, m) = (self.offset.abs() / 3600, self.offset.abs() / 60 % 60);
        let _ = match count {
            1 if m == 0 => write!(out, "{sign}{h:02}"),
            1 | 2 | 4 => write!(out, "{sign}{h:02}{m:02}"),
            _ => write!(out, "{sign}{h:02}:{m:02}"),
        };
    }

    /// `GMT+2` or `GMT+02:00`.
    fn write_gmt(&self, count: usize, out: &mut String) {
        out.push_str("GMT");
        if self.offset == 0 {
            return;
        }
        if count == 4 {
            out.push_str(&offset_text(self.offset));
            return;
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let (h, m) = (self.offset.abs() / 3600, self.offset.abs() / 60 % 60);
        let _ = if m == 0 { write!(out, "{sign}{h}") } else { write!(out, "{sign}{h}:{m:02}") };
    }

    /// `UTC`, `CET`, or the offset.
    fn zone_name(&self) -> String {
        match self.zone {
            Zone::Named(tz) => {
                DateTime::from_timestamp(self.instant.div_euclid(MICROS_PER_SECOND), 0).map_or_else(
                    || tz.name().to_owned(),
                    |at| {
                        let offset = tz.offset_from_utc_datetime(&at.naive_utc());
                        debug_assert_eq!(i64::from(offset.fix().local_minus_utc()), self.offset);
                        offset.to_string()
                    },
                )
            }
            fixed => fixed.name(),
        }
    }
}

fn text_or_number(value: i64, count: usize, names: &[&str], out: &mut String) {
    let name = names[(value - 1) as usize];
    let _ = match count {
        1 | 2 => write!(out, "{value:0count$}"),
        3 => write!(out, "{}", &name[..3]),
        _ => write!(out, "{name}"),
    };
}
