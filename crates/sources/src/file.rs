//! Files of a folder, each read exactly once: the most used source.
//!
//! ```text
//!  plan     one listing, minus the files taken before; the oldest first, as many as the limit
//!           admits; their names, sizes and times are written to the source's log
//!  adopt    the files of the winning plan are taken
//!  read     the files of the log entry that the plan names, as long as they are the same
//!  release  files are deleted or archived if asked for; old log entries are deleted
//! ```
//!
//! A path is read once, whatever becomes of the file later. Modification times decide the order
//! only (and, with `maxFileAge`, which old files are left out).

mod builder;
mod clean;
mod entry;
mod fetch;
mod glob;
mod infer;
mod ledger;
mod listing;
mod local;
mod memory;
mod metadata;
mod options;
mod order;
mod partition;
mod place;
mod read;
mod split;

pub use builder::FileSourceBuilder;
pub use entry::parse_log_object;
pub(crate) use fetch::PlannedFile;
pub use local::check_local_folder;
pub use metadata::{METADATA, metadata_field};
pub use place::FilePlace;
pub(crate) use read::later;
pub(crate) use split::Grain;

use crate::format::FileFormat;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use entry::{Entry, FileEntry};
use fluvial_core::{
    Error, Frontier, LogRef, Offset, PlanRequest, ReadLimit, Result, RowStream, Source,
    SourceRange, Split,
};
use ledger::{Attempt, Ledger};
use memory::{Choice, Memory};
use options::{Clean, FileOptions};
use read::{FileReader, chain, coalesce};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A source of the files of a folder. See [`FileSourceBuilder`].
pub struct FileSource {
    format: FileFormat,
    kind: String,
    options: FileOptions,
    inner: Arc<Inner>,
}

/// What readers keep alive.
struct Inner {
    reader: FileReader,
    ledger: Ledger,
    memory: Mutex<Memory>,
    cleaned: Mutex<Cleaned>,
}

/// What was released already, in this process.
#[derive(Debug, Default, Clone, Copy)]
struct Cleaned {
    /// Files up to this entry are cleaned up.
    files: i64,
    /// Log entries of decades before this one are collected.
    decade: i64,
}

/// An offset: the newest entry that was read; -1 before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Position {
    log_offset: i64,
}

impl Inner {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Memory is changed by statements that cannot stop half way.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of this name.
    async fn entry(&self, log: &LogRef) -> Result<Arc<Entry>> {
        if let Some(entry) = self.memory().entry(log) {
            return Ok(entry);
        }
        let entry = Arc::new(self.ledger.entry(log).await?);
        self.memory().keep_entry(log.clone(), entry.clone());
        Ok(entry)
    }
}

impl FileSource {
    /// A description of a source of `format` at `place`, to be completed and opened.
    pub fn builder(place: FilePlace, format: FileFormat) -> FileSourceBuilder {
        FileSourceBuilder::new(place, format)
    }

    fn choice(&self) -> Choice {
        Choice { order: self.options.order, max_age_ms: self.options.max_age_ms }
    }

    fn place(&self) -> &FilePlace {
        &self.inner.reader.place
    }

    async fn list(&self) -> Result<Vec<FileEntry>> {
        listing::list(self.place(), &self.options).await
    }

    /// The files of the next batch.
    async fn choose(&self, request: &PlanRequest<'_>) -> Result<Vec<FileEntry>> {
        let limit = request.limit;
        if let Some(frontier) = request.until {
            return self.inner.memory().take_frozen(frontier.0.as_u64(), limit);
        }
        if self.options.order == order::Order::OldestFirst {
            // Newer files cannot come before those that are waiting.
            if let Some(files) = self.inner.memory().take_full(limit) {
                return Ok(files);
            }
        }
        let found = self.list().await?;
        let mut memory = self.inner.memory();
        memory.find(found, self.choice());
        Ok(memory.take_found(limit))
    }

