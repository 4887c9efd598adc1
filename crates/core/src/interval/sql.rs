//! Intervals as SQL literals: `interval 10 seconds`, `interval '5' day`, `interval '10 minutes'`,
//! `interval '1 2:3:4' day to second`.

use super::words::{self, Cursor, Number, Unit, decimal, fraction_micros};
use super::{CalendarInterval, Fault};

/// Reads what follows the word `interval`, which ends at byte `from`.
pub(super) fn parse(text: &str, from: usize) -> Result<CalendarInterval, Fault> {
    let mut cursor = Cursor { text: text.as_bytes(), at: from };
    if !cursor.blanks() && !matches!(cursor.peek(), Some(b'\'' | b'"' | b'-' | b'+')) {
        return cursor.fault("a blank is expected");
    }
    // Numbers, strings and units are put together as plain pairs first: `'5' day` is `5 day`.
    let mut pairs: Vec<u8> = Vec::with_capacity(text.len());
    loop {
        let value = Value::read(&mut cursor)?;
        let parted = cursor.blanks();
        if cursor.is_done() && value.quoted && pairs.is_empty() {
            return value.whole_interval();
        }
        if !parted && !value.quoted {
            return cursor.fault("a blank and a unit are expected");
        }
        let unit_at = cursor.at;
        let unknown = Fault { at: unit_at, what: "a unit from years to microseconds is expected" };
        let word = cursor.word();
        let unit = Unit::of(word).ok_or(unknown)?;
        let parted = cursor.blanks();
        if parted && cursor.text[cursor.at..].get(..2).is_some_and(is_to) {
            cursor.at += 2;
            return value.unit_to_unit(unit, &mut cursor, pairs.is_empty());
        }
        value.append_to(&mut pairs, word)?;
        if cursor.is_done() {
            return words::parse(&pairs).map_err(|fault| Fault { at: from, ..fault });
        }
        if !parted {
            return Err(unknown);
        }
    }
}

fn is_to(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"to")
}

/// A number or string with the sign in front of it.
struct Value<'a> {
    minus: bool,
    text: &'a [u8],
    quoted: bool,
    at: usize,
}

impl<'a> Value<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Fault> {
        let minus = cursor.minus();
        cursor.blanks();
        let at = cursor.at;
        match cursor.peek() {
            Some(quote @ (b'\'' | b'"')) => {
                cursor.at += 1;
                let text = cursor.take_while(|byte| byte != quote);
                if cursor.is_done() {
                    return Err(Fault { at, what: "the quote is not closed" });
                }
                cursor.at += 1;
                Ok(Self { minus, text, quoted: true, at })
            }
            _ => {
                cursor.number()?;
                Ok(Self { minus, text: &cursor.text[at..cursor.at], quoted: false, at })
            }
        }
    }

    fn fault<T>(&self, what: &'static str) -> Result<T, Fault> {
        Err(Fault { at: self.at, what })
    }

    /// The string is the whole interval: `interval '10 minutes'`.
    fn whole_interval(&self) -> Result<CalendarInterval, Fault> {
        if self.minus {
            return self.fault("a string with units cannot have a sign in front of it");
        }
        words::parse(self.text).map_err(|fault| Fault { at: self.at + 1 + fault.at, ..fault })
    }

    /// Appends `value unit`. Strings must be numbers: `'1 day 2' hour` would become valid.
    fn append_to(&self, pairs: &mut Vec<u8>, unit: &[u8]) -> Result<(), Fault> {
        if self.text.iter().any(u8::is_ascii_alphabetic) {
            return self.fault("a number is expected");
        }
        let text = self.text.trim_ascii();
        pairs.push(b' ');
        match (self.minus, text) {
            (true, [b'-', unsigned @ ..]) => pairs.extend_from_slice(unsigned),
            (true, _) => {
                pairs.push(b'-');
                pairs.extend_from_slice(text);
            }
            (false, _) => pairs.extend_from_slice(text),
        }
        pairs.push(b' ');
        pairs.extend_from_slice(unit);
        Ok(())
    }

    /// `'1 2:3:4' day to second` and its shorter forms.
    fn unit_to_unit(
        &self,
        from: Unit,
        cursor: &mut Cursor<'_>,
        alone: bool,
    ) -> Result<CalendarInterval, Fault> {
        cursor.blanks();
        let to = Unit::of(cursor.word());
        cursor.blanks();
        if !alone || !self.quoted || !cursor.is_done() {
            return cursor.fault("an interval of two units stands alone and is one string");
        }
        let known = match (from, to) {
            (Unit::Year, Some(Unit::Month)) => Some(Unit::Month),
            (Unit::Day | Unit::Hour | Unit::Minute, Some(to))
                if from < to && to <= Unit::Second =>
            {
                Some(to)
            }
            _ => None,
        };
        let Some(to) = known else {
            return cursor.fault("these two units do not make an interval");
        };
        let mut fields = Cursor::new(self.text.trim_ascii());
        let minus = fields.minus() != self.minus;
        let parsed = read_fields(&mut fields, minus, from, to);
        parsed.map_err(|fault| Fault { at: self.at + 1 + fault.at, ..fault })
    }
}

/// The fields from one unit to another, with their separators; all but the first are limited.
fn read_fields(
    fields: &mut Cursor<'_>,
    minus: bool,
    from: Unit,
    to: Unit,
) -> Result<CalendarInterval, Fault> {
    const ORDER: [(Unit, u8, i64); 6] = [
        (Unit::Year, 0, 0),
        (Unit::Month, b'-', 11),
        (Unit::Day, 0, 0),
        (Unit::Hour, b' ', 23),
        (Unit::Minute, b':', 59),
        (Unit::Second, b':', 59),
    ];
    let mut interval = CalendarInterval::default();
    for (unit, separator, limit) in ORDER {
        if unit < from || unit > to {
            continue;
        }
        if unit != from {
            if fields.peek() != Some(separator) {
                return fields.fault("the string does not have the form of these two units");
            }
            fields.at += 1;
        }
        let at = fields.at;
        let digits = fields.take_while(|byte| byte.is_ascii_digit());
        let whole = decimal(digits).filter(|_| !digits.is_empty());
        let whole = whole.ok_or(Fault { at, what: "a number is expected" })?;
        if unit != from && whole > limit {
            return Err(Fault { at, what: "a field is out of its range" });
        }
        let mut number = Number { whole, fraction_micros: None };
        if unit == Unit::Second && fields.peek() == Some(b'.') {
            fields.at += 1;
            let digits = fields.take_while(|byte| byte.is_ascii_digit());
            number.fraction_micros = Some(fraction_micros(digits, fields.at)?);
        }
        interval = interval
            .add(minus, number, unit)
            .ok_or(Fault { at, what: "the interval is too long" })?;
    }
    if fields.is_done() { Ok(interval) } else { fields.fault("more fields than units") }
}
