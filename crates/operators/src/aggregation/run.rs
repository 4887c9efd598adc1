//! One batch of an aggregation on one partition: from rows to state.

use super::Config;
use super::accumulators::{Accumulators, States};
use super::blocks::{Block, Blocks};
use super::groups::Groups;
use super::keys::GroupKeys;
use super::output::{Output, Touched, expired_ranges};
use crate::event_time::late_watermark;
use crate::late_gate::LateGate;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch};
use arrow::compute::{filter, is_not_null};
use fluvial_core::{
    BatchInfo, Error, KeyRange, LateBatch, OperatorCounts, OperatorRun, OutputMode, Prefetch,
    Result, StateStore,
};
use fluvial_state::ValueCodec;
use std::sync::Arc;

/// Groups that are looked up to see whether groups are new.
const PROBED: usize = 256;

/// The codecs of one run.
pub(super) struct Codecs {
    pub(super) keys: GroupKeys,
    pub(super) values: ValueCodec,
}

pub(super) struct Run {
    config: Arc<Config>,
    info: BatchInfo,
    codecs: Codecs,
    late: LateGate,
    blocks: Blocks,
    groups: Groups,
    accumulators: Accumulators,
    /// The groups of the rows of a block: kept for its memory.
    numbers: Vec<usize>,
    counts: OperatorCounts,
    output: Output,
}

impl Run {
    pub(super) fn new(config: &Arc<Config>, info: BatchInfo) -> Result<Self> {
        Ok(Self {
            config: Arc::clone(config),
            info,
            codecs: Codecs { keys: config.keys(info.key_groups)?, values: config.value_codec()? },
            late: LateGate::new(late_watermark(info.mode, info.late), info.late_rows),
            blocks: Blocks::default(),
            groups: Groups::default(),
            accumulators: Accumulators::new(&config.aggregates)?,
            numbers: Vec::new(),
            counts: OperatorCounts::default(),
            output: Output::Nothing,
        })
    }

    /// The rows that are not late. Normally all: a filter below the partial aggregation has
    /// dropped the others. What is counted here are groups of rows.
    fn on_time(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        self.late.on_time(0, rows, self.config.event_time.column(), &mut self.counts.rows)
    }

    fn merge(&mut self, block: &Block) -> Result<()> {
        let (keys, states) = block.columns.split_at(self.config.groups.len());
        let keys = self.codecs.keys.encode(keys, block.rows)?;
        self.numbers.clear();
        self.groups.intern(&keys, &mut self.numbers)?;
        self.counts.rows.kept += self.numbers.len() as u64;
        self.accumulators.merge(states, &self.numbers, self.groups.len())
    }

    /// Stores what the batch added to the touched groups, over what is stored of them.
    fn write(&mut self, state: &mut dyn StateStore) -> Result<Touched> {
        let total = self.groups.len();
        let keys = std::mem::take(&mut self.groups).into_keys();
        let empty = Accumulators::new(&self.config.aggregates)?;
        let mut accumulators = std::mem::replace(&mut self.accumulators, empty);
        let new = self.info.mode == OutputMode::Append && are_new(&keys, state)?;
        if !new {
            accumulators.merge_older(&self.older(&keys, state)?, total)?;
        }
        let states = accumulators.into_states()?;
        let mut first = 0;
        for chunk in &keys {
            let columns: Vec<ArrayRef> =
                states.iter().map(|column| column.slice(first, chunk.len())).collect();
            let values = self.codecs.values.encode(&columns, chunk.len())?;
            match new {
                true => self.write_new(chunk, &columns, &values, state)?,
                false => state.put_many(chunk, &values)?,
            }
            first += chunk.len();
        }
        self.counts.rows_updated += total as u64;
        Ok(Touched::new(keys, states))
    }

