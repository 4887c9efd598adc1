//! A local folder as an object store whose answers survive a power cut.
//!
//! `object_store`'s own local file system creates atomically but does not sync: what it
//! acknowledged may be lost or reordered when the power goes. This store writes and syncs a
//! hidden file, publishes it by link or rename, and syncs the folder, before it returns. Readers
//! never see a file that a power cut could tear.

mod disk;
mod upload;

use async_trait::async_trait;
use bytes::Bytes;
use disk::{Folders, Publish, Staged, clear, sync_file};
use fluvial_core::Error;
use futures::channel::oneshot;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use upload::Upload;

/// Whether a return means that a power cut cannot undo it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// It does: file and folder are synced.
    #[default]
    Synced,
    /// It survives the process, not the machine. After a power cut entries may be missing or
    /// torn; a query then goes on from the last batch that is whole, or says that it cannot.
    Relaxed,
}

/// Takes work that blocks off the caller's thread: `|work| drop(spawn_blocking(work))`.
pub type Offload = Arc<dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync>;

/// An object store in a local folder that syncs before it returns.
///
/// Creating if absent is atomic (a hard link); conditional updates do not exist here. Files and
/// their folders are synced once per call, and calls do not wait for each other. Folders that
/// another process has written to are synced before the first reading, so that nothing is acted
/// upon that could still vanish. Deleting is not synced: what comes back is garbage.
#[derive(Clone)]
pub struct DurableLocal {
    inner: LocalFileSystem,
    durability: Durability,
    offload: Option<Offload>,
    folders: Arc<Folders>,
}

impl DurableLocal {
    /// The store in folder `root`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// `Invalid` if it cannot be made or is not a folder.
    pub fn open(
        root: impl AsRef<std::path::Path>,
        durability: Durability,
    ) -> fluvial_core::Result<Self> {
        let root = root.as_ref();
        let place = || format!("{} cannot be used as a folder", root.display());
        std::fs::create_dir_all(root)
            .map_err(|e| Error::invalid(format!("{}: {e}", place())).with_source(e))?;
        let inner = LocalFileSystem::new_with_prefix(root)
            .map_err(|e| Error::invalid(format!("{}: {e}", place())).with_source(e))?;
        let folders = Arc::new(Folders::default());
        Ok(Self { inner, durability, offload: None, folders })
    }

    /// Lets blocking work run elsewhere; otherwise it runs where the future is polled.
    #[must_use]
    pub fn with_offload(mut self, offload: Offload) -> Self {
        self.offload = Some(offload);
        self
    }

    /// What a return means.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    fn file(&self, location: &Path) -> Result<PathBuf> {
        self.inner.path_to_filesystem(location)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(offload) = &self.offload else { return work() };
        let (sender, receiver) = oneshot::channel();
        // Nobody waits any more if the caller was dropped; the work is done all the same.
        offload(Box::new(move || drop(sender.send(work()))));
        receiver.await.unwrap_or_else(|_| {
            let gone = "the thread that did the work is gone";
            Err(object_store::Error::Generic { store: "DurableLocal", source: gone.into() })
        })
    }

    /// Syncs the folder of `file` once, before it is read from.
    async fn before_reading(&self, folder: Option<PathBuf>) -> Result<()> {
        let Some(folder) = folder else { return Ok(()) };
        if self.durability == Durability::Relaxed || self.folders.are_settled(&folder) {
            return Ok(());
        }
        let folders = Arc::clone(&self.folders);
        self.blocking(move || folders.settle(&folder)).await
    }

    fn synced(&self) -> bool {
        self.durability == Durability::Synced
    }

    fn refuse(&self, operation: &str) -> object_store::Error {
        let (operation, implementer) = (operation.to_owned(), self.to_string());
        object_store::Error::NotImplemented { operation, implementer }
    }
}

impl fmt::Debug for DurableLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableLocal")
            .field("inner", &self.inner)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for DurableLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.durability {
            Durability::Synced => write!(f, "{}", self.inner),
            Durability::Relaxed => write!(f, "{} (not synced)", self.inner),
        }
    }
}

#[async_trait]
impl ObjectStore for DurableLocal {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        if !self.synced() {
            return self.inner.put_opts(location, payload, opts).await.map_err(clear);
        }
        if !opts.attributes.is_empty() {
            return Err(self.refuse("put with attributes"));
        }
        let publish = match opts.mode {
            PutMode::Overwrite => Publish::Replace,
            PutMode::Create => Publish::Create,
            PutMode::Update(_) => return Err(self.refuse("conditional update")),
        };
        let (file, folders) = (self.file(location)?, Arc::clone(&self.folders));
        self.blocking(move || {
            let mut staged = Staged::create(file)?;
            for chunk in payload.iter() {
                staged.append(chunk)?;
            }
            let e_tag = staged.publish(publish, &folders)?;
            Ok(PutResult { e_tag: Some(e_tag), version: None })
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !self.synced() {
            return self.inner.put_multipart_opts(location, opts).await.map_err(clear);
        }
        if !opts.attributes.is_empty() {
            return Err(self.refuse("upload with attributes"));
        }
        let file = self.file(location)?;
        let staged = self.blocking(move || Staged::create(file)).await?;
        Ok(Box::new(Upload::new(self.clone(), staged)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.before_reading(self.file(location)?.parent().map(PathBuf::from)).await?;
        self.inner.get_opts(location, options).await.map_err(clear)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.before_reading(self.file(location)?.parent().map(PathBuf::from)).await?;
        self.inner.get_ranges(location, ranges).await.map_err(clear)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations).map_err(clear).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, folder) = (self.clone(), prefix.and_then(|prefix| self.file(prefix).ok()));
        let listed = self.inner.list(prefix).map_err(clear);
        let first = async move { store.before_reading(folder).await.map(|()| listed) };
        futures::stream::once(first).try_flatten().boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, folder) = (self.clone(), prefix.and_then(|prefix| self.file(prefix).ok()));
        let listed = self.inner.list_with_offset(prefix, offset).map_err(clear);
        let first = async move { store.before_reading(folder).await.map(|()| listed) };
        futures::stream::once(first).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.before_reading(prefix.and_then(|prefix| self.file(prefix).ok())).await?;
        self.inner.list_with_delimiter(prefix).await.map_err(clear)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        if self.synced() {
            // What is published must be on the disk before its new name is.
            let file = self.file(from)?;
            self.blocking(move || sync_file(&file)).await?;
        }
        let copied = self.inner.copy_opts(from, to, options).await.map_err(clear);
        let exists = matches!(copied, Err(object_store::Error::AlreadyExists { .. }));
        if self.synced() && (copied.is_ok() || exists) {
            let (file, folders) = (self.file(to)?, Arc::clone(&self.folders));
            self.blocking(move || folders.published(&file)).await?;
        }
        copied
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let source = self.file(from)?;
        if self.synced() {
            let file = source.clone();
            self.blocking(move || sync_file(&file)).await?;
        }
        let renamed = self.inner.rename_opts(from, to, options).await.map_err(clear);
        let exists = matches!(renamed, Err(object_store::Error::AlreadyExists { .. }));
        if self.synced() && (renamed.is_ok() || exists) {
            let (target, folders) = (self.file(to)?, Arc::clone(&self.folders));
            self.blocking(move || {
                // The new name first: for a moment there may be two, never none.
                folders.published(&target)?;
                if source.parent() == target.parent() {
                    return Ok(());
                }
                folders.published(&source)
            })
            .await?;
        }
        renamed
    }
}

#[cfg(test)]
mod tests;
