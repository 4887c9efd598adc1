//! Batches of random events, and how they are run.

use super::{Contents, Event, Subject, TestStore};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial_core::{
    BatchId, BatchInfo, BatchTime, EventTime, EvictWatermark, KeyGroupCount, KeyGroupRange,
    LateBatch, LateHandling, LateWatermark, OperatorCounts, OperatorRun, PartitionId, StateStore,
};
use fluvial_sim::{Rng, block_on};

/// Microseconds of the time steps that histories are made of.
pub(super) const SECOND: i64 = 1_000_000;

/// Few, so that partitions and groups hold several keys.
const KEY_GROUPS: u16 = 8;

/// More rows than any law emits at once.
pub(super) const MANY_ROWS: usize = 10_000;

/// The events of one batch, by port, and the watermarks it runs under.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    /// Its number: no two batches of a history have the same.
    pub(super) number: u64,
    pub(super) events: Vec<Vec<Event>>,
    pub(super) late: Option<i64>,
    pub(super) evict: Option<i64>,
}

/// How a batch is handed over.
#[derive(Debug, Clone)]
pub(super) struct Handing {
    /// The number of partitions.
    pub(super) partitions: u32,
    /// The most rows of one output batch.
    pub(super) batch_rows: usize,
    /// Cuts the input of each port into chunks; `None` is one chunk.
    pub(super) cut: Option<Rng>,
    /// Whether the store is local.
    pub(super) local: bool,
    /// What happens to late rows.
    pub(super) late_rows: LateHandling,
}

impl Default for Handing {
    fn default() -> Self {
        let late_rows = LateHandling::Drop;
        Self { partitions: 1, batch_rows: MANY_ROWS, cut: None, local: false, late_rows }
    }
}

/// What came of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    /// The rows as text, in the order in which they came.
    pub(super) rows: Vec<String>,
    pub(super) counts: OperatorCounts,
    /// The most rows that came at once.
    pub(super) largest: usize,
    /// How many rows were pushed.
    pub(super) pushed: u64,
    /// The late rows that were handed over, as text, with their port.
    pub(super) late: Vec<String>,
}

impl Outcome {
    /// The rows as a multiset.
    pub(super) fn sorted(&self) -> Vec<String> {
        let mut rows = self.rows.clone();
        rows.sort();
        rows
    }
}

/// `count` events with times from `from` on, in a hundred seconds.
pub(super) fn events(rng: &mut Rng, count: u64, from: i64) -> Vec<Event> {
    (0..count)
        .map(|_| Event {
            key: rng.below(6) as i64,
            time: from + rng.below(100 * SECOND as u64) as i64,
            value: rng.below(10) as i64,
        })
        .collect()
}

/// Batches under watermarks that rise.
pub(super) fn batches(subject: &dyn Subject, rng: &mut Rng) -> Vec<Batch> {
    let ports = subject.operator().ports();
    let watermark = |n: i64| (n > 0).then_some((n - 1) * 25 * SECOND);
    (0..6i64)
        .map(|n| Batch {
            number: n as u64,
            events: (0..ports)
                .map(|_| {
                    let count = rng.below(40);
                    events(rng, count, (n - 1) * 20 * SECOND)
                })
                .collect(),
            late: watermark(n - 1),
            evict: watermark(n),
        })
        .collect()
}

/// Runs a batch on every partition, one after the other.
pub(super) fn run(
    subject: &dyn Subject,
    contents: &mut Contents,
    batch: &Batch,
    handing: &mut Handing,
) -> Outcome {
    let key_groups = KeyGroupCount::new(KEY_GROUPS).expect("a valid number of key groups");
    let mut outcome = Outcome::default();
    let mut next = Contents::new();
    for partition in (0..handing.partitions).map(PartitionId) {
        let groups = key_groups.range_of(partition, handing.partitions);
        let info = BatchInfo {
            batch: BatchId(batch.number),
            late: LateWatermark(batch.late.map(EventTime)),
            evict: EvictWatermark(batch.evict.map(EventTime)),
            time: BatchTime(0),
            mode: subject.mode(),
            partition,
            groups,
            key_groups,
            batch_rows: handing.batch_rows,
            late_rows: handing.late_rows,
        };
        let mut store = match handing.local {
            true => TestStore::open_local(contents, groups),
            false => TestStore::open(contents, groups),
        };
        run_partition(subject, &mut store, info, batch, handing.cut.as_mut(), &mut outcome);
        next.extend(store.into_contents());
    }
    *contents = next;
    outcome
}

