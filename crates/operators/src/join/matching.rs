//! `Matching`: the pairs of a batch, a piece at a time.

use super::distinct::Distinct;
use super::kind::{JoinKind, Side};
use super::lists::Lists;
use super::paged::{Paged, Search};
use super::stored::Stored;
use super::{Config, JoinEviction};
use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
    UInt32Array,
};
use arrow::compute::{concat, filter, take};
use arrow::datatypes::{TimestampMicrosecondType, UInt32Type};
use fluvial_core::{Error, Result, StateStore};
use fluvial_state::{KeyCodec, ValueCodec};
use std::ops::Range;
use std::sync::Arc;

/// The rows of one side that may match in this batch: those that wait, then those that came.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) stored: Stored,
    /// What is stored in pages, if the rows of this side are.
    pub(super) paged: Option<Paged>,
    /// The columns of the rows that came; after [`Matching::load`] of all.
    pub(super) columns: Vec<ArrayRef>,
    /// The keys of the rows that came and are no column of them.
    pub(super) extra: Vec<ArrayRef>,
    /// Where the rows that came of each key group start.
    pub(super) starts: Vec<u32>,
    /// The keys of the rows that came.
    pub(super) numbers: Vec<u32>,
    /// Which rows have matched something, now or before.
    pub(super) matched: Vec<bool>,
    /// Which of those that came matched one that waits: a left semi join need not keep them.
    pub(super) matched_stored: Vec<bool>,
    old: Lists,
    new: Lists,
    times: Option<TimestampMicrosecondArray>,
}

impl Candidates {
    /// Rows that wait.
    pub(super) fn stored_rows(&self) -> usize {
        self.stored.numbers.len()
    }

    /// The columns of the rows that came.
    pub(super) fn new_columns(&self) -> Vec<ArrayRef> {
        let (start, rows) = (self.stored_rows(), self.numbers.len());
        self.columns.iter().map(|column| column.slice(start, rows)).collect()
    }

    /// The times of the rows that came, where they decide when these leave.
    pub(super) fn times_of(
        &self,
        config: &Config,
        side: Side,
    ) -> Option<TimestampMicrosecondArray> {
        let JoinEviction::Time { column, .. } = config.side(side).eviction else { return None };
        let all = self.columns.get(column)?.as_primitive_opt::<TimestampMicrosecondType>()?;
        let new = self.numbers.len();
        Some(all.slice(all.len().checked_sub(new)?, new))
    }

    /// Puts what waits, whose columns are `parts`, in front of what came.
    fn load(
        &mut self,
        parts: Vec<Vec<ArrayRef>>,
        keys: &Distinct,
        time: Option<usize>,
    ) -> Result<()> {
        let (old, new) = (self.stored_rows(), self.numbers.len());
        if u32::try_from(old + new).is_err() {
            return Err(Error::invalid(
                "over four billion rows of a join meet in one batch: use smaller batches",
            ));
        }
        if old > 0 {
            let new = self.columns.iter().enumerate();
            let both = new.map(|(at, new)| {
                let old = parts.iter().map(|part| part[at].as_ref());
                Ok(concat(&old.chain([new.as_ref()]).collect::<Vec<_>>())?)
            });
            self.columns = both.collect::<Result<_>>()?;
        }
        self.times = time
            .and_then(|column| self.columns.get(column))
            .and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>().cloned());
        let (old, new) = (old as u32, new as u32);
        let stored = &self.stored.numbers;
        let stored_key = |row: u32| Some(stored[row as usize]);
        self.old = Lists::new(keys.len(), 0..old, stored_key, self.times.as_ref());
        let numbers = &self.numbers;
        let new_key = |row: u32| {
            Some(numbers[(row - old) as usize]).filter(|number| keys.joins(*number as usize))
        };
        self.new = Lists::new(keys.len(), old..old + new, new_key, self.times.as_ref());
        self.matched.clone_from(&self.stored.matched);
        self.matched.resize((old + new) as usize, false);
        self.matched_stored.resize(new as usize, false);
        Ok(())
    }
}

