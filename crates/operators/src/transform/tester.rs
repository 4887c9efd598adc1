//! `TransformTester`: a processor driven by hand.

mod memory;

use super::call::{Call, Scope};
use super::column::ColumnWriter;
use super::definition::{Transform, TransformWithState, input_schema};
use super::handles::{ListState, MapState, ValueState};
use super::output::Output;
use super::state_row::{OutputRow, StateRow};
use super::stored::{Block, Tally};
use super::timers::Timers;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Fields, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial_core::{
    BatchId, BatchInfo, BatchTime, Error, EventTime, EvictWatermark, KeyGroupCount, LateHandling,
    LateWatermark, Operator, OperatorCounts, PartitionId, Result,
};
use memory::MemoryState;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// Drives a processor without an engine: feeds rows, moves the watermark and the time, shows what
/// is emitted and what variables hold. Late rows, timers and TTL work as in a query.
///
/// Times stand still until they are moved. As in a query, the watermark that judges late rows is
/// that of the batch before.
#[derive(Debug)]
pub struct TransformTester {
    operator: TransformWithState,
    rows: SchemaRef,
    keys: Vec<usize>,
    initial: Option<RecordBatch>,
    state: MemoryState,
    info: BatchInfo,
    counts: OperatorCounts,
}

impl TransformTester {
    /// A tester that feeds rows with these columns, grouped by the columns of these names.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column, or it cannot be a key.
    pub fn new(transform: Transform, rows: SchemaRef, keys: &[&str]) -> Result<Self> {
        Self::with_event_time(transform, rows, keys, None)
    }

