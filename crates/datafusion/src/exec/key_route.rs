//! `KeyRoute`, `GroupRoute` and `ToNothingsOwner`: where rows go before a stateful operator.

use super::exchange::{Route, Routed};
use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;
use fluvial_core::KeyGroupCount;
use fluvial_operators::GroupKeys;
use fluvial_state::KeyCodec;
use std::fmt;
use std::sync::Arc;

/// Sends a row to the partition that owns the key group of its key: some of its columns, encoded
/// with the operator's own codec, so that a row always meets its state.
pub(crate) struct KeyRoute {
    codec: KeyCodec,
    columns: Vec<usize>,
}

impl KeyRoute {
    /// By the columns at these positions.
    pub(crate) fn by(codec: KeyCodec, columns: Vec<usize>) -> Self {
        Self { codec, columns }
    }
}

impl fmt::Debug for KeyRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by the columns {:?}", self.columns)
    }
}

impl Route for KeyRoute {
    fn route(&self, rows: &RecordBatch, partitions: usize) -> Result<Routed> {
        if partitions == 1 {
            return Ok(Routed::Together(0));
        }
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|&at| Arc::clone(rows.column(at))).collect();
        let owners = self
            .codec
            .partitions(&columns, rows.num_rows(), partitions as u32)
            .map_err(crate::error::plan)?;
        Ok(Routed::Apart(owners))
    }
}

/// Sends a row to the partition that owns its group: its first columns, encoded as the
/// aggregation itself does.
pub(crate) struct GroupRoute {
    keys: GroupKeys,
    columns: usize,
}

impl GroupRoute {
    /// By the first `columns` columns.
    pub(crate) fn new(keys: GroupKeys, columns: usize) -> Self {
        Self { keys, columns }
    }
}

impl fmt::Debug for GroupRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by the first {} columns", self.columns)
    }
}

impl Route for GroupRoute {
    fn route(&self, rows: &RecordBatch, partitions: usize) -> Result<Routed> {
        if partitions == 1 {
            return Ok(Routed::Together(0));
        }
        let columns = &rows.columns()[..self.columns];
        let owners = self
            .keys
            .partitions(columns, rows.num_rows(), partitions as u32)
            .map_err(crate::error::plan)?;
        Ok(Routed::Apart(owners))
    }
}

/// Sends everything to the partition that owns the key without columns.
pub(crate) struct ToNothingsOwner {
    key_groups: KeyGroupCount,
}

impl ToNothingsOwner {
    pub(crate) fn new(key_groups: KeyGroupCount) -> Self {
        Self { key_groups }
    }
}

impl fmt::Debug for ToNothingsOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("to one partition")
    }
}

impl Route for ToNothingsOwner {
    fn route(&self, _: &RecordBatch, partitions: usize) -> Result<Routed> {
        let group = KeyCodec::group_of_nothing(self.key_groups);
        let owner = self.key_groups.partition_of(group, partitions as u32);
        Ok(Routed::Together(owner.0 as usize))
    }
}
