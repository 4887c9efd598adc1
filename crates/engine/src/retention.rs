//! Dropping what no recovery can need: log entries, then state, then source data.
//!
//! It runs beside the batches, never between them: each commit is handed over, and the work is
//! polled along with the query. A failure is reported and tried again after the next commit.

use crate::spec::QuerySpec;
use fluvial_core::{BatchId, BatchTime, Commit, Result, Snapshot};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// What retention remembers of a commit.
#[derive(Debug, Clone)]
struct Kept {
    committed_at: BatchTime,
    snapshots: Arc<[Snapshot]>,
}

/// The commits that are still there.
#[derive(Debug, Default)]
struct Ledger {
    /// Whether the commits of earlier runs are in it.
    loaded: bool,
    commits: BTreeMap<BatchId, Kept>,
}

type Round = BoxFuture<'static, (Ledger, Result<()>)>;

/// The retention of one run.
pub(crate) struct Retention {
    spec: Arc<QuerySpec>,
    work: Mutex<Work>,
}

struct Work {
    /// `None` while a round has it.
    ledger: Option<Ledger>,
    arrivals: BTreeMap<BatchId, Kept>,
    round: Option<Round>,
}

impl Retention {
    pub(crate) fn new(spec: Arc<QuerySpec>) -> Self {
        let work = Work { ledger: Some(Ledger::default()), arrivals: BTreeMap::new(), round: None };
        Self { spec, work: Mutex::new(work) }
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a commit. The work begins with the next poll.
    pub(crate) fn arrived(&self, commit: &Commit, snapshots: Arc<[Snapshot]>) {
        let kept = Kept { committed_at: commit.committed_at, snapshots };
        self.lock().arrivals.insert(commit.batch, kept);
    }

    /// Goes on with the work. Ready when there is none, with the last round's failure if it had
    /// one.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut work = self.lock();
        loop {
            if work.round.is_none() {
                if work.arrivals.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                let arrivals = std::mem::take(&mut work.arrivals);
                let mut ledger = work.ledger.take().unwrap_or_default();
                ledger.commits.extend(arrivals);
                work.round = Some(Box::pin(round(Arc::clone(&self.spec), ledger)));
            }
            let Some(running) = work.round.as_mut() else { continue };
            match running.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready((ledger, result)) => {
                    work.round = None;
                    work.ledger = Some(ledger);
                    if result.is_err() {
                        return Poll::Ready(result);
                    }
                }
            }
        }
    }
}

async fn round(spec: Arc<QuerySpec>, mut ledger: Ledger) -> (Ledger, Result<()>) {
    let result = drop_old(&spec, &mut ledger).await;
    (ledger, result)
}

async fn drop_old(spec: &QuerySpec, ledger: &mut Ledger) -> Result<()> {
    let environment = &spec.environment;
    let log = environment.log.as_ref();
    if !ledger.loaded {
        for commit in log.commits().await? {
            let kept =
                Kept { committed_at: commit.committed_at, snapshots: commit.snapshots.into() };
            ledger.commits.entry(commit.batch).or_insert(kept);
        }
        ledger.loaded = true;
    }
    let Some(from) = decide(spec, ledger) else { return Ok(()) };
    // One plan knows the newest range of every source up to there.
    let released = match from.previous() {
        Some(last) => log.plan(last).await?,
        None => None,
    };
    log.truncate_before(from).await?;
    ledger.commits = ledger.commits.split_off(&from);
    if let Some(state) = &environment.state {
        let live: Vec<Snapshot> =
            ledger.commits.values().flat_map(|kept| kept.snapshots.iter().cloned()).collect();
        state.retain(&live).await?;
    }
    if let Some(plan) = released {
        for (id, source) in &spec.sources {
            if let Some(range) = plan.newest_range(id) {
                source.release(range).await.map_err(|error| error.at(id))?;
            }
        }
    }
    Ok(())
}

/// The oldest batch to keep, if anything older is there. The newest two commits always stay.
fn decide(spec: &QuerySpec, ledger: &Ledger) -> Option<BatchId> {
    let commits: Vec<(BatchId, BatchTime)> =
        ledger.commits.iter().map(|(batch, kept)| (*batch, kept.committed_at)).collect();
    let (oldest, second) = (commits.first()?.0, commits.iter().rev().nth(1)?.0);
    let now = BatchTime(spec.environment.clock.now_ms());
    let from = (spec.environment.rules.retain_from)(&commits, now).min(second);
    (from > oldest).then_some(from)
}
