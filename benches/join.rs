//! A join of two streams: what a batch costs with state in memory, commit included.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fluvial_core::{
    BatchId, BatchInfo, BatchTime, EventDuration, EventTime, EvictWatermark, KeyGroupCount,
    LateHandling, LateWatermark, Operator, OperatorId, OutputMode, PartitionId, RunId, Snapshot,
    StateBackend, StateVersion, StoreId, StoreName,
};
use fluvial_operators::{JoinEviction, JoinKind, JoinRange, JoinSide, StreamJoin};
use fluvial_state_memory::{MemoryBackend, Settings};
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::sync::Arc;

const ROWS: i64 = 50_000;
const SECOND: i64 = 1_000_000;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, false),
        Field::new("time", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        Field::new("value", DataType::Int64, false),
    ]))
}

/// Ids that are met once by the other side, or one hot id.
fn rows(batch: i64, hot: bool) -> RecordBatch {
    let number = |i: i64| batch * ROWS + i;
    let id = |i: i64| if hot { "hot".to_owned() } else { format!("ad-{:08}", number(i)) };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values((0..ROWS).map(id))),
        Arc::new(TimestampMicrosecondArray::from_iter_values(
            (0..ROWS).map(|i| number(i) * SECOND / 100),
        )),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(number))),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

/// Rows wait ten minutes, which is a little more than a batch.
fn join(within: i64) -> StreamJoin {
    let side = |offset: i64| JoinSide {
        input: schema(),
        width: 3,
        keys: vec![0],
        event_time: Some(1),
        filter: None,
        eviction: JoinEviction::Time { column: 1, offset: EventDuration(offset) },
    };
    let zero = Some(EventDuration(0));
    let upper = Some(EventDuration(within));
    let range = JoinRange { left: 1, right: 1, lower: zero, upper };
    let sides = [side(-600 * SECOND), side(-1000)];
    StreamJoin::new(JoinKind::Inner, sides, vec![false], None, Some(range)).expect("a join")
}

struct Query {
    join: StreamJoin,
    backend: MemoryBackend,
    id: StoreId,
    batch: i64,
    snapshots: Vec<Snapshot>,
}

impl Query {
    fn new(within: i64) -> Self {
        let run = RunId::new("bench").expect("an id");
        let store = Arc::new(InMemory::new());
        let backend = MemoryBackend::new(store, Path::from("state"), run, Settings::default());
        let operator = OperatorId::new("join").expect("an id");
        let id = StoreId { operator, store: StoreName::new("default").expect("an id") };
        Self { join: join(within), backend, id, batch: 0, snapshots: Vec::new() }
    }

    fn batch(&mut self, left: RecordBatch, right: RecordBatch) -> usize {
        let groups = KeyGroupCount::DEFAULT.all();
        let watermark = Some(EventTime((self.batch - 1) * ROWS * SECOND / 100));
        let info = BatchInfo {
            batch: BatchId(self.batch as u64),
            late: LateWatermark(None),
            evict: EvictWatermark(watermark),
            time: BatchTime(0),
            mode: OutputMode::Append,
            partition: PartitionId(0),
            groups,
            key_groups: KeyGroupCount::DEFAULT,
            batch_rows: 8192,
            late_rows: LateHandling::Drop,
        };
        block_on(async {
            let version = StateVersion(self.batch as u64);
            let opened = self.backend.open(&self.id, groups, version, &self.snapshots).await;
            let mut store = opened.expect("the version opens");
            let mut run = self.join.start(info).expect("it starts");
            run.push(0, left, store.as_mut()).expect("rows");
            run.push(1, right, store.as_mut()).expect("rows");
            run.finish_input(store.as_mut()).expect("it finishes");
            let mut count = 0;
            while let Some(rows) = run.drain(store.as_mut()).expect("it drains") {
                count += rows.num_rows();
            }
            let sealed = store.seal().expect("it seals");
            self.snapshots = self.backend.commit(vec![sealed]).await.expect("it commits");
            self.batch += 1;
            count
        })
    }
}

fn joins(c: &mut Criterion) {
    let mut group = c.benchmark_group("join of two streams");
    group.sample_size(20);
    group.throughput(Throughput::Elements(2 * ROWS as u64));
    let mut query = Query::new(600 * SECOND);
    group.bench_function("50k rows a side, each with its own key", |b| {
        b.iter(|| query.batch(rows(query.batch, false), rows(query.batch, false)));
    });
    let mut query = Query::new(0);
    group.bench_function("50k rows a side, one key, far apart", |b| {
        b.iter(|| query.batch(rows(query.batch, true), rows(query.batch, true)));
    });
    group.finish();
}

criterion_group!(benches, joins);
criterion_main!(benches);
