//! The words of JSON: white space, strings, numbers.

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Syntax;

/// A place in one line.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

/// What is between two quotes, as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quoted<'a> {
    pub(super) raw: &'a [u8],
    pub(super) escaped: bool,
}

/// A number: `mantissa * 10^exponent`, if `exact`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    pub(super) raw: &'a [u8],
    pub(super) negative: bool,
    pub(super) mantissa: u64,
    pub(super) exponent: i32,
    /// No fraction and no exponent were written.
    pub(super) integral: bool,
    /// All digits fitted into the mantissa.
    pub(super) exact: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte, or 0 at the end: 0 starts nothing.
    pub(super) fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    pub(super) fn done(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips white space.
    #[inline]
    pub(super) fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    #[inline]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let next = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(next);
        next
    }

    #[inline]
    pub(super) fn need(&mut self, byte: u8) -> Result<(), Syntax> {
        if self.eat(byte) { Ok(()) } else { Err(Syntax) }
    }

    /// Whether an object whose opening bracket was taken has nothing in it; then it is closed.
    #[cold]
    pub(super) fn is_empty_object(&mut self) -> bool {
        let start = self.at;
        self.blanks();
        let empty = self.eat(b'}');
        if !empty {
            self.at = start;
        }
        empty
    }

    /// After a value: `true` if another follows, `false` after `close`.
    #[inline]
    pub(super) fn more(&mut self, close: u8) -> Result<bool, Syntax> {
        self.blanks();
        if self.eat(b',') {
            self.blanks();
            return Ok(true);
        }
        self.need(close).map(|()| false)
    }

    /// A string, whose opening quote is next. Both kinds of quotes are allowed, as in Spark.
    #[inline]
    pub(super) fn quoted(&mut self) -> Result<Quoted<'a>, Syntax> {
        match self.peek() {
            b'"' => {
                self.at += 1;
                self.double_quoted()
            }
            b'\'' => {
                self.at += 1;
                self.single_quoted()
            }
            _ => Err(Syntax),
        }
    }

    /// A string, whose opening quote was taken.
    #[inline]
    pub(super) fn double_quoted(&mut self) -> Result<Quoted<'a>, Syntax> {
        let rest = self.rest();
        let plain = plain_prefix(rest);
        if let Some(b'"') = rest.get(plain) {
            self.at += plain + 1;
            return Ok(Quoted { raw: &rest[..plain], escaped: false });
        }
        self.escaped(plain)
    }

    /// A string whose first `plain` bytes are no escapes, and the next one is no quote.
    fn escaped(&mut self, plain: usize) -> Result<Quoted<'a>, Syntax> {
        let start = self.at;
        self.at += plain;
        loop {
            match self.text.get(self.at) {
                Some(b'"') => {
                    let raw = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Quoted { raw, escaped: true });
                }
                Some(b'\\') => self.escape()?,
                // The end, or a control character.
                _ => return Err(Syntax),
            }
            self.at += plain_prefix(self.rest());
        }
    }

    #[cold]
    fn single_quoted(&mut self) -> Result<Quoted<'a>, Syntax> {
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.text.get(self.at) {
                Some(b'\'') => {
                    let raw = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Quoted { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(byte) if *byte >= b' ' => self.at += 1,
                _ => return Err(Syntax),
            }
        }
    }

    /// Checks an escape and steps over it; the backslash is next.
    fn escape(&mut self) -> Result<(), Syntax> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'\'') => self.at += 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6).ok_or(Syntax)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(Syntax);
                }
                self.at += 6;
            }
            _ => return Err(Syntax),
        }
        Ok(())
    }

    /// A number, whose first byte (a digit or `-`) is next.
    #[inline]
    pub(super) fn number(&mut self) -> Result<Number<'a>, Syntax> {
        let start = self.at;
        let negative = self.eat(b'-');
        let mut digits = Digits::default();
        if self.peek() == b'0' {
            self.at += 1;
            if self.peek().is_ascii_digit() {
                return Err(Syntax);
            }
        } else if self.digits(&mut digits) == 0 {
            return Err(Syntax);
        }
        let (mut exponent, mut integral) = (0i32, true);
        if self.peek() == b'.' {
            self.at += 1;
            integral = false;
            let fraction = self.digits(&mut digits);
            if fraction == 0 {
                return Err(Syntax);
            }
            exponent = -i32::try_from(fraction).map_err(|_| Syntax)?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            integral = false;
            exponent = exponent.saturating_add(self.exponent()?);
        }
        let raw = &self.text[start..self.at];
        let (mantissa, exact) = (digits.value, digits.exact());
        Ok(Number { raw, negative, mantissa, exponent, integral, exact })
    }

    #[inline]
    fn digits(&mut self, digits: &mut Digits) -> usize {
        let start = self.at;
        while let Some(digit) = self.text.get(self.at).map(|b| b.wrapping_sub(b'0')) {
            if digit > 9 {
                break;
            }
            digits.push(digit);
            self.at += 1;
        }
        self.at - start
    }

    pub(super) fn exponent(&mut self) -> Result<i32, Syntax> {
        let negative = self.eat(b'-');
        if !negative {
            self.eat(b'+');
        }
        let mut digits = Digits::default();
        if self.digits(&mut digits) == 0 {
            return Err(Syntax);
        }
        // Beyond this every number is zero or infinite.
        let value = if digits.exact() { digits.value.min(1_000_000) as i32 } else { 1_000_000 };
        Ok(if negative { -value } else { value })
    }

    /// Takes `word` if it is next and ends there.
    pub(super) fn word(&mut self, word: &[u8]) -> bool {
        let Some(after) = self.rest().strip_prefix(word) else { return false };
        let ends = !matches!(after.first(), Some(b) if b.is_ascii_alphanumeric() || *b == b'_');
        self.at += if ends { word.len() } else { 0 };
        ends
    }

    /// The numbers that JSON does not have and Spark reads: `NaN`, `Infinity` and its kin.
    pub(super) fn word_number(&mut self) -> Option<f64> {
        const WORDS: [(&[u8], f64); 6] = [
            (b"NaN", f64::NAN),
            (b"Infinity", f64::INFINITY),
            (b"+Infinity", f64::INFINITY),
            (b"-Infinity", f64::NEG_INFINITY),
            (b"+INF", f64::INFINITY),
            (b"-INF", f64::NEG_INFINITY),
        ];
        WORDS.iter().find(|(word, _)| self.word(word)).map(|(_, number)| *number)
    }
}

