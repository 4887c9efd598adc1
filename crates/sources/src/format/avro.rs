//! Avro object container files: blocks by the bytes where their sync marker starts.

use super::columns::Wanted;
use super::damage::Guarded;
use crate::BATCH_ROWS;
use crate::file::{PlannedFile, later};
use arrow::datatypes::SchemaRef;
use arrow_avro::errors::AvroError;
use arrow_avro::reader::async_reader::read_header_info;
use arrow_avro::reader::{AsyncAvroFileReader, AsyncFileReader, HeaderInfo};
use bytes::Bytes;
use fluvial_core::{Result, RowStream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use std::future::ready;
use std::ops::Range;

const DAMAGED: &str = "FAILED_READ_FILE.AVRO";

/// Reads the blocks that start in `range`.
pub(crate) fn open(file: PlannedFile, range: Range<u64>, wanted: Wanted) -> RowStream {
    if file.size() == 0 {
        return futures::stream::empty().boxed();
    }
    later(async move {
        let file = Guarded::new(file, DAMAGED);
        let (header, schema) = head(&file).await?;
        let columns = wanted.find(schema.fields(), file.place())?;
        // Without a column there would be no rows to count.
        let roots = if columns.roots.is_empty() { vec![0] } else { columns.roots.clone() };
        let builder = AsyncAvroFileReader::builder(Reader(file.clone()), file.size(), BATCH_ROWS)
            .with_range(range)
            .with_projection(roots);
        let rows = file.run(ready(builder.build_with_header(header))).await?;
        let rows = file.rows(rows).map(move |batch| columns.rearrange(&batch?));
        Ok(rows.boxed())
    })
}

/// The schema of a file, as it is written.
pub(crate) async fn schema(file: PlannedFile) -> Result<SchemaRef> {
    Ok(head(&Guarded::new(file, DAMAGED)).await?.1)
}

async fn head(file: &Guarded) -> Result<(HeaderInfo, SchemaRef)> {
    let mut reader = Reader(file.clone());
    let header = file.run(read_header_info(&mut reader, file.size(), None)).await?;
    let nothing = AsyncAvroFileReader::builder(reader, file.size(), BATCH_ROWS).with_range(0..0);
    let nothing = file.run(ready(nothing.build_with_header(header.clone()))).await?;
    Ok((header, nothing.schema()))
}

struct Reader(Guarded);

impl AsyncFileReader for Reader {
    fn get_bytes(
        &mut self,
        range: Range<u64>,
    ) -> BoxFuture<'_, std::result::Result<Bytes, AvroError>> {
        let lost = || AvroError::General("the bytes cannot be read".into());
        async move { self.0.get(range).await.ok_or_else(lost) }.boxed()
    }
}
