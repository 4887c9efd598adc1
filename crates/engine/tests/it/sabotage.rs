//! Who tests the tests? Each saboteur breaks one law of one contract; the explorers must notice.

use crate::explore::{Scenario, Violation, every_crash_point, zombies};
use crate::parts::around::{log_around, sink_around, state_around};
use crate::parts::query::Parts;
use crate::parts::state::version_of;
use crate::scenarios::{dedup, windowed};
use arrow::array::BinaryArray;
use async_trait::async_trait;
use fluvial_core::{
    BatchId, BatchLog, Commit, CommitOutcome, Entries, KeyGroupRange, KeyRange, Note, OutputMode,
    Plan, Prefetch, Put, Result, SealedStore, Sink, SinkSpec, Snapshot, Staged, StateBackend,
    StateStore, StateVersion, StoreId, StoreSize,
};
use fluvial_engine::{BatchContext, BatchOutput, BatchRunner, RunnerShape};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

type Sabotage<'a> = &'a dyn Fn(Arc<dyn ObjectStore>, Parts) -> Parts;
type Explore<'a> = &'a dyn Fn(&Scenario<'_>) -> Result<(), Violation>;

/// How a saboteur gave itself away.
fn caught(honest: Scenario<'_>, sabotage: Sabotage<'_>, explore: Explore<'_>) -> String {
    let build = |store: Arc<dyn ObjectStore>, incarnation| {
        sabotage(Arc::clone(&store), (honest.build)(store, incarnation))
    };
    let guilty = Scenario { build: &build, expected: honest.expected.clone() };
    match catch_unwind(AssertUnwindSafe(|| explore(&guilty))) {
        Err(_) => "assertion".into(),
        Ok(explored) => explored.expect_err("the saboteur went unnoticed").0,
    }
}

fn crashes(scenario: &Scenario<'_>) -> Result<(), Violation> {
    every_crash_point(scenario).map(drop)
}

fn races(scenario: &Scenario<'_>) -> Result<(), Violation> {
    zombies(scenario, 0..200)
}

/// Breaks `BatchLog` law 2: claims that a plan is durable without writing it.
struct ForgetfulLog(Arc<dyn BatchLog>, Mutex<Option<Plan>>);

log_around!(ForgetfulLog, 0, {
    async fn plan(&self, batch: BatchId) -> Result<Option<Plan>> {
        let held = self.1.lock().unwrap().clone();
        match held.filter(|plan| plan.batch == batch) {
            Some(plan) => Ok(Some(plan)),
            None => self.0.plan(batch).await,
        }
    }
    async fn put_plan(&self, plan: &Plan) -> Result<Put<Plan>> {
        *self.1.lock().unwrap() = Some(plan.clone());
        Ok(Put::Created)
    }
    async fn put_commit(&self, commit: &Commit) -> Result<Put<Commit>> {
        let plan = self.1.lock().unwrap().take();
        if let Some(plan) = plan {
            self.0.put_plan(&plan).await?;
        }
        self.0.put_commit(commit).await
    }
});

#[test]
fn a_plan_written_after_the_run_is_caught() {
    let sabotage: Sabotage<'_> = &|_, parts| {
        let log = Arc::new(ForgetfulLog(Arc::clone(&parts.log), Mutex::new(None)));
        Parts { log, ..parts }
    };
    // Windows would not notice: what they emit depends on earlier plans only.
    caught(dedup(), sabotage, &crashes);
}

/// Breaks `BatchLog` law 1: everybody wins, the last one stays.
struct EverybodyWins(Arc<dyn BatchLog>, Arc<dyn ObjectStore>);

log_around!(EverybodyWins, 0, {
    async fn plan(&self, batch: BatchId) -> Result<Option<Plan>> {
        self.0.plan(batch).await
    }
    async fn put_plan(&self, plan: &Plan) -> Result<Put<Plan>> {
        let path = Path::from(format!("checkpoint/offsets/{}", plan.batch));
        let bytes = fluvial_checkpoint::format::plan_bytes(plan)?;
        self.1.put_opts(&path, bytes.into(), PutMode::Overwrite.into()).await?;
        Ok(Put::Created)
    }
    async fn put_commit(&self, commit: &Commit) -> Result<Put<Commit>> {
        self.0.put_commit(commit).await
    }
});

