//! `KeyRoute` and `ToNothingsOwner`: where rows go before a stateful operator.

use super::exchange::{Route, Routed};
use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;
use fluvial_core::{KeyGroupCount, PartitionId};
use fluvial_operators::GroupKeys;
use fluvial_state::KeyCodec;
use std::fmt;
use std::sync::Arc;

/// Sends a row to the partition that owns the key group of its key: some of its columns, encoded
/// as the operator itself does, so that a row always meets its state.
pub(crate) struct KeyRoute {
    keys: Keys,
    columns: Vec<usize>,
}

/// How an operator encodes its keys.
enum Keys {
    Plain(KeyCodec),
    Groups(GroupKeys),
}

impl Keys {
    fn partitions(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        partitions: u32,
    ) -> fluvial_core::Result<Vec<PartitionId>> {
        match self {
            Self::Plain(codec) => codec.partitions(columns, rows, partitions),
            Self::Groups(keys) => keys.partitions(columns, rows, partitions),
        }
    }
}

impl KeyRoute {
    /// By the columns at these positions.
    pub(crate) fn by(codec: KeyCodec, columns: Vec<usize>) -> Self {
        Self { keys: Keys::Plain(codec), columns }
    }

    /// By the first `columns` columns, the groups of an aggregation.
    pub(crate) fn by_groups(keys: GroupKeys, columns: usize) -> Self {
        Self { keys: Keys::Groups(keys), columns: (0..columns).collect() }
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
            .keys
            .partitions(&columns, rows.num_rows(), partitions as u32)
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
