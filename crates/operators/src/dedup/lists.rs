//! Lists of keys that expire, in bytes: what stands under the keys of the index.
//!
//! ```text
//! directory   bucket*                       bucket  start i64 | exponent u8 | until i64 | count u32
//! chunk       entry*                        entry   offset u64 as varint | length as varint | key
//! ```
//!
//! Numbers are little-endian. A key stands without its key group, which the list's own key has.

use fluvial_core::{Error, EventTime, Result};

/// Keys of a chunk: appending to a list rewrites at most so many.
pub(super) const CHUNK_KEYS: u32 = 1024;

const BUCKET_BYTES: usize = 8 + 1 + 8 + 4;

/// The keys that expire in `start..start + 2^exponent` microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) start: i64,
    pub(super) exponent: u8,
    /// What expires up to here has gone already; the lowest number if nothing has.
    pub(super) until: i64,
    /// Keys ever listed.
    pub(super) count: u32,
}

impl Bucket {
    /// The bucket of an expiry, without keys.
    pub(super) fn of(expiry: EventTime, exponent: u8) -> Self {
        // An arithmetic shift rounds down, also below zero.
        let start = (expiry.0 >> exponent) << exponent;
        Self { start, exponent, until: i64::MIN, count: 0 }
    }

    /// Whether a key that expires then has not gone already.
    pub(super) fn is_left(&self, expiry: i64) -> bool {
        self.until == i64::MIN || self.until < expiry
    }

    /// The number of its chunks.
    pub(super) fn chunks(&self) -> u32 {
        self.count.div_ceil(CHUNK_KEYS)
    }
}

fn damaged() -> Error {
    Error::corrupt("a list of keys that expire is damaged: restore the checkpoint")
}

/// The buckets of a directory.
pub(super) fn parse_directory(bytes: &[u8]) -> Result<Vec<Bucket>> {
    let (buckets, rest) = bytes.as_chunks::<BUCKET_BYTES>();
    if !rest.is_empty() {
        return Err(damaged());
    }
    buckets.iter().map(parse_bucket).collect()
}

fn parse_bucket(bytes: &[u8; BUCKET_BYTES]) -> Result<Bucket> {
    let (start, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let (exponent, rest) = rest.split_first().ok_or_else(damaged)?;
    let (until, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let count = rest.first_chunk().ok_or_else(damaged)?;
    if *exponent > 62 {
        return Err(damaged());
    }
    Ok(Bucket {
        start: i64::from_le_bytes(*start),
        exponent: *exponent,
        until: i64::from_le_bytes(*until),
        count: u32::from_le_bytes(*count),
    })
}

/// The bytes of a directory.
pub(super) fn directory(buckets: &[Bucket]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(buckets.len() * BUCKET_BYTES);
    for bucket in buckets {
        bytes.extend_from_slice(&bucket.start.to_le_bytes());
        bytes.push(bucket.exponent);
        bytes.extend_from_slice(&bucket.until.to_le_bytes());
        bytes.extend_from_slice(&bucket.count.to_le_bytes());
    }
    bytes
}

/// Appends an entry.
pub(super) fn push_entry(bytes: &mut Vec<u8>, offset: u64, key: &[u8]) {
    push_number(bytes, offset);
    push_number(bytes, key.len() as u64);
    bytes.extend_from_slice(key);
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or_else(damaged)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(damaged())
}

/// Takes an entry off the front: its offset in the bucket, and its key.
pub(super) fn take_entry<'a>(bytes: &mut &'a [u8]) -> Result<(u64, &'a [u8])> {
    let offset = take_number(bytes)?;
    let length = usize::try_from(take_number(bytes)?).map_err(|_| damaged())?;
    let (key, rest) = bytes.split_at_checked(length).ok_or_else(damaged)?;
    *bytes = rest;
    Ok((offset, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_holds_its_times() {
        for time in [i64::MIN, -1025, -1024, -1, 0, 1023, 1024, i64::MAX] {
            let bucket = Bucket::of(EventTime(time), 10);
            assert!(bucket.start <= time && time - bucket.start < 1024, "{time}");
            assert_eq!(bucket.start % 1024, 0);
        }
    }

    /// If this fails, state that was written before is not found any more.
    #[test]
    fn golden_bytes() {
        let bucket = Bucket { start: -2, exponent: 3, until: 5, count: 258 };
        let bytes = directory(&[bucket]);
        assert_eq!(
            bytes,
            [254, 255, 255, 255, 255, 255, 255, 255, 3, 5, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0]
        );
        assert_eq!(parse_directory(&bytes).unwrap(), [bucket]);
        let mut bytes = Vec::new();
        push_entry(&mut bytes, 300, b"key");
        assert_eq!(bytes, [0xAC, 2, 3, b'k', b'e', b'y']);
    }

    proptest! {
        #[test]
        fn entries_come_back(entries in proptest::collection::vec((any::<u64>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..5)) {
            let mut bytes = Vec::new();
            for (offset, key) in &entries {
                push_entry(&mut bytes, *offset, key);
            }
            let mut rest = bytes.as_slice();
            for (offset, key) in &entries {
                prop_assert_eq!(take_entry(&mut rest).unwrap(), (*offset, key.as_slice()));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn damage_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse_directory(&bytes);
            let mut rest = bytes.as_slice();
            while !rest.is_empty() && take_entry(&mut rest).is_ok() {}
        }
    }
}
