//! Where the entries of a processor's state lie.
//!
//! ```text
//! [group] 0 [variable's name]              how many entries of the variable the group has
//! [group] 1 [variable] [key] [suffix]      variables: values, lists, maps
//! [group] 2 [key] [time]                   timers of a key
//! [group] 3 [time] [key]                   timers by time: what is due is one range
//! [group] 4 [time] [variable] [key] [suffix]   what expires by its TTL, by time
//! ```
//!
//! `[key]` are the encoded grouping columns, of which none is a prefix of another. The suffix of a
//! list's element is its index, that of a map's entry the encoded map key; a list without a suffix
//! is its length.

use arrow::array::{Array, BinaryArray};
use fluvial_core::{Error, KeyGroup, KeyRange, Result};
use xxhash_rust::xxh3::xxh3_64;

const GROUP_BYTES: usize = 2;
const COUNTER: u8 = 0;
const VARIABLE: u8 = 1;
const TIMER_OF_KEY: u8 = 2;
const TIMER_BY_TIME: u8 = 3;
const EXPIRY: u8 = 4;
const TIME_BYTES: usize = 8;
/// Two of the name, one of the type.
const ID_BYTES: usize = 3;
const NAME_BYTES: usize = 2;

/// Names a variable in keys. Derived from its name and type, so that it stays when others come
/// and go, and what another type left behind is never read.
pub(super) type VariableId = [u8; ID_BYTES];

pub(super) fn variable_id(name: &str, description: &str) -> VariableId {
    let (name, kind) = (xxh3_64(name.as_bytes()), xxh3_64(description.as_bytes()));
    [name as u8, (name >> 8) as u8, kind as u8]
}

/// A key as the key codec makes it: `[group] [key]`.
pub(super) fn split(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at(GROUP_BYTES)
}

/// The group that any of these keys lies in.
pub(super) fn group_of(key: &[u8]) -> KeyGroup {
    KeyGroup(key.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes)))
}

/// Milliseconds, so that their bytes have their order.
fn time_bytes(time_ms: i64) -> [u8; TIME_BYTES] {
    (time_ms ^ i64::MIN).to_be_bytes()
}

fn time_of(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(*bytes.first_chunk::<TIME_BYTES>()?) ^ i64::MIN)
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Where the number of entries of a variable in a group is kept.
pub(super) fn counter(group: KeyGroup, id: VariableId) -> Vec<u8> {
    join(&[&group.prefix(), &[COUNTER], &id[..NAME_BYTES]])
}

/// The [`counter`] of the variable of this name.
pub(super) fn counter_of(group: KeyGroup, name: &str) -> KeyRange {
    KeyRange::prefix(&counter(group, variable_id(name, "")))
}

/// `[group] 1 [variable] [key]`: a value, a list's length, and the prefix of elements and entries.
pub(super) fn variable(id: VariableId, key: &[u8]) -> Vec<u8> {
    let (group, key) = split(key);
    join(&[group, &[VARIABLE], &id, key])
}

/// As [`variable`], of whole columns of keys.
pub(super) fn variables(id: VariableId, keys: &BinaryArray) -> BinaryArray {
    BinaryArray::from_iter_values((0..keys.len()).map(|i| variable(id, keys.value(i))))
}

/// What lies behind [`variable`]: elements or entries, not the length.
pub(super) fn inside(variable: &[u8]) -> KeyRange {
    KeyRange::prefix(variable).after(variable)
}

/// Every entry of a variable in a group.
pub(super) fn all(group: KeyGroup, id: VariableId) -> KeyRange {
    KeyRange::prefix(&join(&[&group.prefix(), &[VARIABLE], &id]))
}

/// What lies behind the name of the variable in the key of an entry: `[group] [key] [suffix]`.
pub(super) fn parse_entry(entry: &[u8]) -> Result<Vec<u8>> {
    let (group, rest) = entry.split_at_checked(GROUP_BYTES).unwrap_or_default();
    let key = rest.get(1 + ID_BYTES..);
    key.map(|key| join(&[group, key])).ok_or_else(|| Error::corrupt("an entry's key is cut"))
}

/// All timers of a group, by time.
pub(super) fn timers(group: KeyGroup) -> KeyRange {
    KeyRange::prefix(&join(&[&group.prefix(), &[TIMER_BY_TIME]]))
}

/// Every entry of a variable in a group, whatever its type was.
pub(super) fn named(group: KeyGroup, name: &str) -> KeyRange {
    let id = variable_id(name, "");
    KeyRange::prefix(&join(&[&group.prefix(), &[VARIABLE], &id[..NAME_BYTES]]))
}

pub(super) fn element(variable: &[u8], index: u64) -> Vec<u8> {
    join(&[variable, &index.to_be_bytes()])
}

