use crate::late::LateOutput;
use crate::runner::BatchRunner;
use crate::settings::{CheckpointRules, Settings};
use crate::trigger::Trigger;
use fluvial_core::{
    BatchLog, Clock, Error, OutputMode, QueryId, RunId, Sink, SinkId, Source, SourceId,
    StateBackend,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A query to run: what, from where, to where, and with what.
#[derive(Clone)]
pub struct QuerySpec {
    /// A name for people, unique among the running queries of a session.
    pub name: Option<String>,
    /// The query's id if its checkpoint is new.
    pub proposed_id: QueryId,
    /// The nonce of this run; never used before.
    pub run: RunId,
    /// The inputs, by stable name.
    pub sources: BTreeMap<SourceId, Arc<dyn Source>>,
    /// What turns input into output.
    pub runner: Arc<dyn BatchRunner>,
    /// The output.
    pub sink: Arc<dyn Sink>,
    /// The sink's stable name.
    pub sink_id: SinkId,
    /// Where rows go that came too late; they are dropped if this is `None`.
    pub late: Option<LateOutput>,
    /// What the sink gets.
    pub mode: OutputMode,
    /// When batches run.
    pub trigger: Trigger,
    /// How they run.
    pub settings: Settings,
    /// What they run with.
    pub environment: Environment,
}

/// The world of a query: everything that does I/O or knows the time.
#[derive(Clone)]
pub struct Environment {
    /// Plans and commits.
    pub log: Arc<dyn BatchLog>,
    /// State; `None` for a stateless query.
    pub state: Option<Arc<dyn StateBackend>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Decisions about the checkpoint.
    pub rules: CheckpointRules,
    /// Where the checkpoint lies, for people.
    pub place: String,
}

/// Beginnings of conditions that are about the checkpoint as such.
const ABOUT_CHECKPOINTS: &[&str] = &[
    "CANNOT_LOAD_",
    "CHECKPOINT_",
    "CONCURRENT_RUN",
    "OUTPUT_MODE_",
    "SOURCES_",
    "STATE_",
    "STREAMING_STATEFUL_",
];

impl Environment {
    /// The error, with the checkpoint's place if it is about the checkpoint.
    pub(crate) fn placed(&self, error: Error) -> Error {
        let condition = error.condition().unwrap_or_default();
        let about = ABOUT_CHECKPOINTS.iter().any(|prefix| condition.starts_with(prefix));
        if about { error.at(format!("checkpoint {}", self.place)) } else { error }
    }
}

impl fmt::Debug for QuerySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuerySpec")
            .field("name", &self.name)
            .field("run", &self.run)
            .field("sources", &self.sources.keys())
            .field("sink", &self.sink.description())
            .field("mode", &self.mode)
            .field("trigger", &self.trigger)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}
