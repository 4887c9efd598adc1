//! Running one batch: from its plan to its commit.

use crate::coverage::{check_sealed, check_snapshots};
use crate::fence::{check_not_overtaken, overtaken};
use crate::note::{Attempt, digest};
use crate::planning::Ask;
use crate::recovery::after;
use crate::run::Run;
use crate::runner::{BatchContext, BatchOutput};
use crate::timings::Timings;
use crate::watermarks::advanced;
use fluvial_core::{
    BatchId, BatchTime, Commit, CommitOutcome, Error, Note, Plan, Put, Result, Sink, SinkMemory,
    Snapshot, Staged,
};
use futures::FutureExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a step did.
#[derive(Debug)]
pub(crate) enum Step {
    /// A batch was committed.
    Done(Box<Done>),
    /// There was nothing to do.
    Idle(Timings),
}

/// A committed batch, for the report.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) plan: Arc<Plan>,
    pub(crate) output: BatchOutput,
    pub(crate) rows_out: u64,
    pub(crate) state_commit: Duration,
    pub(crate) timings: Timings,
}

/// An attempt that is ready to be published.
struct Ready {
    output: BatchOutput,
    snapshots: Vec<Snapshot>,
    state_commit: Duration,
}

impl Run {
    /// Runs one batch, if there is anything to do.
    pub(crate) async fn step(&mut self, ask: Ask<'_>) -> Result<Step> {
        let mut timings = Timings::default();
        let plan = match self.position.rerun.clone() {
            Some(plan) => plan,
            None => {
                self.shared.say("looking for new data");
                let batch = self.position.next;
                let place = |error: Error| error.at(format_args!("planning batch {batch}"));
                match self.plan(ask, &mut timings).await.map_err(place)? {
                    Some(plan) => self.elect(plan, &mut timings).await?,
                    None => return Ok(Step::Idle(timings)),
                }
            }
        };
        let place = |error: Error| error.at(format_args!("batch {}", plan.batch));
        self.shared.busy(plan.has_data(), format!("running batch {}", plan.batch));
        let done = self.execute(Arc::clone(&plan), timings).await.map_err(place)?;
        Ok(Step::Done(Box::new(done)))
    }

    /// Makes `plan` durable. What is in the log afterwards is the truth: our own entry is a lost
    /// acknowledgement, another run's means that this one has to stop.
    async fn elect(&self, plan: Plan, timings: &mut Timings) -> Result<Arc<Plan>> {
        let log = self.spec.environment.log.as_ref();
        let put = timings
            .measure(&self.stopwatch, "walCommit", self.retried(|| log.put_plan(&plan)))
            .await
            .map_err(|error| error.at(format_args!("planning batch {}", plan.batch)))?;
        let winner = match put {
            Put::Created => plan,
            Put::Exists(winner) if winner.run == self.spec.run => winner,
            Put::Exists(winner) => {
                let how = format!("run {} planned it first", winner.run);
                return Err(overtaken(&self.spec.run, plan.batch, &how));
            }
        };
        timings
            .measure(&self.stopwatch, "getBatch", async {
                for (id, range) in &winner.ranges {
                    let source = &self.sources[id];
                    self.retried(|| source.adopt(range))
                        .await
                        .map_err(|error| error.at(format_args!("batch {}: {id}", winner.batch)))?;
                }
                Ok::<(), Error>(())
            })
            .await?;
        Ok(Arc::new(winner))
    }

    async fn execute(&mut self, plan: Arc<Plan>, mut timings: Timings) -> Result<Done> {
        let start = self.stopwatch.now();
        if let Some(attempt) = self.published_before(&plan).await? {
            timings.add("addBatch", self.stopwatch.since(start));
            return self.complete(plan, attempt, BatchOutput::default(), timings).await;
        }
        let ready = self.retried(|| self.attempt(&plan).boxed()).await?;
        timings.add("queryPlanning", ready.output.planning);
        self.shared.say(format!("publishing batch {}", plan.batch));
        let attempt = self.publish(&plan, &ready).await?;
        self.pass_warnings();
        timings.add("addBatch", self.stopwatch.since(start).saturating_sub(ready.output.planning));
        let mut done = self.complete(plan, attempt, ready.output, timings).await?;
        done.state_commit = ready.state_commit;
        Ok(done)
    }

