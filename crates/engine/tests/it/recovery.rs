//! What a restart finds, and what it makes of it.

use crate::parts::around::sink_around;
use crate::parts::query::{Parts, What};
use crate::parts::sink::{batches, visible};
use crate::parts::source::Script;
use crate::parts::state::Reformatted;
use crate::world::{commit, fail, go, newest, parts, plan};
use fluvial_core::{
    BatchId, CommitOutcome, ErrorKind, KeyGroupCount, Note, OutputMode, Result, Sink, SinkSpec,
    Staged, WatermarkPolicy, WatermarkScope,
};
use fluvial_engine::{EmptyBatches, Pinned};
use fluvial_sim::{CrashAt, Disk, When, run};
use std::sync::Arc;

const ROWS: [(i64, i64); 8] =
    [(1, 1), (2, 2), (1, 12), (2, 13), (1, 22), (2, 24), (1, 32), (1, 33)];

/// A disk on which batches 0 to 3 of a copy have run, two rows each.
fn four_batches() -> (Disk, Script) {
    let (disk, source) = (Disk::new(), Script::new(&ROWS));
    go(&copy(&disk, "first", &source));
    assert_eq!(newest(&disk).batch, BatchId(3));
    (disk, source)
}

fn copy(disk: &Disk, run: &str, source: &Script) -> Parts {
    Parts { what: What::Copy, ..parts(disk, run, &source.limited(2)) }
}

fn remove(disk: &Disk, entries: &[&str]) {
    for entry in entries {
        assert!(disk.remove(&format!("checkpoint/{entry}")), "{entry}");
    }
}

fn all_rows() -> Vec<Vec<i64>> {
    let mut rows: Vec<_> = ROWS.iter().map(|(k, t)| vec![*k, *t]).collect();
    rows.sort_by_key(|row| row[1]);
    rows
}

fn seen(disk: &Disk) -> Vec<Vec<i64>> {
    let mut rows = visible(disk);
    rows.sort_by_key(|row| row[1]);
    rows
}

/// Trap E1.
#[test]
fn level_logs_go_on_and_a_plan_ahead_is_replayed() {
    let (disk, source) = four_batches();
    source.push(&[(7, 40)]);
    go(&copy(&disk, "second", &source));
    assert_eq!(newest(&disk).batch, BatchId(4));

    let (disk, source) = four_batches();
    remove(&disk, &["commits/3"]);
    source.push(&[(7, 40)]);
    go(&copy(&disk, "second", &source));
    assert_eq!(plan(&disk, 3).unwrap().run.as_str(), "first");
    assert_eq!(commit(&disk, 3).unwrap().run.as_str(), "second");
    assert_eq!(newest(&disk).batch, BatchId(4), "and what is new comes after it");
}

/// Trap E1.
#[test]
fn logs_that_do_not_fit_together_are_an_error() {
    for (entries, what) in [
        (vec!["commits/3", "commits/2"], "two plans ahead"),
        (vec!["offsets/3"], "a commit ahead"),
        (vec!["commits/0", "commits/1", "commits/2", "commits/3"], "no commit at all"),
        (vec!["offsets/0", "offsets/1", "offsets/2", "offsets/3"], "no plan at all"),
    ] {
        let (disk, source) = four_batches();
        remove(&disk, &entries);
        let before = disk.contents();
        let error = fail(&copy(&disk, "second", &source));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        assert_eq!(disk.contents(), before, "{what}: nothing was touched");
    }
}

/// Trap E2.
#[test]
fn torn_newest_entries_never_ran() {
    for (entry, change) in [
        ("offsets/4.tmp", None),
        ("offsets/4", Some(0)),
        ("offsets/4", Some(40)),
        ("commits/3", Some(0)),
        ("commits/3", Some(30)),
    ] {
        let (disk, source) = four_batches();
        source.push(&[(7, 40)]);
        let path = format!("checkpoint/{entry}");
        match change {
            None => disk.write(&path, "half a pl"),
            Some(length) => {
                if disk.read(&path).is_none() {
                    go(&copy(&disk, "cut", &source));
                    remove(&disk, &["commits/4"]);
                    disk.remove("out/4");
                }
                disk.damage(&path, |bytes| bytes.truncate(length));
            }
        }
        go(&copy(&disk, "second", &source));
        let mut expected = all_rows();
        expected.push(vec![7, 40]);
        assert_eq!(seen(&disk), expected, "{entry} {change:?}");
    }
}

