//! Rows on their way out, in pieces that are not too large.

use super::Config;
use super::kind::{JoinKind, Side};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use fluvial_core::Result;
use std::collections::VecDeque;
use std::sync::Arc;

/// Output that waits to be asked for.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    waiting: VecDeque<RecordBatch>,
}

impl Leaving {
    /// Adds rows of one side, which found no partner: the columns of the other are null.
    pub(super) fn push(
        &mut self,
        config: &Config,
        side: Side,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let other = side.other();
        let nulls = config.side(other).row_fields();
        let nulls: Vec<ArrayRef> =
            nulls.map(|field| new_null_array(field.data_type(), rows)).collect();
        let all = match (side, config.kind) {
            (_, JoinKind::LeftSemi) => columns,
            (Side::Left, _) => [columns, nulls].concat(),
            (Side::Right, _) => [nulls, columns].concat(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let output = Arc::clone(&config.output);
        self.waiting.push_back(RecordBatch::try_new_with_options(output, all, &options)?);
        Ok(())
    }

    /// The next rows, `limit` at most.
    pub(super) fn next(&mut self, limit: usize) -> Option<RecordBatch> {
        let rows = self.waiting.pop_front()?;
        if rows.num_rows() <= limit {
            return Some(rows);
        }
        self.waiting.push_front(rows.slice(limit, rows.num_rows() - limit));
        Some(rows.slice(0, limit))
    }
}
