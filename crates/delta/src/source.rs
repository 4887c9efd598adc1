//! Rows of a Delta table, as they are added.
//!
//! ```text
//!  initial  the snapshot of the newest version, or a version that the options name
//!  plan     files of the snapshot, then of the versions that follow, one read of the log each,
//!           as many as the limit admits; all that reading them needs goes into the plan
//!  adopt    nothing, but after a restart the columns are compared with those of the offset
//!  read     the files of the plan; the log is not needed any more
//!  release  nothing: the table is not ours
//! ```

mod admission;
mod columns;
mod commit;
mod data_file;
mod deletion_vector;
mod evolve;
mod log;
mod options;
mod position;
mod read;
mod split;
mod start;
mod table;
mod times;
mod tracking;

pub use options::{DeltaChanges, DeltaLoss, DeltaReading, DeltaSourceOptions, DeltaStart};
pub use tracking::DeltaTracking;

use crate::error::delta_error;
use crate::location::TableLocation;
use admission::Admission;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use commit::Commit;
use data_file::{ChangeKind, DataFile};
use deltalake::kernel::Snapshot;
use fluvial_core::{
    Error, Frontier, Offset, PlanRequest, QueryId, ReadLimit, Result, RowStream, Source, SourceId,
    SourceRange, Split,
};
use futures::TryStreamExt;
pub(crate) use log::Log;
use position::{Part, Position};
use read::FileReader;
use split::cut;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use table::Table;
pub(crate) use times::{Times, in_log};
use tracking::{Tracked, conflict};

/// A Delta table as a source: all of its rows, and then what is added to it.
///
/// # Contract
///
/// Offsets have Delta's names and meaning: `reservoirVersion`, `index`, `isStartingVersion`. A
/// version without new rows (an OPTIMIZE, say) is progress without rows.
///
/// The columns are those of the version that was the newest when the source was opened. Rows of
/// older versions have nulls for columns that came later. A version that changes the columns ends
/// the query when it is reached (`DELTA_SCHEMA_CHANGED_WITH_VERSION`); opened again, the source
/// has the new ones. With a place to track them ([`DeltaTracking`]) they are those of the version
/// with which the query began, or which it had read when tracking began, and then of each version
/// that changes them, one after the other.
///
/// Work follows what is new: a batch reads one log entry for each new version. The list of all
/// files is made only to read the first snapshot.
pub struct DeltaSource {
    location: TableLocation,
    options: DeltaSourceOptions,
    table: Arc<Table>,
    /// What was tracked of the columns when it was opened.
    tracked: Option<Tracked>,
    log: Log,
    /// What the log says never changes; this only saves reading it again.
    known: Mutex<Known>,
}

/// The newest things that were read of the log, and heard of the query.
#[derive(Debug, Default)]
struct Known {
    snapshot: Option<(u64, Arc<Vec<DataFile>>)>,
    commit: Option<Arc<Commit>>,
    /// The source and the query that it serves.
    owner: Option<String>,
    /// Whether the columns are those of the place where the query stands.
    settled: bool,
}

/// A batch in the making.
struct Batch {
    admission: Admission,
    files: Vec<DataFile>,
    start: Position,
    at: Position,
}

/// Whether a batch may take more.
enum Room {
    Left,
    Full,
}

impl DeltaSource {
    /// Opens the table at `location` with the columns that it has now.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no table, `Invalid` naming what of it cannot be read.
    pub async fn open(location: TableLocation, options: DeltaSourceOptions) -> Result<Self> {
        let table = Table::open(&location, options.reading).await;
        let table = table.map_err(|e| e.at(format!("table {location}")))?;
        let log = Log::of(table.log_store.as_ref());
        let (table, known) = (Arc::new(table), Mutex::default());
        let mut source = Self { location, options, table, tracked: None, log, known };
        source.take_columns().await.map_err(|e| source.at(e))?;
        Ok(source)
    }

    fn at(&self, error: Error) -> Error {
        error.at(format!("table {}", self.location))
    }

