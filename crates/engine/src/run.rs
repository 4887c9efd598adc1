//! One run of a query: where it stands and what it needs to go on. How it does that is in
//! `recovery`, `planning` and `batch`.

use crate::idle::WatermarkInput;
use crate::query::Shared;
use crate::retention::Retention;
use crate::spec::QuerySpec;
use crate::stopwatch::Stopwatch;
use fluvial_core::{
    BatchId, EventDuration, Offset, PinnedSettings, Plan, QueryShape, Result, Snapshot, Source,
    SourceId, SourceShape, WatermarkId, Watermarks,
};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One run of a query.
pub(crate) struct Run {
    pub(crate) spec: Arc<QuerySpec>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) sources: Arc<BTreeMap<SourceId, Arc<dyn Source>>>,
    pub(crate) stopwatch: Stopwatch,
    /// What the query is now.
    pub(crate) shape: QueryShape,
    /// Its watermark definitions.
    pub(crate) delays: BTreeMap<WatermarkId, EventDuration>,
    /// What they hear of.
    pub(crate) inputs: BTreeMap<WatermarkId, WatermarkInput>,
    /// What its first plan pinned.
    pub(crate) settings: PinnedSettings,
    pub(crate) position: Position,
    /// The newest batch that the sink had when it was opened.
    pub(crate) published: Option<BatchId>,
    /// How many of the warnings of the sink, and of the sink for late rows, have been passed on.
    pub(crate) sink_warnings: [usize; 2],
}

/// Where a query stands between two batches.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    /// The batch that comes next.
    pub(crate) next: BatchId,
    /// A durable plan of that batch, found at recovery: to be run as it is.
    pub(crate) rerun: Option<Arc<Plan>>,
    /// The plan of the batch before; `None` at the beginning, and before a rerun.
    pub(crate) last: Option<Arc<Plan>>,
    /// Where each source goes on.
    pub(crate) starts: BTreeMap<SourceId, Offset>,
    /// The elected snapshots that the next batch reads.
    pub(crate) base: Arc<[Snapshot]>,
    /// The watermarks that the next batch evicts with; a rerun brings its own.
    pub(crate) watermarks: Watermarks,
}

/// The shape of a query, as its checkpoint depends on it.
pub(crate) fn shape_of(spec: &QuerySpec) -> QueryShape {
    let shape = |source: &Arc<dyn Source>| SourceShape {
        kind: source.kind().to_owned(),
        description: source.identity(),
    };
    QueryShape {
        sources: spec.sources.iter().map(|(id, source)| (id.clone(), shape(source))).collect(),
        operators: spec.runner.shape().operators,
        mode: spec.mode,
    }
}

impl Run {
    /// Retries `attempt` while it is unavailable, as the settings say.
    pub(crate) async fn retried<'a, T>(
        &self,
        attempt: impl FnMut() -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        self.spec.settings.retry.run(self.spec.environment.clock.as_ref(), attempt).await
    }
}
