//! `Evict`: takes out of the state what can no longer match, group by group.

use super::chunk::{self, Header};
use super::counts::Counts;
use super::expiry;
use super::keys::{parse_point, point_key, run_key_from, runs_until, time_of, timed_until};
use super::kind::Side;
use super::leaving::Leaving;
use super::{Config, JoinEviction};
use crate::entries::{Bytes, PIECE};
use arrow::array::{Array, BinaryArray};
use fluvial_core::{
    BatchInfo, Entries, Error, EventTime, KeyGroup, KeyRange, OperatorCounts, Result, StateStore,
};
use fluvial_state::ValueCodec;
use hashbrown::HashTable;
use std::collections::{BTreeMap, VecDeque};
use xxhash_rust::xxh3::xxh3_64;

/// Runs that are read at once.
const RUNS: usize = 128;
/// Chunks of timed keys that are read at once.
const CHUNKS: usize = 1024;

/// What has expired, and is still to be taken out.
#[derive(Debug)]
pub(super) struct Evict {
    ranges: VecDeque<(Side, KeyRange)>,
}

/// What one step needs beside the state.
pub(super) struct Around<'a> {
    pub(super) config: &'a Config,
    pub(super) info: &'a BatchInfo,
    pub(super) codecs: &'a [ValueCodec; 2],
    pub(super) groups: &'a mut Counts,
    pub(super) counts: &'a mut OperatorCounts,
    pub(super) leaving: &'a mut Leaving,
}

impl Evict {
    pub(super) fn new(config: &Config, info: &BatchInfo) -> Self {
        let mut ranges = VecDeque::new();
        // What lies in pages has left before.
        for side in Side::BOTH.into_iter().filter(|side| !config.is_paged(*side)) {
            let eviction = config.side(side).eviction;
            let Some(until) = eviction.threshold(info.evict) else { continue };
            let range = |group: KeyGroup| match eviction {
                JoinEviction::Key(_) => timed_until(group, side, until),
                JoinEviction::Time { .. } | JoinEviction::Never => runs_until(group, side, until),
            };
            ranges.extend(info.groups.groups().map(|group| (side, range(group))));
        }
        Self { ranges }
    }

    /// What it will read first.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &KeyRange> {
        self.ranges.iter().map(|(_, range)| range)
    }

    /// The keys of the chunks that it will read because of the runs in the state.
    pub(super) fn chunk_keys(
        &self,
        config: &Config,
        info: &BatchInfo,
        state: &dyn StateStore,
    ) -> Result<Vec<BinaryArray>> {
        let mut all = Vec::new();
        for (side, range) in &self.ranges {
            let eviction = config.side(*side).eviction;
            let (JoinEviction::Time { .. }, Some(until)) =
                (eviction, eviction.threshold(info.evict))
            else {
                continue;
            };
            let runs = state.scan(range, usize::MAX)?;
            let mut keys = Bytes::default();
            for at in 0..runs.keys.len() {
                for item in expiry::read(runs.values.value(at))? {
                    let item = item?;
                    if item.time > until.0 {
                        break;
                    }
                    let group = &runs.keys.value(at)[..2];
                    for number in [0, item.chunk] {
                        point_key(keys.open(), *side, group, item.key, number);
                        keys.end()?;
                    }
                }
            }
            all.push(keys.take());
        }
        Ok(all)
    }

    /// Takes out some of it; `false` when all is done.
    pub(super) fn step(
        &mut self,
        around: &mut Around<'_>,
        state: &mut dyn StateStore,
    ) -> Result<bool> {
        let Some((side, range)) = self.ranges.front().cloned() else { return Ok(false) };
        let eviction = around.config.side(side).eviction;
        let Some(until) = eviction.threshold(around.info.evict) else {
            self.ranges.clear();
            return Ok(false);
        };
        let (entries, limit) = match eviction {
            JoinEviction::Key(_) => (state.scan(&range, CHUNKS)?, CHUNKS),
            _ => (state.scan(&range, RUNS)?, RUNS),
        };
        match entries.keys.len() {
            full if full == limit => {
                let rest = range.after(entries.keys.value(full - 1));
                if let Some(front) = self.ranges.front_mut() {
                    front.1 = rest;
                }
            }
            _ => {
                self.ranges.pop_front();
            }
        }
        match eviction {
            JoinEviction::Key(_) => take_chunks(side, &entries, around, state)?,
            _ => take_runs(side, &entries, until, around, state)?,
        }
        Ok(true)
    }
}

