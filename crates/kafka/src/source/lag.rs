//! How far behind the brokers a batch leaves the query.

use super::position::Position;
use crate::broker::{Offsets, TopicPartition};
use std::collections::BTreeMap;

/// What the last plan saw: for progress only, nothing is decided by it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lag {
    /// Offsets behind the latest, by partition; never negative.
    behind: BTreeMap<TopicPartition, u64>,
    /// Offsets that were gone before they were read, since the source was opened.
    skipped: u64,
}

impl Lag {
    /// Compares the end of a batch with the ends of the logs.
    pub(crate) fn see(&mut self, end: &Position, latest: &Offsets) {
        let behind = |(place, next): (&TopicPartition, &i64)| {
            let latest = latest.get(place).copied().flatten()?;
            Some((place.clone(), u64::try_from(latest.saturating_sub(*next)).unwrap_or(0)))
        };
        self.behind = end.offsets.iter().filter_map(behind).collect();
    }

    pub(crate) fn skip(&mut self, offsets: u64) {
        self.skipped = self.skipped.saturating_add(offsets);
    }

    /// As in Spark's progress, with each partition besides.
    pub(crate) fn metrics(&self) -> BTreeMap<String, String> {
        let mut metrics = BTreeMap::new();
        let (min, max) = (self.behind.values().min(), self.behind.values().max());
        if let (Some(min), Some(max)) = (min, max) {
            let sum: u64 = self.behind.values().sum();
            let average = sum as f64 / self.behind.len() as f64;
            metrics.insert("minOffsetsBehindLatest".into(), min.to_string());
            metrics.insert("maxOffsetsBehindLatest".into(), max.to_string());
            metrics.insert("avgOffsetsBehindLatest".into(), format!("{average:?}"));
            for (place, behind) in &self.behind {
                metrics.insert(format!("offsetsBehindLatest.{place}"), behind.to_string());
            }
        }
        if self.skipped > 0 {
            metrics.insert("offsetsSkipped".into(), self.skipped.to_string());
        }
        metrics
    }
}
