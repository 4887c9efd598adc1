//! Readers of libraries, guarded: what they say of a file becomes an error that names it.

use crate::file::PlannedFile;
use arrow::array::RecordBatch;
use bytes::Bytes;
use fluvial_core::{Error, Result};
use futures::{FutureExt, Stream, StreamExt};
use std::fmt::Display;
use std::future::Future;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

/// A file that keeps what its store said: libraries pass on only that it was an error.
#[derive(Clone)]
pub(crate) struct Guarded {
    file: PlannedFile,
    said: Arc<Mutex<Option<Error>>>,
    /// The condition of a damaged file.
    damaged: &'static str,
}

impl Guarded {
    pub(crate) fn new(file: PlannedFile, damaged: &'static str) -> Self {
        Self { file, said: Arc::default(), damaged }
    }

    pub(crate) fn size(&self) -> u64 {
        self.file.size()
    }

    pub(crate) fn place(&self) -> &str {
        self.file.place()
    }

    /// Some of its bytes; `None` after an error, which is kept.
    pub(crate) async fn get(&self, range: Range<u64>) -> Option<Bytes> {
        match self.file.get(range).await {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                None
            }
        }
    }

    fn failed(&self, error: &dyn Display) -> Error {
        if let Some(said) = self.said.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return said;
        }
        Error::invalid(format!("{}: not a whole file of its format: {error}", self.place()))
            .with_condition(self.damaged)
    }

    /// What a library's future gives. A panic of it is an error too: the bytes made it.
    pub(crate) async fn run<T, E: Display>(
        &self,
        work: impl Future<Output = std::result::Result<T, E>>,
    ) -> Result<T> {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(result) => result.map_err(|e| self.failed(&e)),
            Err(_) => Err(self.failed(&"its reader failed")),
        }
    }

    /// The same for the batches of a library's stream. The first error ends it.
    pub(crate) fn rows<E: Display>(
        self,
        rows: impl Stream<Item = std::result::Result<RecordBatch, E>> + Send + 'static,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        AssertUnwindSafe(rows).catch_unwind().map(move |item| match item {
            Ok(batch) => batch.map_err(|e| self.failed(&e)),
            Err(_) => Err(self.failed(&"its reader failed")),
        })
    }
}
