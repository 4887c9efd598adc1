//! Keys of one call, put together by prefix.
//!
//! Keys come in any order and segments are many: to go from one to another for each key costs
//! more than the work itself, because no cache holds the ends of all. So a call visits each
//! segment once.

use crate::prefix::{Cut, Prefix};
use crate::segment::Hash;
use crate::table::Table;
use arrow::array::{Array, BinaryArray};
use hashbrown::HashTable;

/// The rows of a call, run by run; the rows of a run have one prefix and are in their order.
#[derive(Debug)]
pub(crate) struct Runs {
    rows: Vec<Row>,
    /// Where each run ends.
    ends: Vec<u32>,
}

/// A key of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its place in the call.
    pub(crate) at: u32,
    pub(crate) hash: Hash,
}

impl Runs {
    /// The runs of `keys`, none of which is null, for tables that are cut like this.
    pub(crate) fn of(keys: &BinaryArray, tables: [&Table; 2]) -> Self {
        let coarse = tables.iter().all(|table| table.cut() == Cut::Group);
        let cut = if coarse { Cut::Group } else { Cut::FINEST };
        let mut numbers: HashTable<u32> = HashTable::new();
        let mut prefixes: Vec<Prefix> = Vec::new();
        let mut ends: Vec<u32> = Vec::new();
        let mut run_of: Vec<(u32, Hash)> = Vec::with_capacity(keys.len());
        for key in keys.iter().flatten() {
            let prefix = cut.prefix(key);
            let name = prefix.hash();
            let known = numbers.find(name, |run| prefixes[*run as usize] == prefix).copied();
            let run = known.unwrap_or_else(|| {
                let run = prefixes.len() as u32;
                prefixes.push(prefix);
                ends.push(0);
                numbers.insert_unique(name, run, |run| prefixes[*run as usize].hash());
                run
            });
            ends[run as usize] += 1;
            run_of.push((run, Hash::of(key)));
        }
        // From the length of each run to its start, and while it is filled, to its end.
        let mut next = 0;
        for end in &mut ends {
            next += std::mem::replace(end, next);
        }
        let mut rows = vec![Row { at: 0, hash: Hash::default() }; run_of.len()];
        for (at, (run, hash)) in run_of.into_iter().enumerate() {
            let place = &mut ends[run as usize];
            rows[*place as usize] = Row { at: at as u32, hash };
            *place += 1;
        }
        Self { rows, ends }
    }

    /// The rows of each run; none is empty.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Row]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let run = &self.rows[start..*end as usize];
            start = *end as usize;
            run
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_prefix_stand_together_in_their_order() {
        let key = |time: u8, key: u8| [&[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, time][..], &[key]].concat();
        let keys = [key(1, 1), key(2, 1), key(1, 2), vec![0, 0], key(1, 1), key(2, 0)];
        let keys = BinaryArray::from_iter_values(keys);
        let fine = Table::default();
        let runs = Runs::of(&keys, [&fine, &fine]);
        let shown = |runs: Runs| -> Vec<Vec<u32>> {
            runs.iter().map(|run| run.iter().map(|row| row.at).collect()).collect()
        };
        assert_eq!(shown(runs), [&[0, 2, 4][..], &[1, 5], &[3]]);
        assert_eq!(Runs::of(&keys.slice(0, 0), [&fine, &fine]).iter().count(), 0);
        assert_eq!(shown(Runs::of(&keys.slice(4, 2), [&fine, &fine])), [[0], [1]]);
    }
}
