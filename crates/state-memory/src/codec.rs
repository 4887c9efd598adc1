//! The bytes of a change.
//!
//! ```text
//! frame   = format kind compression body
//! body    = #ranges (range)* #parts (part)*
//! range   = length start length end            every key of it is gone
//! part    = length prefix #entries (entry)*    entries whose keys begin with the prefix
//! entry   = length suffix 0                    the key is gone
//!         | length suffix length+1 value
//! ```
//!
//! A body of format 1 has its entries, with whole keys, in place of the parts.
//!
//! Numbers are unsigned, seven bits to a byte. The checksum of a frame is in the token that
//! names it, so that every byte counts, these included.

use crate::ranges::Ranges;
use crate::segment::Hash;
use crate::table::{Part, Table};
use fluvial_core::{Error, KeyGroupRange, KeyRange, Result};
use std::borrow::Cow;
use std::io::Read;

/// Version of the bytes of frames.
const FORMAT: u8 = 2;
/// The oldest version that can be read.
const OLDEST_FORMAT: u8 = 1;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// Frames smaller than this are not worth compressing.
const COMPRESS_MIN: usize = 4 << 10;
/// How many times larger a body may be than its frame: more is a bomb, not state.
const RATIO_MAX: usize = 1000;
/// Fast: a batch waits for it, and keys have much in common with their neighbours anyway.
const LEVEL: i32 = -5;

/// Whether frames are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Never.
    None,
    /// With zstd, where it makes a frame smaller by an eighth at least.
    #[default]
    Zstd,
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything.
    Full,
    /// What changed.
    Delta,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Full => b'f',
            Self::Delta => b'd',
        }
    }
}

/// Frames a body.
pub(crate) fn frame(kind: Kind, body: &[u8], compression: Compression) -> Vec<u8> {
    if compression == Compression::Zstd
        && body.len() >= COMPRESS_MIN
        && let Ok(packed) = zstd::bulk::compress(body, LEVEL)
        && packed.len() < body.len() / 8 * 7
        && packed.len() > body.len() / RATIO_MAX
    {
        return [&[FORMAT, kind.byte(), ZSTD], packed.as_slice()].concat();
    }
    [&[FORMAT, kind.byte(), PLAIN], body].concat()
}

/// What a frame holds, decompressed.
#[derive(Debug)]
pub(crate) struct Body<'f> {
    pub(crate) format: u8,
    pub(crate) bytes: Cow<'f, [u8]>,
}

/// Takes the body out of a frame.
pub(crate) fn open_frame(kind: Kind, frame: &[u8]) -> Result<Body<'_>> {
    let ([format, found, compression], body) =
        frame.split_first_chunk().ok_or_else(|| Error::corrupt("it is cut"))?;
    if *format > FORMAT {
        return Err(Error::invalid(format!(
            "it has format {format}, newer than {FORMAT}: use the version of Fluvial that wrote \
             it, or a later one"
        ))
        .with_condition("CHECKPOINT_FORMAT_TOO_NEW"));
    }
    if *format < OLDEST_FORMAT || *found != kind.byte() {
        return Err(Error::corrupt("it holds something else"));
    }
    let bytes = match *compression {
        PLAIN => body.into(),
        ZSTD => {
            let bad = |e| Error::corrupt("it cannot be decompressed").with_source(e);
            let max = body.len().saturating_mul(RATIO_MAX);
            // Grows with what is really there: a false length inside allocates nothing.
            let mut plain = Vec::new();
            let decoder = zstd::stream::Decoder::new(body).map_err(bad)?;
            decoder.take(max as u64 + 1).read_to_end(&mut plain).map_err(bad)?;
            if plain.len() > max {
                return Err(Error::corrupt("it is a bomb: it grows without end"));
            }
            plain.into()
        }
        _ => return Err(Error::corrupt("its compression is unknown")),
    };
    Ok(Body { format: *format, bytes })
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.push(0),
        Some(value) => {
            put_number(out, value.len() as u64 + 1);
            out.extend_from_slice(value);
        }
    }
}

/// Bytes that the records of a table take in a body, if their keys and values are short.
fn room(table: &Table) -> usize {
    table.bytes() + 2 * table.len() + 16
}

/// The body of a change: first `gone`, then the records of `changes`.
pub(crate) fn delta_body(gone: &Ranges, changes: &Table) -> Vec<u8> {
    let mut out = Vec::with_capacity(room(changes));
    put_number(&mut out, gone.iter().len() as u64);
    for range in gone.iter() {
        put_bytes(&mut out, &range.start);
        put_bytes(&mut out, &range.end);
    }
    put_number(&mut out, changes.parts().count() as u64);
    for part in changes.parts() {
        put_part(&mut out, part.prefix(), part.records().map(|r| (part.key(r), part.value(r))));
    }
    out
}

/// The body of everything that `base` holds after `gone` and `changes`, `rows` keys.
pub(crate) fn full_body(base: &Table, gone: &Ranges, changes: &Table, rows: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(room(base) + room(changes));
    put_number(&mut out, 0);
    let whole = |part: &Part<'_>| gone.iter().any(|range| part.lies_in(range));
    let left: Vec<_> = base.parts().filter(|part| !whole(part)).collect();
    put_number(&mut out, (left.len() + changes.parts().count()) as u64);
    let mut written = 0;
    for part in left {
        let hidden = part.may_be_hidden_by(changes);
        let torn = gone.iter().any(|range| part.may_lie_in(range));
        let shows = |key: &[u8]| {
            let is_gone = torn && gone.contains(key);
            let is_hidden = hidden && changes.find(Hash::of(key), key).is_some();
            !is_gone && !is_hidden
        };
        let records = part.records().map(|record| (part.key(record), part.value(record)));
        written += put_part(&mut out, part.prefix(), records.filter(|(key, _)| shows(key)));
    }
    for part in changes.parts() {
        let records = part.records().map(|record| (part.key(record), part.value(record)));
        written += put_part(&mut out, part.prefix(), records.filter(|(_, v)| v.is_some()));
    }
    assert_eq!(written, rows, "the number of keys was counted wrong");
    out
}

