//! The bytes of a planned file, as long as it is the file that was planned.

use super::entry::FileEntry;
use super::place::{FilePlace, parse_path};
use bytes::Bytes;
use fluvial_core::{Error, Result};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{Error as StoreError, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::ops::Range;
use std::sync::Arc;

/// So much is requested at once: large enough that a request costs little beside it, small enough
/// to be still in the processor's cache when it is decoded.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// So many requests of one file are under way.
const REQUESTS: usize = 4;

/// A file of a batch.
#[derive(Debug, Clone)]
pub(crate) struct PlannedFile {
    store: Arc<dyn ObjectStore>,
    path: Path,
    entry: Arc<FileEntry>,
    /// For messages.
    place: String,
}

impl PlannedFile {
    pub(crate) fn new(place: &FilePlace, entry: &FileEntry) -> Result<Self> {
        Ok(Self {
            store: place.store.clone(),
            path: parse_path(&entry.path)?,
            entry: Arc::new(entry.clone()),
            place: place.show(&entry.path),
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.entry.size
    }

    /// Its URL, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Some of its bytes.
    ///
    /// # Errors
    ///
    /// `NotFound` (`SOURCE_FILE_MISSING`) if it is gone, `Invalid` (`SOURCE_FILE_CHANGED`) if it
    /// is another one by now, or those of the store.
    pub(crate) async fn get(&self, range: Range<u64>) -> Result<Bytes> {
        let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
        let result = match self.store.get_opts(&self.path, options).await {
            Ok(result) => result,
            Err(error) => return Err(self.failed(error).await),
        };
        if !self.is(&result.meta) {
            return Err(self.changed(&result.meta));
        }
        let bytes = match result.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return Err(self.failed(error).await),
        };
        if bytes.len() as u64 != range.end - range.start {
            return Err(Error::unavailable(format!(
                "{}: {} bytes came where {} were asked for",
                self.place,
                bytes.len(),
                range.end - range.start
            )));
        }
        Ok(bytes)
    }

    /// All its bytes, in order, in chunks.
    pub(crate) fn stream(&self) -> BoxStream<'static, Result<Bytes>> {
        let (file, size) = (self.clone(), self.size());
        // `step_by` takes a `usize`, and a file may be longer than that.
        let chunks = (0..size.div_ceil(CHUNK_BYTES)).map(move |i| {
            let start = i * CHUNK_BYTES;
            start..size.min(start + CHUNK_BYTES)
        });
        futures::stream::iter(chunks)
            .map(move |range| {
                let file = file.clone();
                async move { file.get(range).await }.boxed()
            })
            .buffered(REQUESTS)
            .boxed()
    }

    /// Whether what is there now is the planned file. A tag tells it; without one, or if the
    /// file was put back from a copy, size and time do.
    pub(crate) fn is(&self, now: &ObjectMeta) -> bool {
        let entry = &*self.entry;
        let same_tag = entry.etag.is_some() && entry.etag == now.e_tag;
        let same_time = now.last_modified.timestamp_millis() == entry.mtime;
        now.size == entry.size && (same_tag || same_time)
    }

    /// What is there now.
    pub(crate) async fn now(&self) -> Result<Option<ObjectMeta>, StoreError> {
        match self.store.head(&self.path).await {
            Ok(meta) => Ok(Some(meta)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Why a request failed: a file that shrank has no bytes at the end of the range.
    async fn failed(&self, error: StoreError) -> Error {
        match self.now().await {
            Ok(None) => Error::not_found(format!(
                "{} was planned and is gone: put it back, or set ignoreMissingFiles to true to \
                 go on without its rows",
                self.place
            ))
            .with_condition("SOURCE_FILE_MISSING")
            .with_source(error),
            Ok(Some(meta)) if !self.is(&meta) => self.changed(&meta).with_source(error),
            _ => Error::from(error).at(format!("reading {}", self.place)),
        }
    }

    fn changed(&self, now: &ObjectMeta) -> Error {
        Error::invalid(format!(
            "{} changed after it was planned (then {} bytes, modified at {} ms; now {} bytes, {} \
             ms): put the old content back; new content needs a new name",
            self.place,
            self.entry.size,
            self.entry.mtime,
            now.size,
            now.last_modified.timestamp_millis()
        ))
        .with_condition("SOURCE_FILE_CHANGED")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::ErrorKind;
    use fluvial_sim::{Disk, block_on};
    use futures::TryStreamExt;

    fn planned(disk: &Disk) -> PlannedFile {
        let place = FilePlace::new(disk.process().store(), "sim:///", "in").unwrap();
        let meta = block_on(place.store.head(&Path::from("in/a"))).unwrap();
        let mtime = meta.last_modified.timestamp_millis();
        let entry = FileEntry { path: "in/a".into(), size: meta.size, mtime, etag: meta.e_tag };
        PlannedFile::new(&place, &entry).unwrap()
    }

    fn read(file: &PlannedFile) -> Result<Vec<u8>> {
        Ok(block_on(file.stream().try_collect::<Vec<_>>())?.concat())
    }

    #[test]
    fn large_files_come_in_chunks() {
        let disk = Disk::new();
        let text: Vec<u8> = (0..CHUNK_BYTES * 2 + 5).map(|i| i as u8).collect();
        disk.write("in/a", text.clone());
        assert_eq!(read(&planned(&disk)).unwrap(), text);
        disk.write("in/a", "");
        assert_eq!(read(&planned(&disk)).unwrap(), b"");
    }

    #[test]
    fn a_file_that_is_gone_or_another_one_is_named() {
        let disk = Disk::new();
        disk.write("in/a", "one");
        let file = planned(&disk);
        for other in ["other content", "x", "two"] {
            disk.write("in/a", other);
            let error = read(&file).unwrap_err();
            assert_eq!(error.condition(), Some("SOURCE_FILE_CHANGED"), "{error}");
            assert!(error.message().contains("sim:///in/a"), "{error}");
        }
        disk.remove("in/a");
        let error = read(&file).unwrap_err();
        assert_eq!(error.condition(), Some("SOURCE_FILE_MISSING"));
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_put_back_is_the_same() {
        let disk = Disk::new();
        disk.write("in/a", "one");
        disk.set_modified("in/a", 5000);
        let file = planned(&disk);
        disk.remove("in/a");
        disk.write("in/a", "one");
        disk.set_modified("in/a", 5000);
        assert_eq!(read(&file).unwrap(), b"one");
    }
}