/// Makes pairs key by key: new left rows with all right ones, old left rows with new right ones.
#[derive(Debug)]
pub(super) struct Matching {
    pub(super) keys: Distinct,
    /// By [`Side::index`].
    pub(super) sides: [Candidates; 2],
    cursor: Cursor,
}

/// Where the making of pairs stands.
#[derive(Debug, Default)]
struct Cursor {
    key: usize,
    /// The left row, among the old and the new ones of the key.
    left: usize,
    /// Whether the new right rows are being paired, rather than the old ones.
    new: bool,
    /// Which of them, once that is known.
    right: Option<Range<usize>>,
}

impl Matching {
    pub(super) fn new(keys: Distinct, sides: [Candidates; 2]) -> Self {
        Self { keys, sides, cursor: Cursor::default() }
    }

    /// Reads what was not read yet, and puts old and new rows side by side. What is read is found
    /// by numbers of `key_codec`'s keys.
    pub(super) fn load(
        &mut self,
        config: &Config,
        codecs: &[ValueCodec; 2],
        key_codec: &KeyCodec,
        state: &dyn StateStore,
    ) -> Result<()> {
        for side in Side::BOTH {
            let codec = &codecs[side.index()];
            let probed = self.probed(side);
            let candidates = &mut self.sides[side.index()];
            let parts = match &candidates.paged {
                Some(paged) => {
                    let (keys, probed) = (&self.keys, probed.as_slice());
                    let search = Search { config, keys, probed, key_codec, codec };
                    let found = paged.find(&search, state)?;
                    candidates.stored.matched = vec![false; found.numbers.len()];
                    candidates.stored.numbers = found.numbers;
                    found.parts
                }
                None => {
                    let unmatched = config.kind == JoinKind::LeftSemi && side == Side::Left;
                    candidates.stored.read_more(side, &self.keys, unmatched, state)?;
                    match candidates.stored_rows() {
                        0 => Vec::new(),
                        _ => vec![candidates.stored.decode(codec)?],
                    }
                }
            };
            let time = config.range.map(|range| match side {
                Side::Left => range.left,
                Side::Right => range.right,
            });
            candidates.load(parts, &self.keys, time)?;
        }
        Ok(())
    }

    /// Which keys the side opposite to `side` brings rows for that may match.
    pub(super) fn probed(&self, side: Side) -> Vec<bool> {
        probed(&self.keys, &self.sides[side.other().index()].numbers)
    }

    /// The next pairs that match, `limit` at most; `None` when there are no more.
    pub(super) fn next(&mut self, config: &Config, limit: usize) -> Result<Option<RecordBatch>> {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        loop {
            left.clear();
            right.clear();
            self.fill(config, limit, &mut left, &mut right);
            if left.is_empty() {
                return Ok(None);
            }
            let pairs =
                [&left, &right].map(|rows| UInt32Array::from_iter_values(rows.iter().copied()));
            let pairs = self.matching(config, pairs)?;
            let out = match config.kind {
                JoinKind::LeftSemi => self.once(&pairs),
                _ => {
                    self.mark(config, &pairs);
                    pairs
                }
            };
            if !out[0].is_empty() {
                return self.rows(config, &out).map(Some);
            }
        }
    }

    /// The pairs for which the condition holds.
    fn matching(&self, config: &Config, pairs: [UInt32Array; 2]) -> Result<[UInt32Array; 2]> {
        let Some(condition) = &config.condition else { return Ok(pairs) };
        let columns = condition.columns.iter().map(|(side, column)| {
            Ok(take(&self.sides[side.index()].columns[*column], &pairs[side.index()], None)?)
        });
        let mask = condition.holds(columns.collect::<Result<_>>()?, pairs[0].len())?;
        if mask.true_count() == mask.len() {
            return Ok(pairs);
        }
        let [left, right] = pairs;
        let kept = |rows: UInt32Array| -> Result<UInt32Array> {
            Ok(filter(&rows, &mask)?.as_primitive::<UInt32Type>().clone())
        };
        Ok([kept(left)?, kept(right)?])
    }

