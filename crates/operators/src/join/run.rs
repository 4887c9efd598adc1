//! One batch of a join on one partition.

use super::Config;
use super::JoinEviction;
use super::arrived::{Arrived, number};
use super::counts::Counts;
use super::distinct::{Distinct, Keys};
use super::evict::{Around, Evict};
use super::keys::pages_of;
use super::kind::{JoinKind, Side};
use super::leaving::Leaving;
use super::matching::{Candidates, Matching, probed};
use super::paged::Paged;
use super::settle::{Settle, last_keys};
use super::side::holds;
use super::stored::{Stored, first_keys};
use crate::event_time::{event_times, late_watermark};
use crate::late_gate::LateGate;
use arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{and, concat_batches, filter_record_batch, not, take};
use fluvial_core::{
    BatchInfo, Error, KeyGroupRange, LateBatch, OperatorCounts, OperatorRun, Prefetch, Result,
    StateStore,
};
use fluvial_state::{KeyCodec, ValueCodec};
use std::sync::Arc;

/// How far a batch has come.
enum Stage {
    /// Rows come.
    Input,
    /// All rows came; what waits for them is not in columns yet. The keys are those of chunks that
    /// eviction will read.
    Ready(Box<Matching>, Vec<BinaryArray>),
    /// Pairs come out.
    Pairs(Box<Matching>),
    /// Rows leave.
    Evict(Evict),
    Done,
}

pub(super) struct Run {
    config: Arc<Config>,
    info: BatchInfo,
    keys: KeyCodec,
    values: [ValueCodec; 2],
    late: LateGate,
    input: [Vec<RecordBatch>; 2],
    leaving: Leaving,
    groups: Counts,
    counts: OperatorCounts,
    stage: Stage,
}

impl Run {
    pub(super) fn new(config: &Arc<Config>, info: BatchInfo) -> Result<Self> {
        let groups: KeyGroupRange = info.groups;
        Ok(Self {
            config: Arc::clone(config),
            info,
            keys: config.key_codec(info.key_groups)?,
            values: config.value_codecs()?,
            late: LateGate::new(late_watermark(info.mode, info.late), info.late_rows),
            input: [Vec::new(), Vec::new()],
            leaving: Leaving::default(),
            groups: Counts::new(groups),
            counts: OperatorCounts::default(),
            stage: Stage::Input,
        })
    }

    /// The rows that may match or must wait. One that fails the condition on its side alone
    /// matches nothing: it comes out at once, or not at all.
    fn admitted(&mut self, side: Side, rows: RecordBatch) -> Result<RecordBatch> {
        let (width, preserved) = (self.config.side(side).width, self.config.kind.preserves(side));
        let mut rows = rows;
        if let Some(expr) = &self.config.side(side).filter {
            let own = rows.project(&(0..width).collect::<Vec<_>>())?;
            let mask = holds(expr.as_ref(), &own)?;
            let fail = (mask.len() - mask.true_count()) as u64;
            match preserved {
                true => self.counts.rows.emitted += fail,
                false => self.counts.rows.filtered += fail,
            }
            if preserved && fail > 0 {
                let failed = filter_record_batch(&own, &not(&mask)?)?;
                let columns = failed.columns().to_vec();
                self.leaving.push(&self.config, side, columns, failed.num_rows())?;
            }
            rows = filter_record_batch(&rows, &mask)?;
        }
        if preserved {
            return Ok(rows);
        }
        match self.null_keys(side, rows.columns(), rows.num_rows())? {
            Some(nulls) => {
                self.counts.rows.null_key += nulls.true_count() as u64;
                Ok(filter_record_batch(&rows, &not(&nulls)?)?)
            }
            None => Ok(rows),
        }
    }

