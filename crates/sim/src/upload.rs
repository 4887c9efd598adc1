//! Multipart uploads: invisible until complete.

use crate::process::{Op, Process};
use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Attributes, MultipartUpload, PutMode, PutPayload, PutResult, Result, UploadPart,
};
use std::sync::{Arc, Mutex, PoisonError};

/// An upload in progress. Its parts die with it: an object store collects them some day.
#[derive(Debug)]
pub(crate) struct Upload {
    process: Process,
    path: Path,
    attributes: Attributes,
    parts: Arc<Mutex<Vec<Option<Bytes>>>>,
}

impl Upload {
    pub(crate) fn new(process: Process, path: Path, attributes: Attributes) -> Self {
        Self { process, path, attributes, parts: Arc::default() }
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        // The order of the calls is the order of the parts, whatever order they arrive in.
        let part = {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.push(None);
            parts.len() - 1
        };
        let (process, path, parts) = (self.process.clone(), self.path.clone(), self.parts.clone());
        Box::pin(async move {
            process
                .io(Op::UploadPart, &path, |_| {
                    let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                    parts[part] = Some(data.into());
                    Ok(())
                })
                .await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (path, attributes) = (self.path.clone(), self.attributes.clone());
        let parts = self.parts.clone();
        self.process
            .io(Op::UploadComplete, &self.path, |objects| {
                let parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                let mut whole = Vec::new();
                for (number, part) in parts.iter().enumerate() {
                    match part {
                        Some(bytes) => whole.extend_from_slice(bytes),
                        None => {
                            let message = format!("part {number} of {path} was not uploaded");
                            return Err(crate::objects::generic(message));
                        }
                    }
                }
                objects.put(&path, whole.into(), attributes, &PutMode::Overwrite)
            })
            .await
    }

    async fn abort(&mut self) -> Result<()> {
        self.process.io(Op::UploadAbort, &self.path, |_| Ok(())).await
    }
}
