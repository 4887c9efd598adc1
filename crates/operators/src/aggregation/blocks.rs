//! `Blocks`: rows cut anew, so that nothing depends on how the input was cut.
//!
//! Some accumulators merge what they are given in one call differently from the same rows in two
//! calls: sketches do, in their last bits. Blocks of a fixed number of rows make that the same for
//! every cut. They are also larger than what an exchange delivers: cost per call is paid less often,
//! and a store that puts keys in an order of its own has many for each place.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use fluvial_core::Result;
use std::collections::VecDeque;

/// Rows of every block but the last. Small in tests, so that these see many blocks.
const BLOCK_ROWS: usize = if cfg!(test) { 7 } else { 131_072 };

/// Rows that wait for a block to be full.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    waiting: VecDeque<RecordBatch>,
    rows: usize,
}

/// The columns of a block, equally long.
pub(super) struct Block {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
}

impl Blocks {
    pub(super) fn push(&mut self, rows: RecordBatch) {
        if rows.num_rows() > 0 {
            self.rows += rows.num_rows();
            self.waiting.push_back(rows);
        }
    }

    /// The next full block.
    pub(super) fn next_full(&mut self) -> Result<Option<Block>> {
        if self.rows < BLOCK_ROWS {
            return Ok(None);
        }
        self.take(BLOCK_ROWS).map(Some)
    }

    /// What is left, less than a block; `None` if nothing is.
    pub(super) fn rest(&mut self) -> Result<Option<Block>> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.take(self.rows.min(BLOCK_ROWS)).map(Some)
    }

    /// What waits, as it came.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &RecordBatch> {
        self.waiting.iter()
    }

    fn take(&mut self, rows: usize) -> Result<Block> {
        let mut parts = Vec::new();
        let mut missing = rows;
        while missing > 0
            && let Some(batch) = self.waiting.pop_front()
        {
            let taken = batch.num_rows().min(missing);
            if taken < batch.num_rows() {
                self.waiting.push_front(batch.slice(taken, batch.num_rows() - taken));
            }
            parts.push(batch.slice(0, taken));
            missing -= taken;
        }
        self.rows -= rows;
        let columns = match parts.as_slice() {
            [one] => one.columns().to_vec(),
            parts => {
                let count = parts.first().map_or(0, RecordBatch::num_columns);
                let column = |at: usize| -> Result<ArrayRef> {
                    let arrays: Vec<&dyn Array> =
                        parts.iter().map(|part| part.column(at).as_ref()).collect();
                    Ok(concat(&arrays)?)
                };
                (0..count).map(column).collect::<Result<_>>()?
            }
        };
        Ok(Block { columns, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use std::sync::Arc;

    #[test]
    fn blocks_are_the_same_for_every_cut() {
        for cut in [1, 3, 7, 8, 20, 30] {
            let (mut blocks, mut sizes, mut values) = (Blocks::default(), vec![], vec![]);
            let mut note = |block: Block| {
                sizes.push(block.rows);
                values.extend_from_slice(block.columns[0].as_primitive::<Int64Type>().values());
            };
            for start in (0..30).step_by(cut) {
                let part = Int64Array::from_iter_values(start as i64..30.min(start + cut) as i64);
                let batch = RecordBatch::try_from_iter([("v", Arc::new(part) as ArrayRef)]);
                blocks.push(batch.unwrap());
                while let Some(block) = blocks.next_full().unwrap() {
                    note(block);
                }
            }
            if let Some(block) = blocks.rest().unwrap() {
                note(block);
            }
            assert!(blocks.rest().unwrap().is_none());
            assert_eq!(sizes, [7, 7, 7, 7, 2], "cut {cut}");
            assert_eq!(values, (0..30).collect::<Vec<_>>(), "cut {cut}");
        }
    }
}
