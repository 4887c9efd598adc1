//! Putting a query together.

use crate::parts::operators::{Dedup, Windows, route};
use crate::parts::rows::{SECOND, input_schema, late_records};
use crate::parts::sink::ObjectSink;
use crate::parts::source::Script;
use crate::parts::state::Snapshots;
use fluvial_checkpoint::{ObjectLog, Retention, compare, retain_from};
use fluvial_core::{
    BatchLog, BatchTime, EventDuration, OperatorId, OutputMode, QueryId, RunId, Sink, SinkId,
    Source, SourceId, StateBackend, WatermarkId,
};
use fluvial_engine::{
    BatchRunner, CheckpointRules, Engine, Environment, Input, InputWatermark, LateOutput,
    OperatorRunner, QuerySpec, Settings, Stateful, StreamingQuery, Trigger, Unobserved,
};
use fluvial_sim::VirtualClock;
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Rows as they are.
    Copy,
    /// The first row of each key.
    Dedup,
    /// Counts per window of so many seconds.
    Windows(i64),
}

/// A query in the making; every part can be replaced.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) run: String,
    pub(crate) name: Option<String>,
    pub(crate) sources: Vec<(&'static str, Arc<dyn Source>)>,
    pub(crate) what: What,
    pub(crate) delay_s: i64,
    pub(crate) idle_after: Option<Duration>,
    pub(crate) mode: OutputMode,
    pub(crate) trigger: Trigger,
    pub(crate) settings: Settings,
    pub(crate) log: Arc<dyn BatchLog>,
    pub(crate) state: Arc<dyn StateBackend>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) clock: VirtualClock,
    pub(crate) retention: Retention,
    /// Instead of the one that `what` asks for.
    pub(crate) runner: Option<Arc<dyn BatchRunner>>,
    /// For rows that come too late.
    pub(crate) late: Option<Arc<dyn Sink>>,
}

impl Parts {
    /// Honest parts on `store`.
    pub(crate) fn on(store: Arc<dyn ObjectStore>, run: &str, source: &Script) -> Self {
        let run_id = RunId::new(run).unwrap();
        Self {
            run: run.into(),
            name: None,
            sources: vec![("in", Arc::new(source.clone()))],
            what: What::Windows(10),
            delay_s: 0,
            idle_after: None,
            mode: OutputMode::Append,
            trigger: Trigger::AvailableNow,
            settings: Settings { partitions: 2, ..Settings::default() },
            log: Arc::new(ObjectLog::new(Arc::clone(&store), Path::from("checkpoint"))),
            state: Arc::new(Snapshots::new(Arc::clone(&store), run_id)),
            sink: Arc::new(ObjectSink::new(store)),
            clock: VirtualClock::at(1_000_000),
            retention: Retention { batches: 3, age: Duration::ZERO },
            runner: None,
            late: None,
        }
    }

    fn runner(&self) -> Arc<dyn BatchRunner> {
        if let Some(runner) = &self.runner {
            return Arc::clone(runner);
        }
        let inputs = self.sources.iter().map(|(name, _)| Input {
            source: SourceId::new(*name).unwrap(),
            port: 0,
            map: None,
            watermark: Some(InputWatermark {
                id: WatermarkId::new(*name).unwrap(),
                column: 1,
                delay: EventDuration(self.delay_s * SECOND),
                idle_after: self.idle_after,
            }),
        });
        let inputs = inputs.collect();
        let stateful = |id: &str, operator| Stateful {
            id: OperatorId::new(id).unwrap(),
            operator,
            route: Arc::new(route),
        };
        Arc::new(match self.what {
            What::Copy => OperatorRunner::stateless(input_schema(), inputs),
            What::Dedup => OperatorRunner::stateful(inputs, stateful("dedup", Arc::new(Dedup))),
            What::Windows(size) => {
                OperatorRunner::stateful(inputs, stateful("count", Arc::new(Windows(size))))
                    .with_late_rows(late_records())
            }
        })
    }

    pub(crate) fn spec(&self) -> QuerySpec {
        let retention = self.retention;
        let sources: BTreeMap<_, _> = self
            .sources
            .iter()
            .map(|(name, source)| (SourceId::new(*name).unwrap(), Arc::clone(source)))
            .collect();
        QuerySpec {
            name: self.name.clone(),
            proposed_id: QueryId::new(format!("q-{}", self.run)).unwrap(),
            run: RunId::new(self.run.as_str()).unwrap(),
            sources,
            runner: self.runner(),
            sink: Arc::clone(&self.sink),
            sink_id: SinkId::new("out").unwrap(),
            late: self.late.clone().map(|sink| {
                let sink_id = SinkId::new("late").unwrap();
                LateOutput { sink, sink_id }
            }),
            mode: self.mode,
            trigger: self.trigger,
            settings: self.settings.clone(),
            environment: Environment {
                log: Arc::clone(&self.log),
                state: Some(Arc::clone(&self.state)),
                clock: Arc::new(self.clock.clone()),
                place: "checkpoint".into(),
                rules: CheckpointRules {
                    compare: Arc::new(compare),
                    retain_from: Arc::new(move |commits, now| {
                        // What was committed in this very millisecond is not young: the
                        // virtual clock may stand still.
                        retain_from(commits, BatchTime(now.0 + 1), &retention)
                    }),
                },
            },
        }
    }

    /// Opens the query and runs it to its end.
    pub(crate) async fn live(&self) -> fluvial_core::Result<StreamingQuery> {
        let engine = Engine::open(self.spec(), Arc::new(Unobserved)).await?;
        let query = engine.query();
        engine.run().await;
        match query.exception() {
            Some(error) => Err(error),
            None => Ok(query),
        }
    }
}
