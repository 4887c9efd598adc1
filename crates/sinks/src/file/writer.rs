//! Writes one partition of a batch into data files that readers do not see.

use crate::file::encode::Encoder;
use crate::file::hive::Partitioning;
use crate::file::layout::Layout;
use crate::file::manifest::DataFile;
use crate::file::options::FileOptions;
use crate::file::upload::Upload;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::{BatchId, Error, PartitionId, Result, SinkSpec, SinkWriter, Staged};
use object_store::ObjectStore;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of unfinished row groups in all open files of one writer; above it the largest is
/// written out.
const PENDING_BYTES_MAX: usize = 128 << 20;

/// What all writers of a run share.
pub(crate) struct Job {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) layout: Layout,
    pub(crate) options: FileOptions,
    pub(crate) partitioning: Partitioning,
    pub(crate) file_schema: SchemaRef,
    pub(crate) spec: SinkSpec,
}

/// Data files of one partition of one batch: one open per folder, and those that are full. Dropped, it leaves staged objects
/// that a later start removes.
pub(crate) struct FileWriter {
    job: Arc<Job>,
    batch: BatchId,
    partition: PartitionId,
    /// Open files by folder.
    open: BTreeMap<String, OpenFile>,
    /// Files that are full.
    full: Vec<(usize, DataFile)>,
    /// Files so far.
    files: usize,
    rows: u64,
}

struct OpenFile {
    encoder: Encoder,
    upload: Upload,
    sequence: usize,
    staged: String,
    path: String,
    rows: u64,
}

impl OpenFile {
    /// How many rows it may still take.
    fn room(&self, options: &FileOptions) -> usize {
        let room = options.rows_per_file_max.map(|max| max.get().saturating_sub(self.rows));
        room.and_then(|room| usize::try_from(room).ok()).unwrap_or(usize::MAX)
    }

    fn is_full(&self, options: &FileOptions) -> bool {
        let bytes = self.upload.size() + self.encoder.pending_bytes() as u64;
        self.room(options) == 0 || options.file_bytes_target.is_some_and(|max| bytes >= max.get())
    }

    async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.encoder.write(rows)?;
        self.rows += rows.num_rows() as u64;
        let ready = self.encoder.take_ready();
        if ready.is_empty() { Ok(()) } else { self.upload.write(ready).await }
    }

    async fn finish(mut self) -> Result<(usize, DataFile)> {
        self.upload.write(self.encoder.finish()?).await?;
        let (size, crc32) = self.upload.finish().await?;
        let (staged, path, rows) = (self.staged, self.path, self.rows);
        Ok((self.sequence, DataFile { staged, path, size, crc32, rows }))
    }
}

impl FileWriter {
    pub(crate) fn new(job: Arc<Job>, batch: BatchId, partition: PartitionId) -> Self {
        let open = BTreeMap::new();
        Self { job, batch, partition, open, full: Vec::new(), files: 0, rows: 0 }
    }

    /// Opens the next file. Names depend on the query, the batch, the partition and the order of
    /// the rows only; the staged one on the run as well, so that attempts never meet.
    fn open_file(&mut self, folder: &str) -> Result<OpenFile> {
        let (sequence, job) = (self.files, &self.job);
        self.files += 1;
        let (batch, partition) = (self.batch, self.partition.0);
        let format = job.options.format;
        let extension = format.extension();
        let staged =
            format!("_fluvial/staged/{}/{batch}-{partition}-{sequence}{extension}", job.spec.run);
        let name =
            format!("part-{partition:05}-{}-{batch}-c{sequence:03}{extension}", job.spec.query);
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let encoder = Encoder::new(format, &job.options.times, &job.file_schema)?;
        let upload = Upload::new(job.store.clone(), job.layout.resolve(&staged));
        Ok(OpenFile { encoder, upload, sequence, staged, path, rows: 0 })
    }

    /// Keeps memory bounded however many folders are open: of the file with most that is pending
    /// a part is written out, or all of it if it has no parts.
    async fn relieve(&mut self) -> Result<()> {
        let pending = |file: &OpenFile| file.encoder.pending_bytes();
        while self.open.values().map(pending).sum::<usize>() > PENDING_BYTES_MAX {
            let largest = self.open.iter_mut().max_by_key(|(_, file)| pending(file));
            let Some((folder, file)) = largest else { break };
            file.encoder.flush()?;
            file.upload.write(file.encoder.take_ready()).await?;
            if pending(file) > 0 {
                let folder = folder.clone();
                let Some(file) = self.open.remove(&folder) else { break };
                self.full.push(file.finish().await?);
            }
        }
        Ok(())
    }

    fn place(&self) -> String {
        format!("batch {}, partition {}", self.batch, self.partition)
    }

    async fn write_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        let job = self.job.clone();
        for (folder, rows) in job.partitioning.split(rows, &job.options.times)? {
            let mut at = 0;
            while at < rows.num_rows() {
                let mut file = match self.open.remove(&folder) {
                    Some(file) => file,
                    None => self.open_file(&folder)?,
                };
                let some = rows.slice(at, (rows.num_rows() - at).min(file.room(&job.options)));
                at += some.num_rows();
                file.write(&some).await?;
                if file.is_full(&job.options) {
                    self.full.push(file.finish().await?);
                } else {
                    self.open.insert(folder.clone(), file);
                }
            }
        }
        self.relieve().await
    }

    async fn finish(&mut self) -> Result<Vec<DataFile>> {
        let mut files = std::mem::take(&mut self.full);
        for file in std::mem::take(&mut self.open).into_values() {
            files.push(file.finish().await?);
        }
        files.sort_by_key(|(sequence, _)| *sequence);
        Ok(files.into_iter().map(|(_, file)| file).collect())
    }
}

#[async_trait]
impl SinkWriter for FileWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.write_rows(&rows).await.map_err(|e| e.at(self.place()))
    }

    async fn stage(mut self: Box<Self>) -> Result<Staged> {
        let files = self.finish().await.map_err(|e| e.at(self.place()))?;
        let token = serde_json::to_vec(&files).map_err(|e| {
            Error::invalid(format!("{}: the files have no JSON: {e}", self.place()))
        })?;
        Ok(Staged { partition: self.partition, rows: self.rows, token: token.into() })
    }
}

/// The files that a writer staged.
pub(crate) fn files(staged: &Staged) -> Result<Vec<DataFile>> {
    serde_json::from_slice(&staged.token).map_err(|e| {
        Error::corrupt(format!("partition {} was not staged by this sink: {e}", staged.partition))
    })
}
