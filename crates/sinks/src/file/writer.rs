//! Writes one partition of a batch into data files that readers do not see.

use crate::file::encode::Encoder;
use crate::file::hive::Partitioning;
use crate::file::layout::Layout;
use crate::file::manifest::DataFile;
use crate::file::options::FileFormat;
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
    pub(crate) format: FileFormat,
    pub(crate) partitioning: Partitioning,
    pub(crate) file_schema: SchemaRef,
    pub(crate) spec: SinkSpec,
}

/// Data files of one partition of one batch, one per folder. Dropped, it leaves staged objects
/// that a later start removes.
pub(crate) struct FileWriter {
    job: Arc<Job>,
    batch: BatchId,
    partition: PartitionId,
    /// Open files by folder.
    open: BTreeMap<String, OpenFile>,
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

impl FileWriter {
    pub(crate) fn new(job: Arc<Job>, batch: BatchId, partition: PartitionId) -> Self {
        Self { job, batch, partition, open: BTreeMap::new(), rows: 0 }
    }

    /// Opens the next file. Names depend on the query, the batch, the partition and the order of
    /// the rows only; the staged one on the run as well, so that attempts never meet.
    fn open_file(&self, folder: &str) -> Result<OpenFile> {
        let (sequence, job) = (self.open.len(), &self.job);
        let (batch, partition) = (self.batch, self.partition.0);
        let extension = job.format.extension();
        let staged =
            format!("_fluvial/staged/{}/{batch}-{partition}-{sequence}{extension}", job.spec.run);
        let name =
            format!("part-{partition:05}-{}-{batch}-c{sequence:03}{extension}", job.spec.query);
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let encoder = Encoder::new(job.format, &job.file_schema)?;
        let upload = Upload::new(job.store.clone(), job.layout.resolve(&staged));
        Ok(OpenFile { encoder, upload, sequence, staged, path, rows: 0 })
    }

    /// Keeps memory bounded however many folders are open.
    async fn relieve(&mut self) -> Result<()> {
        let pending = |file: &OpenFile| file.encoder.pending_bytes();
        while self.open.values().map(pending).sum::<usize>() > PENDING_BYTES_MAX {
            let largest = self.open.values_mut().max_by_key(|file| file.encoder.pending_bytes());
            let Some(file) = largest else { break };
            file.encoder.flush()?;
            file.upload.write(file.encoder.take_ready()).await?;
        }
        Ok(())
    }

    fn place(&self) -> String {
        format!("batch {}, partition {}", self.batch, self.partition)
    }

    async fn write_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        for (folder, rows) in self.job.partitioning.split(rows)? {
            if !self.open.contains_key(&folder) {
                let file = self.open_file(&folder)?;
                self.open.insert(folder.clone(), file);
            }
            let Some(file) = self.open.get_mut(&folder) else { continue };
            file.encoder.write(&rows)?;
            file.rows += rows.num_rows() as u64;
            let ready = file.encoder.take_ready();
            if !ready.is_empty() {
                file.upload.write(ready).await?;
            }
        }
        self.relieve().await
    }

    async fn finish(&mut self) -> Result<Vec<DataFile>> {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_by_key(|file| file.sequence);
        let mut files = Vec::with_capacity(open.len());
        for mut file in open {
            file.upload.write(file.encoder.finish()?).await?;
            let (size, crc32) = file.upload.finish().await?;
            let (staged, path, rows) = (file.staged, file.path, file.rows);
            files.push(DataFile { staged, path, size, crc32, rows });
        }
        Ok(files)
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