/// Trap D1.
#[test]
fn a_lost_commit_is_made_again_without_writing_twice() {
    let (disk, source) = four_batches();
    let before = (batches(&disk), commit(&disk, 3).unwrap());
    remove(&disk, &["commits/3"]);
    go(&copy(&disk, "second", &source));
    assert_eq!(batches(&disk), before.0);
    assert_eq!(commit(&disk, 3).unwrap().watermarks, before.1.watermarks);
}

/// State and output come from one attempt: the one that was published.
#[test]
fn a_replay_adopts_the_snapshots_of_the_attempt_that_was_published() {
    let (disk, source) = (Disk::new(), Script::new(&ROWS));
    let parts_of = |run: &str| parts(&disk, run, &source.limited(2));
    go(&parts_of("first"));
    let before = newest(&disk);
    remove(&disk, &[&format!("commits/{}", before.batch)]);
    go(&parts_of("second"));
    let after = newest(&disk);
    assert_eq!((after.batch, after.run.as_str()), (before.batch, "second"));
    assert_eq!(after.snapshots, before.snapshots, "not those that the second run wrote");
}

/// Trap D4.
#[test]
fn an_output_ahead_of_its_checkpoint_is_refused() {
    let (disk, source) = four_batches();
    remove(&disk, &["commits/3", "offsets/3"]);
    let error = fail(&copy(&disk, "second", &source));
    assert_eq!(
        (error.kind(), error.condition()),
        (ErrorKind::Invalid, Some("CHECKPOINT_BEHIND_SINK"))
    );
    assert!(error.to_string().contains("newest plan is 2"), "{error}");
}

#[test]
fn an_output_behind_its_checkpoint_is_warned_of() {
    let (disk, source) = four_batches();
    disk.remove("out/3");
    let query = go(&copy(&disk, "second", &source));
    assert!(query.warnings()[0].contains("output up to batch 2"), "{:?}", query.warnings());
}

/// Forgets what it published when it is opened, as a sink without a memory does.
struct Untold(Arc<dyn Sink>);

sink_around!(Untold, 0, {
    fn modes(&self) -> &[OutputMode] {
        self.0.modes()
    }
    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.0.open(spec).await.map(|_| None)
    }
    async fn commit(&self, n: BatchId, staged: Vec<Staged>, note: &Note) -> Result<CommitOutcome> {
        self.0.commit(n, staged, note).await
    }
});

#[test]
fn a_batch_published_from_another_plan_is_refused() {
    let (disk, source) = four_batches();
    remove(&disk, &["commits/3", "offsets/3"]);
    let mut parts = copy(&disk, "second", &source);
    parts.sink = Arc::new(Untold(Arc::clone(&parts.sink)));
    let error = fail(&parts);
    assert_eq!(error.condition(), Some("CHECKPOINT_SINK_MISMATCH"), "{error}");
    assert!(error.to_string().contains("batch 3") && error.to_string().contains("run first"));
}

/// Trap E17.
#[test]
fn state_newer_than_the_newest_commit_is_thrown_away() {
    let rows: Vec<_> = (1..=10).map(|i| (5, i % 10)).collect();
    let source = Script::new(&rows);
    let total = |disk: &Disk| {
        let mut parts = parts(disk, "clean", &source);
        parts.mode = OutputMode::Update;
        go(&parts);
        visible(disk)
    };
    let clean = Disk::new();
    let expected = total(&clean);
    let state_steps = |disk: &Disk| disk.paths_under("state").len();
    let mut crashed_between = 0;
    for step in 0.. {
        let disk = Disk::new();
        let process = disk.mortal(CrashAt { step, when: When::After });
        let mut parts = Parts::on(process.store(), "dying", &source);
        parts.mode = OutputMode::Update;
        if run(&process, parts.live()).is_some() {
            break;
        }
        if state_steps(&disk) == 2 && disk.paths_under("checkpoint/commits").is_empty() {
            crashed_between += 1;
        }
        assert_eq!(total(&disk), expected, "step {step}");
    }
    assert!(crashed_between > 0);
}

