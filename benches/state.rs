//! State in memory: what a batch does to it, commit included, over an object store in memory.

use arrow::array::{Array, BinaryArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fluvial_benches::SplitMix;
use fluvial_core::{
    KeyGroupCount, KeyRange, OperatorId, RunId, Snapshot, StateBackend, StateVersion, StoreId,
    StoreName,
};
use fluvial_state_memory::{MemoryBackend, Settings};
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::sync::Arc;

const KEYS: u64 = 1_000_000;
const BATCH: usize = 10_000;

/// `[group][time][key]`, as a windowed aggregation lays it out: 100 times.
fn key(i: u64) -> Vec<u8> {
    let (group, time) = ((i % 128) as u16, i % 100);
    [&group.to_be_bytes()[..], &time.to_be_bytes(), &i.to_be_bytes()].concat()
}

fn keys(numbers: impl Iterator<Item = u64>) -> BinaryArray {
    BinaryArray::from_iter_values(numbers.map(key))
}

/// One store and the versions it went through.
struct Bench {
    backend: MemoryBackend,
    id: StoreId,
    version: u64,
    snapshots: Vec<Snapshot>,
}

impl Bench {
    fn new() -> Self {
        let run = RunId::new("bench").expect("an id");
        let store = Arc::new(InMemory::new());
        let backend = MemoryBackend::new(store, Path::from("state"), run, Settings::default());
        let operator = OperatorId::new("operator").expect("an id");
        let store = StoreName::new("groups").expect("an id");
        Self { backend, id: StoreId { operator, store }, version: 0, snapshots: Vec::new() }
    }

    fn batch(&mut self, work: impl FnOnce(&mut dyn fluvial_core::StateStore)) {
        block_on(async {
            let groups = KeyGroupCount::DEFAULT.all();
            let version = StateVersion(self.version);
            let opened = self.backend.open(&self.id, groups, version, &self.snapshots).await;
            let mut store = opened.expect("the version opens");
            work(store.as_mut());
            let sealed = store.seal().expect("it seals");
            self.snapshots = self.backend.commit(vec![sealed]).await.expect("it commits");
            self.version += 1;
        });
    }

    fn fill(&mut self) {
        for start in (0..KEYS).step_by(BATCH) {
            let keys = keys(start..start + BATCH as u64);
            self.batch(|store| store.put_many(&keys, &keys).expect("it writes"));
        }
    }
}

fn state(c: &mut Criterion) {
    let mut group = c.benchmark_group("memory state of 1M keys");
    group.sample_size(20);
    let mut bench = Bench::new();
    bench.fill();
    let mut random = SplitMix(7);
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("read, modify, write and commit 10k keys", |b| {
        b.iter_batched(
            || {
                let touched = keys((0..BATCH).map(|_| random.below(KEYS)));
                let values = keys((0..BATCH).map(|_| random.next_u64()));
                (touched, values)
            },
            |(touched, values)| {
                bench.batch(|store| {
                    let old = store.get_many(&touched).expect("it reads");
                    assert_eq!(old.len(), touched.len());
                    store.put_many(&touched, &values).expect("it writes");
                });
            },
            criterion::BatchSize::SmallInput,
        );
    });
    let window = |i: u64| {
        (0..128u16).map(move |group| {
            KeyRange::prefix(&[&group.to_be_bytes()[..], &(i % 100).to_be_bytes()].concat())
        })
    };
    let mut time = 0;
    group.bench_function("evict and write back a window of 10k keys", |b| {
        b.iter(|| {
            let back = keys((0..BATCH as u64).map(|i| i * 100 + time % 100));
            bench.batch(|store| {
                let removed: u64 =
                    window(time).map(|range| store.delete_range(&range).expect("it deletes")).sum();
                assert_eq!(removed, BATCH as u64);
            });
            bench.batch(|store| store.put_many(&back, &back).expect("it writes"));
            time += 1;
        });
    });
    group.finish();
}

criterion_group!(benches, state);
criterion_main!(benches);
