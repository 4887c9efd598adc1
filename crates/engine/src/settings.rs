use crate::retry::Retry;
use fluvial_core::{
    BatchId, BatchTime, KeyGroupCount, QueryShape, Result, WatermarkPolicy, WatermarkScope,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a user may set about how a query runs. Nothing here changes a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the first batch pins for the life of the query; ignored, with a warning, after that.
    pub pinned: Pinned,
    /// State partitions of new batches; may change at any restart. At most the key groups.
    pub partitions: u32,
    /// How many splits a source should plan: the number of cores.
    pub splits: usize,
    /// The most rows that one record batch should have.
    pub batch_rows: usize,
    /// Whether a batch may run only because the watermark moved.
    pub empty_batches: EmptyBatches,
    /// What to do when something is unavailable.
    pub retry: Retry,
    /// Pause before an idle query with the default trigger looks again.
    pub poll: Duration,
    /// How often an idle query reports that it is idle.
    pub idle_report: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pinned: Pinned::default(),
            partitions: 4,
            splits: 4,
            batch_rows: 8192,
            empty_batches: EmptyBatches::WhenWanted,
            retry: Retry::default(),
            poll: Duration::from_millis(10),
            idle_report: Duration::from_secs(10),
        }
    }
}

/// Settings that the first plan pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// Number of key groups.
    pub key_groups: KeyGroupCount,
    /// How the watermarks of several inputs combine.
    pub watermark_policy: WatermarkPolicy,
    /// Which watermark each stateful operator sees.
    pub watermark_scope: WatermarkScope,
}

impl Default for Pinned {
    fn default() -> Self {
        Self {
            key_groups: KeyGroupCount::DEFAULT,
            watermark_policy: WatermarkPolicy::Min,
            watermark_scope: WatermarkScope::Operator,
        }
    }
}

/// Whether batches without data run (Spark's `noDataMicroBatches`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyBatches {
    /// When the watermark moved and an operator wants it.
    WhenWanted,
    /// Never: what a moved watermark closes waits for the next data.
    Never,
}

/// [`CheckpointRules::compare`]: the recorded shape, then the new one.
pub type CompareShapes = dyn Fn(&QueryShape, &QueryShape) -> Result<()> + Send + Sync;

/// [`CheckpointRules::retain_from`]: the commits with their times, oldest first, then now.
pub type RetainFrom = dyn Fn(&[(BatchId, BatchTime)], BatchTime) -> BatchId + Send + Sync;

/// What the checkpoint's crate decides and the engine asks for. Both are pure functions.
#[derive(Clone)]
pub struct CheckpointRules {
    /// Whether a query of the second shape may go on where one of the first stopped; `Invalid`
    /// with a message that names what changed if not.
    pub compare: Arc<CompareShapes>,
    /// The oldest batch whose commit must be kept.
    pub retain_from: Arc<RetainFrom>,
}

impl fmt::Debug for CheckpointRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointRules").finish_non_exhaustive()
    }
}