/// Puts the entries of a part; returns how many they are.
fn put_part<'k>(
    out: &mut Vec<u8>,
    prefix: &[u8],
    entries: impl Iterator<Item = (&'k [u8], Option<&'k [u8]>)> + Clone,
) -> u64 {
    let count = entries.clone().count() as u64;
    put_bytes(out, prefix);
    put_number(out, count);
    for (key, value) in entries {
        put_bytes(out, &key[prefix.len()..]);
        put_value(out, value);
    }
    count
}

/// Applies a body to a table. Only keys of `keep` are taken; every key must lie in `within`.
///
/// # Errors
///
/// `Corrupt` for bytes that no writer wrote. The table is then in no useful state.
pub(crate) fn apply(
    body: &Body<'_>,
    table: &mut Table,
    within: KeyGroupRange,
    keep: KeyGroupRange,
) -> Result<()> {
    let mut rest = body.bytes.as_ref();
    let ranges = take_number(&mut rest)?;
    for _ in 0..ranges {
        let start = take_bytes(&mut rest)?;
        let end = take_bytes(&mut rest)?;
        let range = KeyRange { start: start.to_vec(), end: end.to_vec() };
        table.remove_range(&clip(&range, within));
    }
    let flat = body.format < 2;
    let parts = if flat { 1 } else { take_number(&mut rest)? };
    let mut key = Vec::new();
    for _ in 0..parts {
        let prefix = if flat { &[] } else { take_bytes(&mut rest)? };
        let entries = take_number(&mut rest)?;
        for _ in 0..entries {
            key.clear();
            key.extend_from_slice(prefix);
            key.extend_from_slice(take_bytes(&mut rest)?);
            let value = take_value(&mut rest)?;
            let group = group_of(&key).filter(|group| within.contains(*group));
            let group =
                group.ok_or_else(|| Error::corrupt("it holds a key of another partition"))?;
            if keep.contains(group) {
                apply_entry(table, &key, value);
            }
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(Error::corrupt("it is too long")) }
}

fn apply_entry(table: &mut Table, key: &[u8], value: Option<&[u8]>) {
    let hash = Hash::of(key);
    match value {
        Some(value) => table.put(hash, key, value),
        None => table.remove(hash, key),
    }
}

/// The key group of a key; `None` if it is too short to have one.
pub(crate) fn group_of(key: &[u8]) -> Option<fluvial_core::KeyGroup> {
    key.first_chunk().map(|group| fluvial_core::KeyGroup(u16::from_be_bytes(*group)))
}

/// What of `range` lies in these groups.
pub(crate) fn clip(range: &KeyRange, groups: KeyGroupRange) -> KeyRange {
    let first = groups.start.to_be_bytes();
    let end = groups.end.max(groups.start).to_be_bytes();
    let start = range.start.as_slice().max(&first).to_vec();
    match range.end.as_slice() {
        own if !own.is_empty() && own < end.as_slice() => KeyRange { start, end: own.to_vec() },
        _ => KeyRange { start, end: end.to_vec() },
    }
}

fn take_number(input: &mut &[u8]) -> Result<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first().ok_or_else(|| Error::corrupt("it is cut"))?;
        *input = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Error::corrupt("a number in it is damaged"))
}

fn take_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = take_number(input)?;
    take(input, length)
}

fn take_value<'a>(input: &mut &'a [u8]) -> Result<Option<&'a [u8]>> {
    match take_number(input)? {
        0 => Ok(None),
        length => take(input, length - 1).map(Some),
    }
}

fn take<'a>(input: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let split = usize::try_from(length).ok().and_then(|length| input.split_at_checked(length));
    let (front, rest) = split.ok_or_else(|| Error::corrupt("it is cut"))?;
    *input = rest;
    Ok(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::ErrorKind;

    #[test]
    fn what_would_grow_too_large_is_neither_written_nor_read() {
        let zeros = vec![0; 10 << 20];
        let written = frame(Kind::Full, &zeros, Compression::Zstd);
        assert_eq!(
            (written[2], open_frame(Kind::Full, &written).unwrap().bytes.len()),
            (PLAIN, 10 << 20)
        );
        let packed = zstd::bulk::compress(&zeros, LEVEL).unwrap();
        let bomb = [&[FORMAT, b'f', ZSTD], packed.as_slice()].concat();
        assert_eq!(open_frame(Kind::Full, &bomb).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn newer_formats_are_told_from_damage() {
        let mut whole = frame(Kind::Delta, b"body", Compression::Zstd);
        assert_eq!(open_frame(Kind::Delta, &whole).unwrap().bytes.as_ref(), b"body");
        assert_eq!(open_frame(Kind::Full, &whole).unwrap_err().kind(), ErrorKind::Corrupt);
        whole[0] = FORMAT + 1;
        assert_eq!(open_frame(Kind::Delta, &whole).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(open_frame(Kind::Delta, b"\x01d").unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
