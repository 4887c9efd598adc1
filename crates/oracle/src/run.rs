//! Drives a case: starts, lets input arrive, collects what comes out.

use crate::build::Builder;
use crate::case::{Case, SourceSpec, Step};
use crate::feed::Feeder;
use crate::gate::GateClock;
use crate::values;
use anyhow::{Context, Result};
use fluvial::arrow::array::RecordBatch;
use fluvial::{
    DataStreamWriter, OutputMode, Session, SessionBuilder, StreamingDataFrame, StreamingQuery,
    Trigger,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How cases are run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// State partitions of each start in turn, from the first again after the last; the cases' own
    /// if there are none.
    pub state_partitions: Vec<u32>,
    /// The state backend.
    pub backend: Option<String>,
}

/// What Fluvial did.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Batch by batch.
    pub batches: Vec<Batch>,
    /// Starts that failed, by step; the last one ends the case unless the step allows it.
    pub errors: BTreeMap<usize, String>,
    /// What the file sink held after each step.
    pub sink: Vec<(usize, Vec<Value>, Vec<String>)>,
}

/// One batch of ours.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The step it ran in.
    pub step: usize,
    /// Its id.
    pub id: u64,
    /// Its output.
    pub rows: Vec<Value>,
    /// Its progress, as JSON.
    pub progress: Option<Value>,
}

type Collected = Arc<Mutex<BTreeMap<u64, Vec<RecordBatch>>>>;

/// What holds from one step to the next.
struct Current {
    plan: Value,
    sources: Vec<SourceSpec>,
    conf: BTreeMap<String, String>,
    mode: String,
    trigger: Option<String>,
}

impl Current {
    fn take(&mut self, step: &Step) {
        if let Some(plan) = &step.plan {
            self.plan = plan.clone();
        }
        if let Some(sources) = &step.sources {
            self.sources = sources.clone();
        }
        if let Some(conf) = &step.conf {
            self.conf = conf.clone();
        }
        if let Some(mode) = &step.output_mode {
            self.mode = mode.clone();
        }
        if step.trigger.is_some() {
            self.trigger = step.trigger.clone();
        }
    }
}

/// Runs a case in a fresh folder.
///
/// # Errors
///
/// If the case cannot be set up; what the query fails at is part of the outcome.
pub async fn run(case: &Case, options: &Options) -> Result<Outcome> {
    let base = tempfile::tempdir()?;
    let all: Vec<SourceSpec> = case
        .sources
        .iter()
        .chain(case.steps.iter().flat_map(|s| s.sources.iter().flatten()))
        .cloned()
        .collect();
    let mut run = Run {
        case,
        options,
        base: base.path(),
        feeder: Feeder::new(base.path(), &all)?,
        current: Current {
            plan: case.plan.clone(),
            sources: case.sources.clone(),
            conf: case.conf.clone(),
            mode: case.output_mode.clone(),
            trigger: case.trigger.clone(),
        },
        outcome: Outcome::default(),
        step: 0,
        clock: Arc::default(),
    };
    match case.is_continuous() {
        true => run.through().await?,
        false => run.start_by_start().await?,
    }
    Ok(run.outcome)
}

struct Run<'a> {
    case: &'a Case,
    options: &'a Options,
    base: &'a Path,
    feeder: Feeder,
    current: Current,
    outcome: Outcome,
    /// The step that runs.
    step: usize,
    clock: Arc<GateClock>,
}

