//! Where every row went that came to an operator.

use serde::{Deserialize, Serialize};

/// What became of the rows that came to an operator in one batch, each counted once: what came in
/// is what was kept, emitted, or dropped for a reason that has a name.
///
/// A row counts where the operator decides about it, so that a row which is lost on the way is
/// missing here. Whoever runs an operator counts what it pushes, and compares ([`Self::total`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RowAccount {
    /// Taken in: merged into a group or a session, waiting in a join, or handed to a processor.
    pub kept: u64,
    /// Gone out in this batch without waiting: the first of its key, within the limit, or a row of
    /// a join that came out (with partners or with nulls) and is not needed any more.
    pub emitted: u64,
    /// Dropped: at or before the late watermark.
    pub late: u64,
    /// Dropped: a null key of a join, which nothing equals, on a side that need not come out.
    pub null_key: u64,
    /// Dropped: fails what a join asks of its side alone, and need not come out.
    pub filtered: u64,
    /// Dropped: its key has been seen.
    pub duplicate: u64,
    /// Not kept: nothing that comes later can match it. It has met what was there and what came
    /// with it.
    pub expired: u64,
    /// Dropped: the limit was reached.
    pub over_limit: u64,
    /// Dropped: initial state that came after the first batch.
    pub after_start: u64,
}

impl RowAccount {
    /// Every reason for which rows are dropped, by the name that progress reports use, and how
    /// many were.
    pub fn dropped(&self) -> [(&'static str, u64); 7] {
        [
            ("numRowsDroppedByWatermark", self.late),
            ("numDroppedNullKeyRows", self.null_key),
            ("numDroppedFilteredRows", self.filtered),
            ("numDroppedDuplicateRows", self.duplicate),
            ("numDroppedExpiredRows", self.expired),
            ("numDroppedOverLimitRows", self.over_limit),
            ("numDroppedAfterStartRows", self.after_start),
        ]
    }

    /// All rows that are accounted for.
    pub fn total(&self) -> u64 {
        self.kept + self.emitted + self.dropped().iter().map(|(_, rows)| rows).sum::<u64>()
    }
}

impl std::ops::AddAssign for RowAccount {
    fn add_assign(&mut self, other: Self) {
        self.kept += other.kept;
        self.emitted += other.emitted;
        self.late += other.late;
        self.null_key += other.null_key;
        self.filtered += other.filtered;
        self.duplicate += other.duplicate;
        self.expired += other.expired;
        self.over_limit += other.over_limit;
        self.after_start += other.after_start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_added_and_counted() {
        let one = RowAccount {
            kept: 1,
            emitted: 2,
            late: 4,
            null_key: 8,
            filtered: 16,
            duplicate: 32,
            expired: 64,
            over_limit: 128,
            after_start: 256,
        };
        assert_eq!(one.total(), 511);
        let mut two = one;
        two += one;
        assert_eq!(two.total(), 1022);
        let fields = serde_json::to_value(two).unwrap();
        let fields: Vec<u64> =
            fields.as_object().unwrap().values().flat_map(|v| v.as_u64()).collect();
        assert!(fields.iter().all(|rows| rows.is_power_of_two()), "{fields:?}");
    }
}
