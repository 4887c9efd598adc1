//! Objects of state: where they lie, and how their bytes come and go.

use crate::token::ObjectName;
use bytes::Bytes;
use fluvial_core::{Error, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use std::ops::Range;
use std::sync::Arc;

/// Parts, reads, and deletions, in flight at once.
pub(crate) const PARALLEL: usize = 16;

/// Blocks are read at once if no more than so many bytes lie between them.
const GAP_MAX: u64 = 32 << 10;
/// And up to so many bytes.
const READ_MAX: u64 = 1 << 20;
/// Reads of blocks in flight at once: what is far away is waited for together.
pub(crate) const READS: usize = 64;

/// Whether a range behind one that is read is read with it.
pub(crate) fn is_near(read: &Range<u64>, next: &Range<u64>) -> bool {
    next.start.saturating_sub(read.end) <= GAP_MAX && next.end - read.start <= READ_MAX
}

/// The objects under one root.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    root: Path,
    /// Objects larger than this are uploaded in parts of `part` bytes.
    single_max: usize,
    part: usize,
}

/// What became of a create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    Yes,
    /// Something else has that name.
    Taken,
}

impl Objects {
    /// The objects of `store` under `root`. Parts are within what the clouds ask for.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, root: Path) -> Self {
        Self { store, root, single_max: 64 << 20, part: 8 << 20 }
    }

    /// Where an object lies.
    pub(crate) fn path(&self, name: &ObjectName) -> Path {
        self.root.clone().join(name.to_string())
    }

    /// Creates an object from its parts.
    pub(crate) async fn create(&self, name: &ObjectName, parts: Vec<Bytes>) -> Result<Created> {
        let path = self.path(name);
        let at = |error: object_store::Error| Error::from(error).at("committing state");
        if parts.iter().map(Bytes::len).sum::<usize>() > self.single_max {
            self.upload(&path, parts).await.map_err(at)?;
            return Ok(Created::Yes);
        }
        let payload = PutPayload::from_iter(parts);
        match self.store.put_opts(&path, payload, PutMode::Create.into()).await {
            Ok(_) => Ok(Created::Yes),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Created::Taken),
            Err(error) => Err(at(error)),
        }
    }

    /// Uploads a large object. There is no create-if-absent for these; the name is unique.
    async fn upload(&self, path: &Path, parts: Vec<Bytes>) -> object_store::Result<()> {
        let mut upload = self.store.put_multipart(path).await?;
        let puts: Vec<_> =
            regroup(parts, self.part).into_iter().map(|part| upload.put_part(part)).collect();
        let done = futures::stream::iter(puts).buffer_unordered(PARALLEL).try_collect::<()>().await;
        if let Err(error) = done {
            // What stays behind if this fails too is the store's own garbage, never an object.
            let _ = upload.abort().await;
            return Err(error);
        }
        upload.complete().await.map(drop)
    }

    /// Begins an object that is uploaded while it is made.
    pub(crate) async fn begin(&self, name: &ObjectName) -> Result<Upload> {
        let upload = self.store.put_multipart(&self.path(name)).await?;
        Ok(Upload { upload, part: self.part, waiting: Vec::new() })
    }

    /// Reads a range of an object.
    ///
    /// # Errors
    ///
    /// `NotFound` if the object is gone, `Corrupt` if it is cut.
    pub(crate) async fn read(&self, name: &ObjectName, range: Range<u64>) -> Result<Bytes> {
        let path = self.path(name);
        let place = || format!("state in {path}");
        let bytes = match self.store.get_range(&path, range.clone()).await {
            Ok(bytes) => bytes,
            Err(object_store::Error::NotFound { .. }) => return Err(gone(&place())),
            Err(error) => return Err(self.explain(&path, range.end, error).await.at(place())),
        };
        if bytes.len() as u64 != range.end - range.start {
            return Err(damaged("it is cut").at(place()));
        }
        Ok(bytes)
    }

    /// Reads ranges of an object that are in order; near ones at once.
    pub(crate) async fn read_many(
        &self,
        name: &ObjectName,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        let mut reads: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match reads.last_mut() {
                Some(last) if is_near(last, range) => last.end = range.end,
                _ => reads.push(range.clone()),
            }
        }
        let gets: Vec<_> = reads.iter().map(|range| self.read(name, range.clone())).collect();
        let read: Vec<Bytes> = futures::stream::iter(gets).buffered(PARALLEL).try_collect().await?;
        let mut at = 0;
        let parts = ranges.iter().map(|range| {
            while range.start >= reads[at].end && at + 1 < reads.len() {
                at += 1;
            }
            let start = (range.start - reads[at].start) as usize;
            read[at].slice(start..start + (range.end - range.start) as usize)
        });
        Ok(parts.collect())
    }

    /// Stores differ in what they say about a range after the end, so this asks for the size.
    async fn explain(&self, path: &Path, end: u64, error: object_store::Error) -> Error {
        match self.store.head(path).await {
            Ok(meta) if meta.size < end => damaged("it is cut").with_source(error),
            _ => error.into(),
        }
    }

    /// Every object. Whatever else lies there is not ours.
    pub(crate) async fn list(&self) -> Result<Vec<ObjectName>> {
        let found: Vec<_> = self.store.list(Some(&self.root)).try_collect().await?;
        let mut objects: Vec<_> =
            found.iter().filter_map(|meta| self.parse(&meta.location)).collect();
        objects.sort();
        Ok(objects)
    }

    fn parse(&self, path: &Path) -> Option<ObjectName> {
        let mut parts = path.prefix_match(&self.root)?;
        let name = parts.next()?.as_ref().parse().ok()?;
        parts.next().is_none().then_some(name)
    }

    /// Deletes objects; those that are gone already are fine.
    pub(crate) async fn delete(&self, objects: Vec<ObjectName>) -> Result<()> {
        let paths: Vec<_> = objects.iter().map(|name| Ok(self.path(name))).collect();
        let mut deleted = self.store.delete_stream(futures::stream::iter(paths).boxed());
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(Error::from(error).at("deleting old state")),
            }
        }
        Ok(())
    }
}

