//! How much of each partition a batch takes, and into how many splits.

use crate::broker::{Isolation, TopicPartition};
use fluvial_core::{Error, ReadLimit, Result, Split};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// What a record is taken for when a limit is given in bytes: the brokers do not say.
const RECORD_BYTES: u64 = 1024;

/// A range of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) place: TopicPartition,
    pub(crate) from: i64,
    pub(crate) until: i64,
}

impl Part {
    pub(crate) fn len(&self) -> u64 {
        u64::try_from(self.until.saturating_sub(self.from)).unwrap_or(0)
    }
}

/// A split: a range, and which records of it count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Planned {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) from: i64,
    pub(crate) until: i64,
    pub(crate) isolation: Isolation,
}

impl Planned {
    pub(crate) fn of(split: &Split) -> Result<Self> {
        Self::deserialize(&split.0).map_err(|e| {
            Error::corrupt(format!("split {} was not written by a Kafka source", split.0))
                .with_condition("KAFKA_OFFSET_MALFORMED")
                .with_source(e)
        })
    }
}

/// The most offsets that a batch may take.
pub(crate) fn offsets_max(limit: ReadLimit) -> Option<u64> {
    let bytes = limit.bytes.map(|bytes| (bytes.get() / RECORD_BYTES).max(1));
    [limit.rows.map(NonZeroU64::get), limit.files.map(NonZeroU64::get), bytes]
        .into_iter()
        .flatten()
        .min()
}

/// Cuts the parts so that they have `most` offsets together: each gets one, as long as there are
/// enough, and its share of the rest, so that a large partition never starves a small one. Where
/// there are not, the longest go first: the others grow.
pub(crate) fn limit(parts: &mut Vec<Part>, most: Option<u64>) {
    let total: u64 = parts.iter().map(Part::len).sum();
    let Some(most) = most.filter(|most| *most < total) else { return };
    let one_each = parts.len().min(usize::try_from(most).unwrap_or(usize::MAX));
    let mut spare = most - one_each as u64;
    let (rest, beyond) = (spare, total - parts.len() as u64);
    let mut longest: Vec<usize> = (0..parts.len()).collect();
    longest.sort_by_key(|index| std::cmp::Reverse(parts[*index].len()));
    let mut takes = vec![0; parts.len()];
    for index in &longest[..one_each] {
        takes[*index] = 1;
    }
    for (take, part) in takes.iter_mut().zip(parts.iter()) {
        let more = u128::from(rest) * u128::from(part.len() - 1) / u128::from(beyond.max(1));
        let more = u64::try_from(more).unwrap_or(u64::MAX).min(spare);
        spare -= more;
        *take += more;
    }
    // What rounding left goes to the first that has more.
    for (take, part) in takes.iter_mut().zip(parts.iter()) {
        let more = spare.min(part.len() - *take);
        *take += more;
        spare -= more;
    }
    for (part, take) in parts.iter_mut().zip(takes) {
        part.until = part.from.saturating_add_unsigned(take);
    }
    parts.retain(|part| part.len() > 0);
}

/// Cuts parts into splits: at least `least` in all where there are so many offsets, and none
/// longer than `most`.
pub(crate) fn splits(
    parts: &[Part],
    least: Option<NonZeroU64>,
    most: Option<NonZeroU64>,
    isolation: Isolation,
) -> Result<Vec<Split>> {
    let total: u64 = parts.iter().map(Part::len).sum();
    let least = least.map_or(0, NonZeroU64::get);
    let mut splits = Vec::new();
    for part in parts {
        let length = part.len();
        let share = if (parts.len() as u64) < least {
            u128::from(length) * u128::from(least) / u128::from(total.max(1))
        } else {
            1
        };
        let by_most = most.map_or(1, |most| length.div_ceil(most.get()));
        let pieces = u64::try_from(share).unwrap_or(u64::MAX).max(by_most).clamp(1, length.max(1));
        let at = |piece: u64| {
            let offset = u128::from(length) * u128::from(piece) / u128::from(pieces);
            part.from.saturating_add_unsigned(u64::try_from(offset).unwrap_or(u64::MAX))
        };
        for piece in 0..pieces {
            let planned = Planned {
                topic: part.place.topic.to_string(),
                partition: part.place.partition,
                from: at(piece),
                until: at(piece + 1),
                isolation,
            };
            let value = serde_json::to_value(planned)
                .map_err(|e| Error::invalid("a split has no JSON form").with_source(e))?;
            splits.push(Split(value));
        }
    }
    Ok(splits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(lengths: &[i64]) -> Vec<Part> {
        let part = |(partition, length): (i32, &i64)| Part {
            place: TopicPartition::new("t", partition),
            from: 100,
            until: 100 + length,
        };
        (0..).zip(lengths).map(part).collect()
    }

    fn limited(lengths: &[i64], most: u64) -> Vec<u64> {
        let mut parts = parts(lengths);
        limit(&mut parts, Some(most));
        parts.iter().map(Part::len).collect()
    }

    #[test]
    fn a_limit_is_shared_in_proportion_and_kept() {
        assert_eq!(limited(&[10, 20, 30], 60), [10, 20, 30]);
        assert_eq!(limited(&[100, 200, 300], 60), [11, 20, 29]);
        assert_eq!(limited(&[1_000_000, 2], 10), [9, 1], "nobody starves");
        assert_eq!(limited(&[5, 5, 6], 2), [1, 1], "the rest waits");
        assert_eq!(limited(&[i64::MAX - 200, 7], 1), [1]);
        for most in 1..40 {
            let takes = limited(&[3, 9, 1, 17, 8], most);
            assert_eq!(takes.iter().sum::<u64>(), most.min(38), "{takes:?}");
        }
    }

    #[test]
    fn splits_are_whole_and_in_order() {
        for (least, most) in [(None, None), (Some(7), None), (None, Some(3)), (Some(99), Some(2))] {
            let parts = parts(&[10, 1, 25]);
            let number = |n: Option<u64>| n.and_then(NonZeroU64::new);
            let cut =
                splits(&parts, number(least), number(most), Isolation::ReadCommitted).unwrap();
            let cut: Vec<Planned> = cut.iter().map(|split| Planned::of(split).unwrap()).collect();
            assert!(
                cut.iter()
                    .all(|s| s.from < s.until && most.is_none_or(|m| s.until - s.from <= m as i64))
            );
            for part in &parts {
                let of = cut.iter().filter(|s| s.partition == part.place.partition);
                let end = of.fold(part.from, |at, s| {
                    assert_eq!(s.from, at);
                    s.until
                });
                assert_eq!(end, part.until);
            }
            if least == Some(7) {
                assert!(cut.len() >= 6, "{cut:?}");
            }
        }
    }

    #[test]
    fn a_foreign_split_is_refused() {
        let error = Planned::of(&Split(serde_json::json!({"from": 1}))).unwrap_err();
        assert_eq!(error.condition(), Some("KAFKA_OFFSET_MALFORMED"));
    }
}
