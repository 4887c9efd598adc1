//! What this backend promises beyond the laws: how little it reads, writes and waits.

use crate::world::{ALL, Version, column, id, show};
use crate::{backend, tiny};
use fluvial_core::{
    ErrorKind, KeyRange, Prefetch, RunId, Snapshot, StateBackend, StateStore, StateVersion,
};
use fluvial_sim::{CrashAt, Disk, Op, When, block_on, run};
use fluvial_state_lsm::{LocalCache, Lsm, Settings, inspect_manifest, inspect_token};
use futures::future::BoxFuture;
use object_store::path::Path;
use std::sync::{Arc, Mutex};

fn key(group: u8, time: u8, key: u16) -> Vec<u8> {
    let time = [1, 0x80, 0, 0, 0, 0, 0, 0, time];
    [&[0, group][..], &time, &key.to_be_bytes()].concat()
}

fn put(store: &mut dyn StateStore, keys: &[Vec<u8>], value: &[u8]) {
    let values = column(keys.iter().map(|_| value));
    store.put_many(&column(keys.iter().map(Vec::as_slice)), &values).unwrap();
}

async fn open(backend: &Lsm, base: &Version) -> Box<dyn StateStore> {
    backend.open(&id(), ALL, StateVersion(base.number), &base.snapshots).await.unwrap()
}

/// One batch that writes a value under these keys.
async fn step(backend: &Lsm, base: &Version, keys: &[Vec<u8>], value: &[u8]) -> Version {
    let mut store = open(backend, base).await;
    store.prefetch(&Prefetch::Keys(column(keys.iter().map(Vec::as_slice)))).await.unwrap();
    put(store.as_mut(), keys, value);
    commit(backend, base, store, keys, value).await
}

async fn commit(
    backend: &Lsm,
    base: &Version,
    store: Box<dyn StateStore>,
    keys: &[Vec<u8>],
    value: &[u8],
) -> Version {
    let snapshots = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
    let mut contents = base.contents.clone();
    contents.extend(keys.iter().map(|key| (key.clone(), value.to_vec())));
    Version { number: base.number + 1, snapshots, contents, ..Version::genesis() }
}

/// The runs of a version.
fn runs(disk: &Disk, snapshot: &Snapshot) -> usize {
    let token = inspect_token(&snapshot.token).unwrap().unwrap();
    let object = disk.read(&format!("q/state/{}", token.object)).unwrap();
    let range = token.manifest.start as usize..token.manifest.end as usize;
    inspect_manifest(&object[range]).unwrap().runs.len()
}

#[test]
fn what_is_in_memory_is_not_read_and_a_commit_is_one_create() {
    let process = Disk::new().process();
    let backend = backend(process.store(), Settings::default());
    block_on(async {
        let mut last = Version::genesis();
        for i in 0..30u8 {
            last = step(&backend, &last, &[key(0, 1, i.into()), key(2, 1, i.into())], &[i]).await;
        }
        assert_eq!(show(&backend, &last).await, last.contents);
        assert!(process.calls().iter().all(|call| call.op == Op::Create), "{:?}", process.calls());
        assert_eq!(process.steps(), 30);
        let sealed = open(&backend, &last).await.seal().unwrap();
        let same = backend.commit(vec![sealed]).await.unwrap();
        assert_eq!((process.steps(), &same[0].token), (30, &last.snapshots[0].token));
    });
}

#[test]
fn a_restart_reads_only_what_the_keys_need() {
    let disk = Disk::new();
    let settings = Settings { fetch_whole_bytes: 0, ..Settings::default() };
    block_on(async {
        let writer = backend(disk.process().store(), settings.clone());
        let keys: Vec<_> = (0..20_000).map(|i| key((i % 4) as u8, 1, i)).collect();
        let last = step(&writer, &Version::genesis(), &keys, &[7; 60]).await;
        let whole: usize = disk.contents().iter().map(|(_, bytes)| bytes.len()).sum();
        let process = disk.process();
        let later = backend(process.store(), settings);
        let mut store = open(&later, &last).await;
        assert!(!store.is_local());
        let asked = column([keys[77].as_slice(), b"\0\x01absent"]);
        let error = store.get_many(&asked).unwrap_err();
        assert_eq!(error.condition(), Some("STATE_NOT_PREFETCHED"));
        assert_eq!(store.scan(&KeyRange::all(), 1).unwrap_err().kind(), ErrorKind::Invalid);
        store.prefetch(&Prefetch::Keys(asked.clone())).await.unwrap();
        let found = store.get_many(&asked).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), [Some(&[7; 60][..]), None]);
        // The manifest, an index, a block.
        assert_eq!(process.steps(), 3, "{:?}", process.calls());
        assert!((later.memory_bytes() as usize) < whole, "{} of {whole}", later.memory_bytes());
    });
}

