//! Bytes as a file in a folder, read by the file source as a query would.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::Schema;
use fluvial_core::{BatchId, Error, Options, PlanRequest, Result, RunId, Source};
use fluvial_sim::{Disk, block_on};
use fluvial_sources::{FileFormat, FilePlace, FileSource};
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::chunked::ChunkedStore;
use object_store::path::Path;
use std::sync::Arc;

/// A file and how it is read.
#[derive(Debug, Clone)]
pub struct File<'a> {
    /// What the file is taken for.
    pub format: FileFormat,
    /// Its columns; without them they are inferred.
    pub schema: Option<&'a Schema>,
    /// Options of the format.
    pub options: Vec<(&'a str, &'a str)>,
    /// What is in it.
    pub bytes: &'a [u8],
}

/// What a file is called unless its name matters.
const NAME: &str = "in/file";

impl File<'_> {
    /// The same file, read with one more option.
    #[must_use]
    pub fn with(&self, name: &'static str, text: &'static str) -> Self {
        let mut file = self.clone();
        file.options.push((name, text));
        file
    }

    /// The same file, of which nothing is known.
    #[must_use]
    pub fn inferred(&self) -> Self {
        Self { schema: None, ..self.clone() }
    }

    /// All rows, in one batch, if the store hands out the file at once.
    ///
    /// # Errors
    ///
    /// Those of the source.
    pub fn read(&self) -> Result<RecordBatch> {
        self.read_in(usize::MAX)
    }

    /// All rows, in one batch, of a file called so: its extension may say how it is compressed, its
    /// folders may be columns.
    ///
    /// # Errors
    ///
    /// Those of the source.
    pub fn read_as(&self, name: &str) -> Result<RecordBatch> {
        self.read_named(name, usize::MAX)
    }

    /// All rows, in one batch, of which the pieces must make no difference: `chunk` bytes of the
    /// file are handed out at a time, or all of them.
    ///
    /// # Errors
    ///
    /// Those of the source.
    pub fn read_in_pieces(&self, chunk: u8) -> Result<RecordBatch> {
        let (whole, cut) = (self.read(), self.read_in(usize::from(chunk).max(1)));
        match (&whole, &cut) {
            (Ok(rows), Ok(again)) => assert_eq!(rows, again, "{chunk}"),
            (Err(error), Err(again)) => assert_eq!(error.to_string(), again.to_string(), "{chunk}"),
            _ => panic!("in chunks of {chunk} bytes: {whole:?}, {cut:?}"),
        }
        whole
    }

    fn read_in(&self, chunk: usize) -> Result<RecordBatch> {
        self.read_named(NAME, chunk)
    }

    fn read_named(&self, name: &str, chunk: usize) -> Result<RecordBatch> {
        let disk = Disk::new();
        disk.write(name, self.bytes.to_vec());
        let store: Arc<dyn ObjectStore> =
            Arc::new(ChunkedStore::new(disk.process().store(), chunk));
        block_on(self.read_from(store))
    }

    async fn read_from(&self, store: Arc<dyn ObjectStore>) -> Result<RecordBatch> {
        let place = FilePlace::new(Arc::clone(&store), "sim:///", "in")?;
        let mut builder = FileSource::builder(place, self.format)
            .options(Options::new(self.options.iter().copied()))
            .log(store, Path::from("log"));
        builder = match self.schema {
            Some(schema) => builder.schema(schema.clone()),
            None => builder.infer_schema(),
        };
        let source = builder.open().await?;
        let (run, start) = (RunId::new("fuzz")?, source.initial().await?);
        let (batch, limit) = (BatchId(0), source.read_limit());
        let request =
            PlanRequest { batch, run: &run, start: &start, limit, until: None, splits: 1 };
        let Some(range) = source.plan(request).await? else {
            // Its name says that it is no data.
            return Ok(RecordBatch::new_empty(source.schema()));
        };
        source.adopt(&range).await?;
        let mut batches = Vec::new();
        for split in &range.splits {
            batches.extend(source.read(&range, split, None)?.try_collect::<Vec<_>>().await?);
        }
        Ok(concat_batches(&source.schema(), &batches)?)
    }
}

/// Whether the file is refused because its first bytes say that it is UTF-16.
pub fn is_other_encoding(error: &Error) -> bool {
    error.condition() == Some("UNSUPPORTED_ENCODING")
}
