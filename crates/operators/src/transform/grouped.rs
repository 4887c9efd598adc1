//! Rows put together by their keys.

use super::rows::InputRows;
use super::stored::Block;
use crate::aggregation::groups::Groups;
use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::compute::interleave_record_batch;
use fluvial_core::{Error, Result};
use std::ops::Range;

/// Keys that are handled together: their state is read and written in one call each.
pub(super) const BLOCK_KEYS: usize = if cfg!(test) { 3 } else { 2048 };
/// Rows that are put together at once.
const PIECE_ROWS: usize = if cfg!(test) { 5 } else { 16_384 };

/// The rows of one input, and which key each of them has.
#[derive(Default)]
pub(super) struct Grouped {
    keys: Groups,
    /// The key of each row, over all batches.
    numbers: Vec<usize>,
    batches: Vec<RecordBatch>,
}

/// Some keys and all their rows.
pub(super) struct Handful {
    pub(super) block: Block,
    pieces: Vec<RecordBatch>,
    /// The rows of each key, counted over all pieces.
    ranges: Vec<Range<usize>>,
}

impl Handful {
    /// How many rows the keys have together.
    pub(super) fn row_count(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).sum()
    }

    /// The rows of the key at this position.
    pub(super) fn rows(&self, at: usize) -> InputRows<'_> {
        let Range { start, end } = self.ranges[at].clone();
        InputRows { pieces: &self.pieces, start, end }
    }
}

impl Grouped {
    pub(super) fn push(&mut self, keys: &BinaryArray, rows: RecordBatch) -> Result<()> {
        self.keys.intern(keys, &mut self.numbers)?;
        self.batches.push(rows);
        Ok(())
    }

    /// The distinct keys, in chunks.
    pub(super) fn keys(&self) -> impl Iterator<Item = BinaryArray> {
        self.keys.keys()
    }

    /// Some keys after others, in the order in which they first came.
    pub(super) fn into_handfuls(self) -> Result<Handfuls> {
        let mut starts = vec![0; self.keys.len() + 1];
        for number in &self.numbers {
            starts[number + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut order = vec![(0_u32, 0_u32); self.numbers.len()];
        let mut numbers = self.numbers.iter();
        for (batch, rows) in self.batches.iter().enumerate() {
            for (row, number) in (0..rows.num_rows()).zip(&mut numbers) {
                order[next[*number]] = (narrow(batch)?, narrow(row)?);
                next[*number] += 1;
            }
        }
        let chunks = self.keys.into_keys();
        Ok(Handfuls { chunks, batches: self.batches, order, starts, chunk: 0, in_chunk: 0, key: 0 })
    }
}

fn narrow(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::invalid("a batch has more than four billion rows"))
}

/// The handfuls that are still to come.
#[derive(Default)]
pub(super) struct Handfuls {
    chunks: Vec<BinaryArray>,
    batches: Vec<RecordBatch>,
    /// The rows, key by key.
    order: Vec<(u32, u32)>,
    /// Where the rows of each key begin in `order`; one more at the end.
    starts: Vec<usize>,
    chunk: usize,
    in_chunk: usize,
    key: usize,
}

impl Handfuls {
    pub(super) fn next(&mut self) -> Result<Option<Handful>> {
        while self.chunks.get(self.chunk).is_some_and(|chunk| self.in_chunk == chunk.len()) {
            self.chunk += 1;
            self.in_chunk = 0;
        }
        let Some(chunk) = self.chunks.get(self.chunk) else { return Ok(None) };
        let left = (chunk.len() - self.in_chunk).min(BLOCK_KEYS);
        let first = self.starts[self.key];
        // At least one key, and as many as fit into a piece.
        let fits = (2..=left).take_while(|n| self.starts[self.key + n] - first <= PIECE_ROWS);
        let count = 1 + fits.count();
        let keys = chunk.slice(self.in_chunk, count);
        let bounds = &self.starts[self.key..=self.key + count];
        let ranges = bounds.windows(2).map(|b| b[0] - first..b[1] - first).collect();
        let pieces = self.pieces(first..bounds[count])?;
        self.in_chunk += count;
        self.key += count;
        Ok(Some(Handful { block: Block { keys }, pieces, ranges }))
    }

    fn pieces(&self, rows: Range<usize>) -> Result<Vec<RecordBatch>> {
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let piece = |rows: &[(u32, u32)]| {
            let rows: Vec<(usize, usize)> =
                rows.iter().map(|(batch, row)| (*batch as usize, *row as usize)).collect();
            Ok(interleave_record_batch(&batches, &rows)?)
        };
        self.order[rows].chunks(PIECE_ROWS).map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use std::sync::Arc;

    #[test]
    fn every_key_gets_all_its_rows_in_their_order() {
        let mut grouped = Grouped::default();
        let mut value = 0;
        for size in [7usize, 0, 1, 20, 3] {
            let keys: Vec<String> = (0..size).map(|i| format!("k{}", i * i % 11)).collect();
            let values = Int64Array::from_iter_values(value..value + size as i64);
            value += size as i64;
            let names: ArrayRef = Arc::new(StringArray::from(keys.clone()));
            let rows = RecordBatch::try_from_iter([("k", names), ("v", Arc::new(values) as _)]);
            let keys = BinaryArray::from_iter_values(keys.iter().map(String::as_bytes));
            grouped.push(&keys, rows.unwrap()).unwrap();
        }
        let (mut handfuls, mut seen, mut total) = (grouped.into_handfuls().unwrap(), vec![], 0);
        while let Some(handful) = handfuls.next().unwrap() {
            assert!(handful.block.len() <= BLOCK_KEYS);
            for at in 0..handful.block.len() {
                let rows = handful.rows(at);
                let key = String::from_utf8(handful.block.key(at).to_vec()).unwrap();
                let mut last = -1;
                for row in rows {
                    assert_eq!(row.get::<&str>("k").unwrap(), key);
                    let value = row.get::<i64>("v").unwrap();
                    assert!(value > last, "in order");
                    last = value;
                }
                let columns: Vec<RecordBatch> = rows.batches().collect();
                assert_eq!(columns.iter().map(RecordBatch::num_rows).sum::<usize>(), rows.len());
                let last_column = columns.last().unwrap().column(1).as_primitive::<Int64Type>();
                assert_eq!(last_column.values().last(), Some(&last));
                total += rows.len();
                seen.push(key);
            }
        }
        assert_eq!(total, 31);
        let mut distinct = seen.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), seen.len());
        assert_eq!(seen[..4], ["k0", "k1", "k4", "k9"], "in the order of their first rows");
    }

    #[test]
    fn nothing_gives_nothing() {
        let mut handfuls = Grouped::default().into_handfuls().unwrap();
        assert!(handfuls.next().unwrap().is_none());
        assert!(Handfuls::default().next().unwrap().is_none());
    }
}
