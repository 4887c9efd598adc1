//! ORC files: stripes by the bytes where they start.

use super::columns::Wanted;
use super::damage::Guarded;
use crate::BATCH_ROWS;
use crate::file::{PlannedFile, later};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use fluvial_core::{Result, RowStream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use orc_rust::projection::ProjectionMask;
use orc_rust::reader::AsyncChunkReader;
use orc_rust::{ArrowReaderBuilder, TimestampPrecision};
use std::io;
use std::ops::Range;

const DAMAGED: &str = "FAILED_READ_FILE.ORC";

/// Reads the stripes that start in `range`.
pub(crate) fn open(file: PlannedFile, range: Range<u64>, wanted: Wanted) -> RowStream {
    if file.size() == 0 {
        return futures::stream::empty().boxed();
    }
    later(async move {
        let file = Guarded::new(file, DAMAGED);
        let builder = builder(&file).await?;
        let columns = wanted.find(builder.schema().fields(), file.place())?;
        let roots = if columns.roots.is_empty() { vec![0] } else { columns.roots.clone() };
        let schema = builder.schema();
        let names: Vec<&str> =
            roots.iter().map(|root| schema.field(*root).name().as_str()).collect();
        let mask = ProjectionMask::named_roots(builder.file_metadata().root_data_type(), &names);
        let bytes = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let rows = builder
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .with_file_byte_range(bytes(range.start)..bytes(range.end))
            .build_async();
        let rows = file.rows(rows).map(move |batch| columns.rearrange(&batch?));
        Ok(rows.boxed())
    })
}

/// The schema of a file, as it is written.
pub(crate) async fn schema(file: PlannedFile) -> Result<SchemaRef> {
    Ok(builder(&Guarded::new(file, DAMAGED)).await?.schema())
}

async fn builder(file: &Guarded) -> Result<ArrowReaderBuilder<Reader>> {
    let builder = file.run(ArrowReaderBuilder::try_new_async(Reader(file.clone()))).await?;
    Ok(builder.with_timestamp_precision(TimestampPrecision::Microsecond))
}

struct Reader(Guarded);

impl AsyncChunkReader for Reader {
    fn len(&mut self) -> BoxFuture<'_, io::Result<u64>> {
        let size = self.0.size();
        async move { Ok(size) }.boxed()
    }

    fn get_bytes(&mut self, start: u64, length: u64) -> BoxFuture<'_, io::Result<Bytes>> {
        let lost = || io::Error::other("the bytes cannot be read");
        async move {
            let end = start.checked_add(length).filter(|end| *end <= self.0.size());
            let end = end.ok_or_else(|| io::Error::other("it names bytes beyond its end"))?;
            self.0.get(start..end).await.ok_or_else(lost)
        }
        .boxed()
    }
}