impl Run<'_> {
    /// Each step is a start of its own, from the same checkpoint.
    async fn start_by_start(&mut self) -> Result<()> {
        for (number, step) in self.case.steps.iter().enumerate() {
            self.step = number;
            self.current.take(step);
            self.clock.skip(step.sleep_ms);
            self.feeder.feed(step)?;
            self.drop_last(step)?;
            let collected = Collected::default();
            let ended = self.one_start(&collected).await;
            let (query, failed) = match ended {
                Ok((query, result)) => (Some(query), result.err()),
                Err(error) => (None, Some(error)),
            };
            self.take_batches(number, query.as_ref(), &collected)?;
            self.read_sink(number).await?;
            if let Some(error) = failed {
                self.outcome.errors.insert(number, format!("{error:#}"));
                if !step.expect_error {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One query runs through all steps.
    async fn through(&mut self) -> Result<()> {
        let collected = Collected::default();
        let clock = Arc::clone(&self.clock);
        let session = self.session()?;
        let writer = self.writer(&session, &collected).await?;
        let query = writer.trigger(Trigger::Default).start().await?;
        for (number, step) in self.case.steps.iter().enumerate() {
            // All files of a step appear at once, as far as the query can see.
            clock.close().await;
            clock.skip(step.sleep_ms);
            self.feeder.feed(step)?;
            clock.open();
            let result = query.process_all_available().await;
            self.take_batches(number, Some(&query), &collected)?;
            if let Err(error) = result {
                self.outcome.errors.insert(number, error.to_string());
                return Ok(());
            }
        }
        query.stop().await?;
        Ok(())
    }

    fn session(&self) -> Result<Session> {
        Ok(self.session_builder()?.clock(self.clock.clone()).build()?)
    }

    fn session_builder(&self) -> Result<SessionBuilder> {
        let counts = &self.options.state_partitions;
        let partitions = counts.get(self.step % counts.len().max(1)).copied();
        let mut builder = Session::builder()
            .base_dir(self.base)
            .config("state.partitions", partitions.unwrap_or(2))
            .warehouse(self.base.join("warehouse").display().to_string());
        for (name, value) in &self.current.conf {
            let pinned = name == "spark.sql.shuffle.partitions";
            if !(pinned && partitions.is_some()) {
                builder = builder.config(name, value);
            }
        }
        if let Some(backend) = &self.options.backend {
            builder = builder.config("state.backend", backend);
        }
        Ok(builder)
    }

    async fn writer(&self, session: &Session, collected: &Collected) -> Result<DataStreamWriter> {
        let mut builder = Builder {
            session,
            sources: &self.current.sources,
            feeder: &self.feeder,
            shared: BTreeMap::new(),
            tested: false,
        };
        let frame = builder.build(&self.current.plan).await?;
        let mode: OutputMode = self.current.mode.parse()?;
        let checkpoint = self.base.join("chk").display().to_string();
        let writer =
            frame.write_stream()?.output_mode(mode).option("checkpointLocation", checkpoint);
        let Some(sink) = &self.case.sink else {
            let collected = Arc::clone(collected);
            return Ok(writer.foreach_batch_rows(move |id, rows| {
                collected.lock().unwrap_or_else(PoisonError::into_inner).insert(id.0, rows);
                async { Ok(()) }
            }));
        };
        let mut writer = writer.format(&sink.format).partition_by(sink.partition_by.clone());
        for (name, value) in &sink.options {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            writer = writer.option(name, value);
        }
        Ok(writer.option("path", self.out().display().to_string()))
    }

    fn out(&self) -> std::path::PathBuf {
        let path = self.case.sink.as_ref().and_then(|s| s.path.clone());
        self.base.join(path.unwrap_or_else(|| "out".into()))
    }

    async fn one_start(&self, collected: &Collected) -> Result<(StreamingQuery, Result<()>)> {
        let session = self.session()?;
        let writer = self.writer(&session, collected).await?;
        let trigger = match self.current.trigger.as_deref() {
            Some("once") => Trigger::Once,
            _ => Trigger::AvailableNow,
        };
        let query = writer.trigger(trigger).start().await?;
        let limit = Duration::from_secs(60);
        let result = match query.await_termination_within(limit).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                query.stop().await?;
                Err(anyhow::anyhow!("the query did not end within {limit:?}"))
            }
            Err(error) => Err(error.into()),
        };
        Ok((query, result))
    }

    fn drop_last(&self, step: &Step) -> Result<()> {
        for log in &step.drop_last {
            let folder = self.base.join("chk").join(log);
            let mut newest: Option<u64> = None;
            for entry in std::fs::read_dir(&folder)? {
                let name = entry?.file_name();
                newest = newest.max(name.to_str().and_then(|n| n.parse().ok()));
            }
            let newest = newest.with_context(|| format!("{log} is empty"))?;
            std::fs::remove_file(folder.join(newest.to_string()))?;
        }
        Ok(())
    }

    fn take_batches(
        &mut self,
        step: usize,
        query: Option<&StreamingQuery>,
        collected: &Collected,
    ) -> Result<()> {
        let progress: BTreeMap<u64, Value> = query
            .map(StreamingQuery::recent_progress)
            .unwrap_or_default()
            .iter()
            .filter(|p| p.duration_ms.contains_key("addBatch"))
            .map(|p| (p.batch_id.0, serde_json::to_value(p.as_ref()).unwrap_or_default()))
            .collect();
        let taken = std::mem::take(&mut *collected.lock().unwrap_or_else(PoisonError::into_inner));
        if self.case.sink.is_some() {
            for (id, progress) in progress {
                let progress = Some(progress);
                self.outcome.batches.push(Batch { step, id, rows: Vec::new(), progress });
            }
            return Ok(());
        }
        for (id, batches) in taken {
            let mut rows = Vec::new();
            for batch in &batches {
                rows.extend(values::rows(batch)?);
            }
            let progress = progress.get(&id).cloned();
            self.outcome.batches.push(Batch { step, id, rows, progress });
        }
        Ok(())
    }

    async fn read_sink(&mut self, step: usize) -> Result<()> {
        let Some(sink) = &self.case.sink else { return Ok(()) };
        let out = self.out();
        let mut dirs = std::collections::BTreeSet::new();
        folders(&out, &out, &mut dirs)?;
        let mut rows = Vec::new();
        if !dirs.is_empty() {
            let session = self.session()?;
            let mut reader = session.read().format(&sink.format);
            for (name, value) in &sink.read_options {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                reader = reader.option(name, value);
            }
            if let Some(schema) = &sink.read_schema {
                reader = reader.schema(schema.as_str());
            }
            let frame = reader.load(out.display().to_string()).await?;
            for batch in frame.collect().await? {
                rows.extend(values::rows(&batch)?);
            }
        }
        self.outcome.sink.push((step, rows, dirs.into_iter().collect()));
        Ok(())
    }
}

/// Folders that hold visible files, relative to the output.
fn folders(
    root: &Path,
    folder: &Path,
    found: &mut std::collections::BTreeSet<String>,
) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let partition = name.contains('=');
        if (name.starts_with('_') && !partition) || name.starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            folders(root, &entry.path(), found)?;
        } else {
            let relative = folder.strip_prefix(root)?.display().to_string();
            found.insert(if relative.is_empty() { ".".into() } else { relative });
        }
    }
    Ok(())
}
