//! What this backend promises beyond the laws: how little it reads and writes.

use crate::{backend, id, key_column};
use fluvial_core::{
    ErrorKind, KeyGroupRange, KeyRange, RunId, Snapshot, StateBackend, StateStore, StateVersion,
};
use fluvial_sim::{Disk, Op, block_on};
use fluvial_state_memory::{Compression, MemoryBackend, Settings, inspect_frame, inspect_token};
use object_store::path::Path;

const LEFT: KeyGroupRange = KeyGroupRange { start: 0, end: 4 };
const RIGHT: KeyGroupRange = KeyGroupRange { start: 4, end: 8 };

async fn open(
    backend: &MemoryBackend,
    groups: KeyGroupRange,
    version: u64,
    snapshots: &[Snapshot],
) -> Box<dyn StateStore> {
    backend.open(&id("default"), groups, StateVersion(version), snapshots).await.unwrap()
}

fn put(store: &mut dyn StateStore, key: &[u8], value: &[u8]) {
    store.put_many(&key_column([key]), &key_column([value])).unwrap();
}

/// One batch on two partitions that writes one value to each.
async fn step(
    backend: &MemoryBackend,
    version: u64,
    base: &[Snapshot],
    value: &[u8],
) -> Vec<Snapshot> {
    let mut sealed = Vec::new();
    for groups in [LEFT, RIGHT] {
        let mut store = open(backend, groups, version, base).await;
        put(store.as_mut(), &[0, groups.start as u8, 1], value);
        sealed.push(store.seal().unwrap());
    }
    backend.commit(sealed).await.unwrap()
}

async fn get(backend: &MemoryBackend, version: u64, base: &[Snapshot]) -> Vec<u8> {
    let store = open(backend, LEFT, version, base).await;
    store.get_many(&key_column([&[0, 0, 1][..]])).unwrap().value(0).to_vec()
}

#[test]
fn what_is_in_memory_is_not_read() {
    let process = Disk::new().process();
    let backend = backend(process.store(), Settings::default());
    block_on(async {
        let mut last = step(&backend, 0, &[], b"0").await;
        for version in 1..30 {
            last = step(&backend, version, &last, &version.to_be_bytes()).await;
        }
        // The sink failed: the batch runs again over the version before, and once more.
        let base = last;
        let lost = step(&backend, 30, &base, b"lost").await;
        let again = step(&backend, 30, &base, b"again").await;
        let elected = step(&backend, 30, &base, b"elected").await;
        assert_eq!(get(&backend, 30, &base).await, 29u64.to_be_bytes());
        assert_eq!(get(&backend, 31, &again).await, b"again");
        assert!(process.calls().iter().all(|call| call.op == Op::Create), "{:?}", process.calls());
        // The base became the elected attempt; everything else is read again.
        assert_eq!(get(&backend, 31, &elected).await, b"elected");
        assert_eq!(get(&backend, 30, &base).await, 29u64.to_be_bytes());
        assert_eq!(get(&backend, 31, &lost).await, b"lost");
        assert!(process.calls().iter().any(|call| call.op == Op::Get));
    });
}

#[test]
fn unchanged_partitions_cost_no_call() {
    let process = Disk::new().process();
    let backend = backend(process.store(), Settings::default());
    block_on(async {
        let base = step(&backend, 0, &[], b"0").await;
        let calls = process.steps();
        let sealed = open(&backend, LEFT, 1, &base).await.seal().unwrap();
        let next = backend.commit(vec![sealed]).await.unwrap();
        assert_eq!(process.steps(), calls);
        assert_eq!(next[0].token, base[0].token);
    });
}

#[test]
fn a_commit_is_one_object_per_store_and_lists_nothing() {
    let disk = Disk::new();
    let process = disk.process();
    let backend = backend(process.store(), Settings::default());
    block_on(async {
        let mut sealed = Vec::new();
        for (store, groups) in [("a", LEFT), ("b", LEFT), ("a", RIGHT), ("b", RIGHT)] {
            let mut store = backend.open(&id(store), groups, StateVersion(0), &[]).await.unwrap();
            put(store.as_mut(), &[0, groups.start as u8], b"1");
            sealed.push(store.seal().unwrap());
        }
        let snapshots = backend.commit(sealed).await.unwrap();
        assert_eq!(process.calls().len(), 2, "{:?}", process.calls());
        assert_eq!(disk.paths_under("q/state/count/a/").len(), 1);
        assert_eq!(disk.paths_under("q/state/count/b/").len(), 1);
        let order: Vec<_> = snapshots.iter().map(|s| (s.id.store.as_str(), s.groups)).collect();
        assert_eq!(order, [("a", LEFT), ("b", LEFT), ("a", RIGHT), ("b", RIGHT)]);
    });
}