/// Takes out whole chunks of keys whose time has passed.
fn take_chunks(
    side: Side,
    entries: &Entries,
    around: &mut Around<'_>,
    state: &mut dyn StateStore,
) -> Result<()> {
    let mut out = Removed::new(side, around);
    for at in 0..entries.keys.len() {
        let (key, value) = (entries.keys.value(at), entries.values.value(at));
        if time_of(key).is_none() {
            return Err(Error::corrupt("a timed key of a join is cut"));
        }
        let (_, rows) = chunk::read(value)?;
        let mut count = 0;
        for row in rows {
            out.leave(&row?);
            count += 1;
        }
        around.groups.add(key, -count);
        out.rows += count as u64;
    }
    out.finish(around)?;
    if let Some(last) = entries.keys.len().checked_sub(1) {
        let (first, last) = (entries.keys.value(0), entries.keys.value(last));
        let end = [last, &[0]].concat();
        state.delete_range(&KeyRange { start: first.to_vec(), end })?;
    }
    Ok(())
}

/// Takes out the rows that these runs name and whose time has passed.
fn take_runs(
    side: Side,
    runs: &Entries,
    until: EventTime,
    around: &mut Around<'_>,
    state: &mut dyn StateStore,
) -> Result<()> {
    let mut chunks = ChunkKeys::default();
    let (mut rest_keys, mut rest) = (Bytes::default(), Bytes::default());
    for at in 0..runs.keys.len() {
        let key = runs.keys.value(at);
        let mut items = expiry::read(runs.values.value(at))?;
        loop {
            let left = items.rest();
            let Some(item) = items.next().transpose()? else { break };
            if item.time > until.0 {
                run_key_from(rest_keys.open(), key, item.time)?;
                rest_keys.end()?;
                expiry::begin(rest.open());
                rest.open().extend_from_slice(left);
                rest.end()?;
                break;
            }
            chunks.add(side, &key[..2], item.key, item.chunk)?;
        }
    }
    state.delete_many(&runs.keys)?;
    state.put_many(&rest_keys.take(), &rest.take())?;
    for keys in chunks.finish() {
        take_rows(side, &keys, until, around, state)?;
    }
    Ok(())
}

/// Keys of chunks, each once.
#[derive(Default)]
struct ChunkKeys {
    full: Vec<BinaryArray>,
    open: Bytes,
    seen: HashTable<(u64, u32, u32)>,
    starts: Vec<usize>,
}

impl ChunkKeys {
    fn add(&mut self, side: Side, group: &[u8], row: &[u8], number: u32) -> Result<()> {
        let start = self.open.open().len();
        let bytes = self.open.open();
        point_key(bytes, side, group, row, number);
        let hash = xxh3_64(&bytes[start..]);
        let (full, written) = (&self.full, &bytes[..]);
        let (starts, piece) = (&self.starts, self.full.len() as u32);
        let same = |&(other, at_piece, at): &(u64, u32, u32)| {
            let known = || match full.get(at_piece as usize) {
                Some(keys) => keys.value(at as usize),
                None => {
                    let from = starts[at as usize];
                    let to = starts.get(at as usize + 1).copied().unwrap_or(start);
                    &written[from..to]
                }
            };
            other == hash && known() == &written[start..]
        };
        if self.seen.find(hash, same).is_some() {
            self.open.open().truncate(start);
            return Ok(());
        }
        let at = self.open.len() as u32;
        self.seen.insert_unique(hash, (hash, piece, at), |&(hash, ..)| hash);
        self.starts.push(start);
        self.open.end()?;
        if self.open.len() >= PIECE {
            self.full.push(self.open.take());
            self.starts.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<BinaryArray> {
        if self.open.len() > 0 {
            self.full.push(self.open.take());
        }
        self.full
    }
}

/// Rows that leave, and how many.
struct Removed<'v> {
    side: Side,
    preserved: bool,
    /// The columns of those that never matched and must come out.
    columns: Vec<&'v [u8]>,
    rows: u64,
}

impl<'v> Removed<'v> {
    fn new(side: Side, around: &Around<'_>) -> Self {
        let preserved = around.config.kind.preserves(side);
        Self { side, preserved, columns: Vec::new(), rows: 0 }
    }

