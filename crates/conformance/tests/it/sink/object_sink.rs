//! A sink with one object per batch, `<folder>/<batch>`, that holds rows and note: slow, simple
//! and right, unless it is told to be wrong.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use bytes::Bytes;
use fluvial_conformance::sink::{Destination, Owners};
use fluvial_core::{
    BatchId, CommitOutcome, Error, Note, OutputMode, PartitionId, Result, Sink, SinkSpec,
    SinkWriter, Staged,
};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What is wrong with the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// Readers see what writers wrote.
    StagedVisible,
    /// Rows of a dropped writer come with the next commit.
    DropKeeps,
    /// One object per value, and the batch's own last.
    Torn,
    /// The note is an object of its own, after the rows.
    NoteLater,
    /// The note is elected first; the rows are whatever comes after.
    RowsOfLoser,
    /// Only the newest batch is recognised when it comes again.
    OnlyEqual,
    /// Gives back the note that it was given.
    WrongNote,
    /// Replaces what is there.
    Overwrites,
    /// Looks first, then replaces.
    LooksThenOverwrites,
    /// Takes "exists" for its own doing.
    EverybodyWins,
    /// Takes a conflict for an existing batch.
    BelievesConflicts,
    /// Writes under another name after an error.
    RetriesElsewhere,
    /// Compares batch numbers as text.
    TextOrder,
    /// Says one batch less than there is.
    TellsLess,
    /// Lets every query in.
    NoOwner,
    /// Looks who owns the place, then writes its own name.
    LooksThenOwns,
    /// Counts the batches of all queries together.
    SharedCount,
    /// Adds rows in complete mode.
    CompleteAdds,
}

/// An empty place for [`ObjectSink`]s.
pub(crate) struct Place {
    fault: Fault,
    owners: Owners,
}

impl Place {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, owners: Owners::One }
    }

    pub(crate) fn shared(fault: Fault) -> Self {
        Self { fault, owners: Owners::Many }
    }
}

impl Destination for Place {
    fn sink(&self, store: Arc<dyn ObjectStore>) -> Box<dyn Sink> {
        Box::new(ObjectSink {
            store,
            fault: self.fault,
            owners: self.owners,
            spec: Mutex::default(),
            leftovers: Arc::default(),
        })
    }

    fn visible(&self, store: Arc<dyn ObjectStore>) -> BoxFuture<'_, Result<Vec<i64>>> {
        Box::pin(async move {
            let found: Vec<_> = store.list(Some(&"out".into())).try_collect().await?;
            let mut batches = BTreeMap::new();
            for meta in found {
                let bytes = store.get(&meta.location).await?.bytes().await?;
                let name = meta.location.filename().unwrap_or_default();
                let number = name.parse().unwrap_or(u64::MAX);
                batches.insert((number, meta.location.to_string()), parse(&bytes));
            }
            let mut visible = Vec::new();
            for object in batches.into_values() {
                if object.replaces {
                    visible.clear();
                }
                visible.extend(object.values);
            }
            Ok(visible)
        })
    }

    fn owners(&self) -> Owners {
        self.owners
    }
}

struct Object {
    replaces: bool,
    values: Vec<i64>,
    note: Vec<u8>,
}

fn parse(bytes: &[u8]) -> Object {
    let (replaces, values, note) = serde_json::from_slice(bytes).unwrap();
    Object { replaces, values, note }
}

fn print(replaces: bool, values: &[i64], note: &[u8]) -> Vec<u8> {
    serde_json::to_vec(&(replaces, values, note)).unwrap()
}

struct ObjectSink {
    store: Arc<dyn ObjectStore>,
    fault: Fault,
    owners: Owners,
    spec: Mutex<Option<SinkSpec>>,
    leftovers: Arc<Mutex<Vec<i64>>>,
}

impl ObjectSink {
    fn spec(&self) -> SinkSpec {
        self.spec.lock().unwrap().clone().unwrap()
    }

    fn folder(&self) -> String {
        match self.owners {
            Owners::Many if self.fault != Fault::SharedCount => {
                format!("out/{}", self.spec().query)
            }
            _ => "out".into(),
        }
    }

