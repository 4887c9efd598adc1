//! One budget for the stores of several backends: what counts, what is dropped, what is refused.

use crate::world::{ALL, column, id};
use fluvial_core::{KeyRange, Prefetch, RunId, Snapshot, StateBackend, StateStore, StateVersion};
use fluvial_sim::{Disk, block_on};
use fluvial_state_lsm::{Budget, Compression, Lsm, Settings};
use object_store::path::Path;
use std::sync::Arc;

const MB: usize = 1 << 20;

fn key(i: u32) -> Vec<u8> {
    [&[0, (i % 4) as u8][..], &i.to_be_bytes()].concat()
}

/// A backend of a query with few small blocks, each a key.
fn backend(disk: &Disk, name: &str, budget: &Arc<Budget>) -> Lsm {
    let settings = Settings {
        block_bytes: 1,
        compression: Compression::None,
        fetch_whole_bytes: 0,
        ..Settings::default()
    };
    let (root, run) = (Path::from(format!("{name}/state")), RunId::new(name).unwrap());
    Lsm::new(disk.process().store(), root, run, settings)
        .within(Arc::clone(budget), format!("query {name}"))
}

async fn open(lsm: &Lsm, version: u64, snapshots: &[Snapshot]) -> Box<dyn StateStore> {
    lsm.open(&id(), ALL, StateVersion(version), snapshots).await.unwrap()
}

fn put(store: &mut dyn StateStore, keys: std::ops::Range<u32>, value: &[u8]) {
    let keys: Vec<_> = keys.map(key).collect();
    let values = column(keys.iter().map(|_| value));
    store.put_many(&column(keys.iter().map(Vec::as_slice)), &values).unwrap();
}

async fn write(lsm: &Lsm, keys: u32, value: &[u8]) -> Vec<Snapshot> {
    let mut store = open(lsm, 0, &[]).await;
    put(store.as_mut(), 0..keys, value);
    lsm.commit(vec![store.seal().unwrap()]).await.unwrap()
}

#[test]
fn backends_share_what_they_are_given() {
    let (disk, budget) = (Disk::new(), Arc::new(Budget::new(MB as u64, "state.memory")));
    let [one, two] = ["one", "two"].map(|name| backend(&disk, name, &budget));
    block_on(async {
        let first = write(&one, 1000, &[1; 100]).await;
        let alone = budget.used();
        assert!(alone > 100_000, "{alone}");
        let second = write(&two, 1000, &[2; 100]).await;
        assert_eq!((one.memory_bytes(), two.memory_bytes()), (budget.used(), budget.used()));
        assert!(budget.used() >= 2 * alone - 1000, "{} {alone}", budget.used());
        // What one writes makes room among the blocks of the other.
        for round in 0..20u8 {
            let mut store = open(&two, 1, &second).await;
            put(store.as_mut(), 0..1000, &[round; 600]);
            assert!(budget.used() <= MB as u64 + 100_000, "{}", budget.used());
        }
        let store = open(&one, 1, &first).await;
        assert_eq!(store.size().rows, 1000);
        drop((store, one, two));
        assert_eq!(budget.used(), 0);
    });
}

/// Many keys in many blocks: these are not all in memory at once.
#[test]
fn keys_in_too_many_blocks_are_copied_out() {
    let (disk, budget) = (Disk::new(), Arc::new(Budget::new(MB as u64, "state.memory")));
    block_on(async {
        let big = Arc::new(Budget::new(1 << 30, "state.memory"));
        let snapshots = write(&backend(&disk, "query", &big), 8000, &[7; 500]).await;
        // The same objects, and a budget that is a small part of them; a block holds 4 KiB.
        let settings = Settings { block_bytes: 4096, fetch_whole_bytes: 0, ..Settings::default() };
        let run = RunId::new("later").unwrap();
        let lsm = Lsm::new(disk.process().store(), Path::from("query/state"), run, settings)
            .within(Arc::clone(&budget), "query");
        let mut store = open(&lsm, 1, &snapshots).await;
        let before = budget.used();
        let keys: Vec<_> = (0..400).map(|i| key(i * 40)).collect();
        let keys = column(keys.iter().map(Vec::as_slice));
        store.prefetch(&Prefetch::Keys(keys.clone())).await.unwrap();
        assert!(budget.used() < before + 400_000, "{before} {}", budget.used());
        let check = |store: &dyn StateStore, changed: &[u32]| {
            let found = store.get_many(&keys).unwrap();
            for (row, value) in found.iter().enumerate() {
                let there = row < 200 && !changed.contains(&(row as u32));
                assert_eq!(value, there.then_some(&[7; 500][..]), "{row}");
            }
        };
        check(store.as_ref(), &[]);
        // What the batch deletes hides what was copied out, and is counted.
        store.delete_many(&column([key(40).as_slice()])).unwrap();
        check(store.as_ref(), &[1]);
        assert_eq!(store.size().rows, 7999);
        put(store.as_mut(), 40..41, &[7; 500]);
        check(store.as_ref(), &[]);
        assert_eq!(store.size().rows, 8000);
        let range = KeyRange::prefix(&key(80));
        store.prefetch(&Prefetch::Ranges(vec![range.clone()])).await.unwrap();
        assert_eq!(store.delete_range(&range).unwrap(), 1);
        check(store.as_ref(), &[2]);
        let next = lsm.commit(vec![store.seal().unwrap()]).await.unwrap();
        assert_eq!(next[0].rows, 7999);
    });
}

/// What is written without having been read is looked for by the commit, piece by piece too.
#[test]
fn commits_look_for_keys_in_pieces() {
    let (disk, budget) = (Disk::new(), Arc::new(Budget::new(MB as u64, "state.memory")));
    block_on(async {
        let snapshots = write(&backend(&disk, "query", &budget), 4000, &[7; 300]).await;
        let later = backend(&disk, "query", &Arc::new(Budget::new(0, "state.memory")));
        let mut store = open(&later, 1, &snapshots).await;
        put(store.as_mut(), 3000..5000, b"new");
        let next = later.commit(vec![store.seal().unwrap()]).await.unwrap();
        assert_eq!(next[0].rows, 5000);
    });
}

#[test]
fn a_batch_that_does_not_fit_is_refused_by_name() {
    let (disk, budget) = (Disk::new(), Arc::new(Budget::new(MB as u64, "state.memory")));
    let lsm = backend(&disk, "clicks", &budget);
    block_on(async {
        let snapshots = write(&lsm, 10, b"x").await;
        let mut store = open(&lsm, 1, &snapshots).await;
        let value = vec![1; MB];
        let mut put = |i: u32| store.put_many(&column([key(i).as_slice()]), &column([&value[..]]));
        let refused = (100..200).find_map(|i| put(i).err()).unwrap();
        assert_eq!(refused.condition(), Some("STATE_MEMORY_EXCEEDED"));
        for part in ["query clicks", "count", "state.memory", "take less input a batch"] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
        drop(store);
        // What was committed stays, and the next batch may go on.
        assert_eq!(open(&lsm, 1, &snapshots).await.size().rows, 10);
        assert!(budget.used() < MB as u64, "{}", budget.used());
    });
}
