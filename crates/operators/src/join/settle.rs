//! What a batch changes in the state, once all its pairs are known: flags of rows that matched,
//! and the rows that came and will wait.

use super::Config;
use super::chunk::{self, CHUNK_ROWS, Header};
use super::counts::Counts;
use super::distinct::Distinct;
use super::expiry::{self, Item, RUN_ITEMS};
use super::keys::{GROUP_BYTES, chunk_key, group_of, run_key};
use super::kind::{JoinKind, Side};
use super::lists::Lists;
use super::matching::Candidates;
use super::stored::{Place, first_keys};
use crate::entries::Puts;
use crate::entries::{Bytes, PIECE};
use arrow::array::{Array, BinaryArray, TimestampMicrosecondArray, UInt32Array};
use fluvial_core::{BatchInfo, KeyGroup, OperatorCounts, Result, StateStore};
use fluvial_state::ValueCodec;

/// Where the rows of one time are: group, time, key, chunk. In the order in which they are stored.
type Times = Vec<(KeyGroup, i64, u32, u32)>;

/// One side of a batch, being written.
pub(super) struct Settle<'a> {
    pub(super) config: &'a Config,
    pub(super) info: &'a BatchInfo,
    pub(super) side: Side,
    pub(super) keys: &'a Distinct,
    pub(super) rows: &'a Candidates,
}

impl Settle<'_> {
    /// Writes everything. Returns the new rows that leave at once without having matched, as
    /// positions among those that came.
    pub(super) fn write(
        &self,
        codec: &ValueCodec,
        state: &mut dyn StateStore,
        groups: &mut Counts,
        counts: &mut OperatorCounts,
    ) -> Result<UInt32Array> {
        if self.config.kind.flags(self.side) {
            self.flag(state)?;
        }
        let times = self.rows.times_of(self.config, self.side);
        let (stored, leaving) = self.sort_out(times.as_ref(), counts);
        if let Some(paged) = &self.rows.paged {
            counts.rows_removed += paged.write(self.config, self.rows, codec, state, groups)?;
            return Ok(UInt32Array::from(leaving));
        }
        let key_of = |row: u32| stored[row as usize].then(|| self.rows.numbers[row as usize]);
        let lists = Lists::new(self.keys.len(), 0..self.rows.numbers.len() as u32, key_of, None);
        let columns = codec.encode(&self.rows.new_columns(), self.rows.numbers.len())?;
        let store = Store { settle: self, lists, columns, times };
        let times = store.write(state, groups)?;
        self.write_times(times, state)?;
        Ok(UInt32Array::from(leaving))
    }

    fn matched(&self, row: usize) -> bool {
        self.rows.matched[self.rows.stored_rows() + row]
    }

    /// Which new rows will wait, and which leave at once with nulls. Counted as Spark does: the
    /// left side is stored before it is known what the right one brings; the right side is not
    /// stored if it would be evicted at once, unless it is preserved.
    fn sort_out(
        &self,
        times: Option<&TimestampMicrosecondArray>,
        counts: &mut OperatorCounts,
    ) -> (Vec<bool>, Vec<u32>) {
        let threshold = self.config.side(self.side).eviction.threshold(self.info.evict);
        let preserved = self.config.kind.preserves(self.side);
        let semi = self.config.kind == JoinKind::LeftSemi && self.side == Side::Left;
        let mut leaving = Vec::new();
        let stored = self.rows.numbers.iter().enumerate().map(|(row, number)| {
            if semi && self.rows.matched_stored[row] {
                counts.rows.emitted += 1;
                return false;
            }
            let time = match times {
                Some(times) => times.is_valid(row).then(|| times.value(row)),
                None => self.keys.time(*number as usize),
            };
            let expired = time.zip(threshold).is_some_and(|(time, until)| time <= until.0);
            counts.rows_updated += u64::from(!expired || preserved || self.side == Side::Left);
            if expired && preserved && !self.matched(row) {
                leaving.push(row as u32);
            }
            counts.rows_removed += u64::from(expired && !preserved && self.side == Side::Left);
            match expired {
                false => counts.rows.kept += 1,
                // A preserved row has come out, with its partners or with nulls.
                true if preserved || (semi && self.matched(row)) => counts.rows.emitted += 1,
                true => counts.rows.expired += 1,
            }
            !expired
        });
        let stored = stored.collect();
        (stored, leaving)
    }

    /// Sets the flags of stored rows that have matched for the first time.
    fn flag(&self, state: &mut dyn StateStore) -> Result<()> {
        let stored = &self.rows.stored;
        let mut puts = Puts::default();
        let mut open: Option<(u32, u32, usize)> = None;
        for (row, Place { read, at, flags_at }) in stored.places.iter().enumerate() {
            if stored.matched[row] || !self.rows.matched[row] {
                continue;
            }
            let start = match open {
                Some((last_read, last_at, start)) if (last_read, last_at) == (*read, *at) => start,
                other => {
                    if other.is_some() {
                        puts.end(state)?;
                    }
                    let (keys, chunks) = &stored.reads[*read as usize];
                    puts.keys.open().extend_from_slice(keys.value(*at as usize));
                    let start = puts.values.open().len();
                    puts.values.open().extend_from_slice(chunks.value(*at as usize));
                    open = Some((*read, *at, start));
                    start
                }
            };
            chunk::set_matched(&mut puts.values.open()[start..], *flags_at as usize);
        }
        if open.is_some() {
            puts.end(state)?;
        }
        puts.flush(state)
    }

    /// Writes the times as runs.
    fn write_times(&self, mut times: Times, state: &mut dyn StateStore) -> Result<()> {
        times.sort_unstable();
        let mut puts = Puts::default();
        for group in times.chunk_by(|a, b| a.0 == b.0) {
            for (number, run) in group.chunks(RUN_ITEMS).enumerate() {
                let (key_group, first, ..) = run[0];
                let (batch, number) = (self.info.batch.0, number as u32);
                run_key(puts.keys.open(), key_group, self.side, first, batch, number);
                let value = puts.values.open();
                expiry::begin(value);
                for (_, time, key, chunk) in run {
                    let key = &self.keys.key(*key as usize)[GROUP_BYTES..];
                    expiry::put(value, Item { time: *time, chunk: *chunk, key });
                }
                puts.end(state)?;
            }
        }
        puts.flush(state)
    }
}

