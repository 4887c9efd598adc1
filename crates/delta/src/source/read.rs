//! Reading data files: rows of the table's columns, whatever a file has of them.

use super::data_file::{ChangeKind, DataFile};
use super::deletion_vector::Deleted;
use super::table::{CHANGE_TYPE, COMMIT_VERSION, Table};
use crate::conform::conform;
use crate::types::{find, physical_name};
use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray,
    UInt32Array, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options, filter_record_batch, take};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use bytes::Bytes;
use deltalake::logstore::ObjectStoreRef;
use fluvial_core::{Error, Result, RowStream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// The end of a file that is read at first: the footer of nearly all files fits.
const FOOTER_BYTES: usize = 64 << 10;
/// So many files are opened before they are needed.
const OPEN_AHEAD: usize = 4;

/// Reads files of one table, some of its columns.
pub(crate) struct FileReader {
    store: ObjectStoreRef,
    columns: Vec<Column>,
    schema: SchemaRef,
}

/// A column of the result.
#[derive(Debug, Clone)]
enum Column {
    /// Of the file, under the name that its metadata says.
    Data(FieldRef),
    /// The same for all rows of a file.
    Partition(FieldRef),
    ChangeType,
    CommitVersion,
    CommitTimestamp,
}

/// Where a column comes from, for one file.
enum Origin {
    /// A column of what is read of the file, made into a type.
    File(usize, FieldRef),
    /// One value for all rows.
    Constant(ArrayRef),
}

impl FileReader {
    /// A reader of the columns `projection` of the table's source.
    pub(crate) fn new(table: &Table, projection: &[usize]) -> Result<Self> {
        let column = |i: &usize| match table.columns.get(*i) {
            Some(field) if table.partitions.contains(field.name()) => {
                Column::Partition(field.clone())
            }
            Some(field) => Column::Data(field.clone()),
            None => match table.schema.field(*i).name().as_str() {
                CHANGE_TYPE => Column::ChangeType,
                COMMIT_VERSION => Column::CommitVersion,
                _ => Column::CommitTimestamp,
            },
        };
        Ok(Self {
            schema: Arc::new(table.schema.project(projection)?),
            columns: projection.iter().map(column).collect(),
            store: table.log_store.object_store(None),
        })
    }

    /// The rows of files, one after another. The next ones are opened while the first is read.
    pub(crate) fn read(self, files: Vec<DataFile>) -> RowStream {
        let reader = Arc::new(self);
        futures::stream::iter(files)
            .map(move |file| {
                let reader = reader.clone();
                async move {
                    let place = format!("{} of version {}", file.path, file.version);
                    let rows = reader.file(&file).await;
                    rows.map(|rows| rows.map_err(move |e: Error| e.at(&place)))
                        .map_err(|e| e.at(format!("{} of version {}", file.path, file.version)))
                }
            })
            .buffered(OPEN_AHEAD)
            .try_flatten()
            .boxed()
    }

    /// Opens one file.
    async fn file(&self, file: &DataFile) -> Result<RowStream> {
        let path = store_path(&file.path)?;
        let mut deleted = match &file.deletion_vector {
            None => None,
            Some(descriptor) => Some(Deleted::read(descriptor, &self.store).await?),
        };
        let size = match file.size {
            0 => self.store.head(&path).await.map_err(missing)?.size,
            size => size,
        };
        let bytes = FileBytes { store: self.store.clone(), path, size };
        let builder = ParquetRecordBatchStreamBuilder::new_with_options(bytes, plain())
            .await
            .map_err(unreadable)?;
        let found = builder.schema().clone();
        let mut wanted = BTreeMap::new();
        for column in &self.columns {
            let name = match column {
                Column::Data(field) => physical_name(field),
                Column::ChangeType if file.change.is_some_and(is_in_file) => CHANGE_TYPE,
                _ => continue,
            };
            if let Some(i) = find(found.fields(), name) {
                wanted.insert(i, wanted.len());
            }
        }
        // What is read has the order of the file.
        wanted.values_mut().enumerate().for_each(|(place, at)| *at = place);
        let origins = self.columns.iter().map(|column| {
            let place =
                |name: &str| find(found.fields(), name).and_then(|i| wanted.get(&i).copied());
            origin(column, file, place)
        });
        let origins = origins.collect::<Result<Vec<_>>>()?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.keys().copied());
        let rows = builder
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(unreadable)?;
        let (schema, mut row) = (self.schema.clone(), 0);
        let rows = rows.map(move |batch| {
            let batch = batch.map_err(unreadable)?;
            let stretch = row..row + batch.num_rows() as u64;
            row = stretch.end;
            let batch = match &mut deleted {
                None => batch,
                Some(deleted) => filter_record_batch(&batch, &deleted.keep(stretch))?,
            };
            assemble(&batch, &origins, &schema)
        });
        Ok(rows.boxed())
    }
}

fn is_in_file(change: super::data_file::Change) -> bool {
    change.kind == ChangeKind::InFile
}

