//! From a description to a running query: checkpoint, sources, runner, engine.

use crate::formats::{Lasting, Output};
use crate::session::Session;
use crate::settings::SessionSettings;
use crate::state_backend;
use crate::storage::{Place, Storage};
use datafusion::dataframe::DataFrame;
use fluvial_checkpoint::{ObjectLog, Retention, compare, probe, retain_from};
use fluvial_core::{BatchLog, Error, OutputMode, QueryId, Result, RunId, SinkId, Source, SourceId};
use fluvial_datafusion::DataFusionRunner;
use fluvial_datafusion::plan::{SourceFolder, StreamingPlan};
use fluvial_engine::{
    BatchRunner, CheckpointRules, Environment, LateOutput, Pinned, QuerySpec, Settings,
    StreamingQuery, Trigger,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that a start needs.
pub(crate) struct Start {
    pub(crate) session: Session,
    pub(crate) plan: StreamingPlan,
    pub(crate) output: Output,
    pub(crate) late: Option<Output>,
    pub(crate) mode: OutputMode,
    pub(crate) trigger: Trigger,
    pub(crate) name: Option<String>,
    pub(crate) checkpoint: Option<String>,
}

/// Checks and optimises the query.
pub(crate) fn prepare(
    session: &Session,
    frame: &DataFrame,
    mode: OutputMode,
) -> Result<StreamingPlan> {
    StreamingPlan::prepare(&session.state(), frame.logical_plan().clone(), mode)
}

/// Starts it.
pub(crate) async fn start(start: Start) -> Result<StreamingQuery> {
    let Start { session, plan, output, late, mode, trigger, name, checkpoint } = start;
    let settings = session.settings();
    let place = checkpoint_place(&session, &settings, checkpoint, name.as_deref(), &output)?;
    let log = Arc::new(ObjectLog::new(Arc::clone(&place.store), place.path.clone()));
    refuse_lost_memory(&output, mode, log.as_ref(), &place).await?;
    if let Some(late) = &late {
        refuse_lost_memory(late, OutputMode::Append, log.as_ref(), &place).await?;
    }
    let run = RunId::new(session.unique_name())?;
    probe(place.store.as_ref(), &place.path, &run).await?;
    let runner = Arc::new(DataFusionRunner::new(session.state(), plan.clone())?);
    let state = match runner.shape().operators.is_empty() {
        true => None,
        false => {
            let owner = match &name {
                Some(name) => format!("query {name}"),
                None => format!("the query of checkpoint {}", place.shown()),
            };
            let kind = state_backend::kind(&settings, log.as_ref()).await?;
            Some(state_backend::open(&session, kind, &place, &run, owner)?)
        }
    };
    let spec = QuerySpec {
        name,
        proposed_id: QueryId::new(session.unique_name())?,
        run,
        sources: sources(&plan, &place).await?,
        runner,
        sink: output.sink,
        sink_id: SinkId::new("sink-0")?,
        late: match late {
            Some(Output { sink, .. }) => {
                Some(LateOutput { sink, sink_id: SinkId::new("late-rows")? })
            }
            None => None,
        },
        mode,
        trigger,
        settings: engine_settings(&settings),
        environment: Environment {
            log,
            state,
            clock: session.clock(),
            rules: rules(&settings),
            place: place.shown(),
        },
    };
    session.streams().start(spec).await
}

async fn sources(
    plan: &StreamingPlan,
    checkpoint: &Place,
) -> Result<BTreeMap<SourceId, Arc<dyn Source>>> {
    let mut sources = BTreeMap::new();
    for (id, definition) in plan.sources() {
        let folder = checkpoint.join(&format!("sources/{id}"));
        let folder = SourceFolder { store: folder.store, folder: folder.path };
        definition.check_checkpoint(checkpoint.url.as_str()).map_err(|e| e.at(&id))?;
        let source = definition.open(folder).await.map_err(|e| e.at(format!("source {id}")))?;
        sources.insert(id, source);
    }
    Ok(sources)
}

fn engine_settings(settings: &SessionSettings) -> Settings {
    Settings {
        pinned: Pinned {
            watermark_policy: settings.watermark_policy,
            watermark_scope: settings.watermark_scope,
            ..Pinned::default()
        },
        partitions: settings.state_partitions,
        splits: settings.input_splits,
        empty_batches: settings.empty_batches,
        ..Settings::default()
    }
}

fn rules(settings: &SessionSettings) -> CheckpointRules {
    let retention = Retention { batches: settings.batches_retained, ..Retention::default() };
    CheckpointRules {
        compare: Arc::new(compare),
        retain_from: Arc::new(move |commits, now| retain_from(commits, now, &retention)),
    }
}

/// The given location, else the session's default with the query's name, else a temporary one
/// for sinks that do not last either.
fn checkpoint_place(
    session: &Session,
    settings: &SessionSettings,
    given: Option<String>,
    name: Option<&str>,
    output: &Output,
) -> Result<Place> {
    if let Some(location) = given {
        return session.storage().open(&location);
    }
    if output.lasting == Lasting::WithTheProcess {
        return Storage::temporary(&format!("temporary-{}", session.unique_name()));
    }
    if let (Some(default), Some(name)) = (&settings.checkpoint_location, name) {
        let segment = QueryId::new(name.replace(' ', "_"))
            .map_err(|e| e.at("the query's name becomes the folder of its checkpoint"))?;
        return Ok(session.storage().open(default)?.join(segment.as_str()));
    }
    Err(Error::invalid(
        "a checkpoint location is needed: option(\"checkpointLocation\", ...), or the session's \
         checkpoint.location and a query name",
    )
    .with_condition("CHECKPOINT_LOCATION_NOT_SPECIFIED"))
}

/// A memory table in append mode cannot come back after a restart: its rows are gone, and the
/// checkpoint would say that they were delivered. A complete table is built anew by the next batch.
async fn refuse_lost_memory(
    output: &Output,
    mode: OutputMode,
    log: &ObjectLog,
    place: &Place,
) -> Result<()> {
    if output.lasting == Lasting::WithTheProcess
        && output.keeps_rows
        && mode != OutputMode::Complete
        && log.latest_plan().await?.is_some()
    {
        return Err(Error::invalid(format!(
            "a memory table in {mode} mode cannot go on from a checkpoint: its rows were lost with \
             the process; remove {} to start over, or write to files or a Delta table",
            place.url
        ))
        .with_condition("MEMORY_SINK_CANNOT_RECOVER"));
    }
    Ok(())
}