/// An object that is uploaded while it is made; it is not there before the end.
#[derive(Debug)]
pub(crate) struct Upload {
    upload: Box<dyn MultipartUpload>,
    part: usize,
    waiting: Vec<u8>,
}

impl Upload {
    /// Uploads some bytes.
    pub(crate) async fn put(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.waiting.extend_from_slice(&bytes);
        // Parts but the last must have one size.
        while self.waiting.len() >= self.part {
            let rest = self.waiting.split_off(self.part);
            let part = std::mem::replace(&mut self.waiting, rest);
            self.upload.put_part(part.into()).await?;
        }
        Ok(())
    }

    /// Makes the object visible.
    pub(crate) async fn complete(mut self, bytes: Vec<u8>) -> Result<()> {
        self.put(bytes).await?;
        if !self.waiting.is_empty() {
            self.upload.put_part(self.waiting.into()).await?;
        }
        self.upload.complete().await?;
        Ok(())
    }

    /// Forgets it.
    pub(crate) async fn abort(mut self) {
        // What stays behind if this fails is the store's own garbage, never an object.
        let _ = self.upload.abort().await;
    }
}

/// What lies there is not what was written.
pub(crate) fn damaged(what: &str) -> Error {
    Error::corrupt(format!("{what}; restore it from a backup, or start with a new checkpoint"))
        .with_condition("STATE_STORE_CORRUPT")
}

fn gone(place: &str) -> Error {
    Error::not_found(format!(
        "{place}: it is gone; restore it from a backup, or start with a new checkpoint"
    ))
    .with_condition("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS")
}

/// The same bytes in parts of nearly equal size, none copied.
fn regroup(parts: Vec<Bytes>, part_bytes: usize) -> Vec<PutPayload> {
    let mut groups = Vec::new();
    let (mut group, mut size) = (Vec::new(), 0);
    for mut part in parts {
        while size + part.len() >= part_bytes {
            group.push(part.split_to(part_bytes - size));
            groups.push(PutPayload::from_iter(std::mem::take(&mut group)));
            size = 0;
        }
        size += part.len();
        group.push(part);
    }
    if size > 0 {
        groups.push(PutPayload::from_iter(group));
    }
    groups
}