    fn leave(&mut self, row: &chunk::Row<'v>) {
        if self.preserved && !row.matched {
            self.columns.push(row.columns);
        }
    }

    fn finish(self, around: &mut Around<'_>) -> Result<()> {
        // As Spark counts: only what leaves in silence.
        if !self.preserved {
            around.counts.rows_removed += self.rows;
        }
        let rows = self.columns.len();
        if rows == 0 {
            return Ok(());
        }
        let columns = around.codecs[self.side.index()].decode_each(self.columns)?;
        around.leaving.push(around.config, self.side, columns, rows)
    }
}

/// Takes the rows whose time has passed out of these chunks.
fn take_rows(
    side: Side,
    keys: &BinaryArray,
    until: EventTime,
    around: &mut Around<'_>,
    state: &mut dyn StateStore,
) -> Result<()> {
    let found = state.take_many(keys)?;
    let mut out = Removed::new(side, around);
    let (mut kept_keys, mut kept) = (Bytes::default(), Bytes::default());
    // Keys with several chunks, and how many rows left them.
    let mut several: BTreeMap<(&[u8], &[u8]), u64> = BTreeMap::new();
    for at in (0..keys.len()).filter(|at| found.is_valid(*at)) {
        let (key, value) = (keys.value(at), found.value(at));
        let Some((group, row_key, number)) = parse_point(key) else {
            return Err(Error::corrupt("the key of a join's chunk is cut"));
        };
        let (header, rows) = chunk::read(value)?;
        let mut count = 0u32;
        for row in rows {
            let row = row?;
            if expired(&row, until) {
                out.leave(&row);
                count += 1;
            }
        }
        around.groups.add(key, -i64::from(count));
        out.rows += u64::from(count);
        let is_several = number > 0 || header.chunks > 1;
        if is_several && count > 0 {
            *several.entry((group, row_key)).or_default() += u64::from(count);
        }
        let left = header.rows - count;
        if count == 0 || (is_several && number == 0) {
            // As it was: the first of several chunks is brought up to date below.
            kept.open().extend_from_slice(value);
        } else if left > 0 {
            let (chunks, live) = if number == 0 { (1, u64::from(left)) } else { (0, 0) };
            put_rest(kept.open(), value, until, Header { chunks, live, rows: left })?;
        } else {
            continue;
        }
        kept_keys.open().extend_from_slice(key);
        kept_keys.end()?;
        kept.end()?;
    }
    out.finish(around)?;
    state.put_many(&kept_keys.take(), &kept.take())?;
    for ((group, row_key), rows) in several {
        shrink(side, (group, row_key), rows, until, state)?;
    }
    Ok(())
}

fn expired(row: &chunk::Row<'_>, until: EventTime) -> bool {
    row.time.is_some_and(|time| time <= until.0)
}

/// Writes a chunk without its expired rows.
fn put_rest(out: &mut Vec<u8>, value: &[u8], until: EventTime, header: Header) -> Result<()> {
    chunk::put_header(out, header);
    for row in chunk::read(value)?.1 {
        let row = row?;
        if !expired(&row, until) {
            chunk::put_row(out, row.matched, row.time, row.columns);
        }
    }
    Ok(())
}

/// Brings the first chunk of a key with several up to date: `rows` rows have left.
fn shrink(
    side: Side,
    (group, row_key): (&[u8], &[u8]),
    rows: u64,
    until: EventTime,
    state: &mut dyn StateStore,
) -> Result<()> {
    let mut key = Bytes::default();
    point_key(key.open(), side, group, row_key, 0);
    key.end()?;
    let key = key.take();
    let found = state.get_many(&key)?;
    let head = found.is_valid(0).then(|| found.value(0));
    let head = head.ok_or_else(|| Error::corrupt("a key of a join has lost its first chunk"))?;
    let (header, head_rows) = chunk::read(head)?;
    let live = header.live.checked_sub(rows);
    let live = live.ok_or_else(|| Error::corrupt("a key of a join counts too few rows"))?;
    if live == 0 {
        return state.delete_many(&key);
    }
    let mut left = 0;
    for row in head_rows {
        left += u32::from(!expired(&row?, until));
    }
    let mut value = Bytes::default();
    put_rest(value.open(), head, until, Header { live, rows: left, ..header })?;
    value.end()?;
    state.put_many(&key, &value.take())
}
