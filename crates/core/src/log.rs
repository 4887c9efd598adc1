//! The two logs of a query: plans (intent, `offsets/`) and commits (completion, `commits/`).

use crate::error::Result;
use crate::ids::{BatchId, OperatorId, QueryId, RunId, SourceId, StoreName, WatermarkId};
use crate::key_group::KeyGroupCount;
use crate::operator::StateSchema;
use crate::sink::OutputMode;
use crate::source::{Offset, SourceRange};
use crate::state::Snapshot;
use crate::time::{BatchTime, EventTime};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the watermarks of several inputs combine. Pinned by the first plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatermarkPolicy {
    /// The lowest: nothing is lost, the slowest input decides. An input not seen yet holds
    /// everything back.
    #[default]
    Min,
    /// The highest: the fastest input decides. An input not seen yet is ignored.
    Max,
}

/// Which watermark each stateful operator sees. Pinned by the first plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatermarkScope {
    /// Its own: the query's, as the operators below hand it on.
    #[default]
    Operator,
    /// The query's, the newest one for late rows too: as in Spark before 3.4, where operators that
    /// follow one another drop rows that are not late.
    Query,
}

impl WatermarkScope {
    fn is_operator(&self) -> bool {
        *self == Self::Operator
    }
}

/// One watermark per definition; `None` is "no event seen yet".
pub type Watermarks = BTreeMap<WatermarkId, Option<EventTime>>;

impl WatermarkPolicy {
    /// The query's watermark.
    pub fn combine(self, watermarks: &Watermarks) -> Option<EventTime> {
        let mut values = watermarks.values().copied();
        match self {
            Self::Min => {
                let first = values.next()?;
                values.fold(first, |low, v| Some(low?.min(v?)))
            }
            Self::Max => values.flatten().max(),
        }
    }
}

/// What must not change while a query lives: written by batch 0, obeyed ever after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedSettings {
    /// Number of key groups.
    pub key_groups: KeyGroupCount,
    /// How watermarks combine.
    pub watermark_policy: WatermarkPolicy,
    /// Which of them operators see.
    #[serde(default, skip_serializing_if = "WatermarkScope::is_operator")]
    pub watermark_scope: WatermarkScope,
    /// Format of the state backend; empty for a stateless query.
    pub state_format: String,
}

/// What a query is, as far as its checkpoint depends on it; compared at restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryShape {
    /// Kind and place of each source.
    pub sources: BTreeMap<SourceId, SourceShape>,
    /// State of each stateful operator.
    pub operators: BTreeMap<OperatorId, OperatorShape>,
    /// The output mode.
    pub mode: OutputMode,
}

/// A source as its checkpoint depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceShape {
    /// [`crate::Source::kind`].
    pub kind: String,
    /// [`crate::Source::description`].
    pub description: String,
}

/// A stateful operator as its checkpoint depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorShape {
    /// Its state.
    pub schema: StateSchema,
    /// Its stores.
    pub stores: Vec<StoreName>,
}

/// Everything that makes batch `n` a pure function of the state: durable before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Which batch.
    pub batch: BatchId,
    /// The run that wrote it.
    pub run: RunId,
    /// What each source contributes; absent if it has nothing new.
    pub ranges: BTreeMap<SourceId, SourceRange>,
    /// Where each source stands after this batch.
    pub ends: BTreeMap<SourceId, Offset>,
    /// The newest adopted range of each source that contributes nothing to this batch, so that
    /// recovery never needs an older plan (see [`Plan::newest_range`]). Its splits are left out
    /// if the source has a log that the range refers to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub silent: BTreeMap<SourceId, SourceRange>,
    /// The watermarks that judge late input: the previous batch's.
    pub late: Watermarks,
    /// The watermarks that evict: this batch's.
    pub evict: Watermarks,
    /// When each input of a query with several watermarks last had something to read: what
    /// decides which of them are idle.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub heard: BTreeMap<WatermarkId, BatchTime>,
    /// The only processing time of the batch.
    pub time: BatchTime,
    /// Number of state partitions.
    pub partitions: u32,
    /// What must not change.
    pub settings: PinnedSettings,
    /// What the query is.
    pub shape: QueryShape,
}

