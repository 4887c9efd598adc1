//! A run that slept, over a sink that cannot tell.

use crate::parts::around::{sink_around, state_around};
use crate::parts::query::Parts;
use crate::parts::source::Script;
use crate::world::parts;
use fluvial_core::{
    BatchId, CommitOutcome, ErrorKind, KeyGroupRange, Note, OutputMode, Result, Sink, SinkSpec,
    Snapshot, Staged, StateBackend, StateStore, StateVersion, StoreId,
};
use fluvial_engine::{Engine, Unobserved};
use fluvial_sim::{Disk, block_on, yield_now};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

/// Takes everything, remembers nothing; the test does.
struct Forgetful(Arc<dyn Sink>, Arc<Mutex<Vec<(String, u64)>>>, Mutex<String>);

sink_around!(Forgetful, 0, {
    fn modes(&self) -> &[OutputMode] {
        self.0.modes()
    }
    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        *self.2.lock().unwrap() = spec.run.to_string();
        Ok(None)
    }
    async fn commit(&self, batch: BatchId, _: Vec<Staged>, _: &Note) -> Result<CommitOutcome> {
        self.1.lock().unwrap().push((self.2.lock().unwrap().clone(), batch.0));
        Ok(CommitOutcome::Committed)
    }
});

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
        while !self.1.load(SeqCst) {
            yield_now().await;
        }
        self.0.open(id, groups, version, snapshots).await
    }
    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        self.0.retain(live).await
    }
});

#[test]
fn who_was_overtaken_while_running_does_not_publish() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 5), (1, 25)]));
    let published = Arc::new(Mutex::new(Vec::new()));
    let of = |run: &str| {
        let parts = parts(&disk, run, &source);
        let sink = Forgetful(Arc::clone(&parts.sink), Arc::clone(&published), Mutex::default());
        Parts { sink: Arc::new(sink), ..parts }
    };
    let awake = Arc::new(AtomicBool::new(false));
    let sleepy = of("sleepy");
    let sleepy =
        Parts { state: Arc::new(Sleepy(Arc::clone(&sleepy.state), Arc::clone(&awake))), ..sleepy };
    let engine = block_on(Engine::open(sleepy.spec(), Arc::new(Unobserved))).unwrap();
    let query = engine.query();
    let mut sleeping = pin!(engine.run());
    let mut cx = Context::from_waker(Waker::noop());
    while disk.read("checkpoint/offsets/0").is_none() {
        assert!(sleeping.as_mut().poll(&mut cx).is_pending());
    }
    block_on(of("second").live()).unwrap();
    awake.store(true, SeqCst);
    block_on(sleeping);
    assert_eq!(query.exception().unwrap().kind(), ErrorKind::Fenced);
    let published = published.lock().unwrap().clone();
    assert_eq!(published, [("second".to_owned(), 0), ("second".to_owned(), 1)]);
}
