//! Duplicates within the watermark: what a batch costs with state in memory, commit included.

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fluvial_core::{
    BatchId, BatchInfo, BatchTime, EventDuration, EventTime, EvictWatermark, KeyGroupCount,
    LateHandling, LateWatermark, Operator, OperatorId, OutputMode, PartitionId, RunId, Snapshot,
    StateBackend, StateVersion, StoreId, StoreName,
};
use fluvial_operators::Dedup;
use fluvial_state_memory::{MemoryBackend, Settings};
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::sync::Arc;

const ROWS: i64 = 100_000;
const SECOND: i64 = 1_000_000;
/// What rows come in at a time, as from a scan.
const PIECE: usize = 8192;
/// The seconds between the first and the last row of a batch.
const SPAN: i64 = 100;
/// So many batches are within the watermark.
const BATCHES_KEPT: i64 = 10;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, false),
        Field::new("time", DataType::Timestamp(TimeUnit::Microsecond, None), false),
    ]))
}

/// A number that has no order, the same each time.
fn scattered(number: i64) -> i64 {
    number.wrapping_mul(0x2545_F491_4F6C_DD1D).rotate_left(23)
}

/// Ids of which each `repeat`th came in the batch before already.
fn rows(batch: i64, repeat: i64) -> RecordBatch {
    let number = |i: i64| match i % repeat {
        0 => (batch - 1) * ROWS + i + 1,
        _ => batch * ROWS + i,
    };
    let time =
        |i: i64| (batch * SPAN * SECOND) + i.wrapping_mul(7919) % ROWS * (SPAN * SECOND / ROWS);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(
            (0..ROWS).map(|i| format!("{:016x}", scattered(number(i)))),
        )),
        Arc::new(TimestampMicrosecondArray::from_iter_values((0..ROWS).map(time))),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

struct Query {
    dedup: Dedup,
    backend: MemoryBackend,
    id: StoreId,
    batch: i64,
    snapshots: Vec<Snapshot>,
}

impl Query {
    fn new() -> Self {
        let run = RunId::new("bench").expect("an id");
        let store = Arc::new(InMemory::new());
        let backend = MemoryBackend::new(store, Path::from("state"), run, Settings::default());
        let operator = OperatorId::new("dedup").expect("an id");
        let id = StoreId { operator, store: StoreName::new("default").expect("an id") };
        let delay = EventDuration(BATCHES_KEPT * SPAN * SECOND);
        let dedup = Dedup::within_watermark(schema(), vec![0], 1, delay).expect("an operator");
        Self { dedup, backend, id, batch: 0, snapshots: Vec::new() }
    }

    fn batch(&mut self, rows: &RecordBatch) -> usize {
        let groups = KeyGroupCount::DEFAULT.all();
        let watermark = Some(EventTime((self.batch - BATCHES_KEPT) * SPAN * SECOND));
        let info = BatchInfo {
            batch: BatchId(self.batch as u64),
            late: LateWatermark(None),
            evict: EvictWatermark(watermark),
            time: BatchTime(0),
            mode: OutputMode::Append,
            partition: PartitionId(0),
            groups,
            key_groups: KeyGroupCount::DEFAULT,
            batch_rows: PIECE,
            late_rows: LateHandling::Drop,
        };
        block_on(async {
            let version = StateVersion(self.batch as u64);
            let opened = self.backend.open(&self.id, groups, version, &self.snapshots).await;
            let mut store = opened.expect("the version opens");
            let mut run = self.dedup.start(info).expect("it starts");
            for start in (0..rows.num_rows()).step_by(PIECE) {
                let piece = rows.slice(start, PIECE.min(rows.num_rows() - start));
                run.push(0, piece, store.as_mut()).expect("rows");
            }
            run.finish_input(store.as_mut()).expect("it finishes");
            let mut count = 0;
            while let Some(rows) = run.drain(store.as_mut()).expect("it drains") {
                count += rows.num_rows();
            }
            drop(run);
            let sealed = store.seal().expect("it seals");
            self.snapshots = self.backend.commit(vec![sealed]).await.expect("it commits");
            self.batch += 1;
            count
        })
    }
}

fn duplicates(c: &mut Criterion) {
    let mut group = c.benchmark_group("duplicates within the watermark");
    group.sample_size(20);
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, repeat) in [("100k rows, a sixth twice", 6), ("100k rows, half of them twice", 2)] {
        let mut query = Query::new();
        group.bench_function(name, |b| {
            b.iter(|| query.batch(&rows(query.batch, repeat)));
        });
    }
    group.finish();
}

criterion_group!(benches, duplicates);
criterion_main!(benches);
