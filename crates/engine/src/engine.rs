//! The life of one run: recovery, triggers, the end.

use crate::batch::Step;
use crate::event::{Observe, QueryEvent, QueryFailure, QueryStarted, QueryTerminated};
use crate::inside::{Scope, entered};
use crate::planning::{Ask, Empty, Limits, Timers};
use crate::query::{Shared, StreamingQuery};
use crate::report::{Began, Reporter};
use crate::retention::Retention;
use crate::run::Run;
use crate::spec::QuerySpec;
use crate::trigger::Trigger;
use fluvial_core::{BatchTime, Error, Frontier, Result, SourceId};
use futures::FutureExt;
use futures::future::{Either, select, try_join_all};
use std::any::Any;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A query that is ready to run.
pub struct Engine {
    spec: Arc<QuerySpec>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observe>,
}

impl Engine {
    /// Checks the query and finds out its id. Reads the checkpoint's identity, nothing else.
    ///
    /// # Errors
    ///
    /// `Invalid` for a query that cannot run (no source, an output mode that the sink does not
    /// take, state without a backend); what the log says if it belongs to something else.
    pub async fn open(spec: QuerySpec, observer: Arc<dyn Observe>) -> Result<Self> {
        check(&spec)?;
        let clock = Arc::clone(&spec.environment.clock);
        let (log, retry) = (Arc::clone(&spec.environment.log), spec.settings.retry);
        let id = retry.run(clock.as_ref(), || log.query_id(&spec.proposed_id)).await;
        let id = id.map_err(|error| spec.environment.placed(error))?;
        let shared = Shared::new(id, spec.run.clone(), spec.name.clone(), explain(&spec), clock);
        Ok(Self { spec: Arc::new(spec), shared: Arc::new(shared), observer })
    }

    /// A handle on the query. It may be used before the run begins.
    pub fn query(&self) -> StreamingQuery {
        StreamingQuery { shared: Arc::clone(&self.shared) }
    }

    /// Runs the query until its trigger is done, somebody stops it, or it fails. How it ended is
    /// told to the handles and the observer. Dropping the future ends the query, too.
    pub fn run(self) -> impl Future<Output = ()> + Send + 'static {
        let key = self.shared.key();
        let spec = self.spec;
        // Not within: a future that is dropped before its first poll has ended, too.
        let end = End { shared: self.shared, observer: self.observer };
        async move {
            let environment = spec.environment.clone();
            let driving = drive(spec, Arc::clone(&end.shared), Arc::clone(&end.observer));
            let driving = entered(Scope::Query(key), AssertUnwindSafe(driving).catch_unwind());
            let shared = Arc::clone(&end.shared);
            // What loses is dropped, and with it all that it began, before the end is told.
            let ended = {
                match select(pin!(driving), pin!(shared.stop_asked())).await {
                    Either::Left((Ok(result), _)) => result.map_err(|e| environment.placed(e)),
                    Either::Left((Err(panic), _)) => Err(panicked(panic.as_ref())),
                    Either::Right(_) => Ok(()),
                }
            };
            end.tell(ended);
        }
    }
}

/// What the query is, without its ids.
fn explain(spec: &QuerySpec) -> String {
    let mut lines = vec![format!("mode {}, trigger {}", spec.mode, spec.trigger)];
    let sources = spec.sources.iter();
    lines.extend(sources.map(|(id, source)| format!("source {id}: {}", source.description())));
    lines.push(format!("sink {}: {}", spec.sink_id, spec.sink.description()));
    lines.push(spec.runner.explain());
    lines.join("\n")
}

fn check(spec: &QuerySpec) -> Result<()> {
    if spec.sources.is_empty() {
        return Err(Error::invalid("a streaming query needs at least one streaming source"));
    }
    if !spec.sink.modes().contains(&spec.mode) {
        let modes: Vec<_> = spec.sink.modes().iter().map(|mode| mode.as_str()).collect();
        return Err(Error::invalid(format!(
            "{} does not take output mode {}: use {}",
            spec.sink.description(),
            spec.mode,
            modes.join(" or ")
        ))
        .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"));
    }
    if !spec.runner.shape().operators.is_empty() && spec.environment.state.is_none() {
        return Err(Error::invalid("a stateful query needs a state backend"));
    }
    Ok(())
}

/// Tells everybody that the run ended: once, and also when the runtime drops it.
struct End {
    shared: Arc<Shared>,
    observer: Arc<dyn Observe>,
}

impl End {
    fn tell(&self, ended: Result<()>) {
        let failure = ended.err().map(|error| Arc::new(error.at(self.shared.as_ref())));
        let exception = failure.as_deref().map(|error| QueryFailure {
            kind: error.kind(),
            condition: error.condition().map(str::to_owned),
            message: with_causes(error),
        });
        if let Some(failure) = failure {
            self.shared.failed(failure);
        }
        // Whoever waits for the end finds it told everywhere.
        self.observer.observe(QueryEvent::Terminated(QueryTerminated {
            id: self.shared.id().clone(),
            run_id: self.shared.run().clone(),
            exception,
        }));
        self.shared.end();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.shared.has_ended() {
            self.tell(Err(Error::unavailable("the task that ran it was dropped: start it again")));
        }
    }
}

fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Error::invalid(format!("the query panicked: {text}")).with_condition("STREAMING_QUERY_PANICKED")
}