    /// The files of a range whose split this is, as a stream of their rows.
    fn rows(&self, log: LogRef, split: Split, projection: Vec<usize>) -> RowStream {
        let inner = self.inner.clone();
        later(async move {
            let entry = inner.entry(&log).await?;
            let pieces = split::pieces(&split, &entry.files)?;
            let pieces: Vec<_> = pieces.into_iter().map(|(f, range)| (f.clone(), range)).collect();
            let schema = Arc::new(inner.reader.schema.project(&projection)?);
            let rows = chain(
                pieces
                    .into_iter()
                    .map(move |(file, range)| inner.reader.read(&file, range, &projection)),
            );
            Ok(coalesce(rows, schema))
        })
    }

    /// Cleans up the files of `entry` and of those before it.
    async fn clean(&self, entry: &Entry, done: i64) -> Result<()> {
        if self.options.clean == Clean::Off {
            return Ok(());
        }
        for before in self.inner.ledger.since(entry, done).await? {
            clean::clean(self.place(), &self.options.clean, &before.files).await?;
        }
        clean::clean(self.place(), &self.options.clean, &entry.files).await
    }

    fn cleaned(&self) -> MutexGuard<'_, Cleaned> {
        self.inner.cleaned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_of(range: &SourceRange) -> Result<&LogRef> {
    range
        .log
        .as_ref()
        .ok_or_else(|| Error::corrupt("the range of a file source does not name its list of files"))
}

#[async_trait]
impl Source for FileSource {
    fn description(&self) -> String {
        format!("FileStreamSource[{}]", self.place())
    }

    fn kind(&self) -> &str {
        &self.kind
    }

    fn schema(&self) -> SchemaRef {
        self.inner.reader.schema.clone()
    }

    fn read_limit(&self) -> ReadLimit {
        self.options.limit
    }

    async fn initial(&self) -> Result<Offset> {
        Offset::of(&Position { log_offset: -1 })
    }

    async fn frontier(&self) -> Result<Frontier> {
        let found = self.list().await?;
        let id = self.inner.memory().freeze(found, self.choice());
        Ok(Frontier(id.into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let start: Position = request.start.read()?;
        let stands = self.inner.memory().log_offset();
        if stands != start.log_offset {
            return Err(Error::corrupt(format!(
                "{} stands at entry {stands} of its log, and the batch would start at entry {}: \
                 the newest plan was not adopted, or is not this source's",
                self.description(),
                start.log_offset
            )));
        }
        let files = self.choose(&request).await?;
        if files.is_empty() {
            return Ok(None);
        }
        let splits = split::cut(&files, self.inner.reader.decoder.grain(), request.splits)?;
        let head = self.inner.memory().head().cloned();
        let attempt = Attempt { batch: request.batch, run: request.run };
        let (log, entry) = self.inner.ledger.append(attempt, head.as_ref(), files).await?;
        let end = Offset::of(&Position { log_offset: entry.log_offset })?;
        self.inner.memory().keep_entry(log.clone(), Arc::new(entry));
        Ok(Some(SourceRange { start: request.start.clone(), end, splits, log: Some(log) }))
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        let log = log_of(range)?;
        let entry = self.inner.entry(log).await?;
        {
            let mut memory = self.inner.memory();
            let head = memory.head().map(|head| &head.log);
            if head == Some(log) {
                return Ok(());
            }
            if head == entry.previous.as_ref() {
                memory.advance(log, &entry);
                return Ok(());
            }
        }
        let (head, before) = self.inner.ledger.restore(log).await?;
        self.inner.memory().restore(head, before);
        Ok(())
    }

    fn read(
        &self,
        range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        let columns = self.inner.reader.schema.fields().len();
        let projection = projection.map_or_else(|| (0..columns).collect(), <[usize]>::to_vec);
        Ok(self.rows(log_of(range)?.clone(), split.clone(), projection))
    }

    async fn release(&self, range: &SourceRange) -> Result<()> {
        let log = log_of(range)?;
        let end: Position = range.end.read()?;
        let done = *self.cleaned();
        let decade = end.log_offset / entry::FAN_OUT as i64;
        if end.log_offset > done.files {
            let entry = self.inner.entry(log).await?;
            self.clean(&entry, done.files).await?;
            self.cleaned().files = end.log_offset;
        }
        if decade > done.decade {
            self.inner.ledger.collect(log).await?;
            self.cleaned().decade = decade;
        }
        Ok(())
    }
}

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource")
            .field("place", &self.place().to_string())
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}