    /// The stored states of groups.
    fn older(&self, keys: &[BinaryArray], state: &dyn StateStore) -> Result<Vec<States>> {
        let mut older = Vec::new();
        let mut first = 0;
        for chunk in keys {
            let found = state.get_many(chunk)?;
            if found.null_count() < found.len() {
                let groups = (0..found.len()).filter(|&i| found.is_valid(i)).map(|i| first + i);
                let present = filter(&found, &is_not_null(&found)?)?;
                let columns = self.codecs.values.decode(present.as_binary())?;
                older.push(States { columns, groups: groups.collect() });
            }
            first += chunk.len();
        }
        Ok(older)
    }

    /// Stores groups that are new, but for a few: to look and to write is one.
    fn write_new(
        &self,
        keys: &BinaryArray,
        newer: &[ArrayRef],
        values: &BinaryArray,
        state: &mut dyn StateStore,
    ) -> Result<()> {
        let written = state.put_absent(keys, values)?;
        let known = BooleanArray::new(!&written, None);
        let count = known.true_count();
        if count == 0 {
            return Ok(());
        }
        let keys = filter(keys, &known)?;
        let newer: Vec<ArrayRef> =
            newer.iter().map(|column| filter(column, &known)).collect::<Result<_, _>>()?;
        let older = self.codecs.values.decode(&state.get_many(keys.as_binary())?)?;
        let groups: Vec<usize> = (0..count).collect();
        let mut both = Accumulators::new(&self.config.aggregates)?;
        both.merge(&older, &groups, count)?;
        both.merge(&newer, &groups, count)?;
        state.put_many(keys.as_binary(), &self.codecs.values.encode(&both.into_states()?, count)?)
    }

    fn note_size(&mut self, state: &dyn StateStore) {
        let size = state.size();
        self.counts.rows_total = size.rows;
        self.counts.memory_bytes = size.memory_bytes;
    }
}

/// Whether most groups seem to have no stored state.
fn are_new(keys: &[BinaryArray], state: &dyn StateStore) -> Result<bool> {
    let Some(first) = keys.first() else { return Ok(true) };
    let some = first.slice(0, first.len().min(PROBED));
    let found = state.get_many(&some)?;
    Ok(found.null_count() > some.len() / 2)
}

impl OperatorRun for Run {
    fn push(&mut self, port: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        if port != 0 || rows.num_columns() != self.config.input.fields().len() {
            return Err(Error::invalid(format!(
                "an aggregation takes {} columns at port 0, not {} at port {port}",
                self.config.input.fields().len(),
                rows.num_columns()
            )));
        }
        let rows = self.on_time(rows)?;
        self.blocks.push(rows);
        while let Some(block) = self.blocks.next_full()? {
            self.merge(&block)?;
        }
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        let mut all: Vec<Prefetch> = self.groups.keys().map(Prefetch::Keys).collect();
        for rows in self.blocks.waiting() {
            let keys = &rows.columns()[..self.config.groups.len()];
            all.push(Prefetch::Keys(self.codecs.keys.encode(keys, rows.num_rows())?));
        }
        all.push(match self.info.mode {
            OutputMode::Complete => Prefetch::Ranges(vec![KeyRange::all()]),
            OutputMode::Append | OutputMode::Update => {
                Prefetch::Ranges(expired_ranges(&self.config, &self.codecs, &self.info))
            }
        });
        Ok(Prefetch::Each(all))
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        if let Some(block) = self.blocks.rest()? {
            self.merge(&block)?;
        }
        let touched = if self.groups.len() > 0 { Some(self.write(state)?) } else { None };
        let expired = expired_ranges(&self.config, &self.codecs, &self.info);
        self.output = match (self.info.mode, touched) {
            (OutputMode::Append, _) => Output::Expired(expired.into()),
            (OutputMode::Complete, _) => Output::All(KeyRange::all()),
            (OutputMode::Update, touched) => {
                self.counts.rows_removed += state.delete_ranges(&expired)?;
                touched.map_or(Output::Nothing, Output::Touched)
            }
        };
        self.note_size(state);
        Ok(())
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        let rows = self.info.batch_rows.max(1);
        let piece = self.output.next(&self.config, &self.codecs, rows, state)?;
        self.counts.rows_removed += piece.removed;
        if piece.rows.is_none() {
            self.note_size(state);
        }
        Ok(piece.rows)
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        self.late.take()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}