    /// Which rows have a key that matches nothing; `None` if there are none.
    fn null_keys(
        &self,
        side: Side,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<Option<BooleanArray>> {
        let keys = &self.config.side(side).keys;
        let mut valid: Option<BooleanArray> = None;
        for (key, null_safe) in keys.iter().zip(&self.config.null_safe) {
            let Some(nulls) = columns[*key].logical_nulls().filter(|n| n.null_count() > 0) else {
                continue;
            };
            if *null_safe {
                continue;
            }
            let own: BooleanBuffer = nulls.inner().clone();
            let own = BooleanArray::new(own, None);
            valid = Some(match valid {
                Some(others) => and(&others, &own)?,
                None => own,
            });
        }
        let nulls = valid.map(|valid| not(&valid)).transpose()?;
        Ok(nulls.filter(|nulls| nulls.len() == rows && nulls.true_count() > 0))
    }

    /// The rows that came of both sides by group, and their keys, numbered.
    fn arrange(&self) -> Result<(Distinct, [Arrived; 2], [Vec<u32>; 2])> {
        let sides = [self.arrived(Side::Left)?, self.arrived(Side::Right)?];
        let (mut times, mut nulls) = ([None, None], [None, None]);
        for side in Side::BOTH {
            let (at, rows) = (side.index(), &sides[side.index()]);
            let config = self.config.side(side);
            if let JoinEviction::Key(key) = config.eviction {
                times[at] = Some(event_times(rows.columns[config.keys[key]].as_ref())?);
            }
            nulls[at] = self.null_keys(side, &rows.columns, rows.keys.len())?;
        }
        let keys = Side::BOTH.map(|side| Keys {
            keys: &sides[side.index()].keys,
            times: times[side.index()].as_ref(),
            nulls: nulls[side.index()].as_ref(),
        });
        let (distinct, numbers) = number(&sides, &keys)?;
        Ok((distinct, sides, numbers))
    }

    /// All rows of a side.
    fn arrived(&self, side: Side) -> Result<Arrived> {
        let config = self.config.side(side);
        let rows = match self.input[side.index()].as_slice() {
            [rows] => rows.clone(),
            batches => concat_batches(&config.input, batches)?,
        };
        let keys: Vec<ArrayRef> =
            config.keys.iter().map(|key| Arc::clone(rows.column(*key))).collect();
        let encoded = self.keys.encode(&keys, None, rows.num_rows())?;
        Arrived::new(&rows, encoded, self.info.groups)
    }

    fn gather(&mut self, state: &dyn StateStore) -> Result<Matching> {
        let (keys, arrived, numbers) = self.arrange()?;
        self.input = [Vec::new(), Vec::new()];
        let mut sides = [Candidates::default(), Candidates::default()];
        for ((side, rows), numbers) in Side::BOTH.into_iter().zip(arrived).zip(numbers) {
            let config = self.config.side(side);
            let extra = config.keys.iter().filter(|key| **key >= config.width);
            let candidates = &mut sides[side.index()];
            candidates.numbers = numbers;
            candidates.starts = rows.starts;
            candidates.extra = extra.map(|key| Arc::clone(&rows.columns[*key])).collect();
            candidates.columns = rows.columns;
            candidates.columns.truncate(config.width);
        }
        for side in Side::BOTH {
            let (at, other) = (side.index(), side.other().index());
            if self.config.is_paged(side) {
                let mut paged = Paged::read(&self.config, &self.info, side, state)?;
                paged.want(&self.config, &keys, &sides[other]);
                paged.expect(&self.config, &keys, &sides[at]);
                sides[at].paged = Some(paged);
                continue;
            }
            let probed = probed(&keys, &sides[other].numbers);
            let unmatched = self.config.kind == JoinKind::LeftSemi && side == Side::Left;
            sides[at].stored = Stored::read_first(side, &keys, &probed, unmatched, state)?;
        }
        Ok(Matching::new(keys, sides))
    }

    /// Writes what the batch changes, and begins to evict.
    fn settle(&mut self, matching: &Matching, state: &mut dyn StateStore) -> Result<()> {
        for side in Side::BOTH {
            let rows = &matching.sides[side.index()];
            let (config, info, keys) = (&self.config, &self.info, &matching.keys);
            let settle = Settle { config, info, side, keys, rows };
            let codec = &self.values[side.index()];
            let leaving = settle.write(codec, state, &mut self.groups, &mut self.counts)?;
            let columns = rows.new_columns();
            let columns = columns.iter().map(|column| Ok(take(column, &leaving, None)?));
            let columns = columns.collect::<Result<_>>()?;
            self.leaving.push(&self.config, side, columns, leaving.len())?;
        }
        self.stage = Stage::Evict(Evict::new(&self.config, &self.info));
        Ok(())
    }

    /// Takes some rows out of the state.
    fn evict(&mut self, mut evict: Evict, state: &mut dyn StateStore) -> Result<()> {
        let mut around = Around {
            config: &self.config,
            info: &self.info,
            codecs: &self.values,
            groups: &mut self.groups,
            counts: &mut self.counts,
            leaving: &mut self.leaving,
        };
        if evict.step(&mut around, state)? {
            self.stage = Stage::Evict(evict);
            return Ok(());
        }
        self.counts.rows_total = self.groups.write(state)?;
        self.counts.memory_bytes = state.size().memory_bytes;
        Ok(())
    }

    /// What `finish_input` will read.
    fn first_reads(&self) -> Result<Prefetch> {
        let (keys, ..) = self.arrange()?;
        let mut all = vec![Prefetch::Keys(self.groups.keys()?)];
        for side in Side::BOTH {
            all.push(Prefetch::Keys(match self.config.is_paged(side) {
                true => pages_of(side).ledger_keys(self.info.groups)?,
                false => first_keys(side, &keys, 0..keys.len())?,
            }));
        }
        let evict = Evict::new(&self.config, &self.info);
        all.push(Prefetch::Ranges(evict.ranges().cloned().collect()));
        Ok(Prefetch::Each(all))
    }
}

impl OperatorRun for Run {
    fn push(&mut self, port: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        let side = Side::of_port(port)
            .filter(|side| rows.num_columns() == self.config.side(*side).input.fields().len());
        let Some(side) = side else {
            let [left, right] = self.config.sides.each_ref().map(|s| s.input.fields().len());
            return Err(Error::invalid(format!(
                "a join takes {left} columns at port 0 and {right} at port 1, not {} at port {port}",
                rows.num_columns()
            )));
        };
        let time = self.config.side(side).event_time;
        let rows = self.late.on_time(port, rows, time, &mut self.counts.rows)?;
        let rows = self.admitted(side, rows)?;
        if rows.num_rows() > 0 {
            self.input[side.index()].push(rows);
        }
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        match &self.stage {
            Stage::Input => self.first_reads(),
            Stage::Ready(matching, evicting) => {
                let mut all: Vec<BinaryArray> = evicting.clone();
                for side in Side::BOTH {
                    let rows = &matching.sides[side.index()];
                    all.extend(rows.stored.more_keys(side, &matching.keys)?);
                    all.extend(rows.paged.as_ref().map(Paged::reads).transpose()?);
                    all.extend(last_keys(side, &matching.keys, rows)?);
                }
                Ok(Prefetch::Each(all.into_iter().map(Prefetch::Keys).collect()))
            }
            Stage::Pairs(_) | Stage::Evict(_) | Stage::Done => Ok(Prefetch::Nothing),
        }
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        let matching = self.gather(state)?;
        let evicting = match state.is_local() {
            true => Vec::new(),
            false => {
                Evict::new(&self.config, &self.info).chunk_keys(&self.config, &self.info, state)?
            }
        };
        self.stage = Stage::Ready(Box::new(matching), evicting);
        Ok(())
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        let limit = self.info.batch_rows.max(1);
        loop {
            if let Some(rows) = self.leaving.next(limit) {
                return Ok(Some(rows));
            }
            match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::Input => {
                    self.stage = Stage::Input;
                    return Ok(None);
                }
                Stage::Ready(mut matching, _) => {
                    matching.load(&self.config, &self.values, &self.keys, state)?;
                    self.stage = Stage::Pairs(matching);
                }
                Stage::Pairs(mut matching) => match matching.next(&self.config, limit)? {
                    Some(rows) => {
                        self.stage = Stage::Pairs(matching);
                        return Ok(Some(rows));
                    }
                    None => self.settle(&matching, state)?,
                },
                Stage::Evict(evict) => self.evict(evict, state)?,
                Stage::Done => return Ok(None),
            }
        }
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        self.late.take()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}
