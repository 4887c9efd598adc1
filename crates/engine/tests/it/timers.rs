//! Batches that run because a timer is due.

use crate::parts::query::{Parts, What};
use crate::parts::source::Script;
use crate::parts::spawner::Tasks;
use crate::world::{go, newest, parts, plan};
use async_trait::async_trait;
use fluvial_core::{BatchTime, Clock, OutputMode, PinnedSettings, Result, Watermarks};
use fluvial_engine::{
    BatchContext, BatchOutput, BatchRunner, EmptyBatches, Queries, RunnerShape, Trigger,
};
use fluvial_sim::{Disk, yield_now};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A runner with timers: each fires in the first batch at or after its time.
struct Alarmed {
    inner: Arc<dyn BatchRunner>,
    timers: Mutex<Vec<i64>>,
}

#[async_trait]
impl BatchRunner for Alarmed {
    fn shape(&self) -> RunnerShape {
        self.inner.shape()
    }
    fn wants_empty_batch(
        &self,
        settings: &PinnedSettings,
        mode: OutputMode,
        from: &Watermarks,
        to: &Watermarks,
    ) -> bool {
        self.inner.wants_empty_batch(settings, mode, from, to)
    }
    fn next_timer(&self) -> Option<BatchTime> {
        self.timers.lock().unwrap().iter().min().map(|time| BatchTime(*time))
    }
    async fn run(&self, batch: BatchContext) -> Result<BatchOutput> {
        let time = batch.plan.time.0;
        let output = self.inner.run(batch).await?;
        self.timers.lock().unwrap().retain(|timer| *timer > time);
        Ok(output)
    }
}

/// Without windows: no batch runs because a watermark moved.
fn alarmed(parts: Parts, timers: &[i64]) -> Parts {
    let parts = Parts { what: What::Copy, ..parts };
    let inner = parts.spec().runner;
    let runner = Alarmed { inner, timers: Mutex::new(timers.to_vec()) };
    Parts { runner: Some(Arc::new(runner)), ..parts }
}

/// The times of the batches of a query that looks every second for `seconds` from second 1000 on.
fn batches(change: &dyn Fn(&mut Parts), timers: &[i64], seconds: i64) -> Vec<(i64, bool)> {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 5)]));
    let mut parts = alarmed(parts(&disk, "first", &source), timers);
    parts.trigger = Trigger::ProcessingTime(Duration::from_secs(1));
    change(&mut parts);
    let start = parts.clock.now_ms();
    let tasks = Tasks::default();
    let queries = Queries::new(Arc::new(tasks.clone()), Arc::new(parts.clock.clone()));
    tasks.run(async {
        let query = queries.start(parts.spec()).await.unwrap();
        while parts.clock.now_ms() < start + seconds * 1000 {
            yield_now().await;
        }
        query.stop().await.unwrap();
    });
    let last = newest(&disk).batch.0;
    let batch = |n| {
        let plan = plan(&disk, n).unwrap();
        (plan.time.0 / 1000, plan.has_data())
    };
    (0..=last).map(batch).collect()
}

#[test]
fn a_timer_runs_a_batch_when_it_is_due_and_not_before() {
    let found = batches(&|_| {}, &[1_003_000, 1_005_500], 9);
    assert_eq!(found, [(1000, true), (1003, false), (1006, false)]);
}

#[test]
fn a_timer_without_a_time_to_come_runs_nothing() {
    assert_eq!(batches(&|_| {}, &[], 5), [(1000, true)]);
    assert_eq!(batches(&|_| {}, &[999_000], 5), [(1000, true)], "it fires with the data");
}

#[test]
fn who_wants_no_empty_batches_gets_none_for_timers_either() {
    let never = |parts: &mut Parts| parts.settings.empty_batches = EmptyBatches::Never;
    assert_eq!(batches(&never, &[1_002_000], 5), [(1000, true)]);
}

/// A run that ends when it has read what is there runs what is due then, and waits for no timer.
#[test]
fn available_now_fires_what_is_due_and_ends() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 5)]));
    go(&alarmed(parts(&disk, "first", &source), &[500_000, 2_000_000]));
    assert_eq!(newest(&disk).batch.0, 0);
    let late = alarmed(parts(&disk, "second", &source), &[2_000_000]);
    late.clock.advance(Duration::from_secs(2000));
    go(&late);
    assert_eq!(newest(&disk).batch.0, 1);
    assert!(!plan(&disk, 1).unwrap().has_data());
}

/// Who waits for all that is there waits for data, not for timers that set each other.
#[test]
fn process_all_available_waits_for_no_timer() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 5)]));
    let always: Vec<i64> = (1_000_000..1_000_400).collect();
    let mut parts = alarmed(parts(&disk, "first", &source), &always);
    parts.trigger = Trigger::Default;
    let tasks = Tasks::default();
    let queries = Queries::new(Arc::new(tasks.clone()), Arc::new(parts.clock.clone()));
    tasks.run(async {
        let query = queries.start(parts.spec()).await.unwrap();
        query.process_all_available().await.unwrap();
        query.stop().await.unwrap();
    });
    assert!(plan(&disk, 0).unwrap().has_data());
}
