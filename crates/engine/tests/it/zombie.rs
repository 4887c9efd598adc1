//! A run that slept, over a sink that cannot tell.

use crate::parts::around::{sink_around, state_around};
use crate::parts::source::Script;
use crate::world::parts;
use fluvial_checkpoint::Retention;
use fluvial_core::{
    BatchId, CommitOutcome, ErrorKind, KeyGroupRange, Note, OutputMode, Result, Sink, SinkSpec,
    Snapshot, Staged, StateBackend, StateStore, StateVersion, StoreId,
};
use fluvial_engine::{EmptyBatches, Engine, Unobserved};
use fluvial_sim::{Disk, block_on, yield_now};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

/// Takes everything, remembers nothing; the test does. May sleep before it answers.
struct Forgetful {
    inner: Arc<dyn Sink>,
    published: Arc<Mutex<Vec<(String, u64)>>>,
    run: Mutex<String>,
    awake: Arc<AtomicBool>,
}

sink_around!(Forgetful, inner, {
    fn modes(&self) -> &[OutputMode] {
        self.inner.modes()
    }
    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        *self.run.lock().unwrap() = spec.run.to_string();
        Ok(None)
    }
    async fn commit(&self, batch: BatchId, _: Vec<Staged>, _: &Note) -> Result<CommitOutcome> {
        self.published.lock().unwrap().push((self.run.lock().unwrap().clone(), batch.0));
        wake(&self.awake).await;
        Ok(CommitOutcome::Committed)
    }
});

async fn wake(awake: &AtomicBool) {
    while !awake.load(SeqCst) {
        yield_now().await;
    }
}

/// Sleeps before it opens a store, until it is woken.
struct Sleepy(Arc<dyn StateBackend>, Arc<AtomicBool>);

state_around!(Sleepy, 0, {
    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        wake(&self.1).await;
        self.0.open(id, groups, version, snapshots).await
    }
    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        self.0.retain(live).await
    }
});

/// Where the first run sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asleep {
    BeforeItRuns,
    WhileItPublishes,
}

/// Lets a first run sleep in batch 0 while a second one does everything, one row a batch, and
/// keeps two commits. Returns what was published by whom.
fn overtake(rows: &[(i64, i64)], asleep: Asleep) -> Vec<(String, u64)> {
    let (disk, source) = (Disk::new(), Script::new(rows).limited(1));
    let published = Arc::new(Mutex::new(Vec::new()));
    let of = |run: &str, awake: bool| {
        let mut parts = parts(&disk, run, &source);
        parts.retention = Retention { batches: 2, age: Duration::ZERO };
        parts.settings.empty_batches = EmptyBatches::Never;
        let awake = Arc::new(AtomicBool::new(awake));
        let (mut in_state, mut in_sink) = (Arc::new(true.into()), Arc::new(true.into()));
        match asleep {
            Asleep::BeforeItRuns => in_state = Arc::clone(&awake),
            Asleep::WhileItPublishes => in_sink = Arc::clone(&awake),
        }
        parts.state = Arc::new(Sleepy(Arc::clone(&parts.state), in_state));
        parts.sink = Arc::new(Forgetful {
            inner: Arc::clone(&parts.sink),
            published: Arc::clone(&published),
            run: Mutex::default(),
            awake: in_sink,
        });
        (parts, awake)
    };
    let (sleepy, awake) = of("sleepy", false);
    let engine = block_on(Engine::open(sleepy.spec(), Arc::new(Unobserved))).unwrap();
    let query = engine.query();
    let mut sleeping = pin!(engine.run());
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..500 {
        assert!(sleeping.as_mut().poll(&mut cx).is_pending());
    }
    assert!(disk.read("checkpoint/offsets/0").is_some(), "it has planned");
    block_on(of("second", true).0.live()).unwrap();
    awake.store(true, SeqCst);
    block_on(sleeping);
    let error = query.exception().expect("it was overtaken");
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    published.lock().unwrap().clone()
}

fn by_second(batches: std::ops::Range<u64>) -> Vec<(String, u64)> {
    batches.map(|batch| ("second".to_owned(), batch)).collect()
}

#[test]
fn who_was_overtaken_while_running_does_not_publish() {
    // The second run has committed batch 0, and no more.
    assert_eq!(overtake(&[(1, 5)], Asleep::BeforeItRuns), by_second(0..1));
    // It has gone on, and dropped what it did first.
    let rows: Vec<_> = (0..9).map(|i| (1, i)).collect();
    for done in 2..rows.len() {
        let expected = by_second(0..done as u64);
        assert_eq!(overtake(&rows[..done], Asleep::BeforeItRuns), expected);
    }
}

#[test]
fn who_was_overtaken_while_publishing_stops_there() {
    for rows in [vec![(1, 5)], vec![(1, 5), (1, 6)], (0..9).map(|i| (1, i)).collect()] {
        let published = overtake(&rows, Asleep::WhileItPublishes);
        let by_sleepy: Vec<_> = published.iter().filter(|(run, _)| run == "sleepy").collect();
        assert_eq!(by_sleepy, [&("sleepy".to_owned(), 0)]);
    }
}