/// Whether a key that is written is new may only be known at the commit.
#[test]
fn keys_are_counted_exactly_without_being_prefetched() {
    let disk = Disk::new();
    block_on(async {
        let writer = backend(disk.process().store(), tiny());
        let keys: Vec<_> = (0..40).map(|i| key((i % 4) as u8, 1, i)).collect();
        let base = step(&writer, &Version::genesis(), &keys, b"old").await;
        let settings = Settings { filter_bits: 0, ..tiny() };
        let later = backend(disk.process().store(), settings);
        let mut store = open(&later, &base).await;
        let some = [key(0, 1, 0), key(0, 1, 4), key(0, 2, 1), key(1, 0, 1)];
        put(store.as_mut(), &some, b"new");
        let deleted = [key(2, 1, 2), key(2, 7, 7)];
        store.delete_many(&column(deleted.iter().map(Vec::as_slice))).unwrap();
        let snapshots = later.commit(vec![store.seal().unwrap()]).await.unwrap();
        assert_eq!(snapshots[0].rows, 40 + 2 - 1);
        let mut contents = base.contents.clone();
        contents.extend(some.into_iter().map(|key| (key, b"new".to_vec())));
        contents.remove(&deleted[0]);
        let next = Version { number: 2, snapshots, contents, ..Version::genesis() };
        assert_eq!(show(&later, &next).await, next.contents);
    });
}

#[test]
fn expired_runs_are_dropped_unread() {
    let disk = Disk::new();
    let settings = Settings { fetch_whole_bytes: 0, fanout: 100, ..Settings::default() };
    block_on(async {
        let writer = backend(disk.process().store(), settings.clone());
        let mut last = Version::genesis();
        for time in 0..6u8 {
            let keys: Vec<_> = (0..400).map(|i| key((i % 4) as u8, time, i)).collect();
            last = step(&writer, &last, &keys, b"window").await;
        }
        assert_eq!(runs(&disk, &last.snapshots[0]), 6);
        let process = disk.process();
        let later = backend(process.store(), settings);
        let mut store = open(&later, &last).await;
        let opened = process.steps();
        let mut removed = 0;
        for group in 0..4u8 {
            let range = KeyRange { start: vec![0, group], end: key(group, 4, 0)[..11].to_vec() };
            removed += store.delete_range(&range).unwrap();
        }
        assert_eq!((removed, store.size().rows), (1600, 800));
        last.contents.retain(|key, _| key[10] >= 4);
        let next = commit(&later, &last, store, &[], b"").await;
        assert_eq!(process.steps(), opened + 1, "blocks were read");
        // The two that are left, and nothing that says what is gone.
        assert_eq!(runs(&disk, &next.snapshots[0]), 2);
        assert_eq!(show(&later, &next).await, next.contents);
    });
}

type Tasks = Arc<Mutex<Vec<BoxFuture<'static, ()>>>>;

/// A backend whose merging waits until somebody plays the tasks.
fn with_tasks(store: Arc<dyn object_store::ObjectStore>, name: &str) -> (Lsm, Tasks) {
    let tasks = Tasks::default();
    let queue = Arc::clone(&tasks);
    let settings = Settings { fanout: 3, ..tiny() };
    let run = RunId::new(name).unwrap();
    let lsm = Lsm::with_spawn(store, Path::from("q/state"), run, settings, move |task| {
        queue.lock().unwrap().push(task);
    });
    (lsm, tasks)
}