/// The index in the key of an element.
pub(super) fn index_of(key: &[u8]) -> Result<u64> {
    let bytes = key.last_chunk::<8>().ok_or_else(|| Error::corrupt("an element has no index"))?;
    Ok(u64::from_be_bytes(*bytes))
}

pub(super) fn timer_of_key(key: &[u8], time_ms: i64) -> Vec<u8> {
    let (group, key) = split(key);
    join(&[group, &[TIMER_OF_KEY], key, &time_bytes(time_ms)])
}

pub(super) fn timers_of_key(key: &[u8]) -> KeyRange {
    let (group, key) = split(key);
    KeyRange::prefix(&join(&[group, &[TIMER_OF_KEY], key]))
}

/// The time in a [`timer_of_key`].
pub(super) fn time_of_timer(timer: &[u8]) -> Result<i64> {
    let at = timer.len().checked_sub(TIME_BYTES);
    at.and_then(|at| time_of(&timer[at..])).ok_or_else(|| Error::corrupt("a timer has no time"))
}

pub(super) fn timer_by_time(key: &[u8], time_ms: i64) -> Vec<u8> {
    let (group, key) = split(key);
    join(&[group, &[TIMER_BY_TIME], &time_bytes(time_ms), key])
}

/// The time and `[key]` of a [`timer_by_time`].
pub(super) fn parse_timer(timer: &[u8]) -> Result<(i64, Vec<u8>)> {
    let cut = || Error::corrupt("a timer in the state is cut");
    let (before, key) = timer.split_at_checked(GROUP_BYTES + 1 + TIME_BYTES).ok_or_else(cut)?;
    Ok((time_of(&before[GROUP_BYTES + 1..]).ok_or_else(cut)?, key.to_vec()))
}

/// Timers of a group at or before `until`.
pub(super) fn due(group: KeyGroup, until_ms: i64) -> KeyRange {
    until(group, TIMER_BY_TIME, until_ms)
}

/// The entry by time of what lies under `key` (`[group] 1 ...`).
pub(super) fn expiry(key: &[u8], time_ms: i64) -> Vec<u8> {
    let (group, rest) = split(key);
    join(&[group, &[EXPIRY], &time_bytes(time_ms), &rest[1..]])
}

/// Entries of a group that expire at or before `until`.
pub(super) fn expired(group: KeyGroup, until_ms: i64) -> KeyRange {
    until(group, EXPIRY, until_ms)
}

/// What expires: its key (`[group] 1 ...`) and its variable.
pub(super) fn parse_expiry(entry: &[u8]) -> Result<(Vec<u8>, VariableId)> {
    let cut = || Error::corrupt("an entry by time in the state is cut");
    let (group, rest) = entry.split_at_checked(GROUP_BYTES).ok_or_else(cut)?;
    let (_, rest) = rest.split_at_checked(1 + TIME_BYTES).ok_or_else(cut)?;
    let id = *rest.first_chunk::<ID_BYTES>().ok_or_else(cut)?;
    Ok((join(&[group, &[VARIABLE], rest]), id))
}

fn until(group: KeyGroup, section: u8, until_ms: i64) -> KeyRange {
    let start = join(&[&group.prefix(), &[section]]);
    let last = join(&[&start, &time_bytes(until_ms)]);
    KeyRange { start, end: KeyRange::prefix(&last).end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_is_due_and_no_more() {
        let key = [0, 7, 9, 9];
        for until in [i64::MIN, -1, 0, 1, i64::MAX] {
            let (due, expired) = (due(KeyGroup(7), until), expired(KeyGroup(7), until));
            let variable = variable([1, 2, 3], &key);
            for time in [i64::MIN, -2, -1, 0, 1, 2, i64::MAX] {
                assert_eq!(due.contains(&timer_by_time(&key, time)), time <= until);
                assert_eq!(expired.contains(&expiry(&variable, time)), time <= until);
                assert!(!expired.contains(&timer_by_time(&key, time)));
                assert!(!due.contains(&expiry(&variable, time)));
            }
        }
    }

    #[test]
    fn keys_come_apart_again() {
        let key = [1, 0, 0xFF];
        assert_eq!(parse_timer(&timer_by_time(&key, -5)).unwrap(), (-5, key[2..].to_vec()));
        assert_eq!(time_of_timer(&timer_of_key(&key, -5)).unwrap(), -5);
        assert!(timers_of_key(&key).contains(&timer_of_key(&key, i64::MAX)));
        let id = variable_id("count", "ValueState");
        let variable = variable(id, &key);
        let element = element(&variable, 258);
        assert_eq!(index_of(&element).unwrap(), 258);
        assert!(inside(&variable).contains(&element) && !inside(&variable).contains(&variable));
        assert_eq!(parse_expiry(&expiry(&element, 3)).unwrap(), (element.clone(), id));
        assert!(named(KeyGroup(256), "count").contains(&element));
        assert!(parse_expiry(&[0, 1]).is_err() && parse_timer(&[0]).is_err());
    }
}
