//! Parquet files: row groups by the bytes where they start.

use super::columns::{Wanted, numbered};
use crate::BATCH_ROWS;
use crate::file::{PlannedFile, later};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use fluvial_core::{Error, Result, RowStream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::ops::Range;
use std::sync::Arc;

/// The end of a file that is read at first: the footer of nearly all files fits.
const FOOTER_BYTES: usize = 64 << 10;

/// So many column chunks of a row group are requested at once.
const REQUESTS: usize = 8;

/// Reads the row groups that start in `range`.
pub(crate) fn open(file: PlannedFile, range: Range<u64>, wanted: Wanted) -> RowStream {
    if file.size() == 0 {
        return futures::stream::empty().boxed();
    }
    later(async move {
        let place = file.place().to_owned();
        let failed = |error| failed(error, &place);
        let builder = ParquetRecordBatchStreamBuilder::new_with_options(Reader(file), plain())
            .await
            .map_err(failed)?;
        let counts = wanted.numbered;
        let columns = wanted.find(builder.schema().fields(), &place)?;
        let groups = groups(builder.metadata(), &range);
        let mut next = first_row(builder.metadata(), &groups);
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.roots.iter().copied());
        let rows = builder
            .with_row_groups(groups)
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(failed)?;
        let rows = rows.map(move |batch| {
            let batch = columns.rearrange(&batch.map_err(|e| self::failed(e, &place))?)?;
            let first = next;
            next += batch.num_rows() as u64;
            if counts { numbered(&batch, first) } else { Ok(batch) }
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

/// The number in its file of the first row of `groups`.
fn first_row(metadata: &ParquetMetaData, groups: &[usize]) -> u64 {
    let before = 0..groups.first().copied().unwrap_or(0);
    let rows = before.map(|group| metadata.row_group(group).num_rows());
    rows.fold(0u64, |sum, rows| sum.saturating_add(u64::try_from(rows).unwrap_or(0)))
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