#[test]
fn a_log_without_an_election_is_caught() {
    let sabotage: Sabotage<'_> = &|store, parts| {
        let log = Arc::new(EverybodyWins(Arc::clone(&parts.log), store));
        Parts { log, ..parts }
    };
    caught(dedup(), sabotage, &races);
}

/// Breaks `Sink` law 3: every attempt publishes under a new batch id.
struct RepeatingSink(Arc<dyn Sink>, Mutex<u64>);

sink_around!(RepeatingSink, 0, {
    fn modes(&self) -> &[OutputMode] {
        self.0.modes()
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let newest = self.0.open(spec).await?;
        *self.1.lock().unwrap() = newest.map_or(0, |batch| batch.0 + 1);
        Ok(None)
    }
    async fn commit(&self, _: BatchId, staged: Vec<Staged>, note: &Note) -> Result<CommitOutcome> {
        let batch = BatchId(*self.1.lock().unwrap());
        *self.1.lock().unwrap() += 1;
        self.0.commit(batch, staged, note).await
    }
});

#[test]
fn a_commit_that_is_not_idempotent_is_caught() {
    let sabotage: Sabotage<'_> = &|_, parts| {
        let sink = Arc::new(RepeatingSink(Arc::clone(&parts.sink), Mutex::new(0)));
        Parts { sink, ..parts }
    };
    caught(windowed(), sabotage, &crashes);
}

/// A batch that a lazy sink holds back.
type Held = Option<(BatchId, Vec<Staged>, Note)>;

/// Breaks `Sink` law 2: reports success one batch early.
struct LazySink(Arc<dyn Sink>, Mutex<Held>);

sink_around!(LazySink, 0, {
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
        let held = self.1.lock().unwrap().replace((batch, staged, note.clone()));
        if let Some((batch, staged, note)) = held {
            self.0.commit(batch, staged, &note).await?;
        }
        Ok(CommitOutcome::Committed)
    }
});

#[test]
fn an_early_acknowledgement_is_caught() {
    let sabotage: Sabotage<'_> = &|_, parts| {
        let sink = Arc::new(LazySink(Arc::clone(&parts.sink), Mutex::new(None)));
        Parts { sink, ..parts }
    };
    caught(windowed(), sabotage, &crashes);
}

/// Breaks `Sink` law 3 the other way: takes anything for published.
struct DeafSink(Arc<dyn Sink>);

sink_around!(DeafSink, 0, {
    fn modes(&self) -> &[OutputMode] {
        self.0.modes()
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.0.open(spec).await
    }
    async fn commit(&self, batch: BatchId, _: Vec<Staged>, note: &Note) -> Result<CommitOutcome> {
        match batch.0 % 2 {
            0 => self.0.commit(batch, Vec::new(), note).await,
            _ => Ok(CommitOutcome::AlreadyCommitted(None)),
        }
    }
});

#[test]
fn a_sink_that_drops_rows_is_caught() {
    let sabotage: Sabotage<'_> =
        &|_, parts| Parts { sink: Arc::new(DeafSink(Arc::clone(&parts.sink))), ..parts };
    caught(windowed(), sabotage, &crashes);
}

/// Breaks `StateBackend` law 1: opens the newest snapshots ever written.
struct NewestBackend(Arc<dyn StateBackend>, Arc<dyn ObjectStore>);

state_around!(NewestBackend, 0, {
    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        _: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        let found: Vec<_> = self.1.list(Some(&Path::from("state"))).try_collect().await?;
        let paths: Vec<String> = found.iter().map(|m| m.location.to_string()).collect();
        let newest = paths.iter().filter_map(|path| version_of(path)).max().unwrap_or(0);
        let snapshots: Vec<Snapshot> = paths
            .into_iter()
            .filter(|path| version_of(path) == Some(newest))
            .map(|token| Snapshot {
                id: id.clone(),
                groups: KeyGroupRange { start: 0, end: u16::MAX },
                version: StateVersion(newest),
                rows: 0,
                token,
            })
            .collect();
        let store = self.0.open(id, groups, StateVersion(newest), &snapshots).await?;
        Ok(Box::new(Rebased(store, version)))
    }
    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        self.0.retain(live).await
    }
});

/// Lies about its base, so that the assertion on it cannot catch it first.
struct Rebased(Box<dyn StateStore>, StateVersion);

