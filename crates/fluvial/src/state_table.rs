//! One version of a store as a table of DataFusion.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use fluvial_core::{
    KeyGroup, KeyGroupRange, KeyRange, Prefetch, Snapshot, StateBackend, StateStore, StateVersion,
    StoreId,
};
use fluvial_datafusion::inspect::{Seen, StateTable};
use futures::TryStreamExt;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Entries that are read at once.
const PIECE: usize = 8192;

/// A store in one version.
pub(crate) struct Version {
    pub(crate) table: StateTable,
    pub(crate) backend: Arc<dyn StateBackend>,
    pub(crate) id: StoreId,
    pub(crate) version: StateVersion,
    pub(crate) snapshots: Vec<Snapshot>,
    /// The key groups of each partition.
    pub(crate) partitions: Vec<KeyGroupRange>,
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "state {} in version {}", self.id, self.version)
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct VersionTable(pub(crate) Arc<Version>);

#[async_trait]
impl TableProvider for VersionTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.0.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let part = |groups: &KeyGroupRange| -> Arc<dyn PartitionStream> {
            let version = Arc::clone(&self.0);
            Arc::new(Part { schema: self.schema(), version, groups: *groups })
        };
        let parts = self.0.partitions.iter().map(part).collect();
        let exec =
            StreamingTableExec::try_new(self.schema(), parts, projection, None, false, limit)?;
        Ok(Arc::new(exec))
    }
}

/// What one partition has.
struct Part {
    schema: SchemaRef,
    version: Arc<Version>,
    groups: KeyGroupRange,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, key groups {}", self.version, self.groups)
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let reading = Reading {
            version: Arc::clone(&self.version),
            groups: self.groups,
            store: None,
            left: self.groups.groups().collect(),
            ranges: VecDeque::new(),
            seen: Seen::default(),
        };
        let rows = futures::stream::try_unfold(reading, |mut reading| async move {
            Ok::<_, fluvial_core::Error>(reading.next().await?.map(|rows| (rows, reading)))
        });
        let rows = rows.map_err(|error| DataFusionError::External(Box::new(error)));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

/// How far a partition has been read: one key group after the other, so that a store that opens
/// lazily brings no more than that.
struct Reading {
    version: Arc<Version>,
    groups: KeyGroupRange,
    store: Option<Box<dyn StateStore>>,
    left: VecDeque<KeyGroup>,
    ranges: VecDeque<KeyRange>,
    seen: Seen,
}

impl Reading {
    async fn next(&mut self) -> fluvial_core::Result<Option<RecordBatch>> {
        let Version { table, backend, id, version, snapshots, .. } = self.version.as_ref();
        if self.store.is_none() {
            self.store = Some(backend.open(id, self.groups, *version, snapshots).await?);
        }
        let Some(store) = &mut self.store else { return Ok(None) };
        loop {
            let Some(range) = self.ranges.pop_front() else {
                let Some(group) = self.left.pop_front() else { return Ok(None) };
                self.ranges = table.ranges(group).into();
                let ranges = self.ranges.iter().cloned().collect();
                store.prefetch(&Prefetch::Ranges(ranges)).await?;
                continue;
            };
            let entries = store.scan(&range, PIECE)?;
            let count = entries.keys.len();
            if count == PIECE {
                self.ranges.push_front(range.after(entries.keys.value(count - 1)));
            }
            if count > 0 {
                let rows = table.rows(&entries, &mut self.seen);
                return rows
                    .map(Some)
                    .map_err(|error| error.at(format_args!("{:?}", self.version)));
            }
        }
    }
}
