//! State backends beside other stores: one thread, a million keys of 18 and 64 bytes, commits of
//! ten thousand keys to a local disk that is synced.
//!
//! ```text
//! cargo bench -p fluvial-state-benches
//! ROCKSDB_LIB_DIR=/usr/lib/x86_64-linux-gnu ROCKSDB_INCLUDE_DIR=/usr/include \
//!     cargo bench -p fluvial-state-benches --features rocksdb,fjall
//! ```

#![allow(missing_docs, reason = "criterion's macros make public items")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fluvial_state_benches::{
    BATCH, Contestant, TIMES, absent, all, contestants, group, keys, random, values, window,
};
use std::time::{Duration, Instant};

/// A hash map keeps no order: what needs one is not asked of it.
const UNORDERED: &str = "hash map";

/// Keys that a bulk load writes in one measurement.
const LOADED: u64 = 100_000;

fn load(store: &mut dyn Contestant) {
    for (number, keys) in all().enumerate() {
        store.put(&keys, &values(BATCH, number as u64));
        store.commit();
    }
}

/// Measures one thing of every contestant; each is loaded once, and keeps what it was left with.
fn each(
    c: &mut Criterion,
    what: &str,
    keys: u64,
    unordered: bool,
    mut once: impl FnMut(&mut dyn Contestant, u64) -> Duration,
) {
    let mut group = c.benchmark_group(what);
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    group.throughput(Throughput::Elements(keys));
    for (name, make) in contestants() {
        if name == UNORDERED && !unordered {
            continue;
        }
        let mut store = make();
        load(store.as_mut());
        let mut round = 0;
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter_custom(|rounds| {
                (0..rounds)
                    .map(|_| {
                        round += 1;
                        once(store.as_mut(), round)
                    })
                    .sum()
            });
        });
    }
    group.finish();
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn bulk_load(c: &mut Criterion) {
    let mut group = c.benchmark_group("bulk_load_100k");
    group.sample_size(10).throughput(Throughput::Elements(LOADED));
    for (name, make) in contestants() {
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter_custom(|rounds| {
                (0..rounds)
                    .map(|_| {
                        let mut store = make();
                        let input: Vec<_> = (0..LOADED)
                            .step_by(BATCH)
                            .map(|first| (keys(first..first + BATCH as u64), values(BATCH, first)))
                            .collect();
                        timed(|| {
                            for (keys, values) in &input {
                                store.put(keys, values);
                                store.commit();
                            }
                        })
                    })
                    .sum()
            });
        });
    }
    group.finish();
}

fn reads(c: &mut Criterion) {
    let count = BATCH as u64;
    each(c, "get_present_10k", count, true, |store, round| {
        let keys = random(BATCH, round);
        timed(|| assert_eq!(store.get_each(&keys), BATCH))
    });
    each(c, "get_absent_10k", count, true, |store, round| {
        let keys = absent(BATCH, round);
        timed(|| assert_eq!(store.get_each(&keys), 0))
    });
    each(c, "get_batched_10k", count, true, |store, round| {
        let keys = random(BATCH, round);
        timed(|| assert_eq!(store.get(&keys), BATCH))
    });
    each(c, "prefix_scan_of_a_group", 1_000_000 / 128, false, |store, round| {
        let range = group((round % 128) as u16);
        timed(|| assert!(store.scan(&range) > 7_000))
    });
}

fn writes(c: &mut Criterion) {
    let count = BATCH as u64;
    each(c, "read_modify_write_10k", count, true, |store, round| {
        let (keys, values) = (random(BATCH, round), values(BATCH, round));
        timed(|| {
            store.get(&keys);
            store.put(&keys, &values);
            store.commit();
        })
    });
    each(c, "commit_latency_10k", count, true, |store, round| {
        store.put(&random(BATCH, round), &values(BATCH, round));
        timed(|| store.commit())
    });
    each(c, "evict_a_window_of_10k", count, false, |store, round| {
        let time = round % TIMES;
        let evicted = timed(|| {
            store.evict(&window(time));
            store.commit();
        });
        // The window comes back, so that every round has one to evict.
        let ids = (0..1_000_000u64).filter(|id| id / 128 % TIMES == time);
        let keys = keys(ids);
        let count = arrow::array::Array::len(&keys);
        store.put(&keys, &values(count, round));
        store.commit();
        evicted
    });
}

fn reopening(c: &mut Criterion) {
    each(c, "reopen_and_get_10k", BATCH as u64, false, |store, round| {
        let keys = random(BATCH, round);
        timed(|| {
            store.reopen();
            assert_eq!(store.get(&keys), BATCH);
        })
    });
}

criterion_group!(benches, bulk_load, reads, writes, reopening);
criterion_main!(benches);