/// A file has its columns in Parquet's own types. What its writer had in memory (large or view
/// types, dictionaries) would only have to be converted.
fn plain() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

fn origin(
    column: &Column,
    file: &DataFile,
    place: impl Fn(&str) -> Option<usize>,
) -> Result<Origin> {
    let change =
        || file.change.ok_or_else(|| Error::corrupt("a plan of rows is read as one of changes"));
    Ok(match column {
        Column::Data(field) => match place(physical_name(field)) {
            Some(i) => Origin::File(i, field.clone()),
            None => Origin::Constant(new_null_array(field.data_type(), 1)),
        },
        Column::Partition(field) => Origin::Constant(partition_value(field, file)?),
        Column::ChangeType => match change()?.kind {
            ChangeKind::Insert => Origin::Constant(Arc::new(StringArray::from(vec!["insert"]))),
            ChangeKind::Delete => Origin::Constant(Arc::new(StringArray::from(vec!["delete"]))),
            ChangeKind::InFile => {
                let i = place(CHANGE_TYPE).ok_or_else(|| {
                    Error::corrupt(format!("a file of changes has no column {CHANGE_TYPE}"))
                })?;
                let field = arrow::datatypes::Field::new(
                    CHANGE_TYPE,
                    arrow::datatypes::DataType::Utf8,
                    true,
                );
                Origin::File(i, Arc::new(field))
            }
        },
        Column::CommitVersion => {
            let version = i64::try_from(file.version).unwrap_or(i64::MAX);
            Origin::Constant(Arc::new(Int64Array::from(vec![version])))
        }
        Column::CommitTimestamp => {
            let time = change()?.timestamp.saturating_mul(1000);
            let time = TimestampMicrosecondArray::from(vec![time]).with_timezone("UTC");
            Origin::Constant(Arc::new(time))
        }
    })
}

/// The value of a partition column, from its text. Empty is null, as the protocol says.
fn partition_value(field: &FieldRef, file: &DataFile) -> Result<ArrayRef> {
    let text = file.partition_values.get(physical_name(field)).cloned().flatten();
    let text = StringArray::from(vec![text.filter(|text| !text.is_empty())]);
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&text, field.data_type(), &strict).map_err(|e| {
        Error::corrupt(format!(
            "partition column {:?} is {}, the log says {:?}",
            field.name(),
            field.data_type(),
            text.value(0)
        ))
        .with_source(e)
    })
}

fn assemble(batch: &RecordBatch, origins: &[Origin], schema: &Arc<Schema>) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let column = |origin: &Origin| match origin {
        Origin::File(i, field) => conform(batch.column(*i), field.data_type())
            .map_err(|e| e.at(format!("column {:?}", field.name()))),
        Origin::Constant(value) => Ok(take(value, &UInt32Array::from(vec![0; rows]), None)?),
    };
    let columns = origins.iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Where a file is in the table's store.
fn store_path(path: &str) -> Result<Path> {
    if path.starts_with('/') || path.contains("://") || path.starts_with("file:") {
        return Err(Error::invalid(
            "the file lies outside of the table (a shallow clone?), which is not supported yet",
        )
        .with_condition("DELTA_FEATURE_NOT_SUPPORTED"));
    }
    // Names of folders keep the escapes that their writer gave them.
    Ok(Path::parse(path).unwrap_or_else(|_| Path::from(path)))
}

fn missing(error: StoreError) -> Error {
    match error {
        StoreError::NotFound { .. } => Error::not_found(
            "the file is gone, and the version names it: VACUUM removed it, or somebody did; \
             restore it, or start with a new checkpoint, and keep files longer than a query may \
             stand still",
        )
        .with_condition("DELTA_FILE_NOT_FOUND_DETAILED")
        .with_source(error),
        other => other.into(),
    }
}

/// What the store said passes through; the rest is about the file.
fn unreadable(error: ParquetError) -> Error {
    let error = match error {
        ParquetError::External(cause) => match cause.downcast::<StoreError>() {
            Ok(cause) => return missing(*cause),
            Err(cause) => ParquetError::External(cause),
        },
        other => other,
    };
    Error::corrupt(format!("not a whole Parquet file: {error}"))
        .with_condition("FAILED_READ_FILE.PARQUET")
        .with_source(error)
}

/// The bytes of a data file.
struct FileBytes {
    store: ObjectStoreRef,
    path: Path,
    size: u64,
}

impl AsyncFileReader for FileBytes {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        let bytes = self.store.get_range(&self.path, range);
        bytes.map_err(|e| ParquetError::External(Box::new(e))).boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move {
            let bytes = self.store.get_ranges(&self.path, &ranges).await;
            bytes.map_err(|e| ParquetError::External(Box::new(e)))
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        async move {
            let options = options.map(|options| options.metadata_options().clone());
            let size = self.size;
            let reader = ParquetMetaDataReader::new()
                .with_metadata_options(options)
                .with_prefetch_hint(Some(FOOTER_BYTES));
            Ok(Arc::new(reader.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}
