use crate::progress::StreamingQueryProgress;
use fluvial_core::{BatchTime, ErrorKind, QueryId, RunId};
use std::sync::Arc;

/// Something that happened to a query.
#[derive(Debug, Clone)]
pub enum QueryEvent {
    /// A run began.
    Started(QueryStarted),
    /// A batch was committed.
    Progress(Arc<StreamingQueryProgress>),
    /// There has been nothing to do for a while.
    Idle(QueryIdle),
    /// The run ended.
    Terminated(QueryTerminated),
}

/// A run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryStarted {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// The query's name, if it has one.
    pub name: Option<String>,
    /// When.
    pub timestamp: BatchTime,
}

/// There has been nothing to do for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryIdle {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// When.
    pub timestamp: BatchTime,
}

/// A run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryTerminated {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// Why it failed; `None` if it ended well.
    pub exception: Option<QueryFailure>,
}

/// Why a query failed, in a form to match on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryFailure {
    /// What to do about it.
    pub kind: ErrorKind,
    /// The stable name of the mistake, if it has one.
    pub condition: Option<String>,
    /// The message, with the causes.
    pub message: String,
}

/// Is told what happens to a query, from within its run: it must return at once and not panic.
/// [`crate::StreamingQueryListener`] is for everybody else.
pub trait Observe: Send + Sync {
    /// Takes note of `event`.
    fn observe(&self, event: QueryEvent);
}

/// Takes no note of anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observe for Unobserved {
    fn observe(&self, _: QueryEvent) {}
}
