//! The handle of a running query, and what it shares with the run.

use crate::inside::is_inside;
use crate::progress::StreamingQueryProgress;
use crate::recent::{RECENT_MAX, Recent, json_bytes};
use crate::status::StreamingQueryStatus;
use crate::watch::Watch;
use fluvial_core::{Clock, Error, QueryId, Result, RunId};
use futures::future::{Either, select};
use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A handle on a query. Clones are handles on the same query; dropping them all leaves it
/// running.
#[derive(Clone)]
pub struct StreamingQuery {
    pub(crate) shared: Arc<Shared>,
}

/// What a run and its handles share.
pub(crate) struct Shared {
    id: QueryId,
    run: RunId,
    name: Option<String>,
    plan: String,
    clock: Arc<dyn Clock>,
    life: Watch<Life>,
    /// Why it failed; set before it ends.
    failure: OnceLock<Arc<Error>>,
    status: Mutex<StreamingQueryStatus>,
    recent: Mutex<Recent<Arc<StreamingQueryProgress>>>,
    warnings: Mutex<VecDeque<String>>,
    /// Which input holds the watermark, if one does.
    held: Mutex<Option<String>>,
}

/// What others wait for.
#[derive(Debug, Default)]
struct Life {
    stop: bool,
    /// Whether the sink and the sources were opened.
    ready: bool,
    ended: bool,
    /// Tickets of `process_all_available`: asked for, and served.
    asked: u64,
    served: u64,
}

impl StreamingQuery {
    /// The query's id: the same in every run.
    pub fn id(&self) -> &QueryId {
        &self.shared.id
    }

    /// The id of this run.
    pub fn run_id(&self) -> &RunId {
        &self.shared.run
    }

    /// The query's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// The query as it runs, for people: mode, trigger, sources, sink, and the plan that every
    /// batch instantiates, with the names that the checkpoint knows operators by. Where a
    /// watermark has several inputs, which of them holds it, and since when.
    pub fn explain(&self) -> String {
        let held = lock(&self.shared.held).clone().map(|text| format!("{text}\n"));
        format!("{}\n{}{}", self.shared, held.unwrap_or_default(), self.shared.plan)
    }

    /// Whether it still runs.
    pub fn is_active(&self) -> bool {
        self.shared.life.read(|life| !life.ended)
    }

    /// What it is doing.
    pub fn status(&self) -> StreamingQueryStatus {
        lock(&self.shared.status).clone()
    }

    /// Why it failed; `None` while it runs and after it ended well.
    pub fn exception(&self) -> Option<Error> {
        (!self.is_active()).then(|| self.failure().as_ref().map(retold))?
    }

    /// Why it failed, as soon as that is known.
    pub(crate) fn failure(&self) -> Option<Arc<Error>> {
        self.shared.failure.get().cloned()
    }

    /// The newest progress report.
    pub fn last_progress(&self) -> Option<Arc<StreamingQueryProgress>> {
        lock(&self.shared.recent).last().cloned()
    }

    /// The newest progress reports, up to 100, oldest first.
    pub fn recent_progress(&self) -> Vec<Arc<StreamingQueryProgress>> {
        lock(&self.shared.recent).iter().cloned().collect()
    }

    /// What went wrong without stopping the query, or is ignored; up to 100, oldest first.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.shared.warnings).iter().cloned().collect()
    }

    /// Waits until it has read its checkpoint and opened its sink and sources, or has ended.
    ///
    /// # Errors
    ///
    /// Why it failed, if it did before that.
    pub async fn ready(&self) -> Result<()> {
        self.refuse_inside("ready")?;
        let opened = |life: &Life| match life.ready {
            true => Some(Ok(())),
            false => life.ended.then(|| self.shared.outcome()),
        };
        self.shared.life.wait_for(opened).await
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    ///
    /// Why it failed, if it did. `Invalid` within a callback of the query itself or a listener.
    pub async fn await_termination(&self) -> Result<()> {
        self.refuse_inside("await_termination")?;
        self.shared.ended().await
    }

    /// Waits until it has ended, at most for `timeout`. Returns whether it has.
    ///
    /// # Errors
    ///
    /// As [`Self::await_termination`].
    pub async fn await_termination_within(&self, timeout: Duration) -> Result<bool> {
        self.refuse_inside("await_termination")?;
        match self.within(timeout, self.shared.ended()).await {
            Some(result) => result.map(|()| true),
            None => Ok(false),
        }
    }

    /// Waits until everything that is available now has been processed and committed. What
    /// arrives during the call is not waited for.
    ///
    /// # Errors
    ///
    /// Why the query failed, if it did, before or during the call. `Invalid` within a callback
    /// of the query itself or a listener: it would wait for itself.
    pub async fn process_all_available(&self) -> Result<()> {
        self.refuse_inside("process_all_available")?;
        let ticket = self.shared.life.change(|life| {
            life.asked += 1;
            life.asked
        });
        let done = |life: &Life| match life.served >= ticket {
            true => Some(Ok(())),
            false => life.ended.then(|| self.shared.outcome()),
        };
        self.shared.life.wait_for(done).await
    }

    /// Stops it, wherever it is, and waits until it has stopped. What was not committed runs
    /// again at the next start. Within a callback of the query itself it does not wait.
    ///
    /// # Errors
    ///
    /// None today; a query that failed before is stopped, too.
    pub async fn stop(&self) -> Result<()> {
        self.shared.life.change(|life| life.stop = true);
        if !is_inside(self.shared.key()) {
            self.shared.life.wait_for(|life| life.ended.then_some(())).await;
        }
        Ok(())
    }

    /// As [`Self::stop`], but gives up waiting after `timeout`; the query then still stops as
    /// soon as it can.
    ///
    /// # Errors
    ///
    /// `Unavailable` (`STREAMING_QUERY_STOP_TIMEOUT`) with what the query is busy with.
    pub async fn stop_within(&self, timeout: Duration) -> Result<()> {
        match self.within(timeout, self.stop()).await {
            Some(result) => result,
            None => Err(Error::unavailable(format!(
                "{} did not stop within {timeout:?}; it is busy: {}",
                self.shared,
                self.status().message
            ))
            .with_condition("STREAMING_QUERY_STOP_TIMEOUT")),
        }
    }

    async fn within<T>(&self, timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(work), self.shared.clock.sleep(timeout)).await {
            Either::Left((result, _)) => Some(result),
            Either::Right(_) => None,
        }
    }

    fn refuse_inside(&self, what: &str) -> Result<()> {
        if !is_inside(self.shared.key()) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{what} was called from within the query or a listener, where it would wait for \
             itself: call it from another task"
        ))
        .with_condition("STREAMING_QUERY_WAITS_FOR_ITSELF"))
    }
}

