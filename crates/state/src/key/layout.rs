//! Where the event time stands in a state key, and its bytes.

use arrow::array::{Array, TimestampMicrosecondArray};
use fluvial_core::{EventTime, KeyGroup, KeyRange};

/// The parts of a state key in their order. Every key begins with its key group.
///
/// The operator chooses: what is read and deleted together should lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLayout {
    /// `[group][key]`: no time; deduplication, aggregation without event time.
    Key,
    /// `[group][time][key]`: expiry is one range per key group; windows, timers, time indexes.
    TimeKey,
    /// `[group][key][time]`: the times of one key lie together; joins, sessions.
    KeyTime,
}

impl KeyLayout {
    /// Whether keys of this layout carry a time.
    pub fn has_time(self) -> bool {
        self != Self::Key
    }
}

/// Bytes of a key group.
pub(crate) const GROUP_BYTES: usize = 2;

/// Bytes of a time: a flag, then the microseconds, big-endian with the sign flipped.
pub(crate) const TIME_BYTES: usize = 9;

const SOME_TIME: u8 = 1;
/// Sorts after every time: a row without a time is never late and never expires.
const NO_TIME: u8 = 2;

/// The bytes of a time: their order is the order of times, and no time comes last.
pub(crate) fn time_bytes(time: Option<EventTime>) -> [u8; TIME_BYTES] {
    let mut bytes = [0; TIME_BYTES];
    match time {
        None => bytes[0] = NO_TIME,
        Some(time) => {
            bytes[0] = SOME_TIME;
            bytes[1..].copy_from_slice(&(time.0 ^ i64::MIN).to_be_bytes());
        }
    }
    bytes
}

/// The time in these bytes; an error if no encoder wrote them.
pub(crate) fn parse_time(bytes: &[u8]) -> Result<Option<EventTime>, &'static str> {
    let (flag, micros) = bytes.split_first().ok_or("the time is cut")?;
    let micros: [u8; 8] = micros.try_into().map_err(|_| "the time is cut")?;
    match *flag {
        SOME_TIME => Ok(Some(EventTime(i64::from_be_bytes(micros) ^ i64::MIN))),
        NO_TIME if micros == [0; 8] => Ok(None),
        _ => Err("the time is damaged"),
    }
}

/// The time of row `i`.
pub(crate) fn time_of(times: &TimestampMicrosecondArray, i: usize) -> Option<EventTime> {
    times.is_valid(i).then(|| EventTime(times.value(i)))
}

/// The bytes that follow the last key with a time at or before `time` after `prefix`.
fn just_after(prefix: &[u8], time: EventTime) -> Vec<u8> {
    match time.0.checked_add(1) {
        Some(next) => [prefix, time_bytes(Some(EventTime(next))).as_slice()].concat(),
        None => [prefix, [NO_TIME].as_slice()].concat(),
    }
}

/// Every key after `prefix` whose time lies in `from..=until`; no `from` is the start of time.
/// Keys without a time are in no such range.
pub(crate) fn time_range(prefix: &[u8], from: Option<EventTime>, until: EventTime) -> KeyRange {
    let start = match from {
        Some(from) => [prefix, time_bytes(Some(from)).as_slice()].concat(),
        None => [prefix, [SOME_TIME].as_slice()].concat(),
    };
    KeyRange { start, end: just_after(prefix, until) }
}

/// Every key of one group.
pub(crate) fn group_range(group: KeyGroup) -> KeyRange {
    KeyRange::prefix(&group.prefix())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sort_as_bytes_and_no_time_comes_last() {
        let times = [i64::MIN, -1_000_000, -1, 0, 1, 1_700_000_000_000_000, i64::MAX];
        let mut bytes: Vec<_> = times.iter().map(|t| time_bytes(Some(EventTime(*t)))).collect();
        bytes.push(time_bytes(None));
        assert!(bytes.is_sorted() && bytes.windows(2).all(|w| w[0] != w[1]));
        for (time, bytes) in times.iter().zip(&bytes) {
            assert_eq!(parse_time(bytes), Ok(Some(EventTime(*time))));
        }
        assert_eq!(parse_time(&time_bytes(None)), Ok(None));
    }

    #[test]
    fn ranges_of_time_hold_both_ends_and_never_the_timeless() {
        let key = |time| [b"\0\x01".as_slice(), &time_bytes(time), b"k"].concat();
        let at = |t| key(Some(EventTime(t)));
        let range = time_range(b"\0\x01", None, EventTime(5));
        assert!(range.contains(&at(5)) && range.contains(&at(i64::MIN)));
        assert!(!range.contains(&at(6)) && !range.contains(&key(None)));
        let all = time_range(b"\0\x01", Some(EventTime(-3)), EventTime(i64::MAX));
        assert!(all.contains(&at(i64::MAX)) && all.contains(&at(-3)));
        assert!(!all.contains(&at(-4)) && !all.contains(&key(None)));
    }

    #[test]
    fn damaged_times_are_found() {
        for bad in [&[][..], &[1], &[0; 9], &[2, 0, 0, 0, 0, 0, 0, 0, 1], &[1; 10]] {
            assert!(parse_time(bad).is_err(), "{bad:?}");
        }
    }
}
