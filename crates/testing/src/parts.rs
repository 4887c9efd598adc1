//! A query put together from parts, without SQL and without a plan of DataFusion: the engine,
//! an operator, a state backend, logs and a sink are the real ones, and a schedule takes
//! a fraction of the time.

use crate::backend::Backend;
use crate::output::{FOLDER, Output, rows_as_text};
use crate::query::Query;
use crate::schedule::RunPlan;
use crate::world::{ROOT, World};
use fluvial::{MemorySource, Trigger};
use fluvial_checkpoint::{ObjectLog, Retention, compare, retain_from};
use fluvial_core::{Error, QueryId, Result, RunId, Sink, SinkId, Source, SourceId};
use fluvial_engine::{
    BatchRunner, CheckpointRules, Engine, Environment, QuerySpec, Settings, Unobserved,
};
use fluvial_sim::Process;
use fluvial_sinks::{FileFormat, FileOptions, FileSink, ForeachBatchSink, TextCompression};
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a query of parts consists of, besides its output, its log and its state.
pub struct Parts {
    /// The inputs, by stable name.
    pub sources: BTreeMap<SourceId, Arc<dyn Source>>,
    /// What turns input into output.
    pub runner: Arc<dyn BatchRunner>,
}

/// What one start of a query of parts may use.
#[derive(Clone)]
pub struct Ground {
    pub(crate) world: World,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) limit: u64,
}

impl Ground {
    /// The store of the world as this process sees it.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// The URL of the store's root.
    pub fn root(&self) -> &'static str {
        ROOT
    }

    /// A folder of the checkpoint for the log of the source `name`.
    pub fn source_folder(&self, name: &str) -> Path {
        Path::from(format!("checkpoint/sources/{name}"))
    }

    /// How many files a batch shall take.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// As [`Start::rows`](crate::Start::rows).
    ///
    /// # Errors
    ///
    /// `NotFound` if the input has none.
    pub fn rows(&self, name: &str) -> Result<Arc<MemorySource>> {
        self.world.needed_rows(name)
    }
}

/// Runs it to its end.
pub(crate) async fn work(
    world: &World,
    query: &Query,
    parts: Parts,
    run: &RunPlan,
    process: &Process,
    store: Arc<dyn ObjectStore>,
) -> Result<()> {
    let id = RunId::new(world.next_name())?;
    let retention = Retention { batches: run.retained, ..Retention::default() };
    let backend = query.state().unwrap_or(Backend::Memory);
    let stateful = !parts.runner.shape().operators.is_empty();
    let state = match stateful {
        true => {
            let folder = Path::from("checkpoint/state");
            Some(backend.open(Arc::clone(&store), folder, id.clone())?)
        }
        false => None,
    };
    let spec = QuerySpec {
        name: None,
        proposed_id: QueryId::new(world.next_name())?,
        run: id,
        sources: parts.sources,
        runner: parts.runner,
        sink: sink(world, query, process, &store)?,
        sink_id: SinkId::new("sink-0")?,
        late: None,
        mode: query.output_mode(),
        trigger: if run.once { Trigger::Once } else { Trigger::AvailableNow },
        settings: Settings { partitions: run.partitions, splits: 2, ..Settings::default() },
        environment: Environment {
            log: Arc::new(ObjectLog::new(store, Path::from("checkpoint"))),
            state,
            clock: Arc::new(world.clock().clone()),
            rules: CheckpointRules {
                compare: Arc::new(compare),
                retain_from: Arc::new(move |commits, now| retain_from(commits, now, &retention)),
            },
            place: "checkpoint".into(),
        },
    };
    let engine = Engine::open(spec, Arc::new(Unobserved)).await?;
    let running = engine.query();
    engine.run().await;
    running.exception().map_or(Ok(()), Err)
}

fn sink(
    world: &World,
    query: &Query,
    process: &Process,
    store: &Arc<dyn ObjectStore>,
) -> Result<Arc<dyn Sink>> {
    match query.out() {
        Output::Files => {
            let compression = TextCompression::None;
            let format = FileFormat::Json { ignore_nulls: false, compression };
            let folder = Path::from(FOLDER);
            Ok(Arc::new(FileSink::new(Arc::clone(store), folder, FileOptions::new(format))))
        }
        Output::EachBatch => {
            let (world, process) = (world.clone(), process.clone());
            Ok(Arc::new(ForeachBatchSink::new(move |batch, rows| {
                let (world, process) = (world.clone(), process.clone());
                async move {
                    let rows = rows_as_text(&rows)?;
                    // The dead do nothing.
                    if !process.crashed() {
                        world.deliver(batch.0, rows);
                    }
                    Ok(())
                }
            })))
        }
        _ => Err(Error::invalid("a query of parts writes files, or hands over each batch")),
    }
}