/// Half of a large state never changes: then a delta is small, and a chain ends by its length.
#[test]
fn chains_are_short_and_deltas_are_small() {
    let disk = Disk::new();
    let process = disk.process();
    let settings = Settings { deltas_max: 4, compression: Compression::None };
    let backend = backend(process.store(), settings);
    block_on(async {
        let mut store = open(&backend, LEFT, 0, &[]).await;
        for i in 0..200u8 {
            put(store.as_mut(), &[0, 0, 9, i], &[i; 20]);
        }
        let mut last = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
        let mut deltas = Vec::new();
        for version in 1..12 {
            let mut store = open(&backend, LEFT, version, &last).await;
            put(store.as_mut(), &[0, 0, 1], &version.to_be_bytes());
            last = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
            deltas.push(inspect_token(&last[0].token).unwrap().deltas);
        }
        assert_eq!(deltas, [1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
        let sizes = disk.paths().into_iter().map(|path| disk.read(&path).unwrap().len());
        assert_eq!(sizes.filter(|size| *size < 50).count(), 9);
        // A restart reads as many frames as the chain has, at once.
        let later = disk.process();
        get(&crate::backend(later.store(), settings), 12, &last).await;
        assert_eq!(later.calls().len(), 2);
        // A chain that is much longer than what is left ends.
        let mut store = open(&backend, LEFT, 12, &last).await;
        assert_eq!(store.delete_range(&KeyRange::prefix(&[0, 0, 9])).unwrap(), 200);
        put(store.as_mut(), &[0, 0, 1], &[1]);
        last = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
        assert_eq!(inspect_token(&last[0].token).unwrap().deltas, 0);
        // Nor is anything for a store that became empty.
        let mut store = open(&backend, LEFT, 13, &last).await;
        assert_eq!(store.delete_range(&KeyRange::all()).unwrap(), 1);
        let objects = disk.paths().len();
        last = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
        assert_eq!((last[0].token.as_str(), disk.paths().len()), ("empty", objects));
        assert_eq!(open(&backend, LEFT, 14, &last).await.size().rows, 0);
    });
}

#[test]
fn large_frames_are_compressed() {
    let size = |compression| {
        let disk = Disk::new();
        let backend =
            backend(disk.process().store(), Settings { compression, ..Settings::default() });
        block_on(async {
            let mut store = open(&backend, LEFT, 0, &[]).await;
            for i in 0..1000u32 {
                put(store.as_mut(), &[&[0, 0][..], &i.to_be_bytes()].concat(), b"a common value");
            }
            backend.commit(vec![store.seal().unwrap()]).await.unwrap();
        });
        let bytes = disk.read(&disk.paths()[0]).unwrap();
        let summary = inspect_frame(&bytes).unwrap();
        assert_eq!((summary.is_full, summary.rows), (true, 1000));
        bytes.len()
    };
    assert!(size(Compression::Zstd) * 3 < size(Compression::None));
}

/// If this fails, the format has changed: give it a new number, and keep reading this one.
#[test]
fn golden_bytes() {
    let disk = Disk::new();
    let run = RunId::new("run").unwrap();
    let settings = Settings { deltas_max: 5, compression: Compression::None };
    let backend = MemoryBackend::new(disk.process().store(), Path::from("s"), run, settings);
    let assert_bytes = |path: &str, hex: &str| {
        let found = disk.read(path).unwrap();
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, hex.replace(' ', ""));
    };
    block_on(async {
        let mut store = open(&backend, LEFT, 0, &[]).await;
        for (key, value) in [(&[0, 0, 5][..], &b"abc"[..]), (&[0, 2, 6], b""), (&[0, 3], b"xyz")] {
            put(store.as_mut(), key, value);
        }
        let one = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
        assert_eq!(one[0].token, "1-0-run@0+34:8af9dd73");
        assert_bytes(
            "s/count/default/1-0-run",
            "036600 00 03 03000005 00 01 00 04616263 03000206 00 01 00 01 020003 00 01 00 0478797a",
        );
        let mut store = open(&backend, LEFT, 1, &one).await;
        store.delete_range(&KeyRange::prefix(&[0, 3])).unwrap();
        store.delete_many(&key_column([&[0, 2, 6][..]])).unwrap();
        let two = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
        assert_eq!(two[0].token, "1-0-run@0+34:8af9dd73;2-1@0+19:91770f87");
        assert_bytes("s/count/default/2-1-run", "036400 01 020003 020004 01 03000206 00 01 00 00");
    });
}

#[test]
fn frames_of_older_formats_are_read() {
    for hex in [
        "016600 00 03 03000005 04616263 03000206 01 020003 0478797a",
        "026600 00 03 03000005 01 00 04616263 03000206 01 00 01 020003 01 00 0478797a",
    ] {
        let hex = hex.replace(' ', "");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let frame: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        assert_eq!(inspect_frame(&frame).unwrap().rows, 3);
    }
}

#[test]
fn names_of_a_lost_acknowledgement_are_not_used_again() {
    let disk = Disk::new();
    let run = || RunId::new("same").unwrap();
    let new =
        || MemoryBackend::new(disk.process().store(), Path::from("s"), run(), Settings::default());
    block_on(async {
        let (a, b) = (new(), new());
        let (one, two) = (step(&a, 0, &[], b"a").await, step(&b, 0, &[], b"b").await);
        assert_ne!(one[0].token, two[0].token);
        assert_eq!(get(&new(), 1, &one).await, b"a");
        assert_eq!(get(&new(), 1, &two).await, b"b");
    });
}

#[test]
fn memory_does_not_grow_with_batches_or_attempts() {
    let disk = Disk::new();
    let backend = backend(disk.process().store(), Settings::default());
    block_on(async {
        let mut last = step(&backend, 0, &[], &[0; 1000]).await;
        let mut most = 0;
        for version in 1..60 {
            for attempt in 0..5 {
                step(&backend, version, &last, &[attempt; 1000]).await;
            }
            last = step(&backend, version, &last, &[version as u8; 1000]).await;
            if version == 20 {
                most = backend.memory_bytes();
            }
        }
        assert!(backend.memory_bytes() <= most * 2, "{} after {most}", backend.memory_bytes());
        // After a rescaling only the new partitions are in memory.
        let all = KeyGroupRange { start: 0, end: 8 };
        let store = open(&backend, all, 60, &last).await;
        assert_eq!(store.size().rows, 2);
        assert!(backend.memory_bytes() <= store.size().memory_bytes);
    });
}

#[test]
fn what_is_not_of_this_store_is_refused() {
    let backend = backend(Disk::new().process().store(), Settings::default());
    block_on(async {
        let one = step(&backend, 0, &[], b"0").await;
        let open = async |version, change: &dyn Fn(&mut Snapshot)| {
            let mut snapshots = one.clone();
            change(&mut snapshots[0]);
            let opened =
                backend.open(&id("default"), LEFT, StateVersion(version), &snapshots).await;
            opened.err().map(|error| error.kind())
        };
        assert_eq!(open(1, &|_| ()).await, None);
        assert_eq!(open(2, &|_| ()).await, Some(ErrorKind::Invalid));
        assert_eq!(open(1, &|s| s.id = id("other")).await, Some(ErrorKind::Invalid));
        assert_eq!(open(1, &|s| s.groups.end = 3).await, Some(ErrorKind::Invalid));
        assert_eq!(open(1, &|s| s.token = "manifest-7".into()).await, Some(ErrorKind::Corrupt));
        let gone = |s: &mut Snapshot| s.token = s.token.replace("1-0-", "1-7-");
        assert_eq!(open(1, &gone).await, Some(ErrorKind::NotFound));
        // A frame of another partition, named as this one's.
        let other = one[1].token.clone();
        assert_eq!(open(1, &|s| s.token = other.clone()).await, Some(ErrorKind::Corrupt));
    });
}
