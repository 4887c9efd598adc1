//! A sink on an object store: one object per batch, created if absent, with its note.

use crate::parts::rows::numbers;
use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use fluvial_core::{
    BatchId, CommitOutcome, Error, Note, OutputMode, PartitionId, QueryId, Result, Sink, SinkSpec,
    SinkWriter, Staged,
};
use fluvial_sim::Disk;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

#[derive(Serialize, Deserialize)]
struct Published {
    query: QueryId,
    note: Vec<u8>,
    rows: Vec<Vec<i64>>,
}

/// Publishes batch `n` as `out/n`, or in another folder.
pub(crate) struct ObjectSink {
    store: Arc<dyn ObjectStore>,
    folder: &'static str,
    query: Mutex<Option<QueryId>>,
}

impl ObjectSink {
    pub(crate) fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self::in_folder(store, "out")
    }

    pub(crate) fn in_folder(store: Arc<dyn ObjectStore>, folder: &'static str) -> Self {
        Self { store, folder, query: Mutex::new(None) }
    }

    fn path(&self, batch: BatchId) -> Path {
        Path::from(format!("{}/{batch}", self.folder))
    }

    async fn newest(&self) -> Result<Option<BatchId>> {
        let found: Vec<_> = self.store.list(Some(&Path::from(self.folder))).try_collect().await?;
        let numbers = found.iter().filter_map(|m| m.location.filename()?.parse().ok());
        Ok(numbers.max().map(BatchId))
    }
}

/// What a reader sees: the rows of each batch, in order.
pub(crate) fn batches(disk: &Disk) -> Vec<(u64, Vec<Vec<i64>>)> {
    batches_in(disk, "out")
}

/// The same of another folder.
pub(crate) fn batches_in(disk: &Disk, folder: &str) -> Vec<(u64, Vec<Vec<i64>>)> {
    let read = |path: &String| {
        let number = path.rsplit('/').next()?.parse().ok()?;
        let published: Published = serde_json::from_slice(&disk.read(path)?).unwrap();
        Some((number, published.rows))
    };
    let mut batches: Vec<_> = disk.paths_under(folder).iter().filter_map(read).collect();
    batches.sort();
    batches
}

/// All rows in order.
pub(crate) fn visible(disk: &Disk) -> Vec<Vec<i64>> {
    batches(disk).into_iter().flat_map(|(_, rows)| rows).collect()
}

#[async_trait]
impl Sink for ObjectSink {
    fn description(&self) -> String {
        "ObjectSink".into()
    }

    fn modes(&self) -> &[OutputMode] {
        &[OutputMode::Append, OutputMode::Update, OutputMode::Complete]
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let newest = self.newest().await?;
        if let Some(batch) = newest {
            let bytes = self.store.get(&self.path(batch)).await?.bytes().await?;
            let published: Published = serde_json::from_slice(&bytes).unwrap();
            if published.query != spec.query {
                return Err(Error::invalid("this output belongs to another query"));
            }
        }
        *self.query.lock().unwrap() = Some(spec.query.clone());
        Ok(newest)
    }

    async fn writer(&self, _: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Writer { partition, rows: Vec::new() }))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        let mut rows: Vec<Vec<i64>> = Vec::new();
        for staged in staged {
            rows.extend(serde_json::from_slice::<Vec<Vec<i64>>>(&staged.token).unwrap());
        }
        // Partitions may change; readers of this sink compare in order.
        rows.sort();
        let query = self.query.lock().unwrap().clone().expect("open came first");
        let published = Published { query, note: note.0.to_vec(), rows };
        let bytes = serde_json::to_vec(&published).unwrap();
        let path = self.path(batch);
        match self.store.put_opts(&path, bytes.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(CommitOutcome::Committed),
            Err(StoreError::AlreadyExists { .. }) => {
                let found = match self.store.get(&path).await {
                    Err(StoreError::NotFound { .. }) => {
                        return Err(Error::unavailable("there and not there"));
                    }
                    found => found?,
                };
                let published: Published = serde_json::from_slice(&found.bytes().await?).unwrap();
                Ok(CommitOutcome::AlreadyCommitted(Some(Note(published.note.into()))))
            }
            Err(error) => Err(error.into()),
        }
    }
}

struct Writer {
    partition: PartitionId,
    rows: Vec<Vec<i64>>,
}

#[async_trait]
impl SinkWriter for Writer {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows.extend(numbers(&rows));
        Ok(())
    }

    async fn stage(self: Box<Self>) -> Result<Staged> {
        let rows = self.rows.len() as u64;
        let token = Bytes::from(serde_json::to_vec(&self.rows).unwrap());
        Ok(Staged { partition: self.partition, rows, token })
    }
}
