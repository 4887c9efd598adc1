//! What an aggregation emits, in batches of bounded size, and what it removes meanwhile.

use super::Config;
use super::accumulators::Accumulators;
use super::run::Codecs;
use crate::event_time::EventTimeKey;
use arrow::array::{Array, ArrayRef, BinaryArray, RecordBatch};
use fluvial_core::{BatchInfo, Entries, KeyRange, OutputMode, Result, StateStore};
use std::collections::VecDeque;
use std::sync::Arc;

/// The output that is still to come.
pub(super) enum Output {
    /// None, or none before all input is there.
    Nothing,
    /// Append: the groups of these ranges, which are removed as they leave.
    Expired(VecDeque<KeyRange>),
    /// Update: the groups that the batch touched.
    Touched(Touched),
    /// Complete: every group of this range.
    All(KeyRange),
}

/// Groups that a batch touched and their states, from group `at` on.
pub(super) struct Touched {
    keys: VecDeque<BinaryArray>,
    states: Vec<ArrayRef>,
    at: usize,
}

impl Touched {
    pub(super) fn new(keys: Vec<BinaryArray>, states: Vec<ArrayRef>) -> Self {
        Self { keys: keys.into(), states, at: 0 }
    }

    /// The keys and states of the next groups, at most `limit`.
    fn next(&mut self, limit: usize) -> Option<(BinaryArray, Vec<ArrayRef>)> {
        let chunk = self.keys.pop_front()?;
        let rows = chunk.len().min(limit);
        if rows < chunk.len() {
            self.keys.push_front(chunk.slice(rows, chunk.len() - rows));
        }
        let states = self.states.iter().map(|column| column.slice(self.at, rows)).collect();
        self.at += rows;
        Some((chunk.slice(0, rows), states))
    }
}

/// A piece of output, and how many groups were removed for it.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) rows: Option<RecordBatch>,
    pub(super) removed: u64,
}

/// What the watermark has passed: one range per key group.
pub(super) fn expired_ranges(config: &Config, codecs: &Codecs, info: &BatchInfo) -> Vec<KeyRange> {
    let Some(until) = info.evict.0 else { return Vec::new() };
    if config.event_time == EventTimeKey::None || info.mode == OutputMode::Complete {
        return Vec::new();
    }
    info.groups.groups().map(|group| codecs.keys.expired(group, until)).collect()
}

impl Output {
    /// The next rows, at most `limit`.
    pub(super) fn next(
        &mut self,
        config: &Config,
        codecs: &Codecs,
        limit: usize,
        state: &mut dyn StateStore,
    ) -> Result<Piece> {
        let piece = match self {
            Self::Nothing => Piece::default(),
            Self::Expired(ranges) => take_expired(ranges, config, codecs, limit, state)?,
            Self::Touched(touched) => {
                let next = touched.next(limit);
                let rows = next.map(|(keys, states)| evaluate(config, codecs, &keys, &states));
                Piece { rows: rows.transpose()?, removed: 0 }
            }
            Self::All(range) => {
                let entries = state.scan(range, limit)?;
                if let Some(last) = last_key(&entries) {
                    *range = range.after(last);
                }
                Piece { rows: evaluate_entries(config, codecs, &entries)?, removed: 0 }
            }
        };
        if piece.rows.is_none() {
            *self = Self::Nothing;
        }
        Ok(piece)
    }
}

fn last_key(entries: &Entries) -> Option<&[u8]> {
    entries.keys.len().checked_sub(1).map(|last| entries.keys.value(last))
}

/// Reads the first groups of the ranges, over as many ranges as it takes, and removes them.
fn take_expired(
    ranges: &mut VecDeque<KeyRange>,
    config: &Config,
    codecs: &Codecs,
    limit: usize,
    state: &mut dyn StateStore,
) -> Result<Piece> {
    let entries = state.scan_ranges(ranges.make_contiguous(), limit)?;
    let last = last_key(&entries).filter(|_| entries.keys.len() == limit);
    let (mut read, mut rest) = (Vec::new(), None);
    while rest.is_none()
        && let Some(range) = ranges.pop_front()
    {
        read.push(match last.filter(|last| range.contains(last)) {
            None => range,
            Some(last) => {
                let after = range.after(last);
                let end = after.start.clone();
                rest = Some(after);
                KeyRange { start: range.start, end }
            }
        });
    }
    if let Some(rest) = rest {
        ranges.push_front(rest);
    }
    let removed = state.delete_ranges(&read)?;
    Ok(Piece { rows: evaluate_entries(config, codecs, &entries)?, removed })
}

/// The output rows of stored groups; `None` if there are none.
fn evaluate_entries(
    config: &Config,
    codecs: &Codecs,
    entries: &Entries,
) -> Result<Option<RecordBatch>> {
    if entries.keys.is_empty() {
        return Ok(None);
    }
    evaluate(config, codecs, &entries.keys, &codecs.values.decode(&entries.values)?).map(Some)
}

/// The output rows of groups, given their states.
fn evaluate(
    config: &Config,
    codecs: &Codecs,
    keys: &BinaryArray,
    states: &[ArrayRef],
) -> Result<RecordBatch> {
    // Decoded rather than remembered: state has keys in their normal form, so a group looks the
    // same in every mode and batch.
    let mut columns = codecs.keys.decode(keys)?;
    let mut accumulators = Accumulators::new(&config.aggregates)?;
    let groups: Vec<usize> = (0..keys.len()).collect();
    accumulators.merge(states, &groups, keys.len())?;
    columns.extend(accumulators.into_results()?);
    Ok(RecordBatch::try_new(Arc::clone(&config.output), columns)?)
}
