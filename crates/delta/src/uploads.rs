//! A store for the library's writers, which panic when an upload fails while they close it.
//!
//! A failed upload looks like a done one to the writer; who stages the files asks here first.

use async_trait::async_trait;
use bytes::Bytes;
use deltalake::logstore::ObjectStoreRef;
use futures::FutureExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The first upload of a writer that failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    /// Takes it, if there is one.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn has_happened(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn hold(&self, error: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn held(&self, result: Result<PutResult>) -> PutResult {
        result.unwrap_or_else(|error| {
            self.hold(error);
            PutResult { e_tag: None, version: None }
        })
    }
}

/// The store.
#[derive(Debug)]
pub(crate) struct Uploads {
    store: ObjectStoreRef,
    failure: Failure,
}

impl Uploads {
    pub(crate) fn new(store: ObjectStoreRef, failure: Failure) -> Self {
        Self { store, failure }
    }
}

impl fmt::Display for Uploads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Uploads {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        Ok(self.failure.held(self.store.put_opts(location, payload, options).await))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.store.put_multipart_opts(location, options).await?;
        Ok(Box::new(Parts { upload, failure: self.failure.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct Parts {
    upload: Box<dyn MultipartUpload>,
    failure: Failure,
}

#[async_trait]
impl MultipartUpload for Parts {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let failure = self.failure.clone();
        let part = self.upload.put_part(data);
        part.map(move |done| {
            if let Err(error) = done {
                failure.hold(error);
            }
            Ok(())
        })
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        if self.failure.has_happened() {
            // What stays behind if this fails too is the store's own garbage, never an object.
            let _ = self.upload.abort().await;
            return Ok(PutResult { e_tag: None, version: None });
        }
        Ok(self.failure.held(self.upload.complete().await))
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use object_store::PutMode;
    use object_store::memory::InMemory;

    #[test]
    fn an_upload_that_fails_is_told_afterwards() {
        let failure = Failure::default();
        let store = Uploads::new(Arc::new(InMemory::new()), failure.clone());
        let create =
            || async { store.put_opts(&Path::from("a"), "x".into(), PutMode::Create.into()).await };
        assert!(block_on(create()).is_ok() && failure.take().is_none());
        assert!(block_on(create()).is_ok());
        assert!(matches!(failure.take(), Some(Error::AlreadyExists { .. })));
        assert!(failure.take().is_none());
    }
}
