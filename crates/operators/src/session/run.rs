//! One batch of sessions on one partition: from rows to state, and out.

use super::Config;
use super::merge::{Merged, Piece, merge};
use super::state::{Codecs, Sessions, all, evaluate, name_by_end, names_by_key, over};
use crate::aggregation::accumulators::Accumulators;
use crate::aggregation::groups::Groups;
use crate::event_time::event_times;
use crate::late_gate::LateGate;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, RecordBatch, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::{concat, take};
use arrow::datatypes::TimestampMicrosecondType;
use fluvial_core::{
    BatchInfo, Entries, Error, EventTime, KeyRange, LateBatch, OperatorCounts, OperatorRun,
    OutputMode, Prefetch, Result, StateStore,
};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Sessions that are read or written in one call.
const AT_ONCE: usize = 8192;

pub(super) struct Run {
    config: Arc<Config>,
    info: BatchInfo,
    codecs: Codecs,
    late: LateGate,
    /// The keys that the batch touches, numbered.
    keys: Groups,
    /// What came: the sessions of rows and their states, and the number of each row's key.
    rows: Vec<RecordBatch>,
    numbers: Vec<usize>,
    /// Sessions that were over before the batch began.
    early: VecDeque<Entries>,
    /// What is still to be emitted.
    ranges: VecDeque<KeyRange>,
    counts: OperatorCounts,
}

/// The pieces of a batch: those that were stored, then those that came.
struct Pieces {
    stored: usize,
    starts: Vec<i64>,
    ends: Vec<i64>,
    keys: Vec<usize>,
    states: Vec<ArrayRef>,
    /// The names of the stored ones, by key.
    names: Vec<BinaryArray>,
}

impl Run {
    pub(super) fn new(config: &Arc<Config>, info: BatchInfo) -> Result<Self> {
        Ok(Self {
            config: Arc::clone(config),
            info,
            codecs: Codecs::new(config, info.key_groups)?,
            late: LateGate::new(info.late, info.late_rows),
            keys: Groups::default(),
            rows: Vec::new(),
            numbers: Vec::new(),
            early: VecDeque::new(),
            ranges: VecDeque::new(),
            counts: OperatorCounts::default(),
        })
    }

    fn leaves(&self) -> bool {
        self.info.mode == OutputMode::Append
    }