impl fmt::Debug for StreamingQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamingQuery({})", self.shared)
    }
}

impl Shared {
    pub(crate) fn new(
        id: QueryId,
        run: RunId,
        name: Option<String>,
        plan: String,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let status = StreamingQueryStatus {
            message: "starting".into(),
            is_data_available: false,
            is_trigger_active: false,
        };
        Self {
            id,
            run,
            name,
            plan,
            clock,
            life: Watch::new(Life::default()),
            failure: OnceLock::new(),
            status: Mutex::new(status),
            recent: Mutex::default(),
            warnings: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// Says that the sink and the sources are open.
    pub(crate) fn opened(&self) {
        self.life.change(|life| life.ready = true);
    }

    /// Tells this query from every other one alive.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn id(&self) -> &QueryId {
        &self.id
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Says what the query is doing.
    pub(crate) fn say(&self, message: impl Into<String>) {
        lock(&self.status).message = message.into();
    }

    /// Says what the query is doing, and whether it found data.
    pub(crate) fn busy(&self, is_data_available: bool, message: String) {
        let mut status = lock(&self.status);
        status.is_data_available = is_data_available;
        status.message = message;
    }

    pub(crate) fn trigger_began(&self) {
        lock(&self.status).is_trigger_active = true;
    }

    pub(crate) fn waiting(&self, is_data_available: bool, message: &str) {
        *lock(&self.status) = StreamingQueryStatus {
            message: message.into(),
            is_data_available,
            is_trigger_active: false,
        };
    }

    pub(crate) fn warn(&self, warning: String) {
        keep(&mut lock(&self.warnings), warning);
    }

    /// Notes what holds the watermark, if anything.
    pub(crate) fn held(&self, text: Option<String>) {
        *lock(&self.held) = text;
    }

    pub(crate) fn reported(&self, progress: Arc<StreamingQueryProgress>) {
        lock(&self.recent).push(json_bytes(progress.as_ref()), progress);
    }

    /// Waits until somebody asks the query to stop.
    pub(crate) async fn stop_asked(&self) {
        self.life.wait_for(|life| life.stop.then_some(())).await;
    }

    /// The newest ticket of `process_all_available` that is not served yet.
    pub(crate) fn ticket(&self) -> Option<u64> {
        self.life.read(|life| (life.asked > life.served).then_some(life.asked))
    }

    /// Waits until there is a ticket.
    pub(crate) async fn ticket_asked(&self) {
        self.life.wait_for(|life| (life.asked > life.served).then_some(())).await;
    }

    pub(crate) fn served(&self, ticket: u64) {
        self.life.change(|life| life.served = life.served.max(ticket));
    }

    /// Takes note of why the query fails; only the first reason counts.
    pub(crate) fn failed(&self, failure: Arc<Error>) {
        self.waiting(false, &format!("terminated with exception: {failure}"));
        let _ = self.failure.set(failure);
    }

    /// Ends the query's life.
    pub(crate) fn end(&self) {
        if self.failure.get().is_none() {
            self.waiting(false, "stopped");
        }
        self.life.change(|life| life.ended = true);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.life.read(|life| life.ended)
    }

    /// Waits for the end.
    async fn ended(&self) -> Result<()> {
        self.life.wait_for(|life| life.ended.then(|| self.outcome())).await
    }

    /// How it ended, once it has.
    fn outcome(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |error| Err(retold(error)))
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "query {name} [id = {}, runId = {}]", self.id, self.run),
            None => write!(f, "query [id = {}, runId = {}]", self.id, self.run),
        }
    }
}

/// The same error for one more reader, with the original as its cause.
pub(crate) fn retold(error: &Arc<Error>) -> Error {
    let told = Error::new(error.kind(), error.message()).with_source(Arc::clone(error));
    match error.condition() {
        Some(condition) => told.with_condition(condition.to_owned()),
        None => told,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep<T>(recent: &mut VecDeque<T>, item: T) {
    if recent.len() == RECENT_MAX {
        recent.pop_front();
    }
    recent.push_back(item);
}
