//! A sink of one's own: one object for each batch, which exists or does not.

use async_trait::async_trait;
use fluvial::arrow::array::RecordBatch;
use fluvial::arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial::{BatchId, Error, OutputMode, Result};
use fluvial_core::{
    CommitOutcome, Note, PartitionId, QueryId, RunId, Sink, SinkSpec, SinkWriter, Staged,
};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// What an object is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// After its batch: whoever comes second finds it there.
    ByBatch,
    /// After its batch and the run that writes it. It looks harmless, and publishes a batch twice
    /// whenever a run dies between the sink's commit and the engine's.
    ByBatchAndRun,
}

/// Publishes batch 7 as the object `ledger/7`.
pub struct Ledger {
    store: Arc<dyn ObjectStore>,
    naming: Naming,
    opened: OnceLock<(QueryId, RunId)>,
}

/// What an object holds.
#[derive(Serialize, Deserialize)]
struct Page {
    note: Vec<u8>,
    rows: Vec<String>,
}

const FOLDER: &str = "ledger";
const OWNER: &str = "ledger-owner";

fn no_json(error: serde_json::Error) -> Error {
    Error::corrupt("a page of the ledger is not JSON").with_source(error)
}

impl Ledger {
    /// A ledger in the folder `ledger` of a store.
    pub fn new(store: Arc<dyn ObjectStore>, naming: Naming) -> Self {
        Self { store, naming, opened: OnceLock::new() }
    }

    fn path(&self, batch: BatchId) -> Result<Path> {
        let (_, run) = self
            .opened
            .get()
            .ok_or_else(|| Error::invalid("a sink is opened before anything is committed"))?;
        let name = match self.naming {
            Naming::ByBatch => batch.to_string(),
            Naming::ByBatchAndRun => format!("{batch}-{run}"),
        };
        Ok(Path::from(FOLDER).join(name))
    }

    async fn page(&self, path: &Path) -> Result<Page> {
        let bytes = self.store.get(path).await?.bytes().await?;
        serde_json::from_slice(&bytes).map_err(no_json)
    }
}

/// The rows that a reader of the ledger sees.
pub async fn read_rows(store: Arc<dyn ObjectStore>) -> Result<Vec<String>> {
    let ledger = Ledger::new(store, Naming::ByBatch);
    let folder = Path::from(FOLDER);
    let pages: Vec<_> = ledger.store.list(Some(&folder)).try_collect().await?;
    let mut rows = Vec::new();
    for page in pages {
        rows.extend(ledger.page(&page.location).await?.rows);
    }
    Ok(rows)
}

#[async_trait]
impl Sink for Ledger {
    fn description(&self) -> String {
        format!("Ledger[{}]", self.store)
    }

    fn modes(&self) -> &[OutputMode] {
        &[OutputMode::Append, OutputMode::Update]
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let owner = Path::from(OWNER);
        let create = PutMode::Create.into();
        match self.store.put_opts(&owner, spec.query.to_string().into(), create).await {
            Ok(_) => {}
            Err(object_store::Error::AlreadyExists { .. }) => {
                // "Exists" may be said of a race that nobody has won yet: look.
                let busy = |_| Error::unavailable("another run opens the ledger");
                let found = self.store.get(&owner).await.map_err(busy)?.bytes().await?;
                if found != spec.query.to_string() {
                    let owner = String::from_utf8_lossy(&found);
                    return Err(Error::invalid(format!("the ledger belongs to query {owner}")));
                }
            }
            Err(error) => return Err(error.into()),
        }
        let _ = self.opened.set((spec.query.clone(), spec.run.clone()));
        let folder = Path::from(FOLDER);
        let pages: Vec<_> = self.store.list(Some(&folder)).try_collect().await?;
        let batch = |name: &str| name.split('-').next()?.parse().ok().map(BatchId);
        Ok(pages.iter().filter_map(|page| batch(page.location.filename()?)).max())
    }

    async fn writer(&self, _: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Lines { partition, rows: Vec::new() }))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        let path = self.path(batch)?;
        let parts = staged.iter().map(|staged| serde_json::from_slice(&staged.token));
        let parts: Vec<Vec<String>> = parts.collect::<Result<_, _>>().map_err(no_json)?;
        let page = Page { note: note.0.to_vec(), rows: parts.concat() };
        let bytes = serde_json::to_vec(&page).map_err(no_json)?;
        match self.store.put_opts(&path, bytes.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(CommitOutcome::Committed),
            Err(object_store::Error::AlreadyExists { .. }) => {
                // "Exists" may be said of a race that nobody has won yet: look.
                let note = self.page(&path).await.map(|page| Note(page.note.into()));
                let busy = |_| Error::unavailable("another commit of this batch is under way");
                Ok(CommitOutcome::AlreadyCommitted(Some(note.map_err(busy)?)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The rows of one partition: nobody sees them before the commit.
struct Lines {
    partition: PartitionId,
    rows: Vec<String>,
}

#[async_trait]
impl SinkWriter for Lines {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        let options = FormatOptions::default();
        let columns = rows.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
        let columns: Vec<_> = columns.collect::<Result<_, _>>()?;
        for row in 0..rows.num_rows() {
            let values: Vec<_> = columns.iter().map(|c| c.value(row).to_string()).collect();
            self.rows.push(values.join(","));
        }
        Ok(())
    }

    async fn stage(self: Box<Self>) -> Result<Staged> {
        let token = serde_json::to_vec(&self.rows).map_err(no_json)?;
        let rows = self.rows.len() as u64;
        Ok(Staged { partition: self.partition, rows, token: token.into() })
    }
}