    /// Records a batch whose output is published, and goes on to the next one.
    async fn complete(
        &mut self,
        plan: Arc<Plan>,
        attempt: Attempt,
        output: BatchOutput,
        mut timings: Timings,
    ) -> Result<Done> {
        let rows_out = output.staged.iter().map(|staged| staged.rows).sum();
        let commit =
            timings.measure(&self.stopwatch, "commitOffsets", self.seal(&plan, attempt)).await?;
        let position = after(Arc::clone(&plan), commit.clone());
        self.retention.arrived(&commit, Arc::clone(&position.base));
        self.position = position;
        Ok(Done { plan, output, rows_out, state_commit: Duration::ZERO, timings })
    }

    /// The attempt that published a batch before a crash took its commit. A query without state
    /// need not run again then: what is to be committed is in the sink's note.
    async fn published_before(&self, plan: &Plan) -> Result<Option<Attempt>> {
        let again = self.position.rerun.is_some() && self.published >= Some(plan.batch);
        if !again || !self.shape.operators.is_empty() {
            return Ok(None);
        }
        let (run, snapshots) = (self.spec.run.clone(), Vec::new());
        let watermarks = advanced(&self.delays, &plan.evict, &BTreeMap::new());
        let ours = Attempt { plan: digest(plan), run, snapshots, watermarks };
        let (note, sink) = (ours.encode(), self.spec.sink.as_ref());
        match self.retried(|| sink.commit(plan.batch, Vec::new(), &note)).await? {
            CommitOutcome::AlreadyCommitted(Some(note)) => {
                self.theirs(plan, &ours, &note).map(Some)
            }
            CommitOutcome::AlreadyCommitted(None) => Ok(None),
            CommitOutcome::Committed => Err(Error::invalid(format!(
                "{} said that it has batch {}, and did not have it: this is an error in the sink",
                sink.description(),
                plan.batch
            ))
            .with_condition("SINK_FORGOT_A_BATCH")),
        }
    }

    /// Runs the plan and makes its state durable. Nothing that this leaves is named by anything,
    /// so it can be tried again from the start.
    async fn attempt(&self, plan: &Arc<Plan>) -> Result<Ready> {
        let environment = &self.spec.environment;
        let context = BatchContext {
            plan: Arc::clone(plan),
            base: Arc::clone(&self.position.base),
            sources: Arc::clone(&self.sources),
            state: environment.state.clone(),
            sink: Arc::clone(&self.spec.sink),
            late: self.spec.late.as_ref().map(|late| Arc::clone(&late.sink)),
            batch_rows: self.spec.settings.batch_rows,
            stopwatch: self.stopwatch.clone(),
        };
        let mut output = self.spec.runner.run(context).await?;
        output.staged.sort_by_key(|staged| staged.partition);
        let sealed = std::mem::take(&mut output.sealed);
        let (operators, key_groups) = (&self.shape.operators, plan.settings.key_groups);
        check_sealed(operators, key_groups, plan.partitions, plan.batch.reads(), &sealed)?;
        let start = self.stopwatch.now();
        let snapshots = match environment.state.as_deref().filter(|_| !sealed.is_empty()) {
            Some(state) => state.commit(sealed).await?,
            None => Vec::new(),
        };
        let state_commit = self.stopwatch.since(start);
        check_snapshots(operators, key_groups, plan.batch.writes(), &snapshots)?;
        // Last, because running and writing may have taken long.
        self.look(plan.batch).await?;
        Ok(Ready { output, snapshots, state_commit })
    }

    async fn look(&self, batch: BatchId) -> Result<()> {
        check_not_overtaken(self.spec.environment.log.as_ref(), batch, &self.spec.run).await
    }