/// New rows on their way into chunks.
struct Store<'a> {
    settle: &'a Settle<'a>,
    /// The rows of each key.
    lists: Lists,
    /// All new rows, encoded.
    columns: BinaryArray,
    times: Option<TimestampMicrosecondArray>,
}

impl Store<'_> {
    fn write(&self, state: &mut dyn StateStore, groups: &mut Counts) -> Result<Times> {
        let (mut times, mut puts, mut known) = (Times::new(), Puts::default(), Vec::new());
        let chunks = &self.settle.rows.stored.chunks;
        for (key, &stored) in chunks.iter().enumerate().take(self.settle.keys.len()) {
            let rows = self.lists.of(key);
            if rows.is_empty() {
                continue;
            }
            groups.add(self.settle.keys.key(key), rows.len() as i64);
            if stored > 0 {
                known.push(key);
                continue;
            }
            let header = Header {
                chunks: rows.len().div_ceil(CHUNK_ROWS as usize) as u32,
                live: rows.len() as u64,
                rows: 0,
            };
            self.write_chunks(key, rows, 0, header, &mut times, &mut puts, state)?;
        }
        puts.flush(state)?;
        for piece in known.chunks(PIECE) {
            self.append(piece, &mut times, state)?;
        }
        Ok(times)
    }

    /// Writes rows as chunks from number `first` on. The first of them gets `header`.
    #[allow(clippy::too_many_arguments)]
    fn write_chunks(
        &self,
        key: usize,
        rows: &[u32],
        first: u32,
        header: Header,
        times: &mut Times,
        puts: &mut Puts,
        state: &mut dyn StateStore,
    ) -> Result<()> {
        for (at, rows) in rows.chunks(CHUNK_ROWS as usize).enumerate() {
            let header = if at == 0 { header } else { Header::default() };
            let number = first + at as u32;
            self.put_key(key, number, puts);
            chunk::put_header(puts.values.open(), Header { rows: rows.len() as u32, ..header });
            self.put_rows(key, number, rows, times, puts.values.open());
            puts.end(state)?;
        }
        Ok(())
    }

    fn put_key(&self, key: usize, number: u32, puts: &mut Puts) {
        let keys = self.settle.keys;
        chunk_key(puts.keys.open(), self.settle.side, keys.key(key), keys.time(key), number);
    }

    /// Writes rows into the chunk `number` of a key, and notes their times.
    fn put_rows(
        &self,
        key: usize,
        number: u32,
        rows: &[u32],
        times: &mut Times,
        out: &mut Vec<u8>,
    ) {
        let group = group_of(self.settle.keys.key(key));
        let flags = self.settle.config.kind.flags(self.settle.side);
        for row in rows {
            let row = *row as usize;
            let time = self.times.as_ref().and_then(|t| t.is_valid(row).then(|| t.value(row)));
            let matched = flags && self.settle.matched(row);
            chunk::put_row(out, matched, time, self.columns.value(row));
            times.extend(time.map(|time| (group, time, key as u32, number)));
        }
    }

    /// Adds the new rows of keys that have rows already.
    fn append(&self, keys: &[usize], times: &mut Times, state: &mut dyn StateStore) -> Result<()> {
        let (mut heads, mut lasts) = (Bytes::default(), Bytes::default());
        let (distinct, side) = (self.settle.keys, self.settle.side);
        let chunks = &self.settle.rows.stored.chunks;
        for key in keys {
            let (bytes, time) = (distinct.key(*key), distinct.time(*key));
            chunk_key(heads.open(), side, bytes, time, 0);
            heads.end()?;
            chunk_key(lasts.open(), side, bytes, time, chunks[*key] - 1);
            lasts.end()?;
        }
        let heads = state.get_many(&heads.take())?;
        let lasts = state.get_many(&lasts.take())?;
        let mut puts = Puts::default();
        for (at, key) in keys.iter().enumerate() {
            let rows = self.lists.of(*key);
            let (head, head_rows) = chunk::read(heads.value(at))?;
            let last_number = head.chunks - 1;
            // The last chunk is gone when its rows have left; its number is free to be filled.
            let last = match lasts.is_valid(at) {
                true => Some(chunk::read(lasts.value(at))?),
                false => None,
            };
            let filled = last.as_ref().map_or(0, |(last, _)| last.rows);
            let room = CHUNK_ROWS.saturating_sub(filled) as usize;
            let (fitting, others) = rows.split_at(room.min(rows.len()));
            let more = others.len().div_ceil(CHUNK_ROWS as usize) as u32;
            let grown = Header {
                chunks: head.chunks + more,
                live: head.live + rows.len() as u64,
                rows: head.rows,
            };
            if last_number > 0 {
                self.put_key(*key, 0, &mut puts);
                chunk::put_header(puts.values.open(), grown);
                puts.values.open().extend_from_slice(head_rows.rest());
                puts.end(state)?;
            }
            if last_number == 0 || !fitting.is_empty() {
                let header = if last_number == 0 { grown } else { Header::default() };
                let rows = filled + fitting.len() as u32;
                self.put_key(*key, last_number, &mut puts);
                chunk::put_header(puts.values.open(), Header { rows, ..header });
                let before = last.as_ref().map_or(&[][..], |(_, rows)| rows.rest());
                puts.values.open().extend_from_slice(before);
                self.put_rows(*key, last_number, fitting, times, puts.values.open());
                puts.end(state)?;
            }
            let header = Header::default();
            self.write_chunks(*key, others, last_number + 1, header, times, &mut puts, state)?;
        }
        puts.flush(state)
    }
}

/// The keys of the first and last chunks that [`Settle::write`] will read beyond those that were
/// read before.
pub(super) fn last_keys(
    side: Side,
    keys: &Distinct,
    rows: &Candidates,
) -> Result<Vec<BinaryArray>> {
    if rows.paged.is_some() {
        return Ok(Vec::new());
    }
    let mut all = vec![first_keys(side, keys, 0..keys.len())?];
    let mut asked = Bytes::default();
    let several = |key: &usize| rows.stored.chunks[*key] > 1;
    for key in (0..keys.len()).filter(several) {
        let last = rows.stored.chunks[key] - 1;
        chunk_key(asked.open(), side, keys.key(key), keys.time(key), last);
        asked.end()?;
    }
    all.push(asked.take());
    Ok(all)
}
