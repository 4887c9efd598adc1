//! Reading a split: files into rows of the source's schema.

use super::bad_records::BadRecords;
use super::entry::FileEntry;
use super::fetch::PlannedFile;
use super::metadata::{self, METADATA};
use super::partition;
use super::place::FilePlace;
use crate::BATCH_ROWS;
use crate::format::FileDecoder;
use crate::text::pattern::Times;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{BatchCoalescer, take};
use arrow::datatypes::{FieldRef, SchemaRef};
use fluvial_core::{Error, Result, RowStream};
use futures::{FutureExt, StreamExt};
use std::ops::Range;
use std::sync::Arc;

/// What every file of a source is read with.
#[derive(Debug, Clone)]
pub(crate) struct FileReader {
    pub(crate) place: FilePlace,
    pub(crate) decoder: FileDecoder,
    pub(crate) schema: SchemaRef,
    /// Columns that come from folders; null for a file that is in none.
    pub(crate) partitions: Vec<String>,
    pub(crate) ignore_missing: bool,
    pub(crate) ignore_corrupt: bool,
    /// A file that was overwritten since it was planned has no rows: its new version has.
    pub(crate) skip_changed: bool,
    /// Where malformed records go, if they are put aside.
    pub(crate) bad_records: Option<BadRecords>,
    /// Whether `_metadata` has the number of the row.
    pub(crate) numbered: bool,
    /// How times are written in the names of folders.
    pub(crate) folder_times: Times,
}

/// Where a column of the result comes from.
#[derive(Debug, Clone)]
enum Origin {
    /// A column of the file.
    File(usize),
    /// The same value for all rows of the file.
    Constant(ArrayRef),
    /// The same, but for the number of the row in its file, which is the last column read.
    Metadata(ArrayRef),
}

/// How the columns of the result come about, for one file.
#[derive(Debug)]
struct Layout {
    origins: Vec<Origin>,
    /// The columns that the file has.
    fields: Vec<FieldRef>,
    /// Those of them that are read.
    wanted: Vec<usize>,
}

/// So many files are opened before they are needed: a request takes time, and a batch of small
/// files is nothing but requests.
const OPEN_AHEAD: usize = 4;

impl FileReader {
    /// Reads a stretch of a file: the columns `projection` of the schema.
    pub(crate) fn read(
        &self,
        file: &FileEntry,
        range: Range<u64>,
        projection: &[usize],
    ) -> Result<RowStream> {
        let Layout { origins, mut fields, mut wanted } = self.layout(file, &range, projection)?;
        if origins.iter().any(|origin| matches!(origin, Origin::Metadata(_))) {
            wanted.push(fields.len());
        }
        if self.bad_records.is_some() {
            wanted.push(fields.len());
            fields.push(Arc::new(BadRecords::field()));
        }
        let start = range.start;
        let schema = Arc::new(self.schema.project(projection)?);
        let planned = PlannedFile::new(&self.place, file)?;
        let rows = self.decoder.open(planned, range, &fields, &wanted)?;
        let rows = if self.ignore_missing { end_at(rows, is_missing) } else { rows };
        let rows = if self.skip_changed { skip_changed(rows) } else { rows };
        let rows = if self.ignore_corrupt { end_at(rows, is_corrupt) } else { rows };
        let rows = match &self.bad_records {
            Some(bad) => bad.sift(rows, file, start),
            None => rows,
        };
        Ok(rows.map(move |batch| assemble(&schema, &origins, batch?)).boxed())
    }

    /// Splits the columns into those of the file and those that are constant for it.
    fn layout(&self, file: &FileEntry, range: &Range<u64>, projection: &[usize]) -> Result<Layout> {
        let folders = if self.place.patterns.is_empty() {
            partition::values(self.place.root().as_ref(), &file.path)
        } else {
            // Behind a pattern a folder is no column: as in Spark.
            Vec::new()
        };
        let numbered = self.numbered;
        let constant = |field: &FieldRef| -> Result<Option<ArrayRef>> {
            if field.name() == METADATA {
                return metadata::value(&self.place, file, range, numbered).map(Some);
            }
            let folder = folders.iter().rev().find(|(key, _)| key == field.name());
            match folder {
                Some((_, value)) => {
                    let place = self.place.show(&file.path);
                    partition::value_of(field, value.as_deref(), &place, &self.folder_times)
                        .map(Some)
                }
                None if self.partitions.contains(field.name()) => {
                    Ok(Some(new_null_array(field.data_type(), 1)))
                }
                None => Ok(None),
            }
        };
        let (mut all, mut fields) = (Vec::new(), Vec::new());
        for field in self.schema.fields() {
            match constant(field)? {
                Some(value) if numbered && field.name() == METADATA => {
                    all.push(Origin::Metadata(value));
                }
                Some(value) => all.push(Origin::Constant(value)),
                None => {
                    all.push(Origin::File(fields.len()));
                    fields.push(field.clone());
                }
            }
        }
        let mut wanted = Vec::new();
        let origin = |i: &usize| match &all[*i] {
            Origin::Constant(value) => Origin::Constant(value.clone()),
            Origin::Metadata(value) => Origin::Metadata(value.clone()),
            Origin::File(column) => {
                wanted.push(*column);
                Origin::File(wanted.len() - 1)
            }
        };
        let origins = projection.iter().map(origin).collect();
        Ok(Layout { origins, fields, wanted })
    }
}

