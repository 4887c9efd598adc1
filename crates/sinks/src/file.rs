//! Files in a folder of any object store, exactly once.
//!
//! # Protocol
//!
//! 1. Writers write data files below `_fluvial/staged/<run>/`, which readers skip.
//! 2. `commit(n)` creates the manifest `_fluvial/commits/n` if absent: this publishes the batch.
//!    The manifest names the files, staged and final, and carries the note.
//! 3. The files are moved to their final names, `part-<partition>-<query>-<batch>-c<sequence>`.
//!    Any process may do this, any number of times; nobody goes on to batch `n + 1` before it is
//!    done for `n`, so only the newest batch can be in the middle of it. A start does it first.
//!
//! So [`committed_files`] sees a batch whole or not at all at any moment. A plain listing sees
//! whole batches too, except while step 3 runs, or between a crash in step 3 and the next start:
//! then it shows a part of the newest batch. It never shows a file of a batch that is not
//! published.

mod commits;
mod csv;
mod dictionary;
mod encode;
mod hive;
mod json;
mod layout;
mod manifest;
mod options;
mod owner;
mod publish;
mod store;
mod times;
mod upload;
mod visible;
mod writer;

pub use csv::CsvForm;
#[cfg(any(feature = "avro", feature = "orc"))]
pub use options::{BlockCompression, ContainerFormat};
pub use options::{FileFormat, FileOptions, ParquetCompression, TextCompression};
pub use times::TextTimes;
pub use visible::committed_files;

use async_trait::async_trait;
use commits::{Commits, Published};
use encode::Encoder;
use fluvial_core::{
    BatchId, CommitOutcome, Error, Note, OutputMode, PartitionId, Result, Sink, SinkMemory,
    SinkSpec, SinkWriter, Staged,
};
use hive::Partitioning;
use layout::Layout;
use manifest::Manifest;
use object_store::ObjectStore;
use object_store::path::Path;
use owner::Owner;
use publish::{collect_garbage, publish_files};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use writer::{FileWriter, Job, files};

/// Appends the rows of each batch as files to a folder, exactly once; see the protocol above.
///
/// One query owns a folder; every other is refused when it opens the sink, by name. Deleting or
/// moving published data files is the owner's business and does no harm. Deleting `_fluvial` does:
/// batches that come again would be written again.
pub struct FileSink {
    store: Arc<dyn ObjectStore>,
    layout: Layout,
    options: FileOptions,
    opened: Mutex<Option<Opened>>,
    /// What people know the place by.
    shown: String,
}

#[derive(Clone)]
struct Opened {
    job: Arc<Job>,
    commits: Commits,
    /// The newest published batch and its note.
    last: Option<(BatchId, Option<Note>)>,
}

impl FileSink {
    /// A sink that writes below `root`, which must be a folder of its own.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, options: FileOptions) -> Self {
        let shown = root.to_string();
        Self { store, layout: Layout::new(root), options, opened: Mutex::default(), shown }
    }

    /// What messages call its place, where the root alone says too little.
    #[must_use]
    pub fn shown_as(mut self, place: impl Into<String>) -> Self {
        self.shown = place.into();
        self
    }

    fn lock(&self) -> MutexGuard<'_, Option<Opened>> {
        // What is behind the lock is replaced whole, so a poisoned one is whole too.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> Result<Opened> {
        self.lock().clone().ok_or_else(|| {
            Error::invalid(format!("{} was not opened before its first batch", self.description()))
        })
    }

    fn keep(&self, batch: BatchId, note: Option<Note>) {
        if let Some(opened) = self.lock().as_mut()
            && opened.last.as_ref().is_none_or(|(last, _)| *last < batch)
        {
            opened.last = Some((batch, note));
        }
    }

    /// Everything that can be wrong before there is a row.
    fn job(&self, spec: &SinkSpec) -> Result<Job> {
        if spec.mode != OutputMode::Append {
            return Err(Error::invalid(format!(
                "{} files take no {} mode: use append mode, or write to a table",
                self.options.format.name(),
                spec.mode
            ))
            .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"));
        }
        let partitioning = Partitioning::new(&spec.schema, &self.options.partition_by)?;
        let file_schema = Arc::new(partitioning.file_schema(&spec.schema)?);
        let mut trial = Encoder::new(self.options.format, &self.options.times, &file_schema)?;
        trial.write(&arrow::array::RecordBatch::new_empty(file_schema.clone()))?;
        Ok(Job {
            store: self.store.clone(),
            layout: self.layout.clone(),
            options: self.options.clone(),
            partitioning,
            file_schema,
            spec: spec.clone(),
        })
    }

    async fn start(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let job = Arc::new(self.job(spec)?);
        let (store, layout) = (self.store.as_ref(), &self.layout);
        let owner = Owner::claim(store, layout, spec, &self.options).await?;
        let commits = Commits {
            store: self.store.clone(),
            layout: layout.clone(),
            kept: owner.manifests_kept,
        };
        let newest = commits.newest().await?;
        if let Some(newest) = &newest {
            publish_files(store, layout, newest).await?;
            collect_garbage(store, layout, newest).await?;
        }
        let last = newest.map(|newest| (newest.batch, Some(newest.note())));
        let told = last.as_ref().map(|(batch, _)| *batch);
        *self.lock() = Some(Opened { job, commits, last });
        Ok(told)
    }

    async fn publish(&self, opened: &Opened, manifest: Manifest) -> Result<CommitOutcome> {
        let (store, batch) = (self.store.as_ref(), manifest.batch);
        match opened.commits.publish(&manifest).await? {
            Published::Now => {
                publish_files(store, &self.layout, &manifest).await?;
                opened.commits.trim(batch).await?;
                self.keep(batch, Some(manifest.note()));
                Ok(CommitOutcome::Committed)
            }
            Published::Before(theirs) => {
                // Its run may have died before it moved the files, and ours goes on from here.
                publish_files(store, &self.layout, &theirs).await?;
                self.keep(batch, Some(theirs.note()));
                Ok(CommitOutcome::AlreadyCommitted(Some(theirs.note())))
            }
            Published::LongAgo => {
                self.keep(batch, None);
                Ok(CommitOutcome::AlreadyCommitted(None))
            }
        }
    }
}

impl fmt::Debug for FileSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSink")
            .field("root", self.layout.root())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for FileSink {
    fn description(&self) -> String {
        format!("FileSink[{}, {}]", self.options.format.name(), self.shown)
    }

    fn memory(&self) -> SinkMemory {
        SinkMemory::Lasting
    }

    fn modes(&self) -> &[OutputMode] {
        &[OutputMode::Append]
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.start(spec).await.map_err(|e| e.at(format!("output {}", self.shown)))
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(FileWriter::new(self.opened()?.job, batch, partition)))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        let opened = self.opened()?;
        if let Some((last, note)) = &opened.last
            && batch <= *last
        {
            let note = note.clone().filter(|_| batch == *last);
            return Ok(CommitOutcome::AlreadyCommitted(note));
        }
        let place = || format!("output {}, batch {batch}", self.shown);
        let mut data = Vec::new();
        for part in &staged {
            data.extend(files(part).map_err(|e| e.at(place()))?);
        }
        let run = opened.job.spec.run.to_string();
        let manifest = Manifest::new(batch, run, data, note);
        self.publish(&opened, manifest).await.map_err(|e| e.at(place()))
    }
}
