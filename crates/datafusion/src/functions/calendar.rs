//! The proleptic Gregorian calendar as arithmetic on day numbers: total over `i64`, unlike
//! chrono's types, which panic or refuse outside their range.

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// A civil date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: i64,
    /// 1 to 31.
    pub(crate) day: i64,
}

impl Civil {
    /// The date of a day number (days since 1970-01-01). Howard Hinnant's `civil_from_days`.
    pub(crate) fn from_days(days: i64) -> Self {
        let z = i128::from(days) + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + i128::from(month <= 2);
        Self { year: year as i64, month: month as i64, day: (doy - (153 * mp + 2) / 5 + 1) as i64 }
    }

    /// The date, if there is such a day.
    pub(crate) fn new(year: i64, month: i64, day: i64) -> Option<Self> {
        let ok = (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
        ok.then_some(Self { year, month, day })
    }

    /// Days since 1970-01-01.
    pub(crate) fn days(self) -> i64 {
        let y = self.year - i64::from(self.month <= 2);
        let era = y.div_euclid(400);
        let yoe = y.rem_euclid(400);
        let mp = (self.month + 9) % 12;
        let doy = (153 * mp + 2) / 5 + self.day - 1;
        let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
        era * 146_097 + doe - 719_468
    }

    /// 1 to 366.
    pub(crate) fn day_of_year(self) -> i64 {
        self.days() - Self { month: 1, day: 1, ..self }.days() + 1
    }

    /// The same day some months later, or the last day of that month.
    pub(crate) fn plus_months(self, months: i64) -> Self {
        let total = (self.year * 12 + self.month - 1).saturating_add(months);
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        Self { year, month, day: self.day.min(days_in_month(year, month)) }
    }
}

pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 1 = Monday to 7 = Sunday.
pub(crate) fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// ISO week-numbering year and week, 1 to 53.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days + 4 - iso_weekday(days);
    let date = Civil::from_days(thursday);
    (date.year, (date.day_of_year() - 1) / 7 + 1)
}

/// Day number and microseconds of the day.
pub(crate) fn split_micros(micros: i64) -> (i64, i64) {
    (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY))
}

/// `2026-01-31`; years above 9999 get a sign, as in ISO 8601.
pub(crate) fn write_date(days: i64, out: &mut String) {
    use std::fmt::Write;
    let Civil { year, month, day } = Civil::from_days(days);
    let _ = match year {
        10_000.. => write!(out, "+{year}-{month:02}-{day:02}"),
        0..=9_999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "-{:04}-{month:02}-{day:02}", -year),
    };
}

/// `2026-01-31 12:34:56.5`: the fraction without trailing zeros.
pub(crate) fn write_timestamp(local_micros: i64, out: &mut String) {
    use std::fmt::Write;
    let (days, of_day) = split_micros(local_micros);
    write_date(days, out);
    let (seconds, fraction) = (of_day / MICROS_PER_SECOND, of_day % MICROS_PER_SECOND);
    let _ = write!(out, " {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        let _ = write!(out, ".{fraction:06}");
        out.truncate(out.trim_end_matches('0').len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree() {
        for days in (-1_000_000..1_000_000).step_by(97) {
            let date = Civil::from_days(days);
            assert_eq!(date.days(), days);
            assert_eq!(Civil::new(date.year, date.month, date.day), Some(date));
        }
        assert_eq!(Civil::from_days(0), Civil { year: 1970, month: 1, day: 1 });
        assert_eq!(Civil::new(2026, 2, 29), None);
    }

    #[test]
    fn weeks_follow_iso_8601() {
        let week = |y, m, d| iso_week(Civil::new(y, m, d).unwrap().days());
        assert_eq!(week(2021, 1, 3), (2020, 53));
        assert_eq!(week(2021, 1, 4), (2021, 1));
        assert_eq!(week(2026, 12, 31), (2026, 53));
    }
}