/// Trap E1: state that no longer has all its parts is never taken for whole.
#[test]
fn a_commit_that_lacks_a_partition_is_refused() {
    let (disk, source) = (Disk::new(), Script::new(&ROWS));
    go(&parts(&disk, "first", &source));
    let mut last = newest(&disk);
    let lost = last.snapshots.pop().unwrap();
    let bytes = fluvial_checkpoint::format::commit_bytes(&last).unwrap();
    disk.write(&format!("checkpoint/commits/{}", last.batch), bytes);
    let error = fail(&parts(&disk, "second", &source));
    assert_eq!(error.condition(), Some("STATE_SNAPSHOTS_INCOMPLETE"), "{error}");
    let place = format!("commit {}", last.batch);
    let start = lost.groups.start.to_string();
    assert!(error.to_string().contains(&place) && error.to_string().contains(&start), "{error}");
}

/// Trap E14; the number of key groups is what stays.
#[test]
fn partitions_may_change_at_every_restart() {
    let keys: Vec<_> = (1..=100).map(|key| (key, 5)).collect();
    let (disk, source) = (Disk::new(), Script::new(&keys));
    for (i, partitions) in [1, 4, 3, 8].into_iter().enumerate() {
        let mut parts = parts(&disk, &format!("run-{i}"), &source);
        parts.mode = OutputMode::Update;
        parts.settings.partitions = partitions;
        parts.settings.empty_batches = EmptyBatches::Never;
        go(&parts);
        assert_eq!(newest(&disk).snapshots.len(), partitions as usize);
        let counts: Vec<_> = batches(&disk).pop().unwrap().1.into_iter().map(|r| r[2]).collect();
        assert_eq!(counts, vec![i as i64 + 1; 100]);
        source.push(&keys);
    }
}

/// Trap E14.
#[test]
fn a_replay_uses_the_recorded_number_of_partitions() {
    let (disk, source) = (Disk::new(), Script::new(&ROWS));
    go(&parts(&disk, "first", &source));
    let last = newest(&disk);
    remove(&disk, &[&format!("commits/{}", last.batch)]);
    let mut again = parts(&disk, "second", &source);
    again.settings.partitions = 7;
    go(&again);
    assert_eq!(newest(&disk).snapshots.len(), 2);
}

/// Trap A22.
#[test]
fn pinned_settings_win_over_those_of_the_session() {
    let (disk, source) = (Disk::new(), Script::new(&ROWS));
    go(&parts(&disk, "first", &source));
    source.push(&[(1, 50)]);
    let mut second = parts(&disk, "second", &source);
    second.settings.pinned = Pinned {
        key_groups: KeyGroupCount::new(16).unwrap(),
        watermark_policy: WatermarkPolicy::Max,
        watermark_scope: WatermarkScope::Query,
    };
    let query = go(&second);
    let settings = plan(&disk, newest(&disk).batch.0).unwrap().settings;
    assert_eq!(settings.watermark_policy, WatermarkPolicy::Min);
    assert_eq!(settings.key_groups, KeyGroupCount::DEFAULT);
    assert_eq!(settings.watermark_scope, WatermarkScope::Operator);
    assert_eq!(query.warnings().len(), 3, "{:?}", query.warnings());
}

