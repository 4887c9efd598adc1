use arrow::array::{Array, PrimitiveArray};
use arrow::datatypes::TimestampMicrosecondType;
use fluvial_core::EventTime;

/// The event times that one watermark definition saw in one batch. Null times are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTimeStats {
    /// The earliest.
    pub min: EventTime,
    /// The latest: what the watermark follows.
    pub max: EventTime,
    /// The sum of their whole milliseconds, for the average.
    pub sum: i128,
    /// How many.
    pub count: u64,
}

impl EventTimeStats {
    /// The statistics of a column; `None` if it has no time at all.
    pub fn of(times: &PrimitiveArray<TimestampMicrosecondType>) -> Option<Self> {
        let min = arrow::compute::min(times)?;
        let max = arrow::compute::max(times)?;
        let sum = if times.null_count() == 0 {
            times.values().iter().map(|t| i128::from(whole_ms(*t))).sum()
        } else {
            times.iter().flatten().map(|t| i128::from(whole_ms(t))).sum()
        };
        let count = (times.len() - times.null_count()) as u64;
        Some(Self { min: EventTime(min), max: EventTime(max), sum, count })
    }

    /// Takes in what another part of the batch saw.
    pub fn merge(&mut self, other: Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.count += other.count;
    }

    /// The average, as Spark rounds it: each time down to its millisecond, and their average
    /// towards the epoch.
    pub fn average(&self) -> EventTime {
        let average = self.sum / i128::from(self.count.max(1));
        EventTime(i64::try_from(average * MICROS_PER_MS).unwrap_or(self.max.0))
    }
}

const MICROS_PER_MS: i128 = 1000;

fn whole_ms(time: i64) -> i64 {
    time.div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::TimestampMicrosecondArray;

    #[test]
    fn nulls_do_not_count() {
        let stats = EventTimeStats::of(&TimestampMicrosecondArray::from(vec![
            Some(-3000),
            None,
            Some(10_000),
            Some(4000),
        ]))
        .unwrap();
        assert_eq!((stats.min, stats.max, stats.count), (EventTime(-3000), EventTime(10_000), 3));
        assert_eq!(stats.average(), EventTime(3000));
        assert_eq!(EventTimeStats::of(&TimestampMicrosecondArray::from(vec![None])), None);
    }

    #[test]
    fn an_average_before_the_epoch_is_rounded_towards_it() {
        let average = |times: Vec<i64>| {
            EventTimeStats::of(&TimestampMicrosecondArray::from(times)).unwrap().average().0
        };
        assert_eq!(average(vec![-1]), -1000);
        assert_eq!(average(vec![-1000, -2000]), -1000);
        assert_eq!(average(vec![1999, 2001]), 1000);
    }

    #[test]
    fn merging_is_the_whole() {
        let all = TimestampMicrosecondArray::from(vec![i64::MAX, i64::MIN, 0, 7]);
        let mut merged =
            EventTimeStats::of(&TimestampMicrosecondArray::from(vec![i64::MAX])).unwrap();
        let rest = TimestampMicrosecondArray::from(vec![i64::MIN, 0, 7]);
        merged.merge(EventTimeStats::of(&rest).unwrap());
        assert_eq!(Some(merged), EventTimeStats::of(&all));
    }
}
