//! Parquet files: columns by name, row groups by the bytes where they start.

mod adapt;

use super::unknown::unknown_columns;
use crate::BATCH_ROWS;
use crate::file::{PlannedFile, later};
use adapt::adapt;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use bytes::Bytes;
use fluvial_core::{Error, NameCase, Result, RowStream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The end of a file that is read at first: the footer of nearly all files fits.
const FOOTER_BYTES: usize = 64 << 10;

/// So many column chunks of a row group are requested at once.
const REQUESTS: usize = 8;

/// How columns are found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) case: NameCase,
    /// A column that the schema has not is an error.
    pub(crate) stop: bool,
}

/// Reads the row groups that start in `range`: the columns `projection` of `fields`.
pub(crate) fn open(
    file: PlannedFile,
    range: Range<u64>,
    fields: &[FieldRef],
    projection: &[usize],
    how: Columns,
) -> RowStream {
    let wanted: Fields = projection.iter().map(|i| fields[*i].clone()).collect();
    let schema: SchemaRef = Arc::new(Schema::new(wanted));
    let known: Vec<String> = fields.iter().map(|field| field.name().to_lowercase()).collect();
    if file.size() == 0 {
        return futures::stream::empty().boxed();
    }
    later(async move {
        let place = file.place().to_owned();
        let failed = |error| failed(error, &place);
        let builder = ParquetRecordBatchStreamBuilder::new_with_options(Reader(file), plain())
            .await
            .map_err(failed)?;
        if how.stop {
            let unknown = |name: &&String| !known.contains(&name.to_lowercase());
            let names = builder.schema().fields().iter().map(|field| field.name());
            let names: BTreeSet<String> = names.filter(unknown).cloned().collect();
            if !names.is_empty() {
                return Err(unknown_columns(&place, 1, &names));
            }
        }
        let groups = groups(builder.metadata(), &range);
        let columns =
            find(builder.schema().fields(), schema.fields(), how.case).map_err(|e| e.at(&place))?;
        let roots = columns.iter().flatten().copied();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        // A batch has the columns of the mask in the order of the file.
        let mut order: Vec<usize> = columns.iter().flatten().copied().collect();
        order.sort_unstable();
        order.dedup();
        let sources: Vec<Option<usize>> = columns
            .iter()
            .map(|column| column.and_then(|c| order.iter().position(|o| *o == c)))
            .collect();
        let rows = builder
            .with_row_groups(groups)
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(failed)?;
        let rows = rows.map(move |batch| {
            let batch = batch.map_err(|e| self::failed(e, &place))?;
            rearrange(&batch, &sources, &schema).map_err(|e| e.at(&place))
        });
        Ok(rows.boxed())
    })
}

/// A file has its columns in Parquet's own types. What its writer had in memory (large or view
/// types, dictionaries) would only have to be converted.
fn plain() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

/// Row groups belong to the split in which their first byte is.
fn groups(metadata: &ParquetMetaData, range: &Range<u64>) -> Vec<usize> {
    let start = |group: usize| {
        let group = metadata.row_group(group);
        group.columns().first().map_or(0, |column| column.byte_range().0)
    };
    (0..metadata.num_row_groups()).filter(|group| range.contains(&start(*group))).collect()
}

/// Where each wanted column is in the file: by name, and if no name is the same and case does not
/// matter, by a name that differs in case only.
fn find(found: &Fields, wanted: &Fields, case: NameCase) -> Result<Vec<Option<usize>>> {
    let column = |field: &FieldRef| -> Result<Option<usize>> {
        let exact = found.iter().position(|f| f.name() == field.name());
        if exact.is_some() || case == NameCase::Sensitive {
            return Ok(exact);
        }
        let lower = field.name().to_lowercase();
        let mut alike = (0..found.len()).filter(|i| found[*i].name().to_lowercase() == lower);
        match (alike.next(), alike.next()) {
            (Some(_), Some(_)) => Err(Error::invalid(format!(
                "several columns differ from `{}` in case only: name one of them",
                field.name()
            ))
            .with_condition("AMBIGUOUS_COLUMN")),
            (first, _) => Ok(first),
        }
    };
    wanted.iter().map(column).collect()
}

fn rearrange(
    batch: &RecordBatch,
    sources: &[Option<usize>],
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let columns = sources.iter().zip(schema.fields()).map(|(source, field)| -> Result<ArrayRef> {
        match source {
            Some(column) => adapt(batch.column(*column), field.data_type())
                .map_err(|e| e.at(format!("column `{}`", field.name()))),
            None => Ok(new_null_array(field.data_type(), rows)),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// The schema of a file, as it is written.
pub(crate) async fn schema(file: PlannedFile) -> Result<SchemaRef> {
    let place = file.place().to_owned();
    let builder = ParquetRecordBatchStreamBuilder::new_with_options(Reader(file), plain());
    Ok(builder.await.map_err(|e| failed(e, &place))?.schema().clone())
}

/// Our own errors pass through; the library's are about the file.
fn failed(error: ParquetError, place: &str) -> Error {
    let error = match error {
        ParquetError::External(cause) => match cause.downcast::<Error>() {
            Ok(ours) => return *ours,
            Err(cause) => ParquetError::External(cause),
        },
        other => other,
    };
    Error::invalid(format!("{place}: not a whole Parquet file: {error}"))
        .with_condition("FAILED_READ_FILE.PARQUET")
        .with_source(error)
}

struct Reader(PlannedFile);

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        self.0.get(range).map_err(|e| ParquetError::External(Box::new(e))).boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        let file = self.0.clone();
        futures::stream::iter(ranges)
            .map(move |range| {
                let file = file.clone();
                async move { file.get(range).await }
            })
            .buffered(REQUESTS)
            .map_err(|e| ParquetError::External(Box::new(e)))
            .try_collect()
            .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        async move {
            let options = options.map(|options| options.metadata_options().clone());
            let size = self.0.size();
            let reader = ParquetMetaDataReader::new()
                .with_metadata_options(options)
                .with_prefetch_hint(Some(FOOTER_BYTES));
            Ok(Arc::new(reader.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}
