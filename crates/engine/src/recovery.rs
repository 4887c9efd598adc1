//! How a run finds out where its query stands.

use crate::coverage::check_snapshots;
use crate::fence::overtaken;
use crate::query::Shared;
use crate::retention::Retention;
use crate::run::{Position, Run, shape_of};
use crate::settings::Pinned;
use crate::spec::QuerySpec;
use crate::stopwatch::Stopwatch;
use crate::watermarks::aligned;
use fluvial_core::protocol::{Resume, resume};
use fluvial_core::{
    BatchId, BatchLog, Commit, Error, Offset, OutputMode, PinnedSettings, Plan, QueryShape, Result,
    Sink, SinkMemory, SinkSpec, Snapshot, SourceId, Watermarks,
};
use futures::FutureExt;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Run {
    /// Reads the logs, compares what they say with the query, opens the sink and tells the
    /// sources where they stand.
    pub(crate) async fn recover(
        spec: Arc<QuerySpec>,
        shared: Arc<Shared>,
        retention: Arc<Retention>,
    ) -> Result<Self> {
        let environment = &spec.environment;
        let clock = environment.clock.as_ref();
        let retry = spec.settings.retry;
        let resume = retry.run(clock, || settled(environment.log.as_ref()).boxed()).await?;
        let shape = shape_of(&spec);
        let output = match &resume {
            Resume::Fresh => None,
            Resume::Next { commit, .. } => commit.output.clone(),
            Resume::Rerun { base, .. } => base.as_ref().and_then(|commit| commit.output.clone()),
        };
        let (settings, position) = match resume {
            Resume::Fresh => (fresh_settings(&spec), fresh_position()),
            Resume::Next { plan, commit } => {
                check(&spec, &plan, &shape)?;
                check_base(&plan, commit.batch, &commit.snapshots)?;
                (plan.settings.clone(), after(Arc::from(plan), commit))
            }
            Resume::Rerun { plan, base } => {
                check(&spec, &plan, &shape)?;
                if let Some(commit) = &base {
                    check_base(&plan, commit.batch, &commit.snapshots)?;
                }
                (plan.settings.clone(), at(Arc::from(plan), base))
            }
        };
        let ignored = ignored(&spec.settings.pinned, &settings);
        for warning in spec.runner.warnings().into_iter().chain(ignored) {
            shared.warn(warning);
        }
        let mut run = Self {
            sources: Arc::new(spec.sources.clone()),
            stopwatch: Stopwatch::new(Arc::clone(&spec.environment.clock)),
            delays: spec.runner.shape().watermarks,
            inputs: spec.runner.shape().inputs,
            shape,
            settings,
            position,
            shared,
            retention,
            spec,
            published: None,
            sink_warnings: [0; 2],
        };
        run.position.watermarks = aligned(&run.delays, Some(&run.position.watermarks));
        run.published = run.open_sink(output.as_deref()).await?;
        run.open_late_sink().await?;
        run.pass_warnings();
        run.place_sources().await?;
        Ok(run)
    }

    /// Opens the sink, and checks that it is not ahead of the checkpoint, nor behind it where the
    /// newest committed batch went to `output`. Gives the newest batch that it has.
    async fn open_sink(&self, output: Option<&str>) -> Result<Option<BatchId>> {
        let spec = SinkSpec {
            query: self.shared.id().clone(),
            sink: self.spec.sink_id.clone(),
            run: self.spec.run.clone(),
            schema: self.spec.runner.shape().schema,
            mode: self.spec.mode,
        };
        let published = self.retried(|| self.spec.sink.open(&spec)).await?;
        let position = &self.position;
        if published <= self.newest_planned() {
            let committed = position.next.previous();
            if let Some(committed) = committed.filter(|committed| published < Some(*committed))
                && self.spec.sink.memory() == SinkMemory::Lasting
                && output == Some(&self.spec.sink.description())
            {
                return Err(self.lost(published, committed));
            }
            if let (Some(published), Some(committed)) = (published, committed)
                && published < committed
            {
                self.shared.warn(format!(
                    "the sink has output up to batch {published}, but the checkpoint is at batch \
                     {committed}: what lies between is not there"
                ));
            }
            return Ok(published);
        }
        self.behind(self.spec.sink.as_ref(), published).await?;
        Ok(published)
    }

    /// Opens the sink for late rows, if there is one. It has only batches that had some.
    async fn open_late_sink(&self) -> Result<()> {
        let Some(late) = &self.spec.late else { return Ok(()) };
        let Some(schema) = self.spec.runner.shape().late else {
            return Err(Error::invalid("this query cannot write down rows that come too late"));
        };
        let spec = SinkSpec {
            query: self.shared.id().clone(),
            sink: late.sink_id.clone(),
            run: self.spec.run.clone(),
            schema,
            mode: OutputMode::Append,
        };
        let published = self.retried(|| late.sink.open(&spec)).await?;
        match published <= self.newest_planned() {
            true => Ok(()),
            false => self.behind(late.sink.as_ref(), published).await,
        }
    }

    fn newest_planned(&self) -> Option<BatchId> {
        match &self.position.rerun {
            Some(plan) => Some(plan.batch),
            None => self.position.next.previous(),
        }
    }

    /// Output that was committed and is not there.
    fn lost(&self, published: Option<BatchId>, committed: BatchId) -> Error {
        let has = match published {
            None => "nothing".into(),
            Some(batch) => format!("only what was there up to batch {batch}"),
        };
        Error::invalid(format!(
            "{} has {has} of query {}, and the checkpoint says that batch {committed} was written: \
             the output was deleted, or is an older one; bring it back, or start with a new \
             checkpoint, which reads everything again",
            self.spec.sink.description(),
            self.shared.id(),
        ))
        .with_condition("CHECKPOINT_AHEAD_OF_SINK")
    }

    /// Why a sink has more batches than the checkpoint, as an error.
    async fn behind(&self, sink: &dyn Sink, published: Option<BatchId>) -> Result<()> {
        let (position, newest) = (&self.position, self.newest_planned());
        let published = published.expect("more than None");
        // Another run may have gone on since the logs were read.
        let log = self.spec.environment.log.as_ref();
        let planned = self.retried(|| log.latest_plan()).await?;
        if planned.is_some_and(|plan| plan.batch >= published) {
            let how = format!("another run has published batch {published} meanwhile");
            return Err(overtaken(&self.spec.run, position.next, &how));
        }
        Err(Error::invalid(format!(
            "{} has batch {published} of query {}, but the checkpoint's newest plan is {}: they \
             do not belong together; restore the checkpoint, or start with a new one and a new \
             output",
            sink.description(),
            self.shared.id(),
            newest.map_or("none".into(), |batch| batch.to_string()),
        ))
        .with_condition("CHECKPOINT_BEHIND_SINK"))
    }

    /// Tells each source what was adopted last; asks new ones where to begin.
    async fn place_sources(&mut self) -> Result<()> {
        let position = &self.position;
        let mut starts: BTreeMap<SourceId, Offset> = BTreeMap::new();
        for (id, source) in self.sources.iter() {
            source.serves(self.shared.id(), id).map_err(|e| e.at(id))?;
            let newest = position.rerun.as_ref().or(position.last.as_ref());
            if let Some(range) = newest.and_then(|plan| plan.newest_range(id)) {
                self.retried(|| source.adopt(range)).await.map_err(|e| e.at(id))?;
            }
            let start = match position.starts.get(id) {
                Some(start) => start.clone(),
                None => self.retried(|| source.initial()).await.map_err(|e| e.at(id))?,
            };
            starts.insert(id.clone(), start);
        }
        self.position.starts = starts;
        Ok(())
    }
}

