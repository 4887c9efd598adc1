//! `Lists`: the rows of a side by key, stored ones and new ones apart.

use arrow::array::{Array, TimestampMicrosecondArray};
use std::ops::Range;

/// The rows of each key, as positions in the side's columns.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Where the rows of key `n` start; one more than there are keys.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

/// Lists of this length and longer are searched by time.
const SEARCHED: usize = 16;

impl Lists {
    /// Puts `rows` in order of `key_of`, keys being `0..keys`; within a key they keep their order
    /// or, if there are times, come in the order of those. Rows without a time are left out then:
    /// they match nothing.
    pub(super) fn new(
        keys: usize,
        rows: Range<u32>,
        key_of: impl Fn(u32) -> Option<u32>,
        times: Option<&TimestampMicrosecondArray>,
    ) -> Self {
        let listed = |row: u32| {
            let timed = times.is_none_or(|times| times.is_valid(row as usize));
            key_of(row).filter(|_| timed)
        };
        let mut starts = vec![0u32; keys + 1];
        for row in rows.clone() {
            if let Some(key) = listed(row) {
                starts[key as usize + 1] += 1;
            }
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        let mut next: Vec<u32> = starts[..keys].to_vec();
        let mut sorted = vec![0; starts[keys] as usize];
        for row in rows {
            if let Some(key) = listed(row) {
                let at = &mut next[key as usize];
                sorted[*at as usize] = row;
                *at += 1;
            }
        }
        let mut lists = Self { starts, rows: sorted };
        if let Some(times) = times {
            for key in 0..keys {
                let range = lists.range(key);
                // Stable, so that rows of one time keep their order.
                if range.len() >= SEARCHED {
                    lists.rows[range].sort_by_key(|row| times.value(*row as usize));
                }
            }
        }
        lists
    }

    fn range(&self, key: usize) -> Range<usize> {
        self.starts[key] as usize..self.starts[key + 1] as usize
    }

    /// The rows of a key.
    pub(super) fn of(&self, key: usize) -> &[u32] {
        &self.rows[self.range(key)]
    }

    /// Where in the rows of a key those are that may have a time of `from..=until`; all of a short
    /// list.
    pub(super) fn between(
        &self,
        key: usize,
        times: &TimestampMicrosecondArray,
        from: i64,
        until: i64,
    ) -> Range<usize> {
        let rows = self.of(key);
        if rows.len() < SEARCHED {
            return 0..rows.len();
        }
        let first = rows.partition_point(|row| times.value(*row as usize) < from);
        let last = rows.partition_point(|row| times.value(*row as usize) <= until);
        first..last.max(first)
    }
}
