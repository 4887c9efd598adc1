//! The key spaces of a join in its one store.
//!
//! | key | value |
//! |---|---|
//! | `[group][0x10 + side][key][number]` | a chunk of rows, found by their key |
//! | `[group][0x20 + side][time][key][number]` | the same where the key holds the event time |
//! | `[group][0x30 + side][time][batch][run]` | which chunks have rows of these times |
//! | `[group][0x12 + side][block][page]` | a page of rows, or, as page 0, the times of a block |
//! | `[group][0x14 + side]` | the ledger: what blocks there are |
//! | `[group][0x40]` | how many rows the group has |
//!
//! Where rows leave in silence when their time has passed they lie in pages, and are found by what
//! the ledger says of keys and times; see [`crate::pages`]. Elsewhere a row is
//! found by its key: one point read, no scan. What expires is found by time: one range
//! per key group. Where the time is part of the key one space does both; elsewhere the times of a
//! batch's rows are written as sorted *runs*, a few hundred in a value, so that the index costs a
//! fraction of an entry per row. Runs hold event times, not expiries: another range in the
//! condition of a restarted query applies to the rows that wait.

use super::kind::Side;
use crate::pages::{Space, Stored};
use fluvial_core::{Error, EventTime, KeyGroup, KeyRange, Result};

/// Bytes of a key group.
pub(super) const GROUP_BYTES: usize = 2;
/// Bytes of what stands in front of a key: group, space, and the time if there is one.
const POINT_FRONT: usize = GROUP_BYTES + 1;
const TIMED_FRONT: usize = POINT_FRONT + 8;
/// Bytes of a chunk's number.
const NUMBER_BYTES: usize = 4;

const POINT: u8 = 0x10;
const PAGES: u8 = 0x12;
const LEDGER: u8 = 0x14;
const TIMED: u8 = 0x20;
const TIMES: u8 = 0x30;
const COUNTS: u8 = 0x40;

fn space(base: u8, side: Side) -> u8 {
    base + side.index() as u8
}

/// Microseconds as bytes in the order of times.
fn time_bytes(time: i64) -> [u8; 8] {
    (time ^ i64::MIN).to_be_bytes()
}

fn parse_time(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.try_into().ok()?) ^ i64::MIN)
}

/// Writes the key of a chunk: `key` begins with its group. Without a time the chunk is in the
/// space of points.
pub(super) fn chunk_key(out: &mut Vec<u8>, side: Side, key: &[u8], time: Option<i64>, number: u32) {
    let (group, row) = key.split_at(GROUP_BYTES.min(key.len()));
    out.extend_from_slice(group);
    match time {
        None => out.push(space(POINT, side)),
        Some(time) => {
            out.push(space(TIMED, side));
            out.extend_from_slice(&time_bytes(time));
        }
    }
    out.extend_from_slice(row);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes the key of a chunk in the space of points; `row` is its key without the group.
pub(super) fn point_key(out: &mut Vec<u8>, side: Side, group: &[u8], row: &[u8], number: u32) {
    out.extend_from_slice(group);
    out.push(space(POINT, side));
    out.extend_from_slice(row);
    out.extend_from_slice(&number.to_be_bytes());
}

/// The group and key of a chunk in the space of points, and its number.
pub(super) fn parse_point(key: &[u8]) -> Option<(&[u8], &[u8], u32)> {
    let (front, rest) = key.split_at_checked(POINT_FRONT)?;
    let (row, number) = rest.split_at_checked(rest.len().checked_sub(NUMBER_BYTES)?)?;
    Some((&front[..GROUP_BYTES], row, u32::from_be_bytes(number.try_into().ok()?)))
}

/// Where the rows of `group` and `side` lie: the ledger before the pages that it tells of.
pub(super) fn rows_of(group: KeyGroup, side: Side) -> [KeyRange; 4] {
    let [high, low] = group.prefix();
    [LEDGER, PAGES, POINT, TIMED].map(|base| KeyRange::prefix(&[high, low, space(base, side)]))
}

/// The group and key of a chunk in either space, as the key codec made them.
pub(super) fn parse_chunk(chunk: &[u8]) -> Option<Vec<u8>> {
    let space = *chunk.get(GROUP_BYTES)?;
    let front = if space < TIMED { POINT_FRONT } else { TIMED_FRONT };
    let row = chunk.get(front..chunk.len().checked_sub(NUMBER_BYTES)?)?;
    Some([&chunk[..GROUP_BYTES], row].concat())
}

/// Every row of `group` and `side` whose key has a time at or before `until`.
pub(super) fn timed_until(group: KeyGroup, side: Side, until: EventTime) -> KeyRange {
    until_range(group, space(TIMED, side), until)
}

/// Every run of `group` and `side` that begins at or before `until`.
pub(super) fn runs_until(group: KeyGroup, side: Side, until: EventTime) -> KeyRange {
    until_range(group, space(TIMES, side), until)
}

fn until_range(group: KeyGroup, space: u8, until: EventTime) -> KeyRange {
    let [high, low] = group.prefix();
    let start = vec![high, low, space];
    let end = match until.0.checked_add(1) {
        Some(next) => [start.as_slice(), time_bytes(next).as_slice()].concat(),
        None => vec![high, low, space + 1],
    };
    KeyRange { start, end }
}

/// Writes the key of a run. Batch and number tell runs apart that begin at the same time.
pub(super) fn run_key(
    out: &mut Vec<u8>,
    group: KeyGroup,
    side: Side,
    first: i64,
    batch: u64,
    number: u32,
) {
    out.extend_from_slice(&group.prefix());
    out.push(space(TIMES, side));
    out.extend_from_slice(&time_bytes(first));
    out.extend_from_slice(&batch.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes the key of the rest of a run, whose first time is `first` now.
pub(super) fn run_key_from(out: &mut Vec<u8>, run: &[u8], first: i64) -> Result<()> {
    let parts = run.get(..POINT_FRONT).zip(run.get(TIMED_FRONT..));
    let (front, rest) = parts.ok_or_else(|| Error::corrupt("the key of a join's run is cut"))?;
    out.extend_from_slice(front);
    out.extend_from_slice(&time_bytes(first));
    out.extend_from_slice(rest);
    Ok(())
}

/// The time of a key in the space of timed rows.
pub(super) fn time_of(key: &[u8]) -> Option<i64> {
    parse_time(key.get(POINT_FRONT..TIMED_FRONT)?)
}

/// Where the pages of a side lie.
pub(super) fn pages_of(side: Side) -> Space {
    Space { ledger: space(LEDGER, side), pages: space(PAGES, side) }
}

/// What is stored under a key of [`rows_of`]; `None` for a chunk.
pub(super) fn parse_stored(key: &[u8]) -> Option<Stored> {
    Side::BOTH.into_iter().find_map(|side| pages_of(side).parse(key))
}

/// Writes the key of a group's counts.
pub(super) fn counts_key(out: &mut Vec<u8>, group: KeyGroup) {
    out.extend_from_slice(&group.prefix());
    out.push(COUNTS);
}

/// The group of a key.
pub(super) fn group_of(key: &[u8]) -> KeyGroup {
    KeyGroup(key.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes)))
}
