//! What an aggregation emits, in batches of bounded size, and what it removes meanwhile.

use super::Config;
use super::accumulators::Accumulators;
use super::run::Codecs;
use crate::event_time::EventTimeKey;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch};
use arrow::compute::concat;
use fluvial_core::{BatchInfo, Entries, KeyRange, OutputMode, Result, StateStore};
use std::collections::VecDeque;
use std::sync::Arc;

/// The output that is still to come.
pub(super) enum Output {
    /// None, or none before all input is there.
    Nothing,
    /// Append: the groups of these ranges, which are removed as they leave; then those that
    /// expired before they came into the state.
    Expired(VecDeque<KeyRange>, Touched),
    /// Update: the groups that the batch touched.
    Touched(Touched),
    /// Complete: every group of this range.
    All(KeyRange),
}

/// Groups that a batch touched, with their states, in chunks.
#[derive(Default)]
pub(super) struct Touched(VecDeque<Chunk>);

/// Some groups: their keys, and the columns of their states.
pub(super) struct Chunk {
    pub(super) keys: BinaryArray,
    pub(super) states: Vec<ArrayRef>,
}

impl Chunk {
    fn slice(&self, from: usize, rows: usize) -> Self {
        let states = self.states.iter().map(|column| column.slice(from, rows)).collect();
        Self { keys: self.keys.slice(from, rows), states }
    }
}

impl Touched {
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.0.push_back(chunk);
    }

    /// The next groups, at most `limit`.
    fn next(&mut self, limit: usize) -> Option<Chunk> {
        let chunk = self.0.pop_front()?;
        let (rows, all) = (chunk.keys.len().min(limit), chunk.keys.len());
        if rows == all {
            return Some(chunk);
        }
        self.0.push_front(chunk.slice(rows, all - rows));
        Some(chunk.slice(0, rows))
    }

    fn evaluate(&mut self, config: &Config, codecs: &Codecs, limit: usize) -> Result<Piece> {
        let rows = self.next(limit).map(|c| evaluate(config, codecs, &c.keys, &c.states));
        Ok(Piece { rows: rows.transpose()?, removed: 0 })
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

/// Which of `keys` lie in `ranges`, which are those of [`expired_ranges`].
pub(super) fn are_expired(keys: &BinaryArray, ranges: &[KeyRange]) -> BooleanArray {
    // The ranges of all key groups are the same but for the group in front.
    const GROUP_BYTES: usize = size_of::<u16>();
    let Some(range) = ranges.first() else { return BooleanArray::from(vec![false; keys.len()]) };
    let within = range.start.get(GROUP_BYTES..).zip(range.end.get(GROUP_BYTES..));
    let expired = |key: &[u8]| match (key.get(GROUP_BYTES..), within) {
        (Some(key), Some((start, end))) => start <= key && key < end,
        _ => false,
    };
    BooleanArray::from_iter(keys.iter().map(|key| Some(expired(key.unwrap_or_default()))))
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
            Self::Expired(ranges, touched) => {
                let piece = take_expired(ranges, config, codecs, limit, state)?;
                if piece.rows.is_some() {
                    piece
                } else {
                    touched.evaluate(config, codecs, limit)?
                }
            }
            Self::Touched(touched) => touched.evaluate(config, codecs, limit)?,
            Self::All(range) => {
                let entries = state.scan(range, limit)?;
                if let Some(last) = last_key(&entries) {
                    *range = range.after(last);
                }
                Piece { rows: evaluate_entries(config, codecs, &[entries])?, removed: 0 }
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
    let (mut found, mut rows, mut removed) = (Vec::new(), 0, 0);
    while rows < limit
        && let Some(range) = ranges.front_mut()
    {
        let entries = state.scan(range, limit - rows)?;
        let complete = entries.keys.len() < limit - rows;
        rows += entries.keys.len();
        if let Some(last) = last_key(&entries) {
            let rest = range.after(last);
            let read = match complete {
                true => range.clone(),
                false => KeyRange { start: range.start.clone(), end: rest.start.clone() },
            };
            removed += state.delete_range(&read)?;
            *range = rest;
            found.push(entries);
        }
        if complete {
            ranges.pop_front();
        }
    }
    Ok(Piece { rows: evaluate_entries(config, codecs, &found)?, removed })
}

/// The output rows of stored groups; `None` if there are none.
fn evaluate_entries(
    config: &Config,
    codecs: &Codecs,
    found: &[Entries],
) -> Result<Option<RecordBatch>> {
    let join = |arrays: Vec<&dyn Array>| concat(&arrays);
    let (keys, values) = match found {
        [] => return Ok(None),
        [one] => (one.keys.clone(), one.values.clone()),
        many => {
            let keys = join(many.iter().map(|e| &e.keys as &dyn Array).collect())?;
            let values = join(many.iter().map(|e| &e.values as &dyn Array).collect())?;
            (keys.as_binary::<i32>().clone(), values.as_binary::<i32>().clone())
        }
    };
    if keys.is_empty() {
        return Ok(None);
    }
    evaluate(config, codecs, &keys, &codecs.values.decode(&values)?).map(Some)
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
    let mut columns = codecs.keys.decode(keys)?.columns;
    let mut accumulators = Accumulators::new(&config.aggregates)?;
    let groups: Vec<usize> = (0..keys.len()).collect();
    accumulators.merge(states, &groups, keys.len())?;
    columns.extend(accumulators.into_results()?);
    Ok(RecordBatch::try_new(Arc::clone(&config.output), columns)?)
}
