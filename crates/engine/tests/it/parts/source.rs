//! A source whose rows are a script, and which remembers what it was told.

use crate::parts::rows::{input, input_schema};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::{
    Error, Frontier, Offset, PlanRequest, ReadLimit, Result, RowStream, Source, SourceRange, Split,
};
use futures::StreamExt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

/// Rows of `(key, seconds)`; an offset is the number of rows before it. Clones share the script.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) shared: Arc<Mutex<Shared>>,
    limit: ReadLimit,
    splits: usize,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) rows: Vec<(i64, i64)>,
    /// The first row of the next run, for new queries only.
    pub(crate) initial: u64,
    /// Ends of adopted and released ranges.
    pub(crate) adopted: Vec<u64>,
    pub(crate) released: Vec<u64>,
    /// Errors of the next plans, oldest first.
    pub(crate) failures: Vec<Error>,
    /// Errors of the next reads.
    pub(crate) read_failures: Vec<Error>,
    /// Rows that appear during each plan: a source that never rests.
    pub(crate) grows_by: usize,
    /// What to plan instead of the truth.
    pub(crate) lie: Option<Lie>,
    pub(crate) panics: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Lie {
    EndIsStart,
    EndBeforeStart,
}

impl Script {
    pub(crate) fn new(rows: &[(i64, i64)]) -> Self {
        let shared = Shared { rows: rows.to_vec(), ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)), limit: ReadLimit::NONE, splits: 2 }
    }

    /// The same script, read by at most `rows` per batch.
    pub(crate) fn limited(&self, rows: u64) -> Self {
        let limit = ReadLimit { rows: NonZeroU64::new(rows), ..ReadLimit::NONE };
        Self { limit, ..self.clone() }
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Shared) -> R) -> R {
        f(&mut self.shared.lock().unwrap())
    }

    pub(crate) fn push(&self, rows: &[(i64, i64)]) {
        self.with(|shared| shared.rows.extend_from_slice(rows));
    }

    fn len(&self) -> u64 {
        self.with(|shared| shared.rows.len() as u64)
    }
}

#[async_trait]
impl Source for Script {
    fn description(&self) -> String {
        "Script".into()
    }

    fn kind(&self) -> &str {
        "script"
    }

    fn schema(&self) -> SchemaRef {
        input_schema()
    }

    fn read_limit(&self) -> ReadLimit {
        self.limit
    }

    async fn initial(&self) -> Result<Offset> {
        Offset::of(&self.with(|shared| shared.initial))
    }

    async fn frontier(&self) -> Result<Frontier> {
        Ok(Frontier(self.len().into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let (failure, lie) = self.with(|shared| {
            let more: Vec<_> =
                (0..shared.grows_by).map(|i| (i as i64, shared.rows.len() as i64)).collect();
            shared.rows.extend(more);
            assert!(!shared.panics, "the source is upset");
            (shared.failures.pop(), shared.lie)
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let start: u64 = request.start.read()?;
        let until = request.until.and_then(|f| f.0.as_u64()).unwrap_or(u64::MAX);
        let most = request.limit.rows.map_or(u64::MAX, |rows| start + rows.get());
        let end = match lie {
            None => self.len().min(until).min(most),
            Some(Lie::EndIsStart) => start,
            Some(Lie::EndBeforeStart) => start.saturating_sub(1),
        };
        if end <= start && lie.is_none() {
            return Ok(None);
        }
        let parts = self.splits.max(1) as u64;
        let bound = |part: u64| start + part * end.saturating_sub(start) / parts;
        let splits =
            (0..parts).map(|p| Split(serde_json::json!([bound(p), bound(p + 1)]))).collect();
        let range =
            SourceRange { start: Offset::of(&start)?, end: Offset::of(&end)?, splits, log: None };
        Ok(Some(range))
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        let end = range.end.read()?;
        self.with(|shared| shared.adopted.push(end));
        Ok(())
    }

    fn read(&self, _: &SourceRange, split: &Split, _: Option<&[usize]>) -> Result<RowStream> {
        let bound = |i: usize| split.0[i].as_u64().unwrap() as usize;
        let (rows, failure) = self
            .with(|shared| (shared.rows[bound(0)..bound(1)].to_vec(), shared.read_failures.pop()));
        let chunks: Vec<Result<_>> = match failure {
            Some(failure) => vec![Err(failure)],
            None => rows.chunks(2).map(|chunk| Ok(input(chunk))).collect(),
        };
        Ok(futures::stream::iter(chunks).boxed())
    }

    async fn release(&self, range: &SourceRange) -> Result<()> {
        let end = range.end.read()?;
        self.with(|shared| shared.released.push(end));
        Ok(())
    }
}
