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

mod auto;
mod backlog;
mod bad_records;
mod builder;
mod clean;
mod discover;
mod entry;
mod evolve;
mod fetch;
mod glob;
mod infer;
mod ledger;
mod listing;
mod local;
mod memory;
mod metadata;
mod names;
mod notify;
mod options;
mod order;
mod partition;
mod place;
mod read;
mod schema_log;
mod seen;
mod split;

pub use builder::FileSourceBuilder;
pub use entry::{LogNeeds, parse_log_object};
pub(crate) use fetch::PlannedFile;
pub use local::check_local_folder;
pub use metadata::{METADATA, metadata_field, numbered_metadata_field};
pub use names::{FolderNames, ListNames};
pub use notify::{FileNews, FileNotifications, NewsInProcess};
pub use place::FilePlace;
pub(crate) use read::later;
pub(crate) use split::Grain;

use crate::format::FileFormat;
use crate::format::unknown::UNKNOWN_FIELD;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use backlog::Backlog;
use clean::Cleaned;
use discover::Tail;
use entry::{Entry, FileEntry, Identity};
use evolve::Evolve;
use fluvial_core::{
    Clock, Error, Frontier, LogRef, Offset, PlanRequest, ReadLimit, Result, RowStream, Source,
    SourceRange, Split,
};
use futures::StreamExt;
use ledger::{Attempt, Ledger};
use memory::{Choice, Memory};
use options::{Clean, FileOptions};
use read::{FileReader, chain, coalesce};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A source of the files of a folder. See [`FileSourceBuilder`].
pub struct FileSource {
    format: FileFormat,
    kind: String,
    options: FileOptions,
    clock: Option<Arc<dyn Clock>>,
    /// Who tells of new files, if somebody does.
    notifications: Option<Arc<dyn FileNotifications>>,
    /// What the batch that was planned last leaves unread.
    backlog: Mutex<Backlog>,
    inner: Arc<Inner>,
}

/// What readers keep alive.
struct Inner {
    reader: FileReader,
    ledger: Ledger,
    memory: Mutex<Memory>,
    cleaned: Mutex<Cleaned>,
    tail: Mutex<Tail>,
    /// How the schema grows, if it does.
    evolve: Option<Evolve>,
    /// Which column takes what no other does.
    rescued: Option<usize>,
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

impl Inner {
    /// The column that shows values that are wider than their column, if types are to grow.
    fn watched(&self) -> Option<usize> {
        self.rescued.filter(|_| self.evolve.as_ref().is_some_and(|evolve| evolve.widens))
    }

    /// The rows; a column that the schema has not makes it grow before the batch fails, and so
    /// does a value that is rescued from a column that could be wider: `watched` has them.
    fn growing(
        self: Arc<Self>,
        rows: RowStream,
        entry: Arc<Entry>,
        watched: Option<usize>,
    ) -> RowStream {
        if self.evolve.is_none() {
            return rows;
        }
        let mut looked = false;
        rows.then(move |batch| {
            let (inner, entry) = (self.clone(), entry.clone());
            let rescues = |batch: &RecordBatch| {
                watched.is_some_and(|column| batch.column(column).null_count() < batch.num_rows())
            };
            // Once is enough: all files of the batch are looked at.
            let look = !looked && batch.as_ref().is_ok_and(rescues);
            looked |= look;
            async move {
                let Some(evolve) = &inner.evolve else { return batch };
                let FileReader { place, decoder, .. } = &inner.reader;
                match batch {
                    Err(error) if error.condition() == Some(UNKNOWN_FIELD) => {
                        Err(evolve.grow(place, decoder, &entry.files, error).await)
                    }
                    Ok(batch) if look => {
                        evolve.widen(place, decoder, &entry.files).await.map(|()| batch)
                    }
                    batch => batch,
                }
            }
        })
        .boxed()
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

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.inner.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first plan of a source that does not read what is there already: it takes all that,
    /// and reads nothing.
    async fn skip_existing(&self, request: &PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let found = listing::list(self.place(), &self.options).await?;
        let (log, entry) = self.inner.ledger.skip(self.attempt(request), &found).await?;
        let end = Offset::of(&Position { log_offset: entry.log_offset })?;
        Ok(Some(SourceRange {
            start: request.start.clone(),
            end,
            splits: Vec::new(),
            log: Some(log),
        }))
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
            let (watched, wanted) = (inner.watched(), projection.len());
            let mut columns = projection;
            if let Some(column) = watched.filter(|column| !columns.contains(column)) {
                columns.push(column);
            }
            let watched = watched.and_then(|column| columns.iter().position(|c| *c == column));
            let schema = Arc::new(inner.reader.schema.project(&columns)?);
            let (reader, more) = (inner.clone(), columns.len() > wanted);
            let rows = chain(
                pieces
                    .into_iter()
                    .map(move |(file, range)| reader.reader.read(&file, range, &columns)),
            );
            let rows = inner.growing(coalesce(rows, schema), entry, watched);
            if !more {
                return Ok(rows);
            }
            let first: Vec<usize> = (0..wanted).collect();
            Ok(rows.map(move |batch| Ok(batch?.project(&first)?)).boxed())
        })
    }

