//! Pairs of a number and a unit: `1 hour 30 minutes`, and the short `1h30m`.

use super::{CalendarInterval, Fault};

/// What may stand in front of an interval, and makes it SQL.
pub(super) const PREFIX: &[u8] = b"interval";

/// A unit of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

impl Unit {
    /// By its name, singular or plural, in any case.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        const NAMES: [(&str, Unit); 9] = [
            ("year", Unit::Year),
            ("month", Unit::Month),
            ("week", Unit::Week),
            ("day", Unit::Day),
            ("hour", Unit::Hour),
            ("minute", Unit::Minute),
            ("second", Unit::Second),
            ("millisecond", Unit::Millisecond),
            ("microsecond", Unit::Microsecond),
        ];
        let singular = match word {
            [stem @ .., b's' | b'S'] => stem,
            _ => word,
        };
        NAMES
            .iter()
            .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(singular))
            .map(|&(_, unit)| unit)
    }

    fn short(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"d" => Self::Day,
            b"h" => Self::Hour,
            b"m" => Self::Minute,
            b"s" => Self::Second,
            b"ms" => Self::Millisecond,
            b"us" => Self::Microsecond,
            _ => return None,
        })
    }
}

/// A position in a text, in bytes.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Whether it stands behind the last byte.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Goes on while `wanted` holds and returns what it passed.
    pub(super) fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Passes blanks; whether there were any.
    pub(super) fn blanks(&mut self) -> bool {
        !self.take_while(|byte| byte <= b' ').is_empty()
    }

    /// Passes a sign, if there is one; whether it was a minus.
    pub(super) fn minus(&mut self) -> bool {
        let sign = self.peek();
        if matches!(sign, Some(b'+' | b'-')) {
            self.at += 1;
        }
        sign == Some(b'-')
    }

    pub(super) fn word(&mut self) -> &'a [u8] {
        self.take_while(|byte| byte.is_ascii_alphabetic())
    }

    /// A number without its sign.
    pub(super) fn number(&mut self) -> Result<Number, Fault> {
        let at = self.at;
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let whole = decimal(digits).ok_or(Fault { at, what: "the number is too large" })?;
        let mut number = Number { whole, fraction_micros: None };
        if self.peek() == Some(b'.') {
            self.at += 1;
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            number.fraction_micros = Some(fraction_micros(fraction, self.at)?);
            if digits.is_empty() && fraction.is_empty() {
                return Err(Fault { at, what: "a number is expected" });
            }
        } else if digits.is_empty() {
            return Err(Fault { at, what: "a number is expected" });
        }
        Ok(number)
    }

    pub(super) fn fault<T>(&self, what: &'static str) -> Result<T, Fault> {
        Err(Fault { at: self.at, what })
    }
}

/// A number without its sign; only those of seconds may have a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) whole: i64,
    pub(super) fraction_micros: Option<i64>,
}

/// The value of digits; `None` if it does not fit.
pub(super) fn decimal(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0i64, |value, digit| value.checked_mul(10)?.checked_add(i64::from(digit - b'0')))
}

/// Microseconds of the digits behind the point: at most nine, the last three are cut off.
pub(super) fn fraction_micros(digits: &[u8], at: usize) -> Result<i64, Fault> {
    if digits.len() > 9 {
        return Err(Fault { at, what: "a fraction has at most nine digits" });
    }
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0')).take(6);
    Ok(padded.fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

impl CalendarInterval {
    /// Adds `number` units; `None` if the sum does not fit.
    pub(super) fn add(self, minus: bool, number: Number, unit: Unit) -> Option<Self> {
        let value = if minus { -number.whole } else { number.whole };
        let months = |per: i64| {
            let months = i64::from(self.months).checked_add(value.checked_mul(per)?)?;
            Some(Self { months: i32::try_from(months).ok()?, ..self })
        };
        let days = |per: i64| {
            let days = i64::from(self.days).checked_add(value.checked_mul(per)?)?;
            Some(Self { days: i32::try_from(days).ok()?, ..self })
        };
        let micros = |per: i64| {
            let fraction = number.fraction_micros.unwrap_or(0);
            let micros = value
                .checked_mul(per)?
                .checked_add(if minus { -fraction } else { fraction })?
                .checked_add(self.micros)?;
            Some(Self { micros, ..self })
        };
        match unit {
            Unit::Year => months(12),
            Unit::Month => months(1),
            Unit::Week => days(7),
            Unit::Day => days(1),
            Unit::Hour => micros(3_600_000_000),
            Unit::Minute => micros(60_000_000),
            Unit::Second => micros(1_000_000),
            Unit::Millisecond => micros(1000),
            Unit::Microsecond => micros(1),
        }
    }
}

/// Reads pairs of a number and a unit.
pub(super) fn parse(text: &[u8]) -> Result<CalendarInterval, Fault> {
    let mut cursor = Cursor::new(text);
    let mut interval = CalendarInterval::default();
    cursor.blanks();
    loop {
        let at = cursor.at;
        let minus = cursor.minus();
        cursor.blanks();
        let number = cursor.number()?;
        if !cursor.blanks() {
            return cursor.fault("a blank and a unit are expected");
        }
        let unit_at = cursor.at;
        let unknown = Fault { at: unit_at, what: "a unit from years to microseconds is expected" };
        let unit = Unit::of(cursor.word()).ok_or(unknown)?;
        if number.fraction_micros.is_some() && unit != Unit::Second {
            return Err(Fault { at, what: "only seconds may have a fraction" });
        }
        interval = interval
            .add(minus, number, unit)
            .ok_or(Fault { at, what: "the interval is too long" })?;
        let parted = cursor.blanks();
        if cursor.is_done() {
            return Ok(interval);
        }
        if !parted {
            return Err(unknown);
        }
    }
}

/// Reads the short form; `None` if the text does not have its shape.
pub(super) fn parse_short(text: &[u8]) -> Option<Result<CalendarInterval, Fault>> {
    let starts = text.first().is_some_and(u8::is_ascii_digit);
    if !starts || !text.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let mut cursor = Cursor::new(text);
    let mut interval = CalendarInterval::default();
    while !cursor.is_done() {
        let at = cursor.at;
        let number = match cursor.number() {
            Ok(number) => number,
            Err(fault) => return Some(Err(fault)),
        };
        let unit_at = cursor.at;
        let Some(unit) = Unit::short(cursor.word()) else {
            return Some(Err(Fault { at: unit_at, what: "one of us, ms, s, m, h, d is expected" }));
        };
        match interval.add(false, number, unit) {
            Some(sum) => interval = sum,
            None => return Some(Err(Fault { at, what: "the interval is too long" })),
        }
    }
    Some(Ok(interval))
}