fn assemble(schema: &SchemaRef, origins: &[Origin], batch: RecordBatch) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let mut columns = Vec::with_capacity(origins.len());
    for origin in origins {
        columns.push(match origin {
            Origin::File(column) => batch.column(*column).clone(),
            Origin::Constant(value) => take(value, &UInt32Array::from(vec![0; rows]), None)?,
            Origin::Metadata(value) => {
                let value = take(value, &UInt32Array::from(vec![0; rows]), None)?;
                metadata::with_row_index(&value, batch.column(batch.num_columns() - 1))?
            }
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

fn is_missing(error: &Error) -> bool {
    error.condition() == Some("SOURCE_FILE_MISSING")
}

/// A file that is another one by now before any row of it was read has none.
fn skip_changed(rows: RowStream) -> RowStream {
    let mut begun = false;
    rows.take_while(move |batch| {
        let changed = |error: &Error| error.condition() == Some("SOURCE_FILE_CHANGED");
        let skip = !begun && batch.as_ref().is_err_and(changed);
        begun = true;
        futures::future::ready(!skip)
    })
    .boxed()
}

/// Damage, not a type that does not fit: that is a mistake in the query.
fn is_corrupt(error: &Error) -> bool {
    error.condition().is_some_and(|condition| condition.starts_with("FAILED_READ_FILE."))
}

/// A file that ends where it would fail in such a way.
fn end_at(rows: RowStream, ends: fn(&Error) -> bool) -> RowStream {
    rows.take_while(move |batch| futures::future::ready(!batch.as_ref().is_err_and(ends))).boxed()
}

/// Streams one after another. The next ones begin while the first is waited for, but give their
/// rows in their turn.
pub(crate) fn chain(open: impl Iterator<Item = Result<RowStream>> + Send + 'static) -> RowStream {
    futures::stream::iter(open)
        .map(|stream| async move {
            let mut rows = stream.unwrap_or_else(failed);
            match rows.next().await {
                Some(first) => futures::stream::iter([first]).chain(rows).boxed(),
                None => rows,
            }
        })
        .buffered(OPEN_AHEAD)
        .flatten()
        .boxed()
}

/// The same rows in batches of a useful size: a batch of many small files has many small batches,
/// and each costs the same whoever works with it.
pub(crate) fn coalesce(rows: RowStream, schema: SchemaRef) -> RowStream {
    if schema.fields().is_empty() {
        // Nothing but a number of rows: that is cheap.
        return rows;
    }
    let coalescer = BatchCoalescer::new(schema, BATCH_ROWS)
        .with_biggest_coalesce_batch_size(Some(BATCH_ROWS / 2));
    futures::stream::try_unfold((Some(rows), coalescer), |(mut rows, mut coalescer)| async move {
        loop {
            if let Some(batch) = coalescer.next_completed_batch() {
                return Ok(Some((batch, (rows, coalescer))));
            }
            let Some(stream) = &mut rows else { return Ok(None) };
            match stream.next().await {
                Some(batch) => coalescer.push_batch(batch?)?,
                None => {
                    coalescer.finish_buffered_batch()?;
                    rows = None;
                }
            }
        }
    })
    .boxed()
}

/// A stream of nothing but an error.
pub(crate) fn failed(error: Error) -> RowStream {
    futures::stream::once(futures::future::ready(Err(error))).boxed()
}

/// The stream that a future will have.
pub(crate) fn later(open: impl Future<Output = Result<RowStream>> + Send + 'static) -> RowStream {
    open.into_stream().map(|stream| stream.unwrap_or_else(failed)).flatten().boxed()
}