    /// Notes which rows matched.
    fn mark(&mut self, config: &Config, pairs: &[UInt32Array; 2]) {
        for side in Side::BOTH.into_iter().filter(|side| config.kind.flags(*side)) {
            let matched = &mut self.sides[side.index()].matched;
            pairs[side.index()].values().iter().for_each(|row| matched[*row as usize] = true);
        }
    }

    /// The left rows that match for the first time.
    fn once(&mut self, pairs: &[UInt32Array; 2]) -> [UInt32Array; 2] {
        let stored_right = self.sides[1].stored_rows() as u32;
        let left = &mut self.sides[0];
        let stored_left = left.stored_rows();
        let mut first = Vec::new();
        for (row, partner) in pairs[0].values().iter().zip(pairs[1].values()) {
            let at = *row as usize;
            if !std::mem::replace(&mut left.matched[at], true) {
                first.push(*row);
                if at >= stored_left && *partner < stored_right {
                    left.matched_stored[at - stored_left] = true;
                }
            }
        }
        [UInt32Array::from(first), UInt32Array::from(Vec::<u32>::new())]
    }

    /// The output rows of pairs.
    fn rows(&self, config: &Config, pairs: &[UInt32Array; 2]) -> Result<RecordBatch> {
        let emitted = match config.kind {
            JoinKind::LeftSemi => 1,
            _ => 2,
        };
        let mut columns = Vec::with_capacity(config.output.fields().len());
        for (candidates, rows) in self.sides.iter().zip(pairs).take(emitted) {
            for column in &candidates.columns {
                columns.push(take(column, rows, None)?);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(pairs[0].len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&config.output), columns, &options)?)
    }

    /// Appends the next pairs of positions.
    fn fill(&mut self, config: &Config, limit: usize, left: &mut Vec<u32>, right: &mut Vec<u32>) {
        let semi = config.kind == JoinKind::LeftSemi;
        let [lefts, rights] = &self.sides;
        let cursor = &mut self.cursor;
        while left.len() < limit && cursor.key < self.keys.len() {
            let key = cursor.key;
            let (old, new) = (lefts.old.of(key), lefts.new.of(key));
            let is_new = cursor.left >= old.len();
            let row = match is_new {
                false => old.get(cursor.left),
                true => new.get(cursor.left - old.len()),
            };
            let Some(row) = row.copied() else {
                *cursor = Cursor { key: key + 1, ..Cursor::default() };
                continue;
            };
            if semi && lefts.matched[row as usize] {
                *cursor = Cursor { key, left: cursor.left + 1, ..Cursor::default() };
                continue;
            }
            let partners = if cursor.new { &rights.new } else { &rights.old };
            let range = cursor.right.get_or_insert_with(|| match cursor.new || is_new {
                true => within(config, (lefts, row), (rights, partners), key),
                false => 0..0,
            });
            let count = range.len().min(limit - left.len());
            right.extend_from_slice(&partners.of(key)[range.start..range.start + count]);
            left.resize(left.len() + count, row);
            range.start += count;
            if range.start >= range.end {
                *cursor = match cursor.new {
                    false => Cursor { new: true, right: None, ..*cursor },
                    true => Cursor { key, left: cursor.left + 1, ..Cursor::default() },
                };
            }
        }
    }
}

/// Which keys have rows with these numbers that may match.
pub(super) fn probed(keys: &Distinct, numbers: &[u32]) -> Vec<bool> {
    let mut probed = vec![false; keys.len()];
    for number in numbers.iter().map(|number| *number as usize) {
        probed[number] = keys.joins(number);
    }
    probed
}

/// The positions among the partners of a key that are near enough to a left row.
fn within(
    config: &Config,
    (lefts, row): (&Candidates, u32),
    (rights, partners): (&Candidates, &Lists),
    key: usize,
) -> Range<usize> {
    match (config.range, &lefts.times, &rights.times) {
        (Some(range), Some(left), Some(right)) => {
            let (from, until) = range.of(left.value(row as usize));
            partners.between(key, right, from, until)
        }
        _ => 0..partners.of(key).len(),
    }
}