#[async_trait]
impl StateStore for Rebased {
    fn base(&self) -> StateVersion {
        self.1
    }
    fn groups(&self) -> KeyGroupRange {
        self.0.groups()
    }
    async fn prefetch(&mut self, what: &Prefetch) -> Result<()> {
        self.0.prefetch(what).await
    }
    fn get_many(&self, keys: &BinaryArray) -> Result<BinaryArray> {
        self.0.get_many(keys)
    }
    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        self.0.scan(range, limit)
    }
    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        self.0.put_many(keys, values)
    }
    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        self.0.delete_many(keys)
    }
    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        self.0.delete_range(range)
    }
    fn size(&self) -> StoreSize {
        self.0.size()
    }
    fn seal(self: Box<Self>) -> Result<SealedStore> {
        let sealed = self.0.seal()?;
        Ok(SealedStore { base: self.1, ..sealed })
    }
}

/// Trap E17.
#[test]
fn state_from_the_future_is_caught() {
    let sabotage: Sabotage<'_> = &|store, parts| {
        let state = Arc::new(NewestBackend(Arc::clone(&parts.state), store));
        Parts { state, ..parts }
    };
    caught(windowed(), sabotage, &crashes);
}

/// Breaks `StateBackend` law 1 at restart: what it opens first is empty.
struct AmnesiacBackend(Arc<dyn StateBackend>, AtomicBool);

state_around!(AmnesiacBackend, 0, {
    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        if self.1.swap(true, SeqCst) {
            return self.0.open(id, groups, version, snapshots).await;
        }
        let store = self.0.open(id, groups, StateVersion(0), &[]).await?;
        Ok(Box::new(Rebased(store, version)))
    }
    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        self.0.retain(live).await
    }
});

#[test]
fn amnesia_is_caught() {
    let sabotage: Sabotage<'_> = &|_, parts| {
        let state = Arc::new(AmnesiacBackend(Arc::clone(&parts.state), AtomicBool::new(false)));
        Parts { state, ..parts }
    };
    caught(windowed(), sabotage, &crashes);
}

/// Breaks `StateBackend` law 5: deletes whatever is not live, attempts in flight included.
struct GreedyBackend(Arc<dyn StateBackend>, Arc<dyn ObjectStore>);

state_around!(GreedyBackend, 0, {
    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        self.0.open(id, groups, version, snapshots).await
    }
    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        let found: Vec<_> = self.1.list(Some(&Path::from("state"))).try_collect().await?;
        for meta in found {
            if !live.iter().any(|s| s.token == meta.location.as_ref()) {
                self.1.delete(&meta.location).await?;
            }
        }
        Ok(())
    }
});

/// Trap E5.
#[test]
fn deleting_attempts_in_flight_is_caught() {
    let sabotage: Sabotage<'_> = &|store, parts| {
        let state = Arc::new(GreedyBackend(Arc::clone(&parts.state), store));
        Parts { state, ..parts }
    };
    caught(windowed(), sabotage, &crashes);
}

/// Breaks `BatchRunner` law 2: leaves out a partition.
struct PartialRunner(Arc<dyn BatchRunner>);

#[async_trait]
impl BatchRunner for PartialRunner {
    fn shape(&self) -> RunnerShape {
        self.0.shape()
    }
    fn wants_empty_batch(
        &self,
        settings: &fluvial_core::PinnedSettings,
        mode: OutputMode,
        from: &fluvial_core::Watermarks,
        to: &fluvial_core::Watermarks,
    ) -> bool {
        self.0.wants_empty_batch(settings, mode, from, to)
    }
    async fn run(&self, batch: BatchContext) -> Result<BatchOutput> {
        let mut output = self.0.run(batch).await?;
        output.sealed.pop();
        Ok(output)
    }
}

#[test]
fn a_missing_partition_is_refused_before_anything_is_committed() {
    let sabotage: Sabotage<'_> = &|_, parts| {
        let runner: Arc<dyn BatchRunner> = Arc::new(PartialRunner(parts.spec().runner));
        Parts { runner: Some(runner), ..parts }
    };
    let how = caught(windowed(), sabotage, &crashes);
    assert!(how.contains("STATE_INCOMPLETE") && how.contains("batch 0"), "{how}");
}
