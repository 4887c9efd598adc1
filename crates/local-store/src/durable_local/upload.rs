//! Multipart uploads into a hidden file.

use super::DurableLocal;
use super::disk::{Publish, Staged, told};
use async_trait::async_trait;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// An upload in progress. Dropping it removes the hidden file.
#[derive(Debug)]
pub(super) struct Upload {
    store: DurableLocal,
    /// `None` once it is complete or aborted.
    staged: Arc<Mutex<Option<Staged>>>,
    offset: u64,
}

impl Upload {
    pub(super) fn new(store: DurableLocal, staged: Staged) -> Self {
        Self { store, staged: Arc::new(Mutex::new(Some(staged))), offset: 0 }
    }
}

fn finished() -> object_store::Error {
    told("uploading", Path::new("a part"), io::Error::other("the upload is complete or aborted"))
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (store, staged, start) = (self.store.clone(), Arc::clone(&self.staged), self.offset);
        self.offset += data.content_length() as u64;
        Box::pin(async move {
            store
                .blocking(move || {
                    let mut staged = staged.lock().unwrap_or_else(PoisonError::into_inner);
                    let staged = staged.as_mut().ok_or_else(finished)?;
                    let mut offset = start;
                    for chunk in data.iter() {
                        staged.write_at(offset, chunk)?;
                        offset += chunk.len() as u64;
                    }
                    // Part by part: who syncs a small file meanwhile waits for one part, not for
                    // all of a large object.
                    staged.sync_data()
                })
                .await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (staged, folders) = (Arc::clone(&self.staged), Arc::clone(&self.store.folders));
        self.store
            .blocking(move || {
                let staged = staged.lock().unwrap_or_else(PoisonError::into_inner).take();
                let e_tag = staged.ok_or_else(finished)?.publish(Publish::Replace, &folders)?;
                Ok(PutResult { e_tag: Some(e_tag), version: None })
            })
            .await
    }

    async fn abort(&mut self) -> Result<()> {
        let staged = Arc::clone(&self.staged);
        self.store
            .blocking(move || {
                drop(staged.lock().unwrap_or_else(PoisonError::into_inner).take());
                Ok(())
            })
            .await
    }
}
