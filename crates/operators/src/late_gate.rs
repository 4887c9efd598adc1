//! `LateGate`: keeps late rows out of an operator, counts them, and hands them over if somebody
//! wants them.

use crate::event_time::LateFilter;
use arrow::array::RecordBatch;
use arrow::compute::{filter_record_batch, not};
use fluvial_core::{LateBatch, LateHandling, LateWatermark, Result, RowAccount};

#[derive(Debug)]
pub(crate) struct LateGate {
    filter: LateFilter,
    handling: LateHandling,
    late: Vec<LateBatch>,
}

impl LateGate {
    pub(crate) fn new(watermark: LateWatermark, handling: LateHandling) -> Self {
        Self { filter: LateFilter::new(watermark), handling, late: Vec::new() }
    }

    /// The rows of `port` that came in time, judged by the times or windows at `column`.
    ///
    /// # Errors
    ///
    /// `Invalid` if that column holds neither.
    pub(crate) fn on_time(
        &mut self,
        port: usize,
        rows: RecordBatch,
        column: Option<usize>,
        account: &mut RowAccount,
    ) -> Result<RecordBatch> {
        let Some(column) = column.and_then(|at| rows.columns().get(at)) else { return Ok(rows) };
        let Some(late) = self.filter.judge(column)? else { return Ok(rows) };
        account.late += late.count;
        if self.handling == LateHandling::HandOver {
            let rows = filter_record_batch(&rows, &not(&late.keep)?)?;
            self.late.push(LateBatch { port, rows });
        }
        Ok(filter_record_batch(&rows, &late.keep)?)
    }

    /// The late rows since this was last asked, if they are to be handed over.
    pub(crate) fn take(&mut self) -> Vec<LateBatch> {
        std::mem::take(&mut self.late)
    }
}