    /// Hands the output to the sink. If the batch was published before, the attempt that did so
    /// is the one whose state counts.
    async fn publish(&self, plan: &Plan, ready: &Ready) -> Result<Attempt> {
        let ours = Attempt {
            plan: digest(plan),
            run: self.spec.run.clone(),
            snapshots: ready.snapshots.clone(),
            watermarks: advanced(&self.delays, &plan.evict, &ready.output.event_times),
        };
        let (note, staged) = (ours.encode(), &ready.output.staged);
        self.publish_late(plan, &ours, &ready.output.late).await?;
        let sink = self.spec.sink.as_ref();
        let outcome = self.retried(|| sink.commit(plan.batch, staged.clone(), &note)).await?;
        match outcome {
            CommitOutcome::Committed => Ok(ours),
            CommitOutcome::AlreadyCommitted(None) => {
                // The sink knows no more; if it is ahead of us, the log is too.
                self.retried(|| self.look(plan.batch).boxed()).await?;
                Ok(ours)
            }
            CommitOutcome::AlreadyCommitted(Some(note)) => self.theirs(plan, &ours, &note),
        }
    }

    /// Hands late rows to their sink. Before the output: whoever sees a batch sees what it left
    /// out. An attempt that comes after a crash in between gives the same rows, so that it does
    /// not matter whose were published.
    async fn publish_late(&self, plan: &Plan, ours: &Attempt, staged: &[Staged]) -> Result<()> {
        let Some(late) = self.spec.late.as_ref().filter(|_| !staged.is_empty()) else {
            return Ok(());
        };
        let (note, sink) = (ours.encode(), late.sink.as_ref());
        let commit = || sink.commit(plan.batch, staged.to_vec(), &note);
        if let CommitOutcome::AlreadyCommitted(Some(note)) = self.retried(commit).await? {
            same_plan(sink, ours, &note)?;
        }
        Ok(())
    }

    /// The attempt that a sink's note is about, which must be of the same plan.
    fn theirs(&self, plan: &Plan, ours: &Attempt, note: &Note) -> Result<Attempt> {
        let theirs = same_plan(self.spec.sink.as_ref(), ours, note)?;
        check_snapshots(
            &self.shape.operators,
            plan.settings.key_groups,
            plan.batch.writes(),
            &theirs.snapshots,
        )?;
        Ok(theirs)
    }

    /// Tells the query what its sinks have to say.
    pub(crate) fn pass_warnings(&mut self) {
        let late = self.spec.late.as_ref().map(|late| &late.sink);
        for (sink, told) in [Some(&self.spec.sink), late].into_iter().zip(&mut self.sink_warnings) {
            let warnings = sink.map(|sink| sink.warnings()).unwrap_or_default();
            for warning in warnings.into_iter().skip(*told) {
                *told += 1;
                self.shared.warn(warning);
            }
        }
    }

    /// Records that the batch is done.
    async fn seal(&self, plan: &Plan, attempt: Attempt) -> Result<Commit> {
        let environment = &self.spec.environment;
        let sink = self.spec.sink.as_ref();
        let lasting = sink.memory() == SinkMemory::Lasting;
        let commit = Commit {
            batch: plan.batch,
            run: self.spec.run.clone(),
            snapshots: attempt.snapshots,
            watermarks: attempt.watermarks,
            committed_at: BatchTime(environment.clock.now_ms()),
            output: lasting.then(|| sink.description()),
        };
        let log = environment.log.as_ref();
        match self.retried(|| log.put_commit(&commit)).await? {
            Put::Created => Ok(commit),
            Put::Exists(winner) if winner.run == self.spec.run => Ok(winner),
            Put::Exists(winner) => {
                let how = format!("run {} committed it first", winner.run);
                Err(overtaken(&self.spec.run, plan.batch, &how))
            }
        }
    }
}

/// The attempt that a note of `sink` is about.
///
/// # Errors
///
/// `Invalid` (`CHECKPOINT_SINK_MISMATCH`) if it is not of the plan that ours is of.
fn same_plan(sink: &dyn Sink, ours: &Attempt, note: &Note) -> Result<Attempt> {
    let theirs = Attempt::decode(note).map_err(|error| error.at(sink.description()))?;
    if theirs.plan == ours.plan {
        return Ok(theirs);
    }
    Err(Error::invalid(format!(
        "{} already has this batch, from another plan (by run {}): the checkpoint and the output \
         do not belong together; restore the checkpoint, or start with a new one and a new output",
        sink.description(),
        theirs.run
    ))
    .with_condition("CHECKPOINT_SINK_MISMATCH"))
}