    fn attempt<'a>(&self, request: &PlanRequest<'a>) -> Attempt<'a> {
        let kept = self.options.clean != Clean::Off && self.options.retention_ms > 0;
        let clock = self.clock.as_ref().filter(|_| kept);
        let now_ms = clock.map(|clock| clock.now_ms());
        Attempt { batch: request.batch, run: request.run, now_ms }
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
        match self.options.auto {
            None => format!("FileStreamSource[{}]", self.place()),
            Some(_) => format!("CloudFilesSource[{}]", self.place()),
        }
    }

    /// With another way to tell files apart, those that were read would be new.
    fn identity(&self) -> String {
        let by = match self.options.identity() {
            Identity::Path => return self.description(),
            Identity::Name => "fileNameOnly",
            Identity::Version => "allowOverwrites",
        };
        format!("{} with {by}", self.description())
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
        let existing = self.options.auto.as_ref().is_none_or(|auto| auto.existing);
        if stands < 0 && !existing {
            return self.skip_existing(&request).await;
        }
        let files = self.choose(&request).await?;
        if files.is_empty() {
            return Ok(None);
        }
        let splits = split::cut(&files, self.inner.reader.decoder.grain(), request.splits)?;
        let head = self.inner.memory().head().cloned();
        let left = self.inner.memory().backlog(request.until.is_some()).without(&files);
        *self.backlog.lock().unwrap_or_else(PoisonError::into_inner) = left;
        let attempt = self.attempt(&request);
        let (log, entry) = self.inner.ledger.append(attempt, head.as_ref(), files).await?;
        let end = Offset::of(&Position { log_offset: entry.log_offset })?;
        self.inner.memory().keep_entry(log.clone(), Arc::new(entry));
        Ok(Some(SourceRange { start: request.start.clone(), end, splits, log: Some(log) }))
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        let log = log_of(range)?;
        let entry = self.inner.entry(log).await?;
        let head = self.inner.memory().head().map(|head| head.log.clone());
        if head.as_ref() == Some(log) {
            return Ok(());
        }
        if head == entry.previous {
            if head.is_some() {
                self.inner.memory().advance(log, &entry);
                return Ok(());
            }
            // What the first entry skips is in its parts.
            if entry.parts.is_empty() {
                self.inner.memory().advance(log, &entry);
                return self.inner.ledger.sweep([(log, &*entry)]).await;
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

    fn metrics(&self) -> BTreeMap<String, String> {
        if self.options.auto.is_none() {
            return BTreeMap::new();
        }
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner).metrics()
    }

    async fn release(&self, range: &SourceRange) -> Result<()> {
        let log = log_of(range)?;
        let end: Position = range.end.read()?;
        // Entries whose files are kept for a while are kept with them.
        let Some(log) = self.clean(log, end.log_offset).await? else { return Ok(()) };
        let waits = self.options.retention_ms > 0 && self.options.clean != Clean::Off;
        let decade = end.log_offset / entry::FAN_OUT as i64;
        if waits || decade > self.cleaned().decade {
            self.inner.ledger.collect(&log).await?;
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