impl Plan {
    /// Whether any source contributes.
    pub fn has_data(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The newest range that `source` was ever planned to read: what it adopts after a restart.
    pub fn newest_range(&self, source: &SourceId) -> Option<&SourceRange> {
        self.ranges.get(source).or_else(|| self.silent.get(source))
    }
}

/// Batch `n` is done: written after state and sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Which batch.
    pub batch: BatchId,
    /// The run that wrote it.
    pub run: RunId,
    /// The elected snapshots of version `n + 1`: every store, every partition.
    pub snapshots: Vec<Snapshot>,
    /// The watermarks for the next batch.
    pub watermarks: Watermarks,
    /// When it was written; for retention by age, never for a result.
    pub committed_at: BatchTime,
    /// Where the output went, if it is still known there: the description of the sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// The outcome of a create-if-absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put<T> {
    /// This call created the entry.
    Created,
    /// The entry existed; here it is. Its `run` tells a lost acknowledgement of our own from
    /// another run's entry. Either way it is the truth.
    Exists(T),
}

/// Durable, append-only plans and commits of one query.
///
/// # Laws
///
/// 1. *One winner* per batch and kind: of concurrent creates exactly one is `Created`, all
///    others get the winner's entry.
/// 2. *Durable on return.* After a `put` returned, every later read in any process sees it.
/// 3. *Whole entries.* A reader sees a complete entry or none; any cut or flipped byte is
///    `Corrupt`. (The newest plan without a commit may be re-planned when cut: it never ran.)
/// 4. *Latest is exact.* `latest_*` return the highest batch present; foreign names are ignored.
/// 5. *Retention keeps what recovery needs.* `truncate_before` never removes the newest plan,
///    nor the newest two commits.
/// 6. *Removed is not free.* A `put` of a batch that `truncate_before` removed is `Fenced`: it
///    comes from a run that slept while others went on and cleaned up behind themselves.
#[async_trait]
pub trait BatchLog: Send + Sync {
    /// The query that owns this log; `proposed` if the log is new. Creates the record.
    async fn query_id(&self, proposed: &QueryId) -> Result<QueryId>;
    /// Records the intent to run a batch.
    async fn put_plan(&self, plan: &Plan) -> Result<Put<Plan>>;
    /// Records the completion of a batch.
    async fn put_commit(&self, commit: &Commit) -> Result<Put<Commit>>;
    /// The plan with the highest batch.
    async fn latest_plan(&self) -> Result<Option<Plan>>;
    /// The commit with the highest batch.
    async fn latest_commit(&self) -> Result<Option<Commit>>;
    /// One plan, if it is still there.
    async fn plan(&self, batch: BatchId) -> Result<Option<Plan>>;
    /// One commit, if it is still there.
    async fn commit(&self, batch: BatchId) -> Result<Option<Commit>>;
    /// All commits that are still there, oldest first: what retention must keep alive.
    async fn commits(&self) -> Result<Vec<Commit>>;
    /// Drops entries of batches before `batch`, except what law 5 keeps.
    async fn truncate_before(&self, batch: BatchId) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_waits_for_the_unseen_and_max_ignores_them() {
        let of = |values: &[Option<i64>]| -> Watermarks {
            let id = |i| WatermarkId::new(format!("w{i}")).unwrap();
            values.iter().enumerate().map(|(i, v)| (id(i), v.map(EventTime))).collect()
        };
        let (min, max) = (WatermarkPolicy::Min, WatermarkPolicy::Max);
        assert_eq!(min.combine(&of(&[])), None);
        assert_eq!(min.combine(&of(&[Some(5), None])), None);
        assert_eq!(min.combine(&of(&[None, Some(5)])), None);
        assert_eq!(min.combine(&of(&[Some(5), Some(-3)])), Some(EventTime(-3)));
        assert_eq!(max.combine(&of(&[None, Some(5), Some(7)])), Some(EventTime(7)));
        assert_eq!(max.combine(&of(&[None])), None);
    }
}
