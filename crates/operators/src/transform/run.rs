//! One batch of a processor on one partition.

use super::call::{Call, Scope};
use super::definition::Config;
use super::grouped::{BLOCK_KEYS, Grouped, Handful, Handfuls};
use super::layout;
use super::output::Output;
use super::processor::{ExpiredTimer, HandlerError, HandlerResult, TimeMode};
use super::rows::Key;
use super::stored::{Block, Tally};
use super::timers::{Due, Timers};
use crate::late_gate::LateGate;
use arrow::array::{Array, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use fluvial_core::{
    BatchId, BatchInfo, BatchTime, Error, KeyGroup, KeyRange, LateBatch, OperatorCounts,
    OperatorRun, Prefetch, Result, StateStore, VariableKind as Kind,
};
use fluvial_state::KeyCodec;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The names of Spark's metrics of `transformWithState`. As there, variables are counted in each
/// partition.
const METRICS: &[&str] = &[
    "numDeletedTimers",
    "numExpiredTimers",
    "numListStateVars",
    "numListStateWithTTLVars",
    "numMapStateVars",
    "numMapStateWithTTLVars",
    "numRegisteredTimers",
    "numValueStateVars",
    "numValueStateWithTTLVars",
    "numValuesRemovedDueToTTLExpiry",
];

/// Entries by time that are read at once.
const EXPIRED_ROWS: usize = 4096;

pub(super) struct Run {
    config: Arc<Config>,
    info: BatchInfo,
    codec: KeyCodec,
    late: LateGate,
    initial: Grouped,
    input: Grouped,
    scope: Scope,
    phase: Phase,
    /// Entries of variables in all groups of the partition.
    entries: u64,
    /// Entries that have outlived their TTL.
    expired: u64,
    next_timer: Option<BatchTime>,
    counts: OperatorCounts,
}

/// How far the batch has come.
enum Phase {
    /// Rows are coming.
    Input,
    /// Keys and their rows are handled.
    Rows(Handfuls),
    /// What is due fires.
    Timers(Due),
    /// What has outlived its TTL goes.
    Expiry,
    Done,
}

impl Run {
    pub(super) fn new(config: &Arc<Config>, info: BatchInfo) -> Result<Self> {
        let transform = &config.transform;
        let open = transform.variables.iter().map(|variable| (variable.open)(variable));
        let event_time = transform.event_time.map(|at| (at, info.late));
        let scope = Scope {
            info,
            variables: open.collect::<Result<_>>()?,
            timers: Timers::new(transform.time_mode, &info),
            output: Output::new(Arc::clone(&transform.output), event_time),
            tally: Tally::new(info.groups, transform.variables.len()),
        };
        Ok(Self {
            config: Arc::clone(config),
            info,
            codec: config.key_codec(info.key_groups)?,
            late: LateGate::new(info.late, info.late_rows),
            initial: Grouped::default(),
            input: Grouped::default(),
            scope,
            phase: Phase::Input,
            entries: 0,
            expired: 0,
            next_timer: None,
            counts: OperatorCounts::default(),
        })
    }

    fn group(&mut self, rows: &RecordBatch, schema: &SchemaRef, port: usize) -> Result<()> {
        let keys = self.config.keys.len();
        let expected = keys + schema.fields().len();
        if rows.num_columns() != expected {
            return Err(Error::invalid(format!(
                "port {port} of a processor takes {expected} columns, not {}",
                rows.num_columns()
            )));
        }
        let (key_columns, columns) = rows.columns().split_at(keys);
        let encoded = self.codec.encode(key_columns, None, rows.num_rows())?.keys;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let schema = Arc::clone(schema);
        let rows = RecordBatch::try_new_with_options(schema, columns.to_vec(), &options)?;
        let grouped = if port == 0 { &mut self.input } else { &mut self.initial };
        grouped.push(&encoded, rows)
    }

    /// The rows that are not late. Only event time knows lateness.
    fn on_time(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        let judged = self.config.transform.time_mode == TimeMode::EventTime;
        let time = self.config.event_time.filter(|_| judged);
        let column = time.map(|at| self.config.keys.len() + at);
        self.late.on_time(0, rows, column, &mut self.counts.rows)
    }

    /// Calls `handle` for each of `calls` in a block, and writes what they change. A call is the
    /// position of its key in the block and what it is about.
    fn call_each<T: Copy>(
        &mut self,
        block: &Block,
        calls: impl IntoIterator<Item = (usize, T)>,
        state: &mut dyn StateStore,
        handle: impl Fn(&Config, &Key<'_>, T, &mut Call<'_>) -> HandlerResult,
    ) -> Result<()> {
        let columns = self.codec.decode(&block.keys)?.columns;
        for (at, about) in calls {
            let key = Key { columns: &columns, fields: &self.config.keys, row: at };
            let scope = &mut self.scope;
            let mut call = Call { scope, block, at, state: &*state };
            // A panic ends the batch, and with it everything that it may have left half done.
            let handled = AssertUnwindSafe(|| handle(&self.config, &key, about, &mut call));
            match catch_unwind(handled) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(failed(&key, error)),
                Err(panic) => {
                    let said = panic.downcast_ref::<String>().map(String::as_str);
                    let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
                    let said = said.unwrap_or("no message");
                    return Err(user_error(format!(
                        "the processor panicked at key ({key}): {said}"
                    )));
                }
            }
        }
        self.scope.flush(block, state)
    }

    fn handle_initial(&mut self, state: &mut dyn StateStore) -> Result<()> {
        let mut handfuls = std::mem::take(&mut self.initial).into_handfuls()?;
        while let Some(handful) = handfuls.next()? {
            self.counts.rows.kept += handful.row_count();
            let calls = (0..handful.block.len()).map(|at| (at, ()));
            self.call_each(&handful.block, calls, state, |config, key, (), call| {
                let rows = handful.rows(call.at);
                if rows.len() > 1 {
                    let text = format!("the initial state has {} rows for one key", rows.len());
                    let condition = "STATEFUL_PROCESSOR_CANNOT_REINITIALIZE_STATE_ON_KEY";
                    return Err(Error::invalid(text).with_condition(condition).into());
                }
                rows.iter().try_for_each(|row| {
                    config.transform.processor.handle_initial_state(key, row, call)
                })
            })?;
        }
        Ok(())
    }

    fn handle_rows(&mut self, handful: &Handful, state: &mut dyn StateStore) -> Result<()> {
        self.counts.rows.kept += handful.row_count();
        let calls = (0..handful.block.len()).map(|at| (at, ()));
        self.call_each(&handful.block, calls, state, |config, key, (), call| {
            config.transform.processor.handle_input_rows(key, handful.rows(call.at), call)
        })
    }

    fn handle_timers(&mut self, due: &[(i64, Vec<u8>)], state: &mut dyn StateStore) -> Result<()> {
        // Several timers of one key share its place in the block.
        let mut places: BTreeMap<&[u8], usize> = BTreeMap::new();
        let mut keys = Vec::new();
        let mut calls = Vec::with_capacity(due.len());
        for (time, key) in due {
            let place = *places.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() - 1
            });
            calls.push((place, *time));
        }
        let block = Block { keys: BinaryArray::from_iter_values(keys) };
        self.call_each(&block, calls, state, |config, key, expiry_ms, call| {
            if !call.scope.timers.fire(call.block, call.at, expiry_ms) {
                return Ok(());
            }
            config.transform.processor.handle_expired_timer(key, ExpiredTimer { expiry_ms }, call)
        })
    }

    /// Removes entries that have outlived their TTL.
    fn expire(&mut self, state: &mut dyn StateStore) -> Result<()> {
        if self.config.transform.variables.iter().all(|variable| variable.ttl_ms.is_none()) {
            return Ok(());
        }
        for group in self.info.groups.groups() {
            let range = layout::expired(group, self.info.time.0);
            loop {
                let entries = state.scan(&range, EXPIRED_ROWS)?.keys;
                for entry in entries.iter().flatten() {
                    self.expire_one(entry, state)?;
                }
                state.delete_many(&entries)?;
                if entries.len() < EXPIRED_ROWS {
                    break;
                }
            }
        }
        Ok(())
    }

    fn expire_one(&mut self, entry: &[u8], state: &mut dyn StateStore) -> Result<()> {
        let (key, id) = layout::parse_expiry(entry)?;
        let variables = &self.config.transform.variables;
        // What is no longer declared keeps its values, but not its entries by time.
        let Some(slot) = variables.iter().position(|variable| variable.id == id) else {
            return Ok(());
        };
        let tally = &mut self.scope.tally;
        if self.scope.variables[slot].expire(&key, state, tally)? {
            tally.removed += 1;
            self.expired += 1;
        }
        Ok(())
    }

    fn delete_variables(&self, state: &mut dyn StateStore) -> Result<()> {
        for name in &self.config.transform.deleted {
            let groups = self.info.groups.groups();
            let ranges = groups
                .flat_map(|group| [layout::named(group, name), layout::counter_of(group, name)]);
            state.delete_ranges(&ranges.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn counters(&self) -> BinaryArray {
        let variables = &self.config.transform.variables;
        let of_group = |group: KeyGroup| {
            variables.iter().map(move |variable| layout::counter(group, variable.id))
        };
        let all: Vec<Vec<u8>> = self.info.groups.groups().flat_map(of_group).collect();
        BinaryArray::from_iter_values(all)
    }

    /// Brings the numbers of entries up to date.
    fn count_entries(&mut self, state: &mut dyn StateStore) -> Result<()> {
        let keys = self.counters();
        let stored = state.get_many(&keys)?;
        let changes = self.scope.tally.take_changes();
        let (mut puts, mut counts, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        self.entries = 0;
        for (at, change) in changes.into_iter().enumerate() {
            let before = if stored.is_null(at) { 0 } else { counter(stored.value(at))? };
            let count = before.saturating_add_signed(change);
            self.entries += count;
            match (count == before, count) {
                (true, _) => {}
                (false, 0) => deletes.push(keys.value(at)),
                (false, _) => {
                    puts.push(keys.value(at));
                    counts.push(count.to_be_bytes());
                }
            }
        }
        if !deletes.is_empty() {
            state.delete_many(&BinaryArray::from_iter_values(deletes))?;
        }
        if !puts.is_empty() {
            let counts = BinaryArray::from_iter_values(counts);
            state.put_many(&BinaryArray::from_iter_values(puts), &counts)?;
        }
        Ok(())
    }

    /// By processing time nobody tells when a timer is due but the timer.
    fn find_next_timer(&mut self, state: &dyn StateStore) -> Result<()> {
        if self.config.transform.time_mode != TimeMode::ProcessingTime {
            return Ok(());
        }
        for group in self.info.groups.groups() {
            let first = state.scan(&layout::due(group, i64::MAX), 1)?.keys;
            for timer in first.iter().flatten() {
                let time = Some(BatchTime(layout::parse_timer(timer)?.0));
                self.next_timer = [self.next_timer, time].into_iter().flatten().min();
            }
        }
        Ok(())
    }

    /// Does the next piece of work; says whether there is more.
    fn step(&mut self, state: &mut dyn StateStore) -> Result<bool> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Input => self.phase = Phase::Input,
            Phase::Rows(mut handfuls) => {
                self.phase = match handfuls.next()? {
                    Some(handful) => {
                        self.handle_rows(&handful, state)?;
                        Phase::Rows(handfuls)
                    }
                    None => {
                        self.scope.timers.start_firing();
                        Phase::Timers(Due::new(&self.info, self.scope.timers.due_ms(), state)?)
                    }
                };
                return Ok(true);
            }
            Phase::Timers(mut due) => {
                let next = due.take(BLOCK_KEYS, state)?;
                self.phase = match next.is_empty() {
                    true => Phase::Expiry,
                    false => {
                        self.handle_timers(&next, state)?;
                        Phase::Timers(due)
                    }
                };
                return Ok(true);
            }
            Phase::Expiry => {
                self.expire(state)?;
                self.count_entries(state)?;
                self.find_next_timer(state)?;
            }
            Phase::Done => {}
        }
        Ok(false)
    }

    fn note(&mut self, state: &dyn StateStore) {
        self.counts.rows_total = self.entries;
        self.counts.rows_updated = self.scope.tally.updated;
        self.counts.rows_removed = self.scope.tally.removed;
        self.counts.memory_bytes = state.size().memory_bytes;
    }
}

/// A handler's error, with its kind and condition if it is one of ours.
fn failed(key: &Key<'_>, error: HandlerError) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours.at(format_args!("key ({key})")),
        Err(other) => {
            user_error(format!("the processor failed at key ({key}): {other}")).with_source(other)
        }
    }
}