/// Up to 19 significant digits.
#[derive(Debug, Default)]
struct Digits {
    value: u64,
    count: u32,
}

impl Digits {
    #[inline]
    fn push(&mut self, digit: u8) {
        self.value = self.value.wrapping_mul(10).wrapping_add(u64::from(digit));
        // Leading zeros are no digits.
        self.count += u32::from(self.value != 0 || self.count != 0);
    }

    fn exact(&self) -> bool {
        self.count <= 19
    }
}

/// How many bytes come before the first quote, backslash or control character.
#[inline]
fn plain_prefix(text: &[u8]) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (chunks, tail) = text.as_chunks::<8>();
    for (i, chunk) in chunks.iter().enumerate() {
        // A byte is zero iff subtracting one borrows from a byte without its high bit. The
        // lowest hit is exact, higher ones may be an effect of the borrow.
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (LOW * b'"' as u64);
        let backslash = word ^ (LOW * b'\\' as u64);
        let hits = (quote.wrapping_sub(LOW) & !quote)
            | (backslash.wrapping_sub(LOW) & !backslash)
            | (word.wrapping_sub(LOW * 0x20) & !word);
        let hits = hits & HIGH;
        if hits != 0 {
            return i * 8 + (hits.trailing_zeros() / 8) as usize;
        }
    }
    let stop = |b: &u8| *b == b'"' || *b == b'\\' || *b < b' ';
    text.len() - tail.len() + tail.iter().position(stop).unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_of_eight_bytes_find_the_first_stop(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let stop = |b: &u8| *b == b'"' || *b == b'\\' || *b < b' ';
            let expected = text.iter().position(stop).unwrap_or(text.len());
            prop_assert_eq!(plain_prefix(&text), expected);
        }
    }
}
