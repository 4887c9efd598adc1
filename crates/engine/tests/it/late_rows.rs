//! Rows that come too late go to a sink of their own, exactly once, whatever breaks.

use crate::parts::around::sink_around;
use crate::parts::query::{Parts, What};
use crate::parts::sink::{ObjectSink, batches_in, visible};
use crate::parts::source::Script;
use fluvial_core::{BatchId, CommitOutcome, Note, OutputMode, Result, Sink, SinkSpec, Staged};
use fluvial_sim::{CrashAt, Disk, Process, Rng, Task, When, block_on, interleave, run};
use object_store::ObjectStore;
use std::collections::BTreeMap;
use std::sync::Arc;

const WINDOW: i64 = 10;

/// Every third row is far behind; the last ones close all windows but their own.
fn input() -> Vec<(i64, i64)> {
    let mut rows: Vec<_> =
        (0..24).map(|i| if i % 3 == 2 { (i % 2, i) } else { (i % 2, i * 5) }).collect();
    rows.extend([(99, 10_000), (98, 20_000)]);
    rows
}

/// Another limit and other partitions in every incarnation: which rows are late is the plans'
/// business.
fn parts(store: Arc<dyn ObjectStore>, incarnation: u64) -> Parts {
    let source = Script::new(&input()).limited(3 + incarnation % 3);
    let mut parts = Parts::on(Arc::clone(&store), &format!("run-{incarnation}"), &source);
    parts.what = What::Windows(WINDOW);
    parts.settings.partitions = 1 + (incarnation as u32) % 3;
    parts.late = Some(Arc::new(ObjectSink::in_folder(store, "late")));
    parts
}

fn end_of(time: i64) -> i64 {
    (time.div_euclid(WINDOW) + 1) * WINDOW
}

/// Every row is in a window that came out or among the late rows, once; and who judged it was
/// right. `Err` says what is wrong.
fn check(disk: &Disk) -> std::result::Result<usize, String> {
    let mut missing: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for (key, time) in input().into_iter().filter(|(_, time)| *time < 20_000) {
        *missing.entry((end_of(time), key)).or_default() += 1;
    }
    for row in visible(disk) {
        *missing.entry((row[0], row[1])).or_default() -= row[2];
    }
    let mut count = 0;
    for (batch, rows) in batches_in(disk, "late") {
        for row in rows {
            let [judged, key, time, watermark] = row[..] else { return Err("a cut row".into()) };
            if judged != batch as i64 || end_of(time) > watermark {
                return Err(format!("{row:?} in batch {batch} is not what was judged"));
            }
            *missing.entry((end_of(time), key)).or_default() -= 1;
            count += 1;
        }
    }
    missing.retain(|_, rows| *rows != 0);
    match missing.is_empty() {
        true => Ok(count),
        false => Err(format!("rows that are missing, or there too often: {missing:?}")),
    }
}

type Build<'a> = &'a dyn Fn(Arc<dyn ObjectStore>, u64) -> Parts;

async fn live(build: Build<'_>, process: Process, incarnation: u64) -> Result<()> {
    build(process.store(), incarnation).live().await.map(drop)
}

/// Crashes once, everywhere, and recovers.
fn every_crash(build: Build<'_>) -> std::result::Result<(), String> {
    let disk = Disk::new();
    let process = disk.process();
    block_on(live(build, process.clone(), 0)).map_err(|e| e.to_string())?;
    let late = check(&disk)?;
    assert!(late > 3, "only {late} rows are late");
    for crash in CrashAt::each(process.steps()) {
        let disk = Disk::new();
        let process = disk.mortal(crash);
        let _ = run(&process, live(build, process.clone(), 0));
        let again = block_on(live(build, disk.process(), 1));
        again
            .and_then(|()| check(&disk).map(drop).map_err(fluvial_core::Error::invalid))
            .map_err(|e| format!("crash {crash:?}: {e}"))?;
    }
    Ok(())
}

#[test]
fn a_crash_anywhere_loses_no_row_and_repeats_none() {
    every_crash(&parts).unwrap();
}

#[test]
fn runs_side_by_side_agree_on_what_is_late() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let disk = Disk::new();
        let tasks: Vec<Task<'_, Result<()>>> = (0..2)
            .map(|incarnation| {
                let crash =
                    rng.chance(50).then(|| CrashAt { step: rng.below(120), when: When::After });
                let process = disk.mortal(crash);
                let own = process.clone();
                let future: std::pin::Pin<Box<dyn Future<Output = Result<()>>>> =
                    Box::pin(async move { live(&parts, own, incarnation).await });
                (process, future)
            })
            .collect();
        interleave(&mut rng, tasks);
        block_on(live(&parts, disk.process(), 9)).unwrap();
        check(&disk).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// Breaks sink law 3 for late rows: a batch that comes again is published again.
struct Forgetful(Arc<dyn Sink>);

sink_around!(Forgetful, 0, {
    fn modes(&self) -> &[OutputMode] {
        self.0.modes()
    }
    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.0.open(spec).await
    }
    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        match self.0.commit(batch, staged.clone(), note).await? {
            CommitOutcome::Committed => Ok(CommitOutcome::Committed),
            _ => self.0.commit(BatchId(batch.0 + 1000), staged, note).await,
        }
    }
});

#[test]
fn a_sink_that_forgets_is_noticed() {
    let build: Build<'_> = &|store, incarnation| {
        let mut parts = parts(store, incarnation);
        let honest = parts.late.take().unwrap();
        parts.late = Some(Arc::new(Forgetful(honest)));
        parts
    };
    every_crash(build).unwrap_err();
}

#[test]
fn without_a_sink_for_them_late_rows_are_counted_and_gone() {
    let disk = Disk::new();
    let mut parts = parts(disk.process().store(), 0);
    parts.late = None;
    let query = block_on(parts.live()).unwrap();
    assert!(batches_in(&disk, "late").is_empty());
    let progress = query.recent_progress();
    let dropped = progress.iter().map(|p| p.state_operators[0].num_rows_dropped_by_watermark);
    assert!(dropped.sum::<u64>() > 3);
    assert!(query.recent_progress().iter().all(|p| p.sink.metrics.is_empty()));
}

#[test]
fn progress_says_where_the_rows_went() {
    let disk = Disk::new();
    let query = block_on(parts(disk.process().store(), 0).live()).unwrap();
    let mut came = 0;
    for progress in query.recent_progress() {
        let operator = &progress.state_operators[0];
        let count = |name: &str| operator.custom_metrics[name] as u64;
        let dropped = operator.num_rows_dropped_by_watermark;
        let accounted = count("numKeptRows") + count("numEmittedRows") + dropped;
        assert_eq!(count("numInputRows"), accounted, "batch {}", progress.batch_id);
        assert_eq!(progress.sink.metrics["numLateRows"], dropped.to_string());
        came += count("numInputRows");
    }
    assert_eq!(came, input().len() as u64);
}

#[test]
fn a_query_that_cannot_tell_which_rows_are_late_is_refused() {
    let mut parts = parts(Disk::new().process().store(), 0);
    parts.what = What::Copy;
    parts.mode = OutputMode::Append;
    let error = block_on(parts.live()).unwrap_err();
    assert!(error.message().contains("too late"), "{error}");
}