/// Reads the logs until no other run moved them in between.
async fn settled(log: &dyn BatchLog) -> Result<Resume> {
    let mut before = log.latest_commit().await?;
    loop {
        let plan = log.latest_plan().await?;
        let after = log.latest_commit().await?;
        if before == after {
            return resume(plan, after);
        }
        before = after;
    }
}

fn fresh_position() -> Position {
    Position {
        next: BatchId::FIRST,
        rerun: None,
        last: None,
        starts: BTreeMap::new(),
        base: Arc::from([]),
        watermarks: Watermarks::new(),
    }
}

/// The position after a committed batch.
pub(crate) fn after(plan: Arc<Plan>, commit: Commit) -> Position {
    Position {
        next: commit.batch.next(),
        rerun: None,
        starts: plan.ends.clone(),
        last: Some(plan),
        base: commit.snapshots.into(),
        watermarks: commit.watermarks,
    }
}

/// The position before a planned batch. The plan says all that the plan before it would, and
/// its watermarks, too.
fn at(plan: Arc<Plan>, base: Option<Commit>) -> Position {
    Position {
        next: plan.batch,
        starts: plan.ends.clone(),
        rerun: Some(plan),
        last: None,
        base: base.map(|commit| commit.snapshots).unwrap_or_default().into(),
        watermarks: Watermarks::new(),
    }
}