    async fn last(&self) -> Result<Option<BatchId>> {
        let found: Vec<_> = self.store.list(Some(&self.folder().into())).try_collect().await?;
        let names = found.iter().filter_map(|meta| meta.location.filename());
        let batches = names.filter_map(|name| name.parse().ok());
        let last = match self.fault {
            Fault::TextOrder => batches.max_by_key(u64::to_string),
            _ => batches.max(),
        };
        Ok(last.map(BatchId))
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        match self.store.get(&path.into()).await {
            Ok(found) => Ok(Some(found.bytes().await?)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the object is there and ours.
    async fn create(&self, path: &str, bytes: Vec<u8>) -> Result<bool> {
        let mode = match self.fault {
            Fault::Overwrites | Fault::LooksThenOverwrites | Fault::OnlyEqual => PutMode::Overwrite,
            _ => PutMode::Create,
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.store.put_opts(&path.into(), bytes.clone().into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => match self.read(path).await? {
                _ if self.fault == Fault::EverybodyWins => Ok(true),
                _ if self.fault == Fault::BelievesConflicts => Ok(false),
                None => Err(Error::unavailable(format!("{path}: a conflict"))),
                Some(found) => Ok(found == bytes),
            },
            Err(_) if self.fault == Fault::RetriesElsewhere => {
                self.store.put(&format!("{path}-again").into(), bytes.into()).await?;
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn claim(&self, spec: &SinkSpec) -> Result<()> {
        if self.owners == Owners::Many || self.fault == Fault::NoOwner {
            return Ok(());
        }
        let name = spec.query.as_str();
        let owned = if self.fault == Fault::LooksThenOwns {
            let found = self.read("owner").await?;
            if found.is_none() {
                self.store.put(&"owner".into(), name.to_owned().into()).await?;
            }
            found.is_none_or(|found| found == name)
        } else {
            self.create("owner", name.into()).await?
        };
        if owned {
            return Ok(());
        }
        let owner = self.read("owner").await?.unwrap_or_default();
        let owner = String::from_utf8_lossy(&owner);
        Err(Error::invalid(format!("the output belongs to query {owner}")))
    }

    async fn rows(&self, staged: &[Staged]) -> Result<Vec<i64>> {
        let mut values = std::mem::take(&mut *self.leftovers.lock().unwrap());
        for part in staged {
            let path = String::from_utf8_lossy(&part.token).into_owned();
            let bytes = self.read(&path).await?.ok_or_else(|| Error::not_found(path))?;
            values.extend(parse(&bytes).values);
        }
        Ok(values)
    }

    async fn already(&self, batch: BatchId, note: &Note) -> Result<Option<CommitOutcome>> {
        let known = self.last().await?.is_some_and(|last| match self.fault {
            Fault::Overwrites => false,
            Fault::OnlyEqual => batch == last,
            _ => batch <= last,
        });
        if !known {
            return Ok(None);
        }
        if self.fault == Fault::WrongNote {
            return Ok(Some(CommitOutcome::AlreadyCommitted(Some(note.clone()))));
        }
        let path = match self.fault {
            Fault::NoteLater | Fault::RowsOfLoser => format!("notes/{batch}"),
            _ => format!("{}/{batch}", self.folder()),
        };
        let found = self.read(&path).await?;
        let note = found.map(|bytes| Note(parse(&bytes).note.into()));
        Ok(Some(CommitOutcome::AlreadyCommitted(note)))
    }

    /// Whether this call published the batch.
    async fn publish(&self, batch: BatchId, values: &[i64], note: &Note) -> Result<bool> {
        let replaces =
            self.spec().mode == OutputMode::Complete && self.fault != Fault::CompleteAdds;
        let path = format!("{}/{batch}", self.folder());
        let whole = print(replaces, values, &note.0);
        match self.fault {
            Fault::Torn => {
                for value in values {
                    let path = format!("{path}-{value}");
                    self.create(&path, print(false, &[*value], &[])).await?;
                }
                self.create(&path, print(replaces, &[], &note.0)).await
            }
            Fault::NoteLater => {
                let won = self.create(&path, whole).await?;
                self.create(&format!("notes/{batch}"), print(false, &[], &note.0)).await?;
                Ok(won)
            }
            Fault::RowsOfLoser => {
                self.create(&format!("notes/{batch}"), print(false, &[], &note.0)).await?;
                self.create(&path, whole).await
            }
            _ => self.create(&path, whole).await,
        }
    }
}

#[async_trait]
impl Sink for ObjectSink {
    fn description(&self) -> String {
        "ObjectSink".into()
    }

    fn modes(&self) -> &[OutputMode] {
        &[OutputMode::Append, OutputMode::Complete]
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.claim(spec).await?;
        *self.spec.lock().unwrap() = Some(spec.clone());
        let last = self.last().await?;
        Ok(if self.fault == Fault::TellsLess { last.and_then(BatchId::previous) } else { last })
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        let folder = if self.fault == Fault::StagedVisible { "out" } else { "staged" };
        Ok(Box::new(ObjectWriter {
            store: self.store.clone(),
            path: format!("{folder}/{}-{batch}-{partition}", self.spec().run),
            partition,
            values: Vec::new(),
            leftovers: (self.fault == Fault::DropKeeps).then(|| self.leftovers.clone()),
        }))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        if let Some(outcome) = self.already(batch, note).await? {
            return Ok(outcome);
        }
        let values = self.rows(&staged).await?;
        if self.publish(batch, &values, note).await? {
            return Ok(CommitOutcome::Committed);
        }
        match self.already(batch, note).await? {
            Some(outcome) => Ok(outcome),
            None if self.fault == Fault::BelievesConflicts => {
                Ok(CommitOutcome::AlreadyCommitted(None))
            }
            None => Err(Error::unavailable("the batch of another process is not there yet")),
        }
    }
}

struct ObjectWriter {
    store: Arc<dyn ObjectStore>,
    path: String,
    partition: PartitionId,
    values: Vec<i64>,
    leftovers: Option<Arc<Mutex<Vec<i64>>>>,
}

#[async_trait]
impl SinkWriter for ObjectWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        let column = rows.column(0).as_primitive::<Int64Type>();
        assert_eq!(column.null_count(), 0);
        self.values.extend(column.values());
        Ok(())
    }

    async fn stage(mut self: Box<Self>) -> Result<Staged> {
        let values = std::mem::take(&mut self.values);
        self.store.put(&self.path.as_str().into(), print(false, &values, &[]).into()).await?;
        Ok(Staged {
            partition: self.partition,
            rows: values.len() as u64,
            token: self.path.clone().into(),
        })
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if let Some(leftovers) = &self.leftovers {
            leftovers.lock().unwrap().append(&mut self.values);
        }
    }
}