    /// As [`Self::new`], with the column that the watermark is about.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn with_event_time<'a>(
        transform: Transform,
        rows: SchemaRef,
        keys: &[&str],
        event_time: impl Into<Option<&'a str>>,
    ) -> Result<Self> {
        let position = |name: &str| rows.index_of(name).map_err(Error::from);
        let keys = keys.iter().map(|name| position(name)).collect::<Result<Vec<_>>>()?;
        let event_time = event_time.into().map(position).transpose()?;
        let fields: Fields = keys.iter().map(|at| Arc::clone(&rows.fields()[*at])).collect();
        let operator =
            TransformWithState::new(Arc::new(transform), fields, Arc::clone(&rows), event_time)?;
        let groups = KeyGroupCount::DEFAULT;
        let info = BatchInfo {
            batch: BatchId::FIRST,
            late: LateWatermark(None),
            evict: EvictWatermark(None),
            time: BatchTime(0),
            mode: operator.config.transform.output_mode,
            partition: PartitionId(0),
            groups: groups.all(),
            key_groups: groups,
            batch_rows: 8192,
            late_rows: LateHandling::Drop,
        };
        let state = MemoryState::new(groups.all());
        let counts = OperatorCounts::default();
        Ok(Self { operator, rows, keys, initial: None, state, info, counts })
    }

    /// Gives the first batch an initial state: rows with these columns, of which `keys` are the
    /// grouping columns.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column.
    pub fn with_initial_state(self, rows: &RecordBatch, keys: &[&str]) -> Result<Self> {
        let schema = rows.schema();
        let mut columns = Vec::new();
        for name in keys {
            columns.push(Arc::clone(rows.column(schema.index_of(name)?)));
        }
        columns.extend(rows.columns().iter().cloned());
        let all = input_schema(&self.operator.config.keys, &schema);
        let initial = Some(RecordBatch::try_new(all, columns)?);
        let operator = self.operator.with_initial_state(schema);
        Ok(Self { operator, initial, ..self })
    }

    /// Moves the watermark: what the next batch fires timers by, and the one after it judges late
    /// rows by. It never goes back.
    pub fn set_watermark(&mut self, watermark: EventTime) {
        self.info.evict = EvictWatermark(self.info.evict.0.max(Some(watermark)));
    }

    /// Moves the processing time: that of the next batch.
    pub fn advance_time(&mut self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.info.time.0 = self.info.time.0.saturating_add(by);
    }

    /// The processing time of the next batch.
    pub fn time(&self) -> BatchTime {
        self.info.time
    }

    /// Runs a batch of rows, and shows what was emitted: a text for each row, its values apart by
    /// spaces.
    ///
    /// # Errors
    ///
    /// Those of the processor. State is as before then.
    pub fn run(&mut self, rows: &[impl OutputRow]) -> Result<Vec<String>> {
        let mut columns = ColumnWriter::all(self.rows.fields());
        rows.iter().try_for_each(|row| row.write(&mut columns))?;
        let columns = columns.iter_mut().map(ColumnWriter::finish).collect::<Result<Vec<_>>>()?;
        texts(&self.run_batch(&RecordBatch::try_new(Arc::clone(&self.rows), columns)?)?)
    }

    /// Runs a batch without rows: timers fire, what has outlived its TTL goes.
    ///
    /// # Errors
    ///
    /// Those of the processor. State is as before then.
    pub fn run_empty(&mut self) -> Result<Vec<String>> {
        texts(&self.run_batch(&RecordBatch::new_empty(Arc::clone(&self.rows)))?)
    }

    /// Runs a batch of rows, and gives what was emitted.
    ///
    /// # Errors
    ///
    /// Those of the processor. State is as before then.
    pub fn run_batch(&mut self, rows: &RecordBatch) -> Result<RecordBatch> {
        let mut state = self.state.clone();
        let mut active = self.operator.start(self.info)?;
        if let Some(initial) = self.initial.clone() {
            active.push(1, initial, &mut state)?;
        }
        let keys = self.keys.iter().map(|at| Arc::clone(rows.column(*at)));
        let columns: Vec<ArrayRef> = keys.chain(rows.columns().iter().cloned()).collect();
        let schema = input_schema(&self.operator.config.keys, &self.rows);
        active.push(0, RecordBatch::try_new(schema, columns)?, &mut state)?;
        active.finish_input(&mut state)?;
        let mut emitted = Vec::new();
        while let Some(rows) = active.drain(&mut state)? {
            emitted.push(rows);
        }
        self.counts = active.counts();
        self.state = state;
        self.info.batch = self.info.batch.next();
        self.info.late = LateWatermark(self.info.evict.0);
        Ok(concat_batches(&self.operator.output_schema(), &emitted)?)
    }

    /// What the last batch did, counted as in progress.
    pub fn counts(&self) -> OperatorCounts {
        self.counts
    }

    /// The value of a variable for a key, as the next batch would find it.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such variable of this type.
    pub fn value<T: StateRow>(&self, variable: &str, key: impl OutputRow) -> Result<Option<T>> {
        let slot = self.slot(variable)?;
        self.look(key, |call| ValueState { slot, of: PhantomData }.get(call))
    }

    /// The list of a variable for a key.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such variable of this type.
    pub fn list<T: StateRow>(&self, variable: &str, key: impl OutputRow) -> Result<Vec<T>> {
        let slot = self.slot(variable)?;
        self.look(key, |call| ListState { slot, of: PhantomData }.get(call))
    }

    /// The map of a variable for a key, in the order of its keys.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such variable of this type.
    pub fn map<K: StateRow, V: StateRow>(
        &self,
        variable: &str,
        key: impl OutputRow,
    ) -> Result<Vec<(K, V)>> {
        let slot = self.slot(variable)?;
        self.look(key, |call| MapState { slot, of: PhantomData }.entries(call))
    }

    /// The timers of a key, earliest first.
    ///
    /// # Errors
    ///
    /// `Invalid` if the time mode is none.
    pub fn timers(&self, key: impl OutputRow) -> Result<Vec<i64>> {
        self.look(key, |call| call.timers())
    }

    fn slot(&self, variable: &str) -> Result<u32> {
        let variables = &self.operator.config.transform.variables;
        let slot = variables.iter().position(|declared| declared.name == variable);
        slot.map(|slot| slot as u32).ok_or_else(|| {
            let names: Vec<&str> = variables.iter().map(|v| v.name.as_str()).collect();
            Error::invalid(format!(
                "there is no variable {variable}: there are [{}]",
                names.join(", ")
            ))
        })
    }

    fn look<R>(
        &self,
        key: impl OutputRow,
        ask: impl FnOnce(&mut Call<'_>) -> Result<R>,
    ) -> Result<R> {
        let config = &self.operator.config;
        let mut columns = ColumnWriter::all(&config.keys);
        key.write(&mut columns)?;
        let columns = columns.iter_mut().map(ColumnWriter::finish).collect::<Result<Vec<_>>>()?;
        let keys = config.key_codec(self.info.key_groups)?.encode(&columns, None, 1)?.keys;
        let transform = &config.transform;
        let mut scope = Scope {
            info: self.info,
            variables: transform.variables.iter().map(|v| (v.open)(v)).collect::<Result<_>>()?,
            timers: Timers::new(transform.time_mode, &self.info),
            output: Output::new(Arc::new(Schema::empty()), None),
            tally: Tally::new(self.info.groups, transform.variables.len()),
        };
        let block = Block { keys };
        ask(&mut Call { scope: &mut scope, block: &block, at: 0, state: &self.state })
    }

    /// The state as a table.
    #[cfg(test)]
    pub(super) fn shown(&self, view: &crate::inspect::StateView) -> Vec<String> {
        crate::inspect::testing::shown_of(&self.operator, view, &self.state)
    }

    /// How many entries of any sort the state has, indexes included.
    #[cfg(test)]
    pub(super) fn entries_of_any_sort(&self) -> usize {
        self.state.len()
    }
}

fn texts(rows: &RecordBatch) -> Result<Vec<String>> {
    let options = FormatOptions::default().with_null("null");
    let columns = rows.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let row = |i: usize| columns.iter().map(|c| c.value(i).to_string()).collect::<Vec<_>>();
    Ok((0..rows.num_rows()).map(|i| row(i).join(" ")).collect())
}