/// Trap I9.
#[test]
fn sources_are_known_by_name_not_by_place() {
    let (a, b) = (Script::new(&[(1, 1), (2, 2)]), Script::new(&[(3, 3)]));
    let disk = Disk::new();
    let of = |run: &str, sources: &[(&'static str, &Script)]| {
        let mut parts = parts(&disk, run, &a);
        parts.what = What::Copy;
        parts.sources = sources
            .iter()
            .map(|(name, source)| (*name, Arc::new((*source).clone()) as Arc<_>))
            .collect();
        parts
    };
    go(&of("first", &[("a", &a), ("b", &b)]));
    b.push(&[(4, 4)]);
    go(&of("second", &[("b", &b), ("a", &a)]));
    assert_eq!(batches(&disk)[1].1, [[4, 4]], "each went on where it was");
    let error = fail(&of("third", &[("a", &a), ("b", &b), ("c", &Script::new(&[]))]));
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let error = fail(&of("fourth", &[("a", &a)]));
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn a_changed_window_is_refused_before_anything_runs() {
    let (disk, source) = (Disk::new(), Script::new(&ROWS));
    go(&parts(&disk, "first", &source));
    let before = disk.contents();
    let changed = Parts { what: What::Windows(5), ..parts(&disk, "second", &source) };
    let error = fail(&changed);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(disk.contents(), before);
}

#[test]
fn state_of_another_format_is_refused_before_anything_runs() {
    let (disk, source) = (Disk::new(), Script::new(&ROWS));
    go(&parts(&disk, "first", &source));
    let before = disk.contents();
    let query = parts(&disk, "second", &source);
    let state = Arc::new(Reformatted(Arc::clone(&query.state)));
    let error = fail(&Parts { state, ..query });
    assert_eq!(error.condition(), Some("STATE_FORMAT_CHANGED"), "{error}");
    let text = error.to_string();
    assert!(text.contains("\"snapshots\"") && text.contains("\"other\""), "{text}");
    assert_eq!(disk.contents(), before);
}

#[test]
fn where_to_start_is_asked_of_new_queries_only() {
    let (disk, source) = (Disk::new(), Script::new(&ROWS[..4]));
    source.with(|shared| shared.initial = 2);
    go(&copy(&disk, "first", &source));
    assert_eq!(seen(&disk), [[1, 12], [2, 13]]);
    source.with(|shared| shared.initial = 0);
    source.push(&ROWS[4..6]);
    go(&copy(&disk, "second", &source));
    assert_eq!(seen(&disk), [[1, 12], [2, 13], [1, 22], [2, 24]]);
}

#[test]
fn the_id_of_the_query_is_that_of_its_checkpoint() {
    let (disk, source) = four_batches();
    let query = go(&copy(&disk, "second", &source));
    assert_eq!((query.id().as_str(), query.run_id().as_str()), ("q-first", "second"));
    disk.remove("checkpoint/metadata");
    let error = fail(&copy(&disk, "third", &source));
    assert_eq!(error.condition(), Some("CHECKPOINT_METADATA_MISSING"), "{error}");
}

/// Trap E3: the run that was there first notices at its next batch, at the latest.
#[test]
fn of_two_runs_on_one_checkpoint_one_stops() {
    use fluvial_engine::{Engine, Trigger, Unobserved};
    use fluvial_sim::block_on;
    use std::pin::pin;
    use std::task::{Context, Waker};

    let (disk, source) = (Disk::new(), Script::new(&ROWS));
    let mut first = copy(&disk, "first", &source);
    first.trigger = Trigger::Default;
    let engine = block_on(Engine::open(first.spec(), Arc::new(Unobserved))).unwrap();
    let query = engine.query();
    let mut running = pin!(engine.run());
    let mut cx = Context::from_waker(Waker::noop());
    while disk.read("checkpoint/commits/3").is_none() {
        assert!(running.as_mut().poll(&mut cx).is_pending());
    }
    source.push(&[(7, 40)]);
    go(&copy(&disk, "second", &source));
    source.push(&[(8, 50)]);
    block_on(running);
    let error = query.exception().unwrap();
    assert_eq!((error.kind(), error.condition()), (ErrorKind::Fenced, Some("CONCURRENT_RUN")));
    assert!(error.to_string().contains("run second planned it first"), "{error}");
    let mut expected = all_rows();
    expected.push(vec![7, 40]);
    assert_eq!(seen(&disk), expected);
}

#[test]
fn after_a_restart_a_source_adopts_its_newest_range_however_old() {
    let (disk, source) = (Disk::new(), Script::new(&ROWS[..2]));
    let busy = Script::new(&[(1, 1)]);
    let with_busy = |run: &str| {
        let mut parts = copy(&disk, run, &source);
        parts.retention = fluvial_checkpoint::Retention { batches: 2, age: Default::default() };
        parts.sources.push(("busy", Arc::new(busy.clone())));
        parts
    };
    for i in 0..6 {
        go(&with_busy(&format!("run-{i}")));
        busy.push(&[(1, 2 + i)]);
    }
    assert!(plan(&disk, 0).is_none(), "the plan that read it is long gone");
    source.with(|shared| shared.adopted.clear());
    go(&with_busy("last"));
    assert_eq!(source.with(|shared| shared.adopted.clone()), [2]);
}