    fn known<T>(&self, f: impl FnOnce(&mut Known) -> T) -> T {
        f(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All files of a version, the oldest first.
    async fn snapshot(&self, version: u64) -> Result<Arc<Vec<DataFile>>> {
        let known = self.known(|known| known.snapshot.clone());
        if let Some((_, files)) = known.filter(|(of, _)| *of == version) {
            return Ok(files);
        }
        let files = Arc::new(self.list(version).await.map_err(|e| {
            e.at(format!("the files of version {version}, with which the query began"))
        })?);
        self.known(|known| known.snapshot = Some((version, files.clone())));
        Ok(files)
    }

    async fn list(&self, version: u64) -> Result<Vec<DataFile>> {
        let log_store = self.table.log_store.as_ref();
        let snapshot = Snapshot::try_new(log_store, Some(version)).await;
        let snapshot = match snapshot {
            Ok(snapshot) => snapshot,
            // The library has no word of its own for a version that was cleaned up.
            Err(_) if self.is_lost(version).await? => return Err(self.lost(version)),
            Err(error) => return Err(delta_error(error)),
        };
        self.log.check(version).await?;
        self.table.check(version, Some(snapshot.metadata()), Some(snapshot.protocol()))?;
        let timestamp = self.log.read(version).await?.map_or(0, |written| written.modified);
        let mut views = snapshot.file_views(log_store, None);
        let mut files = Vec::new();
        while let Some(view) = views.try_next().await.map_err(delta_error)? {
            let file = DataFile::listed(version, &view)?;
            let file = match self.options.reading {
                DeltaReading::Rows => file,
                DeltaReading::ChangeFeed => file.with_change(ChangeKind::Insert, timestamp),
            };
            files.push((view.modification_time(), file));
        }
        files.sort_by(|(a_time, a), (b_time, b)| (a_time, &a.path).cmp(&(b_time, &b.path)));
        Ok(files.into_iter().map(|(_, file)| file).collect())
    }

    /// One version; `None` if it is not there.
    async fn commit(&self, version: u64) -> Result<Option<Arc<Commit>>> {
        let known = self.known(|known| known.commit.clone());
        if let Some(commit) = known.filter(|commit| commit.version == version) {
            return Ok(Some(commit));
        }
        let Some(written) = self.log.read(version).await? else { return Ok(None) };
        let mut commit = Commit::parse(version, &written, self.options.reading)?;
        self.table.check(version, commit.metadata.as_ref(), commit.protocol.as_ref())?;
        if self.options.reading == DeltaReading::Rows {
            commit.apply(self.options.changes)?;
        }
        let commit = Arc::new(commit);
        self.known(|known| known.commit = Some(commit.clone()));
        Ok(Some(commit))
    }

    /// Whether a version is gone that was there once.
    async fn is_lost(&self, version: u64) -> Result<bool> {
        let newest = Some(self.table.newest).max(self.log.checkpoint().await?);
        // It may have come a moment ago, and a checkpoint after it.
        Ok(newest >= Some(version) && self.log.read(version).await?.is_none())
    }

    /// The version after a gap that begins with `version`, if there is one and it may be passed.
    async fn skip(&self, version: u64) -> Result<Option<u64>> {
        if !self.is_lost(version).await? {
            return Ok(None);
        }
        match self.options.loss {
            DeltaLoss::Fail => Err(self.lost(version)),
            DeltaLoss::GoOn => Ok(self.log.versions(version).await?.first().map(|found| found.0)),
        }
    }

    fn lost(&self, version: u64) -> Error {
        Error::not_found(format!(
            "version {version} was not read yet, and _delta_log/{version:020}.json is gone: it was \
             cleaned up while the query stood still; set failOnDataLoss to false to go on with \
             what is there, or start with a new checkpoint, and keep the log longer \
             (delta.logRetentionDuration)"
        ))
        .with_condition("DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE")
    }

    /// Takes files of the first snapshot.
    async fn take_snapshot(&self, batch: &mut Batch) -> Result<Room> {
        let version = batch.at.version;
        let files = self.snapshot(version).await?;
        if let Room::Full = self.take(batch, &files) {
            return Ok(Room::Full);
        }
        batch.at = Position::before(version + 1);
        Ok(Room::Left)
    }

    /// Takes files of the versions that follow, up to `until`.
    async fn take_changes(&self, batch: &mut Batch, until: Option<u64>) -> Result<()> {
        while until.is_none_or(|until| batch.at.version <= until) {
            let version = batch.at.version;
            let commit = match self.commit(version).await {
                Ok(Some(commit)) => commit,
                Ok(None) => match self.skip(version).await {
                    Ok(Some(next)) => {
                        batch.at = Position::before(next);
                        continue;
                    }
                    Ok(None) => return Ok(()),
                    Err(error) => return batch.end_with(error),
                },
                Err(error) => return batch.end_with(error),
            };
            let room = match self.options.reading {
                DeltaReading::Rows => self.take(batch, &commit.files),
                DeltaReading::ChangeFeed => take_whole(batch, &commit.files),
            };
            if let Room::Full = room {
                return Ok(());
            }
            batch.at = Position::before(version + 1);
        }
        Ok(())
    }

    /// Takes files behind the batch's position, in order.
    fn take(&self, batch: &mut Batch, files: &[DataFile]) -> Room {
        let next = usize::try_from(batch.at.index + 1).unwrap_or(0);
        for (index, file) in files.iter().enumerate().skip(next) {
            let excluded = self.options.exclude.as_ref().is_some_and(|r| r.is_match(&file.path));
            if !excluded {
                if !batch.admission.admits(std::slice::from_ref(file)) {
                    return Room::Full;
                }
                batch.files.push(file.clone());
            }
            batch.at.index = i64::try_from(index).unwrap_or(i64::MAX);
        }
        Room::Left
    }
}

impl Batch {
    /// What was found before an error is given first; the next batch meets the error again.
    fn end_with(&self, error: Error) -> Result<()> {
        if self.at == self.start { Err(error) } else { Ok(()) }
    }
}

/// Takes all files or none: changes of one version belong together.
fn take_whole(batch: &mut Batch, files: &[DataFile]) -> Room {
    if !batch.admission.admits(files) {
        return Room::Full;
    }
    batch.files.extend_from_slice(files);
    Room::Left
}

#[async_trait]
impl Source for DeltaSource {
    fn description(&self) -> String {
        format!("DeltaSource[{}]", self.location)
    }

    fn kind(&self) -> &str {
        "delta"
    }

    fn schema(&self) -> SchemaRef {
        self.table.schema.clone()
    }

    fn read_limit(&self) -> ReadLimit {
        self.options.limit
    }

    fn serves(&self, query: &QueryId, source: &SourceId) -> Result<()> {
        if self.options.tracking.is_none() {
            return Ok(());
        }
        let ours = format!("{source} of query {query}");
        let owner = self.known(|known| known.owner.get_or_insert_with(|| ours.clone()).clone());
        if owner == ours {
            return Ok(());
        }
        Err(self.at(conflict(&format!("it is kept there for {owner}, and this is {ours}"))))
    }

    async fn initial(&self) -> Result<Offset> {
        let position = self.begin().await.map_err(|e| self.at(e))?;
        position.offset(&self.table.id)
    }

    async fn frontier(&self) -> Result<Frontier> {
        let newest = self.newest().await.map_err(|e| self.at(e))?;
        Ok(Frontier(newest.into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let start = Position::read(request.start, &self.table.id).map_err(|e| self.at(e))?;
        self.settle_at(start).await.map_err(|e| self.at(e))?;
        let until = request.until.and_then(|frontier| frontier.0.as_u64());
        let admission = Admission::new(request.limit);
        let mut batch = Batch { admission, files: Vec::new(), start, at: start };
        let room = match start.part {
            Part::Snapshot => self.take_snapshot(&mut batch).await.map_err(|e| self.at(e))?,
            Part::Changes => Room::Left,
        };
        if let Room::Left = room
            && let Err(error) = self.take_changes(&mut batch, until).await
        {
            let changed = error.condition() == Some(table::CHANGED);
            let error =
                if changed { self.evolve(batch.at.version, error).await } else { Ok(error) };
            return Err(self.at(error.unwrap_or_else(|e| e)));
        }
        if batch.at == start {
            return Ok(None);
        }
        if batch.at.part == Part::Changes && start.part == Part::Changes {
            self.known(|known| known.snapshot = None);
        }
        Ok(Some(SourceRange {
            start: request.start.clone(),
            end: batch.at.offset(&self.table.id)?,
            splits: cut(batch.files, request.splits)?,
            log: None,
        }))
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        let end = Position::read(&range.end, &self.table.id).map_err(|e| self.at(e))?;
        self.settle_at(end).await.map_err(|e| self.at(e))
    }

    fn read(
        &self,
        _: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        let files: Vec<DataFile> = serde_json::from_value(split.0.clone()).map_err(|e| {
            Error::corrupt("a split was not written by this kind of source").with_source(e)
        })?;
        let all: Vec<usize> = (0..self.table.schema.fields().len()).collect();
        let reader = FileReader::new(&self.table, projection.unwrap_or(&all))?;
        let rows = reader.read(files);
        let place = format!("table {}", self.location);
        Ok(Box::pin(rows.map_err(move |e| e.at(&place))))
    }

    async fn release(&self, _: &SourceRange) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for DeltaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaSource")
            .field("location", &self.location)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
