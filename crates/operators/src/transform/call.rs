//! `Call`: what a handler may do besides reading what it was given.

use super::output::Output;
use super::state_row::OutputRow;
use super::stored::{Block, Expiry, Stored, Tally};
use super::timers::Timers;
use arrow::array::RecordBatch;
use fluvial_core::{BatchId, BatchInfo, BatchTime, Error, EventTime, Result, StateStore};

/// The context of one call of a handler: the state of the key, its timers, the output.
pub struct Call<'a> {
    pub(super) scope: &'a mut Scope,
    pub(super) block: &'a Block,
    pub(super) at: usize,
    pub(super) state: &'a dyn StateStore,
}

/// What all calls of a batch share.
pub(super) struct Scope {
    pub(super) info: BatchInfo,
    pub(super) variables: Vec<Box<dyn Stored>>,
    pub(super) timers: Timers,
    pub(super) output: Output,
    pub(super) tally: Tally,
}

impl Scope {
    pub(super) fn clock(&self) -> Expiry {
        Expiry { now_ms: self.info.time.0 }
    }

    /// Writes what the handlers of a block changed.
    pub(super) fn flush(&mut self, block: &Block, state: &mut dyn StateStore) -> Result<()> {
        let clock = self.clock();
        for variable in &mut self.variables {
            variable.flush(block, clock, state, &mut self.tally)?;
        }
        self.timers.flush(block, state)?;
        self.output.end_block()
    }
}

/// Where in the state a handle looks.
pub(super) struct Part<'a> {
    pub(super) block: &'a Block,
    pub(super) at: usize,
    pub(super) clock: Expiry,
    pub(super) state: &'a dyn StateStore,
    pub(super) tally: &'a mut Tally,
}

impl Call<'_> {
    /// Emits a row.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not fit the output's columns.
    pub fn emit(&mut self, row: impl OutputRow) -> Result<()> {
        self.scope.output.row(&row)
    }

    /// Emits rows as columns, in the order of the output's.
    ///
    /// # Errors
    ///
    /// `Invalid` if they do not fit the output's columns.
    pub fn emit_batch(&mut self, rows: &RecordBatch) -> Result<()> {
        self.scope.output.batch(rows)
    }

    /// Registers a timer for this key; the same time twice is one timer. One that is due already
    /// fires in this batch, after the input.
    ///
    /// # Errors
    ///
    /// `Invalid` if the time mode is none.
    pub fn register_timer(&mut self, expiry_ms: i64) -> Result<()> {
        self.scope.timers.register(self.block, self.at, expiry_ms, self.state)
    }

    /// Deletes a timer of this key; one that is not there is fine.
    ///
    /// # Errors
    ///
    /// `Invalid` if the time mode is none.
    pub fn delete_timer(&mut self, expiry_ms: i64) -> Result<()> {
        self.scope.timers.delete(self.block, self.at, expiry_ms)
    }

    /// The timers of this key in milliseconds since the epoch, earliest first.
    ///
    /// # Errors
    ///
    /// `Invalid` if the time mode is none.
    pub fn timers(&mut self) -> Result<Vec<i64>> {
        self.scope.timers.list(self.block, self.at, self.state)
    }

    /// The watermark of this batch, which fires timers; `None` before the first event.
    pub fn watermark(&self) -> Option<EventTime> {
        self.scope.info.evict.0
    }

    /// The watermark in milliseconds since the epoch, as Spark has it: 0 before the first event.
    pub fn watermark_ms(&self) -> i64 {
        self.watermark().map_or(0, EventTime::as_millis)
    }

    /// The time of this batch: the only processing time there is. It stays the same when the
    /// batch runs again.
    pub fn processing_time(&self) -> BatchTime {
        self.scope.info.time
    }

    /// Which batch this is.
    pub fn batch(&self) -> BatchId {
        self.scope.info.batch
    }

    /// The memory of a variable, and where to look.
    pub(super) fn variable<V: Stored + 'static>(
        &mut self,
        slot: u32,
    ) -> Result<(&mut V, Part<'_>)> {
        let clock = self.scope.clock();
        let variable = self.scope.variables.get_mut(slot as usize);
        let variable = variable.and_then(|variable| variable.as_any().downcast_mut::<V>());
        let part = Part {
            block: self.block,
            at: self.at,
            clock,
            state: self.state,
            tally: &mut self.scope.tally,
        };
        match variable {
            Some(variable) => Ok((variable, part)),
            None => Err(Error::invalid(
                "a state variable is used that this processor did not declare: declare it in init \
                 and keep the handle",
            )
            .with_condition(
                "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE",
            )),
        }
    }
}
