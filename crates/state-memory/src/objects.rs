//! Objects of state: where they lie, and how their bytes come and go.

use crate::token::{FrameRef, ObjectName};
use bytes::Bytes;
use fluvial_core::{Error, OperatorId, Result, StoreId, StoreName};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use std::sync::Arc;

/// Parts, and deletions, in flight at once.
const PARALLEL: usize = 8;

/// The objects under one root.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    root: Path,
    limits: Limits,
}

/// Sizes of uploads in bytes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Objects larger than this are uploaded in parts.
    single_max: usize,
    /// The size of each part but the last.
    part: usize,
}

impl Limits {
    /// Within what the clouds ask for: parts of 5 MiB at least.
    const USUAL: Self = Self { single_max: 64 << 20, part: 16 << 20 };
}

/// What became of a create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    Yes,
    /// Something else has that name.
    Taken,
}

impl Objects {
    /// The objects of `store` under `root`.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, root: Path) -> Self {
        Self { store, root, limits: Limits::USUAL }
    }

    pub(crate) fn path(&self, id: &StoreId, name: &ObjectName) -> Path {
        let Self { root, .. } = self;
        root.clone().join(id.operator.as_str()).join(id.store.as_str()).join(name.to_string())
    }

    /// Creates an object from its parts.
    pub(crate) async fn create(
        &self,
        id: &StoreId,
        name: &ObjectName,
        parts: Vec<Bytes>,
    ) -> Result<Created> {
        let path = self.path(id, name);
        let at = |error: object_store::Error| Error::from(error).at(format_args!("state of {id}"));
        if parts.iter().map(Bytes::len).sum::<usize>() > self.limits.single_max {
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
        let puts: Vec<_> = regroup(parts, self.limits.part)
            .into_iter()
            .map(|part| upload.put_part(part))
            .collect();
        let done = futures::stream::iter(puts).buffer_unordered(PARALLEL).try_collect::<()>().await;
        if let Err(error) = done {
            // What stays behind if this fails too is the store's own garbage, never an object.
            let _ = upload.abort().await;
            return Err(error);
        }
        upload.complete().await.map(drop)
    }

    /// Reads a frame and checks it.
    pub(crate) async fn read(&self, id: &StoreId, frame: &FrameRef) -> Result<Bytes> {
        let path = self.path(id, &frame.object);
        let read = self.read_at(&path, frame).await;
        read.map_err(|error| error.at(format_args!("state of {id} in {path}")))
    }

    /// As [`Self::read`]; errors do not say where.
    pub(crate) async fn read_at(&self, path: &Path, frame: &FrameRef) -> Result<Bytes> {
        let FrameRef { offset, length, crc32, .. } = frame;
        let bytes = match self.store.get_range(path, *offset..offset + length).await {
            Ok(bytes) => bytes,
            Err(object_store::Error::NotFound { .. }) => return Err(gone()),
            Err(error) => return Err(self.explain(path, frame, error).await),
        };
        if bytes.len() as u64 != *length {
            return Err(damaged("it is cut"));
        }
        if crc32fast::hash(&bytes) != *crc32 {
            return Err(damaged("the checksum does not match"));
        }
        Ok(bytes)
    }

    /// Stores differ in what they say about a range after the end, so this asks for the size.
    async fn explain(&self, path: &Path, frame: &FrameRef, error: object_store::Error) -> Error {
        match self.store.head(path).await {
            Ok(meta) if meta.size < frame.offset + frame.length => {
                damaged("it is cut").with_source(error)
            }
            _ => error.into(),
        }
    }

    /// Every object of any store. Whatever else lies there is not ours.
    pub(crate) async fn list(&self) -> Result<Vec<(StoreId, ObjectName)>> {
        let found: Vec<_> = self.store.list(Some(&self.root)).try_collect().await?;
        let mut objects: Vec<_> =
            found.iter().filter_map(|meta| self.parse(&meta.location)).collect();
        objects.sort();
        Ok(objects)
    }

    fn parse(&self, path: &Path) -> Option<(StoreId, ObjectName)> {
        let mut parts = path.prefix_match(&self.root)?;
        let operator = OperatorId::new(parts.next()?.as_ref()).ok()?;
        let store = StoreName::new(parts.next()?.as_ref()).ok()?;
        let name = parts.next()?.as_ref().parse().ok()?;
        parts.next().is_none().then_some((StoreId { operator, store }, name))
    }

    /// Deletes objects; those that are gone already are fine.
    pub(crate) async fn delete(&self, objects: Vec<(StoreId, ObjectName)>) -> Result<()> {
        let paths: Vec<_> = objects.iter().map(|(id, name)| Ok(self.path(id, name))).collect();
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

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("{what}; restore it from a backup, or start with a new checkpoint"))
        .with_condition("STATE_STORE_CORRUPT")
}

fn gone() -> Error {
    Error::not_found("it is gone; restore it from a backup, or start with a new checkpoint")
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

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_sim::{Disk, Fault, Op, Process, block_on};

    #[test]
    fn parts_are_regrouped_without_loss() {
        let lengths = [1, 9, 5, 20, 0, 3].into_iter().enumerate();
        let parts: Vec<Bytes> = lengths.map(|(i, n)| vec![i as u8; n].into()).collect();
        let groups = regroup(parts.clone(), 10);
        let sizes: Vec<usize> = groups.iter().map(PutPayload::content_length).collect();
        assert_eq!(sizes, [10, 10, 10, 8]);
        let joined: Vec<u8> = groups.iter().flatten().flatten().copied().collect();
        assert_eq!(joined, parts.concat());
    }

    #[test]
    fn large_objects_are_uploaded_in_parts_and_read_back() {
        let disk = Disk::new();
        let id = StoreId {
            operator: OperatorId::new("count").unwrap(),
            store: StoreName::new("default").unwrap(),
        };
        let name: ObjectName = "1-0-run".parse().unwrap();
        let parts = vec![Bytes::from_static(b"hello, "), Bytes::from_static(b"large world")];
        let frame = FrameRef {
            object: name.clone(),
            offset: 7,
            length: 11,
            crc32: crc32fast::hash(b"large world"),
        };
        let limits = Limits { single_max: 10, part: 4 };
        let upload = async |process: &Process| {
            let objects = Objects { limits, ..Objects::new(process.store(), Path::from("s")) };
            objects.create(&id, &name, parts.clone()).await?;
            objects.read(&id, &frame).await
        };
        let process = disk.process();
        assert_eq!(block_on(upload(&process)).unwrap(), "large world");
        let parts = process.calls().iter().filter(|call| call.op == Op::UploadPart).count();
        assert_eq!(parts, 5);
        for step in 0..process.steps() - 2 {
            let disk = Disk::new();
            let failing = disk.faulty(step, Fault::Unavailable);
            assert!(block_on(upload(&failing)).is_err(), "step {step}");
            assert!(disk.paths().is_empty(), "a broken upload left an object, step {step}");
        }
    }
}
