//! A store far away: each call waits, and all share one line.

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a call waits before its first byte.
pub(crate) const LATENCY: Duration = Duration::from_millis(20);
/// Bytes a second of the line.
pub(crate) const BANDWIDTH: u64 = 100_000_000;

/// A line that sends one byte after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Arc<Mutex<Option<Instant>>>);

impl Line {
    /// Waits until so many bytes have come.
    pub(crate) async fn carry(&self, bytes: u64) {
        sleep(LATENCY).await;
        let end = {
            let mut free = self.0.lock().expect("nobody panics with it");
            let start = free.unwrap_or_else(Instant::now).max(Instant::now());
            let end = start + Duration::from_secs_f64(bytes as f64 / BANDWIDTH as f64);
            *free = Some(end);
            end
        };
        sleep_until(end).await;
    }
}

/// Another store, at the end of a line.
#[derive(Debug)]
pub(crate) struct Throttled {
    pub(crate) inner: Arc<dyn ObjectStore>,
    pub(crate) line: Line,
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "throttled {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Throttled {
    async fn put_opts(&self, at: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.line.carry(bytes.content_length() as u64).await;
        self.inner.put_opts(at, bytes, how).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, how).await
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Result<GetResult> {
        let mut found = self.inner.get_opts(at, how).await?;
        let (meta, range) = (found.meta.clone(), found.range.clone());
        let attributes = std::mem::take(&mut found.attributes);
        self.line.carry(range.end - range.start).await;
        let bytes = found.bytes().await;
        let payload = GetResultPayload::Stream(Box::pin(futures::stream::once(async { bytes })));
        Ok(GetResult { payload, meta, range, attributes })
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, how).await
    }
}
