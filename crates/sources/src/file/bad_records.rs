//! Malformed records, put aside in files of their own: `badRecordsPath`.

use super::entry::{FileEntry, fingerprint};
use super::place::{FilePlace, parse_path};
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field};
use fluvial_core::{Error, Result, RowStream};
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::sync::Arc;

/// The column in which the decoder gives them.
pub(crate) const BAD_RECORD: &str = "_fluvial_bad_record";

/// An object is written when it has so many bytes.
const OBJECT_BYTES: usize = 8 << 20;

/// Where they go.
#[derive(Debug, Clone)]
pub(crate) struct BadRecords {
    place: FilePlace,
    folder: Path,
}

impl BadRecords {
    /// Below `folder`, an absolute path or a URL in the store of `place`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is where the source looks for files.
    pub(crate) fn new(place: &FilePlace, folder: &str) -> Result<Self> {
        let folder = place.resolve(folder)?;
        if folder.prefix_matches(place.root()) {
            return Err(Error::invalid(format!(
                "badRecordsPath {} must be outside of the source {place}, or what is put aside \
                 would be read",
                place.show(folder.as_ref())
            ))
            .with_condition("ARCHIVE_INSIDE_SOURCE"));
        }
        Ok(Self { place: place.clone(), folder: folder.join("bad_records") })
    }

    pub(crate) fn field() -> Field {
        Field::new(BAD_RECORD, DataType::Utf8, true)
    }

    /// The rows that are whole; the others are written down. The last column says which.
    ///
    /// Reading the same bytes again writes the same objects again.
    pub(crate) fn sift(&self, rows: RowStream, file: &FileEntry, start: u64) -> RowStream {
        let aside = Aside {
            store: Arc::clone(&self.place.store),
            name: format!("{}/{:032x}-{start}", self.folder, fingerprint(&file.path)),
            path: serde_json::Value::from(self.place.show(&file.path)).to_string(),
            written: 0,
            text: Vec::new(),
        };
        futures::stream::try_unfold((Some(rows), aside), |(rows, mut aside)| async move {
            let Some(mut rows) = rows else { return Ok(None) };
            match rows.next().await {
                Some(batch) => {
                    let batch = aside.take(&batch?)?;
                    if aside.text.len() >= OBJECT_BYTES {
                        aside.write().await?;
                    }
                    Ok(Some((batch, (Some(rows), aside))))
                }
                None => {
                    aside.write().await?;
                    Ok(None)
                }
            }
        })
        .boxed()
    }
}

/// The malformed records of one file.
struct Aside {
    store: Arc<dyn ObjectStore>,
    name: String,
    path: String,
    /// Objects so far.
    written: usize,
    text: Vec<u8>,
}

impl Aside {
    /// Keeps the malformed records of a batch; the answer are the others, without that column.
    fn take(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let last = batch.num_columns() - 1;
        let bad = batch.column(last).as_string::<i32>();
        let rest = batch.project(&(0..last).collect::<Vec<_>>())?;
        if bad.null_count() == bad.len() {
            return Ok(rest);
        }
        for record in bad.iter().flatten() {
            let record = serde_json::Value::from(record);
            let line = format!(
                "{{\"path\":{},\"reason\":\"malformed record\",\"record\":{record}}}\n",
                self.path
            );
            self.text.extend_from_slice(line.as_bytes());
        }
        let whole: BooleanArray = (0..bad.len()).map(|row| Some(bad.is_null(row))).collect();
        Ok(filter_record_batch(&rest, &whole)?)
    }

    async fn write(&mut self) -> Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let path = parse_path(&format!("{}-{}.json", self.name, self.written))?;
        let text = std::mem::take(&mut self.text);
        let put = self.store.put(&path, text.into()).await;
        put.map_err(|e| Error::from(e).at(format!("writing bad records to {path}")))?;
        self.written += 1;
        Ok(())
    }
}