    fn over(&self, until: Option<EventTime>) -> Vec<KeyRange> {
        match until {
            Some(until) if self.leaves() => {
                self.info.groups.groups().map(|group| over(group, until)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Takes out what was over when the batch began. The batch before has emitted it already; but
    /// if a batch is cut in two, both parts must see the same sessions.
    fn begin(&mut self, state: &mut dyn StateStore) -> Result<()> {
        for mut range in self.over(self.info.late.0) {
            while let Some(entries) = self.leave(&mut range, AT_ONCE, state)? {
                self.early.push_back(entries);
            }
        }
        Ok(())
    }

    /// Reads the first sessions of a range by end and removes them, also from the range.
    fn leave(
        &mut self,
        range: &mut KeyRange,
        limit: usize,
        state: &mut dyn StateStore,
    ) -> Result<Option<Entries>> {
        let entries = state.scan(range, limit)?;
        let Some(last) = entries.keys.len().checked_sub(1) else { return Ok(None) };
        let rest = range.after(entries.keys.value(last));
        let read = match entries.keys.len() < limit {
            true => range.clone(),
            false => KeyRange { start: range.start.clone(), end: rest.start.clone() },
        };
        *range = rest;
        state.delete_range(&read)?;
        let keys = names_by_key(&entries.keys)?;
        state.delete_many(&keys)?;
        self.counts.rows_removed += keys.len() as u64;
        Ok(Some(Entries { keys, values: entries.values }))
    }

    /// The stored sessions of the touched keys, and what came.
    fn pieces(&self, prefixes: &[BinaryArray], state: &dyn StateStore) -> Result<Pieces> {
        let (mut names, mut values, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        let all = prefixes.iter().flat_map(|chunk| chunk.iter().flatten());
        for (key, prefix) in all.enumerate() {
            let mut range = KeyRange::prefix(prefix);
            loop {
                let entries = state.scan(&range, AT_ONCE)?;
                let found = entries.keys.len();
                keys.extend(std::iter::repeat_n(key, found));
                if let Some(last) = found.checked_sub(1) {
                    range = range.after(entries.keys.value(last));
                    names.push(entries.keys);
                    values.push(entries.values);
                }
                if found < AT_ONCE {
                    break;
                }
            }
        }
        let stored = keys.len();
        let mut starts = Vec::with_capacity(stored + self.numbers.len());
        let mut ends = Vec::with_capacity(stored + self.numbers.len());
        let mut states: Vec<Vec<ArrayRef>> = vec![Vec::new(); self.states()];
        for (names, values) in chunks(&names)?.iter().zip(&chunks(&values)?) {
            let sessions = self.codecs.decode(names, values)?;
            starts.extend_from_slice(sessions.starts.values());
            ends.extend_from_slice(sessions.ends.values());
            for (parts, column) in states.iter_mut().zip(sessions.states) {
                parts.push(column);
            }
        }
        keys.extend_from_slice(&self.numbers);
        for rows in &self.rows {
            let (from, to) = edges(rows.column(self.config.session))?;
            starts.extend_from_slice(from.values());
            ends.extend_from_slice(to.values());
            for (parts, column) in
                states.iter_mut().zip(&rows.columns()[self.config.groups.len()..])
            {
                parts.push(Arc::clone(column));
            }
        }
        let states = states.iter().map(|parts| joined(parts)).collect::<Result<_>>()?;
        Ok(Pieces { stored, starts, ends, keys, states, names: chunks(&names)? })
    }

    fn states(&self) -> usize {
        self.config.input.fields().len() - self.config.groups.len()
    }

    /// Merges what came with what is stored, and stores what comes of it.
    fn write(&mut self, state: &mut dyn StateStore) -> Result<()> {
        let prefixes = std::mem::take(&mut self.keys).into_keys();
        let found = self.pieces(&prefixes, state)?;
        let mut pieces: Vec<Piece> = (0..found.keys.len())
            .map(|row| Piece {
                key: found.keys[row],
                start: found.starts[row],
                row,
                end: found.ends[row],
            })
            .collect();
        pieces.sort_unstable();
        let (sessions, numbers) = merge(&pieces);
        let order = UInt64Array::from_iter_values(pieces.iter().map(|piece| piece.row as u64));
        let states = found
            .states
            .iter()
            .map(|column| Ok(take(column, &order, None)?))
            .collect::<Result<Vec<_>>>()?;
        let mut accumulators = Accumulators::new(&self.config.aggregates)?;
        accumulators.merge(&states, &numbers, sessions.len())?;
        drop(states);
        let states = accumulators.into_states()?;
        self.forget(&found, &pieces, &sessions, &numbers, state)?;
        self.put(&prefixes, &sessions, &states, state)?;
        self.counts.rows_updated += sessions.len() as u64;
        self.counts.rows.kept += (found.keys.len() - found.stored) as u64;
        Ok(())
    }

    /// Removes the names that stored sessions do not have any more.
    fn forget(
        &mut self,
        found: &Pieces,
        pieces: &[Piece],
        sessions: &[Merged],
        numbers: &[usize],
        state: &mut dyn StateStore,
    ) -> Result<()> {
        let mut names: Vec<&[u8]> = vec![&[]; found.stored];
        for (name, row) in found.names.iter().flat_map(|names| names.iter().flatten()).zip(0..) {
            let at: usize = row;
            names[at] = name;
        }
        let (mut gone, mut moved) = (Vec::new(), Vec::new());
        for (piece, &number) in pieces.iter().zip(numbers).filter(|(p, _)| p.row < found.stored) {
            let session = &sessions[number];
            let name = names[piece.row];
            if session.start != piece.start {
                gone.push(name);
            }
            if self.leaves() && (session.start, session.end) != (piece.start, piece.end) {
                let mut by_end = Vec::new();
                name_by_end(name, EventTime(piece.end), &mut by_end);
                moved.push(by_end);
            }
        }
        self.counts.rows_removed += gone.len() as u64;
        state.delete_many(&BinaryArray::from_iter_values(gone))?;
        state.delete_many(&BinaryArray::from_iter_values(moved))
    }

    fn put(
        &self,
        prefixes: &[BinaryArray],
        sessions: &[Merged],
        states: &[ArrayRef],
        state: &mut dyn StateStore,
    ) -> Result<()> {
        let prefix = |key: usize| -> &[u8] {
            let size = prefixes[0].len();
            prefixes[key / size].value(key % size)
        };
        for (chunk, at) in sessions.chunks(AT_ONCE).zip((0..).step_by(AT_ONCE)) {
            let starts = chunk.iter().map(|session| session.start);
            let keys = chunk.iter().map(|session| prefix(session.key));
            let names = self.codecs.keys.with_times(
                &BinaryArray::from_iter_values(keys),
                &TimestampMicrosecondArray::from_iter_values(starts),
            )?;
            let ends = chunk.iter().map(|session| session.end);
            let ends: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(ends));
            let states = states.iter().map(|column| column.slice(at, chunk.len()));
            let columns: Vec<ArrayRef> = std::iter::once(ends).chain(states).collect();
            let values = self.codecs.values.encode(&columns, chunk.len())?;
            if self.leaves() {
                let by_end = chunk.iter().zip(&names).map(|(session, name)| {
                    let mut by_end = Vec::new();
                    name_by_end(name.unwrap_or_default(), EventTime(session.end), &mut by_end);
                    by_end
                });
                state.put_many(&BinaryArray::from_iter_values(by_end), &values)?;
            }
            state.put_many(&names, &values)?;
        }
        Ok(())
    }

    /// The next sessions to emit, at most `limit`.
    fn next(&mut self, limit: usize, state: &mut dyn StateStore) -> Result<Option<Sessions>> {
        if let Some(entries) = self.early.pop_front() {
            let rows = entries.keys.len().min(limit);
            if rows < entries.keys.len() {
                let rest = entries.keys.len() - rows;
                self.early.push_front(Entries {
                    keys: entries.keys.slice(rows, rest),
                    values: entries.values.slice(rows, rest),
                });
            }
            let (keys, values) = (entries.keys.slice(0, rows), entries.values.slice(0, rows));
            return self.codecs.decode(&keys, &values).map(Some);
        }
        let (mut names, mut values, mut rows) = (Vec::new(), Vec::new(), 0);
        while rows < limit
            && let Some(mut range) = self.ranges.pop_front()
        {
            let found = match self.leaves() {
                true => self.leave(&mut range, limit - rows, state)?,
                false => pass(&mut range, limit - rows, state)?,
            };
            let Some(found) = found else { continue };
            let complete = found.keys.len() < limit - rows;
            rows += found.keys.len();
            names.push(found.keys);
            values.push(found.values);
            if !complete {
                self.ranges.push_front(range);
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        self.codecs.decode(&joined_bytes(&names)?, &joined_bytes(&values)?).map(Some)
    }

    fn note_size(&mut self, state: &dyn StateStore) {
        let size = state.size();
        // In append mode each session has two names.
        self.counts.rows_total = if self.leaves() { size.rows / 2 } else { size.rows };
        self.counts.memory_bytes = size.memory_bytes;
    }
}

/// Reads the first sessions of a range by key, and takes them off the range.
fn pass(range: &mut KeyRange, limit: usize, state: &dyn StateStore) -> Result<Option<Entries>> {
    let found = state.scan(range, limit)?;
    let Some(last) = found.keys.len().checked_sub(1) else { return Ok(None) };
    *range = range.after(found.keys.value(last));
    Ok(Some(found))
}

/// Starts and ends of a column of sessions.
fn edges(sessions: &ArrayRef) -> Result<(TimestampMicrosecondArray, TimestampMicrosecondArray)> {
    let starts = sessions
        .as_struct_opt()
        .and_then(|sessions| sessions.column_by_name("start"))
        .and_then(|starts| starts.as_primitive_opt::<TimestampMicrosecondType>())
        .ok_or_else(|| Error::invalid("a session is a struct with a timestamp `start`"))?;
    let ends = event_times(sessions.as_ref())?;
    if sessions.null_count() + starts.null_count() + ends.null_count() > 0 {
        return Err(Error::invalid("a row without a session came to an aggregation by session"));
    }
    Ok((starts.clone(), ends))
}

fn joined(parts: &[ArrayRef]) -> Result<ArrayRef> {
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(concat(&parts)?)
}

fn joined_bytes(parts: &[BinaryArray]) -> Result<BinaryArray> {
    match parts {
        [one] => Ok(one.clone()),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part as &dyn Array).collect();
            Ok(concat(&parts)?.as_binary().clone())
        }
    }
}

/// Small columns joined to larger ones.
fn chunks(parts: &[BinaryArray]) -> Result<Vec<BinaryArray>> {
    let mut chunks = Vec::new();
    let (mut from, mut rows) = (0, 0);
    for (at, part) in parts.iter().enumerate() {
        rows += part.len();
        if rows >= AT_ONCE || at + 1 == parts.len() {
            chunks.push(joined_bytes(&parts[from..=at])?);
            (from, rows) = (at + 1, 0);
        }
    }
    Ok(chunks)
}

impl OperatorRun for Run {
    fn push(&mut self, port: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        if port != 0 || rows.num_columns() != self.config.input.fields().len() {
            return Err(Error::invalid(format!(
                "an aggregation by session takes {} columns at port 0, not {} at port {port}",
                self.config.input.fields().len(),
                rows.num_columns()
            )));
        }
        let session = Some(self.config.session);
        let rows = self.late.on_time(0, rows, session, &mut self.counts.rows)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let groups = self.config.groups.len();
        let keys: Vec<ArrayRef> = (0..groups)
            .filter(|at| *at != self.config.session)
            .map(|at| Arc::clone(rows.column(at)))
            .collect();
        let keys = self.codecs.keys.encode_prefixes(&keys, rows.num_rows())?.keys;
        self.keys.intern(&keys, &mut self.numbers)?;
        self.rows.push(rows);
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        let touched: BTreeSet<Vec<u8>> = self
            .keys
            .keys()
            .flat_map(|keys| keys.iter().flatten().map(<[u8]>::to_vec).collect::<Vec<_>>())
            .collect();
        let mut ranges: Vec<KeyRange> =
            touched.iter().map(|prefix| KeyRange::prefix(prefix)).collect();
        match self.leaves() {
            true => ranges.extend(self.over(self.info.evict.0.max(self.info.late.0))),
            false => ranges.extend(self.info.groups.groups().map(all)),
        }
        Ok(Prefetch::Ranges(ranges))
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.begin(state)?;
        if self.keys.len() > 0 {
            self.write(state)?;
        }
        self.rows.clear();
        self.ranges = match self.leaves() {
            true => self.over(self.info.evict.0).into(),
            false => self.info.groups.groups().map(all).collect(),
        };
        self.note_size(state);
        Ok(())
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        let sessions = self.next(self.info.batch_rows.max(1), state)?;
        self.note_size(state);
        sessions.map(|sessions| evaluate(&self.config, sessions)).transpose()
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        self.late.take()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}
