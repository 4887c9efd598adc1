//! The bytes of a change: what a frame holds.
//!
//! ```text
//! body    = #ranges (range)* #parts (part)*
//! range   = length start length end            every key of it is gone
//! part    = length prefix length suffix #entries (entry)*
//!                                              entries whose keys begin and end with these
//! entry   = length middle 0                    the key is gone
//!         | length middle length+1 value
//! ```
//!
//! Keys of one window have its end in front, and often its start at their end. A body of format 2
//! has no suffixes; one of format 1 has its entries, with whole keys, in place of the parts. Numbers
//! are unsigned, seven bits to a byte.

use crate::frame::{Body, FrameWriter};
use crate::segment::Hash;
use crate::table::{Part, Table};
use fluvial_core::{Error, KeyGroup, KeyGroupRange, KeyRange, KeyRanges, Result};

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

/// Writes the body of a change: first `gone`, then the records of `changes`.
pub(crate) fn write_delta(out: &mut FrameWriter, gone: &KeyRanges, changes: &Table) {
    put_number(out.open(), gone.iter().len() as u64);
    for range in gone.iter() {
        put_bytes(out.open(), &range.start);
        put_bytes(out.open(), &range.end);
        out.end_entry();
    }
    put_number(out.open(), changes.parts().count() as u64);
    for part in changes.parts() {
        let records = part.records().map(|record| (part.key(record), part.value(record)));
        put_part(out, &part, part.len(), records);
    }
}

/// Writes the body of everything that `base` holds after `gone` and `changes`, `rows` keys.
pub(crate) fn write_full(
    out: &mut FrameWriter,
    base: &Table,
    gone: &KeyRanges,
    changes: &Table,
    rows: u64,
) {
    put_number(out.open(), 0);
    let whole = |part: &Part<'_>| gone.iter().any(|range| part.lies_in(range));
    let left: Vec<_> = base.parts().filter(|part| !whole(part)).collect();
    put_number(out.open(), (left.len() + changes.parts().count()) as u64);
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
        let records = records.filter(|(key, _)| shows(key));
        let count = if torn || hidden { records.clone().count() } else { part.len() };
        put_part(out, &part, count, records);
        written += count as u64;
    }
    for part in changes.parts() {
        let records = part.records().map(|record| (part.key(record), part.value(record)));
        let count = part.values();
        put_part(out, &part, count, records.filter(|(_, v)| v.is_some()));
        written += count as u64;
    }
    assert_eq!(written, rows, "the number of keys was counted wrong");
}

/// Puts entries of a part, `count` of them.
fn put_part<'k>(
    out: &mut FrameWriter,
    part: &Part<'_>,
    count: usize,
    entries: impl Iterator<Item = (&'k [u8], Option<&'k [u8]>)> + Clone,
) {
    let (mut prefix, mut suffix) = (part.prefix().as_bytes(), &[][..]);
    // Keys of one time have much more in common; to look at others costs more than it saves.
    if part.prefix().has_time() {
        let keys = || entries.clone().map(|(key, _)| key);
        prefix = common_prefix(prefix, keys());
        suffix = common_suffix(keys().map(|key| &key[prefix.len()..]));
    }
    put_bytes(out.open(), prefix);
    put_bytes(out.open(), suffix);
    put_number(out.open(), count as u64);
    let mut left = count;
    for (key, value) in entries {
        left -= 1;
        put_bytes(out.open(), &key[prefix.len()..key.len() - suffix.len()]);
        put_value(out.open(), value);
        out.end_entry();
    }
    assert_eq!(left, 0, "the records of a segment were counted wrong");
}

/// What all keys begin with: at least `least`, if there are none.
fn common_prefix<'k>(least: &'k [u8], mut keys: impl Iterator<Item = &'k [u8]>) -> &'k [u8] {
    let Some(first) = keys.next() else { return least };
    keys.fold(first, |prefix, key| {
        if key.starts_with(prefix) {
            return prefix;
        }
        let same = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
        &prefix[..same]
    })
}

/// What all keys end with.
fn common_suffix<'k>(mut keys: impl Iterator<Item = &'k [u8]>) -> &'k [u8] {
    let Some(first) = keys.next() else { return &[] };
    keys.fold(first, |suffix, key| {
        if key.ends_with(suffix) {
            return suffix;
        }
        let both = suffix.iter().rev().zip(key.iter().rev());
        let same = both.take_while(|(a, b)| a == b).count();
        &suffix[suffix.len() - same..]
    })
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
        table.remove_range(&range.within(within));
    }
    let flat = body.format < 2;
    let parts = if flat { 1 } else { take_number(&mut rest)? };
    let mut key = Vec::new();
    for _ in 0..parts {
        let prefix = if flat { &[] } else { take_bytes(&mut rest)? };
        let suffix = if body.format < 3 { &[] } else { take_bytes(&mut rest)? };
        let entries = take_number(&mut rest)?;
        for _ in 0..entries {
            key.clear();
            key.extend_from_slice(prefix);
            key.extend_from_slice(take_bytes(&mut rest)?);
            key.extend_from_slice(suffix);
            let value = take_value(&mut rest)?;
            let group = KeyGroup::of(&key).filter(|group| within.contains(*group));
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