#[test]
fn commits_do_not_wait_for_merging() {
    let disk = Disk::new();
    let (lsm, tasks) = with_tasks(disk.process().store(), "writer");
    block_on(async {
        let mut last = Version::genesis();
        for i in 0..5 {
            last = step(&lsm, &last, &[key(0, 1, i), key(1, 2, 7)], &[i as u8]).await;
        }
        assert_eq!((runs(&disk, &last.snapshots[0]), lsm.merges_in_flight()), (5, 1));
        let old = last.clone();
        let reader = open(&lsm, &old).await;
        let task = tasks.lock().unwrap().pop().unwrap();
        task.await;
        // Trap E5: what a task wrote and no commit names yet is not cleaned up.
        let objects = disk.paths().len();
        lsm.retain(&last.snapshots).await.unwrap();
        assert_eq!(disk.paths().len(), objects);
        last = step(&lsm, &last, &[key(0, 1, 9)], b"9").await;
        assert_eq!((runs(&disk, &last.snapshots[0]), lsm.merges_in_flight()), (4, 1));
        // Trap H7: an old version, and a handle on it, show what they did.
        assert_eq!(show(&lsm, &old).await, old.contents);
        assert_eq!(reader.size().rows, old.contents.len() as u64);
        let (later, _) = with_tasks(disk.process().store(), "later");
        for version in [&old, &last] {
            assert_eq!(show(&later, version).await, version.contents);
        }
    });
}

/// Trap E18: a merge that is cut off at any step harms nothing, and goes on in another process.
#[test]
fn merging_may_be_killed_at_any_step() {
    for when in [When::Before, When::After] {
        for at in 0.. {
            let disk = Disk::new();
            let process = disk.mortal(CrashAt { step: at, when });
            let (lsm, tasks) = with_tasks(process.store(), "mortal");
            let seen = Mutex::new(Version::genesis());
            let finished = run(&process, async {
                for i in 0..8 {
                    let last = seen.lock().unwrap().clone();
                    let next = step(&lsm, &last, &[key(0, 1, i), key(1, 2, i % 3)], b"x").await;
                    *seen.lock().unwrap() = next;
                    let due = std::mem::take(&mut *tasks.lock().unwrap());
                    for task in due {
                        task.await;
                    }
                }
            });
            let last = seen.into_inner().unwrap();
            let (later, _) = with_tasks(disk.process().store(), "later");
            block_on(async {
                assert_eq!(show(&later, &last).await, last.contents, "{when:?} {at}");
                let next = step(&later, &last, &[key(2, 2, 2)], b"y").await;
                assert_eq!(show(&later, &next).await, next.contents, "{when:?} {at}");
            });
            if finished.is_some() {
                break;
            }
        }
    }
}

/// Traps H10 and H11: nothing is held by what is closed, and the budget counts it all.
#[test]
fn memory_is_given_back() {
    let disk = Disk::new();
    let settings = Settings { memory_bytes: 1 << 20, ..Settings::default() };
    let lsm = backend(disk.process().store(), settings);
    block_on(async {
        let mut last = Version::genesis();
        let mut held = 0;
        for i in 0..300u16 {
            let keys: Vec<_> = (0..20).map(|k| key((k % 4) as u8, 1, k)).collect();
            last = step(&lsm, &last, &keys, &i.to_be_bytes()).await;
            for _ in 0..3 {
                drop(open(&lsm, &last).await);
            }
            if i == 150 {
                held = lsm.memory_bytes();
            }
        }
        assert!(lsm.memory_bytes() < held * 2 && held < 1 << 20, "{held} {}", lsm.memory_bytes());
    });
}

#[test]
fn a_local_cache_is_used_and_may_vanish_or_lie() {
    let folder = std::env::temp_dir().join(format!("fluvial-lsm-{}", std::process::id()));
    let cache = LocalCache { folder: folder.clone(), bytes_max: 1 << 20 };
    let settings = Settings { local_cache: Some(cache), ..tiny() };
    let disk = Disk::new();
    block_on(async {
        let writer = backend(disk.process().store(), tiny());
        let keys: Vec<_> = (0..50).map(|i| key((i % 4) as u8, 1, i)).collect();
        let last = step(&writer, &Version::genesis(), &keys, b"value").await;
        let reads = async |why: &str| {
            let process = disk.process();
            let later = backend(process.store(), settings.clone());
            assert_eq!(show(&later, &last).await, last.contents, "{why}");
            process.steps()
        };
        let cold = reads("cold").await;
        assert_eq!(reads("warm").await, 2, "the manifest and the index, no block");
        let damage = |change: &dyn Fn(&mut Vec<u8>)| {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let mut bytes = std::fs::read(&path).unwrap();
                change(&mut bytes);
                std::fs::write(&path, bytes).unwrap();
            }
        };
        damage(&|bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x40));
        assert_eq!(reads("flipped bits").await, cold);
        damage(&|bytes| bytes.truncate(40));
        assert!(reads("cut").await > 2);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(reads("deleted").await, cold);
    });
    std::fs::remove_dir_all(&folder).unwrap();
}