fn run_partition(
    subject: &dyn Subject,
    store: &mut TestStore,
    info: BatchInfo,
    batch: &Batch,
    mut cut: Option<&mut Rng>,
    outcome: &mut Outcome,
) {
    let mut active = subject.operator().start(info).expect("start");
    let mut left: Vec<&[Event]> = batch.events.iter().map(Vec::as_slice).collect();
    while let Some(port) = next_port(&left, cut.as_deref_mut()) {
        let size = match cut.as_deref_mut() {
            Some(rng) => left[port].len().min(1 + rng.index(5)),
            None => left[port].len(),
        };
        let (chunk, rest) = left[port].split_at(size);
        left[port] = rest;
        let rows = subject.rows(port, chunk);
        assert!(rows.num_rows() >= chunk.len(), "every event has a row");
        let rows = own_rows(subject, port, &rows, info);
        outcome.pushed += rows.num_rows() as u64;
        active.push(port, rows, store).expect("push");
        for LateBatch { port, rows } in active.take_late() {
            outcome.late.extend(texts(&rows).into_iter().map(|row| format!("{port}: {row}")));
        }
        if cut.as_deref_mut().is_some_and(|rng| rng.chance(30)) {
            drain(active.as_mut(), store, outcome);
        }
    }
    let what = active.prefetch().expect("prefetch");
    block_on(store.prefetch(&what)).expect("prefetch");
    active.finish_input(store).expect("finish_input");
    let what = active.prefetch().expect("prefetch");
    block_on(store.prefetch(&what)).expect("prefetch");
    drain(active.as_mut(), store, outcome);
    let counts = active.counts();
    let rows = subject.rows_in(store.contents());
    assert_eq!(counts.rows_total, rows, "rows_total is the number of rows in state");
    outcome.counts += counts;
}

/// A port that has events left: the first, or any.
fn next_port(left: &[&[Event]], cut: Option<&mut Rng>) -> Option<usize> {
    let ports: Vec<usize> = (0..left.len()).filter(|&port| !left[port].is_empty()).collect();
    match cut {
        Some(rng) if !ports.is_empty() => Some(ports[rng.index(ports.len())]),
        _ => ports.first().copied(),
    }
}

/// The rows whose keys belong to the partition.
fn own_rows(
    subject: &dyn Subject,
    port: usize,
    rows: &RecordBatch,
    info: BatchInfo,
) -> RecordBatch {
    let groups = subject.groups(port, rows, info.key_groups);
    assert_eq!(groups.len(), rows.num_rows(), "every row has a key group");
    let owned: KeyGroupRange = info.groups;
    let mask: BooleanArray = groups.iter().map(|group| Some(owned.contains(*group))).collect();
    filter_record_batch(rows, &mask).expect("a mask of the rows")
}

fn drain(active: &mut dyn OperatorRun, store: &mut TestStore, outcome: &mut Outcome) {
    while let Some(rows) = active.drain(store).expect("drain") {
        assert!(rows.num_rows() > 0, "an output batch has rows");
        outcome.largest = outcome.largest.max(rows.num_rows());
        outcome.rows.extend(texts(&rows));
    }
}

/// Rows as text.
pub(super) fn texts(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<ArrayFormatter<'_>> = rows
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a formatter"))
        .collect();
    let row = |i: usize| columns.iter().map(|c| c.value(i).to_string()).collect::<Vec<_>>();
    (0..rows.num_rows()).map(|i| row(i).join("|")).collect()
}
