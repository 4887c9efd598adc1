//! Short forms for tests that run a query by hand.

use crate::parts::query::Parts;
use crate::parts::source::Script;
use fluvial_checkpoint::{ObjectLog, Retention};
use fluvial_core::{BatchId, BatchLog, Commit, Error, EventTime, Plan, WatermarkId};
use fluvial_engine::StreamingQuery;
use fluvial_sim::{Disk, block_on};
use object_store::path::Path;
use std::time::Duration;

/// Honest parts on `disk`, which keep every batch.
pub(crate) fn parts(disk: &Disk, run: &str, source: &Script) -> Parts {
    let mut parts = Parts::on(disk.process().store(), run, source);
    parts.retention = Retention { batches: 1000, age: Duration::from_secs(3600) };
    parts
}

/// Runs to the end, which must be a good one.
pub(crate) fn go(parts: &Parts) -> StreamingQuery {
    block_on(parts.live()).unwrap()
}

/// Runs to the end, which must be a bad one.
pub(crate) fn fail(parts: &Parts) -> Error {
    block_on(parts.live()).unwrap_err()
}

fn log(disk: &Disk) -> ObjectLog {
    ObjectLog::new(disk.process().store(), Path::from("checkpoint"))
}

pub(crate) fn plan(disk: &Disk, batch: u64) -> Option<Plan> {
    block_on(log(disk).plan(BatchId(batch))).unwrap()
}

pub(crate) fn commit(disk: &Disk, batch: u64) -> Option<Commit> {
    block_on(log(disk).commit(BatchId(batch))).unwrap()
}

/// The newest commit.
pub(crate) fn newest(disk: &Disk) -> Commit {
    block_on(log(disk).latest_commit()).unwrap().unwrap()
}

/// A watermark of a commit, in seconds.
pub(crate) fn watermark(commit: &Commit, name: &str) -> Option<i64> {
    let id = WatermarkId::new(name).unwrap();
    commit.watermarks[&id].map(|EventTime(micros)| micros / 1_000_000)
}
