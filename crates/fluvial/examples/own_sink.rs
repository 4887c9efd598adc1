//! A sink of your own: one object of text per batch, exactly once.
//!
//! ```text
//! cargo run -p fluvial --example own_sink
//! ```
//!
//! What a destination must be able to do is to create something if it is absent, per batch. That
//! is the election: of all attempts at a batch, by whomever, one becomes visible, and with it the
//! engine's note, which says which state belongs to it.

use async_trait::async_trait;
use fluvial::arrow::array::RecordBatch;
use fluvial::arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial::prelude::*;
use fluvial_core::{
    BatchId, CommitOutcome, Note, PartitionId, QueryId, Sink, SinkSpec, SinkWriter, Staged,
};
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// Publishes batch 7 as the object `7.json`.
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    owner: OnceLock<QueryId>,
}

/// An object: whose it is, the note, the rows.
#[derive(Serialize, Deserialize)]
struct Published {
    query: QueryId,
    note: Vec<u8>,
    rows: Vec<Vec<String>>,
}

impl Objects {
    pub(crate) fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, owner: OnceLock::new() }
    }

    fn path(batch: BatchId) -> Path {
        Path::from(format!("{batch}.json"))
    }

    async fn read(&self, batch: BatchId) -> fluvial::Result<Published> {
        let bytes = self.store.get(&Self::path(batch)).await?.bytes().await?;
        serde_json::from_slice(&bytes)
            .map_err(|e| fluvial::Error::corrupt(format!("{batch}.json is damaged")).with_source(e))
    }
}

#[async_trait]
impl Sink for Objects {
    fn description(&self) -> String {
        format!("Objects[{}]", self.store)
    }

    fn modes(&self) -> &[OutputMode] {
        &[OutputMode::Append, OutputMode::Update, OutputMode::Complete]
    }

    /// The newest batch that was published, if it is this query's.
    async fn open(&self, spec: &SinkSpec) -> fluvial::Result<Option<BatchId>> {
        let objects: Vec<_> = self.store.list(None).try_collect().await?;
        let batch = |name: &str| name.strip_suffix(".json")?.parse().ok().map(BatchId);
        let newest = objects.iter().filter_map(|o| batch(o.location.filename()?)).max();
        if let Some(newest) = newest {
            let owner = self.read(newest).await?.query;
            if owner != spec.query {
                return Err(fluvial::Error::invalid(format!(
                    "{} belongs to query {owner}: give this one another folder",
                    self.store
                )));
            }
        }
        let _ = self.owner.set(spec.query.clone());
        Ok(newest)
    }

    async fn writer(
        &self,
        _: BatchId,
        partition: PartitionId,
    ) -> fluvial::Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Rows { partition, rows: Vec::new() }))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> fluvial::Result<CommitOutcome> {
        let parts = staged.iter().map(|staged| serde_json::from_slice(&staged.token));
        let parts: Vec<Vec<Vec<String>>> = parts.collect::<Result<_, _>>().map_err(|e| {
            fluvial::Error::invalid("this was not staged by this sink").with_source(e)
        })?;
        let query = self.owner.get().cloned().ok_or_else(|| {
            fluvial::Error::invalid("a sink is opened before anything is committed")
        })?;
        let published = Published { query, note: note.0.to_vec(), rows: parts.concat() };
        let bytes = serde_json::to_vec(&published)
            .map_err(|e| fluvial::Error::invalid("rows without a JSON form").with_source(e))?;
        let create = PutMode::Create.into();
        match self.store.put_opts(&Self::path(batch), bytes.into(), create).await {
            Ok(_) => Ok(CommitOutcome::Committed),
            Err(object_store::Error::AlreadyExists { .. }) => {
                let note = self.read(batch).await?.note;
                Ok(CommitOutcome::AlreadyCommitted(Some(Note(note.into()))))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The rows of one partition, kept until the commit: nobody sees them before.
struct Rows {
    partition: PartitionId,
    rows: Vec<Vec<String>>,
}

#[async_trait]
impl SinkWriter for Rows {
    async fn write(&mut self, rows: RecordBatch) -> fluvial::Result<()> {
        let options = FormatOptions::default();
        let columns = rows.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
        let columns: Vec<_> = columns.collect::<Result<_, _>>()?;
        let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect();
        self.rows.extend((0..rows.num_rows()).map(row));
        Ok(())
    }

    async fn stage(self: Box<Self>) -> fluvial::Result<Staged> {
        let token = serde_json::to_vec(&self.rows)
            .map_err(|e| fluvial::Error::invalid("rows without a JSON form").with_source(e))?;
        let rows = self.rows.len() as u64;
        Ok(Staged { partition: self.partition, rows, token: token.into() })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(LocalFileSystem::new_with_prefix(folder.path())?);
    let session = Session::new()?;
    let query = session
        .read_stream()
        .format("rate-micro-batch")
        .option("rowsPerBatch", 3)
        .load_options()
        .await?
        .write_stream()?
        .sink(Arc::new(Objects::new(store.clone())))
        .trigger(Trigger::Once)
        // A sink that lasts needs a checkpoint that does; here both go with the program.
        .option("checkpointLocation", "memory:///own-sink")
        .start()
        .await?;
    query.await_termination().await?;
    for object in store.list(None).try_collect::<Vec<_>>().await? {
        let bytes = store.get(&object.location).await?.bytes().await?;
        let published: Published = serde_json::from_slice(&bytes)?;
        println!("{}: {:?}", object.location, published.rows);
    }
    Ok(())
}
