//! Dates as text: `2026-01-31`, `2026-1`, `2026`; a time after the day is ignored.

/// A text being read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let next = self.0.first() == Some(&byte);
        self.0 = &self.0[usize::from(next)..];
        next
    }

    /// A number of `least..=most` digits, all that there are.
    pub(super) fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if count < least || count > most {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    }

    /// A date in days since the epoch, up to the end, a blank or a `T`; years have four digits
    /// or more.
    pub(super) fn date(&mut self, year_digits: usize) -> Option<i64> {
        let negative = self.eat(b'-');
        if !negative {
            self.eat(b'+');
        }
        let year = self.number(4, year_digits)?;
        let mut part = |ends: &mut bool| -> Option<i64> {
            if *ends || !self.eat(b'-') {
                *ends = true;
                return Some(1);
            }
            self.number(1, 2)
        };
        let mut ends = false;
        let (month, day) = (part(&mut ends)?, part(&mut ends)?);
        // A time may follow a whole date only.
        let fits = self.0.is_empty() || (!ends && matches!(self.0[0], b' ' | b'T'));
        fits.then_some(())?;
        days(if negative { -year } else { year }, month, day)
    }
}

/// Reads a date, in days since the epoch.
pub(crate) fn parse(text: &[u8]) -> Option<i32> {
    i32::try_from(Reader(trim(text)).date(7)?).ok()
}

/// Without blanks and control characters at both ends: what Spark trims.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| *byte <= b' ';
    let start = text.iter().position(|b| !blank(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !blank(b)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar; `None` if there is no such day.
pub(super) fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    // Howard Hinnant's `days_from_civil`: years begin in March, so that a leap day comes last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    Some(
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year
            - 719_468,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_spark_reads() {
        for (text, value) in [
            ("1970-01-01", Some(0)),
            ("2026-01-01", Some(20_454)),
            (" 2026-1-1 ", Some(20_454)),
            ("2026-01", Some(20_454)),
            ("2026", Some(20_454)),
            ("2026-01-01T05:00:00Z", Some(20_454)),
            ("2026-01-01 junk", Some(20_454)),
            ("2026-01-01Tx", Some(20_454)),
            ("2000-02-29", Some(11_016)),
            ("0001-01-01", Some(-719_162)),
            ("-0001-01-01", Some(-719_893)),
            ("+12026-01-01", Some(3_672_879)),
            ("2026-02-30", None),
            ("1900-02-29", None),
            ("2026-13-01", None),
            ("2026-00-01", None),
            ("2026-01-01x", None),
            ("2026-01x", None),
            ("2026-", None),
            ("26-01-01", None),
            ("20260101", None),
            ("", None),
            ("garbage", None),
        ] {
            assert_eq!(parse(text.as_bytes()), value, "{text}");
        }
    }
}
