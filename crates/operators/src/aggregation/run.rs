//! One batch of an aggregation on one partition: from rows to state.

use super::Config;
use super::blocks::{Block, Blocks};
use super::collected::Collected;
use super::keys::GroupKeys;
use super::output::{Output, Touched, expired_ranges};
use crate::event_time::late_watermark;
use crate::late_gate::LateGate;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch};
use arrow::compute::filter;
use fluvial_core::{
    BatchInfo, Error, KeyRange, LateBatch, OperatorCounts, OperatorRun, OutputMode, Prefetch,
    Result, StateStore,
};
use fluvial_state::ValueCodec;
use std::sync::Arc;

/// Groups of the first rows that are looked for, to see whether most are new.
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
    /// Whether groups without state are written as they come; unknown before the first rows.
    writes_new: Option<bool>,
    /// Rows of groups that have a state: their keys and states. Together, because to look for a
    /// few keys costs as much as to look for many.
    known: Blocks,
    collected: Collected,
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
            writes_new: None,
            known: Blocks::default(),
            collected: Collected::new(&config.aggregates)?,
            counts: OperatorCounts::default(),
            output: Output::Nothing,
        })
    }

    /// The rows that are not late. Normally all: a filter below the partial aggregation has
    /// dropped the others. What is counted here are groups of rows.
    fn on_time(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        self.late.on_time(0, rows, self.config.event_time.column(), &mut self.counts.rows)
    }

    /// Takes a block in: new groups go into the state where they can, all others wait.
    fn merge(&mut self, block: &Block, state: &mut dyn StateStore) -> Result<()> {
        let (keys, states) = block.columns.split_at(self.config.groups.len());
        let keys = self.codecs.keys.encode(keys, block.rows)?;
        self.counts.rows.kept += block.rows as u64;
        let writes_new = match self.writes_new {
            Some(known) => known,
            None => *self.writes_new.insert(self.should_write_new(&keys, state)?),
        };
        if !writes_new {
            return self.collected.add(&keys, states);
        }
        let values = self.codecs.values.encode(states, block.rows)?;
        let written = state.put_absent(&keys, &values)?;
        let count = written.count_set_bits();
        self.counts.rows_updated += count as u64;
        if count == block.rows {
            return Ok(());
        }
        let rest = BooleanArray::new(!&written, None);
        let keys: ArrayRef = Arc::new(keys);
        let columns = std::iter::once(&keys).chain(states).map(|column| filter(column, &rest));
        let columns = columns.collect::<Result<_, _>>()?;
        self.known.push(RecordBatch::try_new(Arc::clone(&self.config.stored), columns)?);
        while let Some(block) = self.known.next_full()? {
            self.add_known(&block, state)?;
        }
        Ok(())
    }

    fn add_known(&mut self, block: &Block, state: &dyn StateStore) -> Result<()> {
        let (keys, states) = block.columns.split_at(1);
        self.collected.add_known(keys[0].as_binary(), states, &self.codecs.values, state)
    }

    /// Whether groups that have no state should be written as they come: in append mode, if most of
    /// the first are new. The other modes ask for all groups that a batch touched, or have few.
    fn should_write_new(&self, keys: &BinaryArray, state: &dyn StateStore) -> Result<bool> {
        let some = keys.slice(0, keys.len().min(PROBED));
        if self.info.mode != OutputMode::Append || !state.is_local() {
            return Ok(false);
        }
        if state.get_new_many(&some.slice(0, 0))?.is_none() {
            return Ok(false);
        }
        Ok(state.get_many(&some)?.null_count() > some.len() / 2)
    }

    /// Stores what the batch added to the groups that wait, over what is stored of them.
    fn write(&mut self, state: &mut dyn StateStore) -> Result<Touched> {
        let empty = Collected::new(&self.config.aggregates)?;
        let collected = std::mem::replace(&mut self.collected, empty);
        let (keys, states, new) = collected.over_stored(&self.codecs.values, state)?;
        let mut first = 0;
        for chunk in &keys {
            let columns: Vec<ArrayRef> =
                states.iter().map(|column| column.slice(first, chunk.len())).collect();
            let values = self.codecs.values.encode(&columns, chunk.len())?;
            state.put_many(chunk, &values)?;
            first += chunk.len();
        }
        self.counts.rows_updated += new as u64;
        Ok(Touched::new(keys, states))
    }

    fn note_size(&mut self, state: &dyn StateStore) {
        let size = state.size();
        self.counts.rows_total = size.rows;
        self.counts.memory_bytes = size.memory_bytes;
    }
}

impl OperatorRun for Run {
    fn push(&mut self, port: usize, rows: RecordBatch, state: &mut dyn StateStore) -> Result<()> {
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
            self.merge(&block, state)?;
        }
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        let mut all: Vec<Prefetch> = self.collected.keys().map(Prefetch::Keys).collect();
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
            self.merge(&block, state)?;
        }
        if let Some(block) = self.known.rest()? {
            self.add_known(&block, state)?;
        }
        let touched = if !self.collected.is_empty() { Some(self.write(state)?) } else { None };
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
