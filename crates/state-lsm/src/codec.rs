//! Numbers and byte strings: how the format writes them, and how it reads them without trust.
//!
//! Numbers are unsigned, seven bits to a byte, the lowest first. A length never allocates more
//! than the bytes that are there.

use fluvial_core::{Error, Result};

/// Puts a number.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Puts a number that may be negative: 0, -1, 1, -2 are 0, 1, 2, 3.
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Puts a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a number at `at` of bytes that were checked; returns it and where it ends.
#[inline]
pub(crate) fn number_at(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((u64::from(first), at + 1));
    }
    let mut number = u64::from(first & 0x7F);
    let mut at = at + 1;
    for shift in (7..64).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some((number, at));
        }
    }
    None
}

/// Bytes being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// A number.
    pub(crate) fn number(&mut self) -> Result<u64> {
        let (number, end) = number_at(self.0, 0).ok_or_else(cut)?;
        self.0 = &self.0[end..];
        Ok(number)
    }

    /// A number that indexes or counts what is in memory.
    pub(crate) fn count(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| Error::corrupt("a number in it is damaged"))
    }

    /// A number of 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| Error::corrupt("a number in it is damaged"))
    }

    /// A key group, or the end of a range of them.
    pub(crate) fn group(&mut self) -> Result<u16> {
        u16::try_from(self.number()?).map_err(|_| Error::corrupt("a key group in it is damaged"))
    }

    /// A number that may be negative.
    pub(crate) fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// So many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(front)
    }

    /// A byte.
    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// A length and so many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.count()?;
        self.take(length)
    }

    /// There is nothing more.
    pub(crate) fn finish(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::corrupt("it is too long")) }
    }
}

pub(crate) fn cut() -> Error {
    Error::corrupt("it is cut")
}

/// How many bytes two keys have in common at their beginning.
#[inline]
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (mut at, words) = (0, length / 8 * 8);
    while at < words {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let differ = word(a) ^ word(b);
        if differ != 0 {
            return at + (differ.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < length && a[at] == b[at] {
        at += 1;
    }
    at
}

/// The first sixteen bytes of a key as a number that is ordered as they are, zeros after its end.
#[inline]
pub(crate) fn tag(key: &[u8]) -> u128 {
    let mut tag = [0; 16];
    let length = key.len().min(16);
    tag[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(number: u64, signed: i64) {
            let mut out = Vec::new();
            put_number(&mut out, number);
            put_signed(&mut out, signed);
            let mut reader = Reader(&out);
            prop_assert_eq!((reader.number().unwrap(), reader.signed().unwrap()), (number, signed));
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            while reader.bytes().is_ok() && !reader.0.is_empty() {}
        }

        #[test]
        fn common_is_the_longest_common_beginning(a in proptest::collection::vec(0u8..2, 0..20), b in proptest::collection::vec(0u8..2, 0..20)) {
            let plain = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common(&a, &b), plain);
        }
    }
}
