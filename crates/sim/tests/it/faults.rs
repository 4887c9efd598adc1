//! Faults strike exactly where they are asked to.

use fluvial_core::Clock;
use fluvial_sim::{CrashAt, Disk, Fault, Flaky, Op, VirtualClock, When, block_on, run};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::cell::Cell;

#[test]
fn a_crash_runs_no_code_after_it() {
    for crash in CrashAt::each(2) {
        let disk = Disk::new();
        let process = disk.mortal(crash);
        let reached = Cell::new(0);
        let ended = run(&process, async {
            process.put(&Path::from("a"), "1".into()).await.unwrap();
            reached.set(1);
            process.put(&Path::from("b"), "2".into()).await.unwrap();
            reached.set(2);
        });
        assert_eq!(ended, None);
        assert!(process.crashed());
        assert_eq!(reached.get(), crash.step);
        let effects = crash.step + u64::from(crash.when == When::After);
        assert_eq!(disk.paths().len() as u64, effects, "{crash:?}");
        assert_eq!(run(&process, async { 1 }), None, "the dead do nothing");
    }
}

#[test]
fn a_crash_in_one_branch_ends_the_whole_process() {
    let process = Disk::new().mortal(CrashAt { step: 0, when: When::Before });
    let path = Path::from("a");
    let both = futures::future::join(process.put(&path, "1".into()), std::future::pending::<()>());
    assert!(run(&process, both).is_none());
}

#[test]
fn many_calls_at_once_all_happen() {
    let disk = Disk::new();
    let process = disk.process();
    let paths: Vec<Path> = (0..100).map(|i| Path::from(format!("f/{i}"))).collect();
    let puts = paths.iter().map(|path| process.put(path, "x".into()));
    block_on(futures::future::join_all(puts)).into_iter().for_each(|put| drop(put.unwrap()));
    assert_eq!((disk.paths().len(), process.steps()), (100, 100));
}

#[test]
fn each_fault_answers_as_it_says() {
    let path = Path::from("a");
    for fault in Fault::ALL {
        let disk = Disk::new();
        let process = disk.faulty(0, fault);
        let create = PutOptions::from(PutMode::Create);
        let error = block_on(process.put_opts(&path, "1".into(), create)).unwrap_err();
        let exists = matches!(error, Error::AlreadyExists { .. });
        assert_eq!(exists, fault == Fault::Conflict, "{error}");
        assert_eq!(disk.paths().len(), usize::from(fault == Fault::LostAck));
        block_on(process.put(&path, "1".into())).unwrap();
    }
}

#[test]
fn damage_goes_unnoticed_by_the_store() {
    let disk = Disk::new();
    disk.write("a", "abc");
    let process = disk.process();
    let path = Path::from("a");
    let before = block_on(process.head(&path)).unwrap();
    disk.damage("a", |bytes| bytes[0] ^= 1);
    let after = block_on(process.head(&path)).unwrap();
    assert_eq!(before, after);
    assert_eq!(disk.read("a").unwrap(), "`bc");
}

#[test]
fn calls_are_recorded() {
    let process = Disk::new().process();
    let path = Path::from("a");
    block_on(process.put(&path, "1".into())).unwrap();
    block_on(process.get(&path)).unwrap();
    let ops: Vec<Op> = process.calls().into_iter().map(|call| call.op).collect();
    assert_eq!(ops, [Op::Put, Op::Get]);
}

#[test]
fn flaky_faults_depend_on_the_seed_alone() {
    let history = |seed| {
        let process = Disk::new().flaky(Flaky::new(seed, 30), None);
        let path = Path::from("a");
        let answers = (0..64).map(|_| block_on(process.put(&path, "1".into())).is_ok());
        answers.collect::<Vec<bool>>()
    };
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}

#[test]
fn damage_is_on_the_line_and_not_on_the_disk() {
    let path = Path::from("a");
    for (fault, expected) in [(Fault::Flip, "abs"), (Fault::Cut, "a")] {
        let disk = Disk::new();
        disk.write("a", "abc");
        let process = disk.faulty_at([(0, fault), (1, fault)]);
        let read = async || process.get(&path).await.unwrap().bytes().await.unwrap();
        let ranges = process.clone();
        let first = block_on(read());
        assert_eq!(first.len(), if fault == Fault::Cut { 1 } else { 3 });
        assert!(first != "abc", "{first:?} is damaged, as {expected} would be");
        let second =
            block_on(ranges.get_ranges(&path, &[std::ops::Range { start: 0, end: 3 }])).unwrap();
        assert!(second[0] != "abc", "{second:?}");
        assert_eq!(block_on(read()), "abc");
    }
}

#[test]
fn a_full_disk_refuses_writes_until_another_process_comes() {
    let (path, disk) = (Path::from("a"), Disk::new());
    disk.write("old", "1");
    let process = disk.faulty(0, Fault::Full);
    for _ in 0..2 {
        let error = block_on(process.put(&path, "1".into())).unwrap_err();
        assert!(format!("{error:?}").contains("StorageFull"), "{error:?}");
    }
    block_on(process.get(&Path::from("old"))).unwrap();
    block_on(process.delete(&Path::from("old"))).unwrap();
    assert_eq!(disk.paths().len(), 0);
    block_on(disk.process().put(&path, "1".into())).unwrap();
}

#[test]
fn a_stale_listing_lacks_what_was_written_last() {
    let disk = Disk::new();
    disk.write("a", "1");
    disk.write("b", "1");
    let process = disk.faulty(0, Fault::Stale);
    let list = || block_on(process.list_with_delimiter(None)).unwrap().objects.len();
    assert_eq!((list(), list()), (1, 2));
}

#[test]
fn a_slow_call_lets_time_and_others_pass() {
    let (disk, clock) = (Disk::new(), VirtualClock::new());
    let slow = disk.faulty(0, Fault::Slow).with_clock(clock.clone());
    let (a, b) = (Path::from("a"), Path::from("b"));
    let quick = disk.process();
    block_on(async {
        let late = async {
            slow.put(&a, "1".into()).await.unwrap();
            assert_eq!(disk.paths(), ["a", "b"]);
        };
        let early = async {
            quick.put(&b, "1".into()).await.unwrap();
            assert_eq!(disk.paths(), ["b"]);
        };
        futures::future::join(late, early).await
    });
    assert_eq!(clock.now_ms(), 60_000);
}

#[test]
fn the_dead_may_be_told_so_and_have_no_effect() {
    let disk = Disk::new();
    let process = disk.mortal(CrashAt { step: 0, when: When::Before }).refusing_when_dead();
    let told = block_on(process.put(&Path::from("a"), "1".into()));
    assert!(told.is_err() && process.crashed() && disk.paths().is_empty());
    assert!(run(&process, async { 1 }).is_none());
}

#[test]
fn too_many_steps_are_the_end() {
    let process = Disk::new().process().with_steps_max(3);
    let endless = async {
        loop {
            process.put(&Path::from("a"), "1".into()).await.unwrap();
        }
    };
    assert!(run(&process, endless).is_none());
    assert!(process.exhausted());
    assert_eq!(process.steps(), 4);
}