/// Runs a query, and its retention beside it.
async fn drive(
    spec: Arc<QuerySpec>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observe>,
) -> Result<()> {
    observer.observe(QueryEvent::Started(QueryStarted {
        id: shared.id().clone(),
        run_id: shared.run().clone(),
        name: shared.name().map(str::to_owned),
        timestamp: BatchTime(spec.environment.clock.now_ms()),
    }));
    let retention = Arc::new(Retention::new(Arc::clone(&spec)));
    let kept = Arc::clone(&retention);
    let mut driving = pin!(async {
        let run = Run::recover(spec, Arc::clone(&shared), kept).await?;
        shared.opened();
        let reporter = Reporter::new(Arc::clone(&shared), observer);
        Driver { run, reporter, target: None }.drive().await
    });
    let mut driven = None;
    poll_fn(|cx| {
        if driven.is_none()
            && let Poll::Ready(result) = driving.as_mut().poll(cx)
        {
            driven = Some(result);
        }
        let retained = retention.poll(cx);
        if let Poll::Ready(Err(error)) = &retained {
            shared.warn(format!("retention: {error}"));
        }
        match &driven {
            Some(Ok(())) if retained.is_pending() => Poll::Pending,
            Some(_) => driven.take().map_or(Poll::Pending, Poll::Ready),
            None => Poll::Pending,
        }
    })
    .await
}

/// Works off the triggers of a run.
struct Driver {
    run: Run,
    reporter: Reporter,
    /// What `process_all_available` waits for: its ticket, and how far it goes.
    target: Option<(u64, BTreeMap<SourceId, Frontier>)>,
}

/// What a trigger did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    Nothing,
    BatchOfData,
    EmptyBatch,
}

impl Driver {
    async fn drive(&mut self) -> Result<()> {
        match self.run.spec.trigger {
            Trigger::Default => self.back_to_back().await,
            Trigger::ProcessingTime(interval) => self.at_ticks(interval).await,
            Trigger::Once => self.once().await,
            Trigger::AvailableNow => self.available_now().await,
        }
    }

    async fn back_to_back(&mut self) -> Result<()> {
        let clock = Arc::clone(&self.run.spec.environment.clock);
        let shared = Arc::clone(&self.run.shared);
        loop {
            if self.follow().await? == Did::Nothing {
                shared.waiting(false, "waiting for data to arrive");
                let pause = clock.sleep(self.run.spec.settings.poll);
                select(pause, pin!(shared.ticket_asked())).await;
            }
        }
    }

    async fn at_ticks(&mut self, interval: Duration) -> Result<()> {
        let clock = Arc::clone(&self.run.spec.environment.clock);
        loop {
            let began_ms = clock.now_ms();
            let wait = Trigger::until_next_tick(interval, began_ms);
            let began = clock.monotonic();
            let did = self.follow().await?;
            // By the monotonic clock: the wall clock may have been set meanwhile.
            let left = wait.saturating_sub(clock.monotonic().saturating_sub(began));
            if !left.is_zero() {
                self.run.shared.waiting(did != Did::Nothing, "waiting for the next trigger");
                clock.sleep(left).await;
            }
        }
    }

    async fn once(&mut self) -> Result<()> {
        self.finish_planned().await?;
        let ask = Ask { limits: Limits::Ignored, empty: Empty::Never, ..Ask::default() };
        self.trigger(ask).await?;
        Ok(())
    }

    async fn available_now(&mut self) -> Result<()> {
        self.finish_planned().await?;
        let until = self.frontiers().await?;
        while self.trigger(Ask { until: Some(&until), ..Ask::default() }).await? == Did::BatchOfData
        {
        }
        Ok(())
    }

    /// Runs the batch that an earlier run has planned and not committed, if there is one.
    async fn finish_planned(&mut self) -> Result<()> {
        if self.run.position.rerun.is_some() {
            self.trigger(Ask::default()).await?;
        }
        Ok(())
    }

    /// One trigger of a query that goes on for ever. While somebody waits for all that is
    /// available, batches end where that ends, so that the wait does, too.
    async fn follow(&mut self) -> Result<Did> {
        if self.target.is_none()
            && let Some(ticket) = self.run.shared.ticket()
        {
            self.target = Some((ticket, self.frontiers().await?));
        }
        let target = self.target.take();
        let until = target.as_ref().map(|(_, until)| until);
        let timers = if until.is_some() { Timers::Wait } else { Timers::Fire };
        let did = self.trigger(Ask { until, timers, ..Ask::default() }).await?;
        match target {
            Some((ticket, _)) if did == Did::Nothing => {
                self.run.shared.served(ticket);
                // There may be more by now.
                Ok(Did::BatchOfData)
            }
            target => {
                self.target = target;
                Ok(did)
            }
        }
    }

    async fn frontiers(&self) -> Result<BTreeMap<SourceId, Frontier>> {
        let run = &self.run;
        let each = run.sources.iter().map(|(id, source)| async move {
            let frontier = run.retried(|| source.frontier()).await;
            Ok::<_, Error>((id.clone(), frontier.map_err(|error| error.at(id))?))
        });
        Ok(try_join_all(each).await?.into_iter().collect())
    }

    async fn trigger(&mut self, ask: Ask<'_>) -> Result<Did> {
        let run = &mut self.run;
        let at = BatchTime(run.spec.environment.clock.now_ms());
        let began = Began { at, mark: run.stopwatch.now() };
        run.shared.trigger_began();
        match run.step(ask).await? {
            Step::Idle(timings) => {
                self.reporter.idle(run, began, timings);
                Ok(Did::Nothing)
            }
            Step::Done(done) => {
                let data = done.plan.has_data();
                self.reporter.done(run, began, *done);
                Ok(if data { Did::BatchOfData } else { Did::EmptyBatch })
            }
        }
    }
}