fn user_error(message: String) -> Error {
    Error::invalid(message).with_condition("STATEFUL_PROCESSOR_USER_FUNCTION_ERROR")
}

fn counter(bytes: &[u8]) -> Result<u64> {
    let bytes = bytes.first_chunk().ok_or_else(|| Error::corrupt("a counter of entries is cut"))?;
    Ok(u64::from_be_bytes(*bytes))
}

impl OperatorRun for Run {
    fn push(&mut self, port: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        let config = Arc::clone(&self.config);
        match (port, &config.initial) {
            (0, _) => {
                let rows = self.on_time(rows)?;
                self.group(&rows, &config.rows, 0)
            }
            (1, Some(_)) if self.info.batch != BatchId::FIRST => {
                self.counts.rows.after_start += rows.num_rows() as u64;
                Ok(())
            }
            (1, Some(schema)) => self.group(&rows, schema, 1),
            _ => Err(Error::invalid(format!("a processor has no port {port}"))),
        }
    }

    fn prefetch(&self) -> Result<Prefetch> {
        let transform = &self.config.transform;
        if transform.time_mode != TimeMode::None || !transform.deleted.is_empty() {
            // Whose timers are due is known only when they are read, so all may be needed.
            return Ok(Prefetch::Ranges(vec![KeyRange::all()]));
        }
        let mut all = vec![Prefetch::Keys(self.counters())];
        for keys in self.input.keys().chain(self.initial.keys()) {
            for variable in &transform.variables {
                let keys = layout::variables(variable.id, &keys);
                all.push(Prefetch::Ranges(keys.iter().flatten().map(KeyRange::prefix).collect()));
            }
        }
        Ok(Prefetch::Each(all))
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.delete_variables(state)?;
        self.handle_initial(state)?;
        let input = std::mem::take(&mut self.input);
        self.phase = Phase::Rows(input.into_handfuls()?);
        // All input comes before anything fires; what it emits waits.
        while matches!(self.phase, Phase::Rows(_)) {
            self.step(state)?;
        }
        self.note(state);
        Ok(())
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        while self.scope.output.is_empty() && self.step(state)? {}
        self.note(state);
        Ok(self.scope.output.next(self.info.batch_rows.max(1)))
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        self.late.take()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }

    fn next_timer(&self) -> Option<BatchTime> {
        self.next_timer
    }

    fn metrics(&self) -> BTreeMap<&'static str, u64> {
        let mut metrics: BTreeMap<&'static str, u64> = METRICS.iter().map(|n| (*n, 0)).collect();
        let mut add = |name, count| *metrics.entry(name).or_default() += count;
        let timers = &self.scope.timers.counts;
        add("numRegisteredTimers", timers.registered);
        add("numDeletedTimers", timers.deleted);
        add("numExpiredTimers", timers.expired);
        add("numValuesRemovedDueToTTLExpiry", self.expired);
        for variable in &self.config.transform.variables {
            add(
                match (variable.kind, variable.ttl_ms.is_some()) {
                    (Kind::Value, false) => "numValueStateVars",
                    (Kind::Value, true) => "numValueStateWithTTLVars",
                    (Kind::List, false) => "numListStateVars",
                    (Kind::List, true) => "numListStateWithTTLVars",
                    (Kind::Map, false) => "numMapStateVars",
                    (Kind::Map, true) => "numMapStateWithTTLVars",
                },
                1,
            );
        }
        metrics
    }
}