fn state_format(spec: &QuerySpec) -> String {
    let state = spec.environment.state.as_ref();
    match state.filter(|_| !spec.runner.shape().operators.is_empty()) {
        Some(state) => state.format().to_owned(),
        None => String::new(),
    }
}

fn fresh_settings(spec: &QuerySpec) -> PinnedSettings {
    PinnedSettings {
        key_groups: spec.settings.pinned.key_groups,
        watermark_policy: spec.settings.pinned.watermark_policy,
        watermark_scope: spec.settings.pinned.watermark_scope,
        state_format: state_format(spec),
    }
}

/// Whether this query may go on where one of `plan` stopped.
fn check(spec: &QuerySpec, plan: &Plan, shape: &QueryShape) -> Result<()> {
    (spec.environment.rules.compare)(&plan.shape, shape)?;
    let format = state_format(spec);
    if plan.settings.state_format != format {
        let name =
            |format: &str| if format.is_empty() { "none".into() } else { format!("{format:?}") };
        return Err(Error::invalid(format!(
            "the checkpoint's state has format {}, but the query uses {}: use the state backend \
             that the query began with, or start with a new checkpoint",
            name(&plan.settings.state_format),
            name(&format)
        ))
        .with_condition("STATE_FORMAT_CHANGED"));
    }
    if let Some(unknown) = plan.ranges.keys().find(|id| !spec.sources.contains_key(*id)) {
        let list = |ids: Vec<&SourceId>| {
            ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        return Err(Error::invalid(format!(
            "batch {} reads source {unknown}, which the query no longer has: the checkpoint has \
             sources [{}], the query [{}]",
            plan.batch,
            list(plan.shape.sources.keys().collect()),
            list(spec.sources.keys().collect()),
        ))
        .with_condition("SOURCES_CHANGED"));
    }
    Ok(())
}

/// Whether the commit of `batch` names all the state that `plan`'s query has.
fn check_base(plan: &Plan, batch: BatchId, snapshots: &[Snapshot]) -> Result<()> {
    let settings = &plan.settings;
    check_snapshots(&plan.shape.operators, settings.key_groups, batch.writes(), snapshots)
        .map_err(|error| error.at(format_args!("commit {batch}")))
}

/// What the user asked for that the checkpoint has decided already.
fn ignored(asked: &Pinned, pinned: &PinnedSettings) -> Vec<String> {
    let mut warnings = Vec::new();
    if asked.watermark_policy != pinned.watermark_policy {
        warnings.push(format!(
            "the watermark policy {:?} is ignored: the checkpoint began with {:?}",
            asked.watermark_policy, pinned.watermark_policy
        ));
    }
    if asked.watermark_scope != pinned.watermark_scope {
        warnings.push(format!(
            "the watermark scope {:?} is ignored: the checkpoint began with {:?}",
            asked.watermark_scope, pinned.watermark_scope
        ));
    }
    if asked.key_groups != pinned.key_groups {
        warnings.push(format!(
            "{} key groups are ignored: the checkpoint began with {}",
            asked.key_groups.get(),
            pinned.key_groups.get()
        ));
    }
    warnings
}
