//! Rows that a program pushes: for tests and for embedding.
//!
//! What was pushed is kept until it is released, so a batch can be replayed in this process; a
//! new process starts with nothing, so a query over this source does not survive one.

use crate::BATCH_ROWS;
use crate::numbers::{Span, cut, parse_split};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::{
    Error, Frontier, Offset, PlanRequest, ReadLimit, Result, RowStream, Source, SourceRange, Split,
};
use futures::StreamExt;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A source of rows that the program pushes with [`MemorySource::add_data`].
///
/// An offset is the number of rows before it.
#[derive(Debug)]
pub struct MemorySource {
    name: String,
    schema: SchemaRef,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    /// Rows released and dropped.
    dropped: u64,
    /// All rows pushed so far, dropped ones included.
    total: u64,
    batches: VecDeque<RecordBatch>,
}

impl Rows {
    /// The pieces that hold rows `from..to`.
    fn slices(&self, from: u64, to: u64) -> Result<Vec<RecordBatch>> {
        if from < self.dropped || to > self.total || from > to {
            return Err(Error::not_found(format!(
                "rows {from} to {to} of the memory source are gone or were never pushed: it has \
                 rows {} to {}, and only this process's; start with a new checkpoint",
                self.dropped, self.total
            )));
        }
        let mut slices = Vec::new();
        let mut first = self.dropped;
        for batch in &self.batches {
            let last = first + batch.num_rows() as u64;
            let (a, b) = (from.max(first), to.min(last));
            if a < b {
                slices.push(batch.slice((a - first) as usize, (b - a) as usize));
            }
            first = last;
        }
        Ok(slices)
    }
}

impl MemorySource {
    /// An empty source of rows of `schema`. `name` tells it from others in messages.
    pub fn new(name: impl Into<String>, schema: SchemaRef) -> Self {
        Self { name: name.into(), schema, rows: Mutex::default() }
    }

    /// Appends rows; the answer is the offset after them.
    ///
    /// # Errors
    ///
    /// `Invalid` if their schema is another one.
    pub fn add_data(&self, batch: RecordBatch) -> Result<Offset> {
        let given = batch.schema();
        let columns = |schema: &SchemaRef| -> Vec<_> {
            schema.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect()
        };
        if columns(&given) != columns(&self.schema) {
            return Err(Error::invalid(format!(
                "the rows pushed into {} have the schema {given}, not {}",
                self.description(),
                self.schema
            )));
        }
        // Refuses a null in a column that has none.
        let batch = RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec())?;
        let mut rows = self.lock();
        rows.total += batch.num_rows() as u64;
        if batch.num_rows() > 0 {
            rows.batches.push_back(batch);
        }
        Offset::of(&rows.total)
    }

    /// Numbers what comes from `offset` on, if nothing came yet: the rows before belonged to an
    /// earlier process.
    pub(crate) fn go_on_from(&self, offset: u64) {
        let mut rows = self.lock();
        if rows.total == 0 {
            (rows.dropped, rows.total) = (offset, offset);
        }
    }

    /// How many rows a limit admits. A row is one unit, and has the mean size of all rows.
    fn admitted(&self, limit: ReadLimit) -> u64 {
        let rows = self.lock();
        let bytes: usize = rows.batches.iter().map(RecordBatch::get_array_memory_size).sum();
        let each = (bytes as u64 / (rows.total - rows.dropped).max(1)).max(1);
        let most =
            [limit.rows, limit.files, limit.bytes].map(|most| most.map_or(u64::MAX, u64::from));
        most[0].min(most[1]).min((most[2] / each).max(1))
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        // Rows are changed by statements that cannot stop half way.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Source for MemorySource {
    fn description(&self) -> String {
        format!("MemoryStream[{}]", self.name)
    }

    fn kind(&self) -> &str {
        "memory"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn initial(&self) -> Result<Offset> {
        Offset::of(&0)
    }

    async fn frontier(&self) -> Result<Frontier> {
        Ok(Frontier(self.lock().total.into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let start: u64 = request.start.read()?;
        let mut end = self.lock().total;
        if let Some(frontier) = request.until {
            end = end.min(frontier.0.as_u64().unwrap_or(end));
        }
        end = end.min(start.saturating_add(self.admitted(request.limit)));
        if end <= start {
            return Ok(None);
        }
        let splits = cut(start, end, request.splits)?;
        let (start, end) = (request.start.clone(), Offset::of(&end)?);
        Ok(Some(SourceRange { start, end, splits, log: None }))
    }

    async fn adopt(&self, _range: &SourceRange) -> Result<()> {
        Ok(())
    }

    fn read(
        &self,
        _range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        let Span { from, to } = parse_split(split)?;
        let mut batches = Vec::new();
        for slice in self.lock().slices(from, to)? {
            let slice = match projection {
                Some(columns) => slice.project(columns)?,
                None => slice,
            };
            for at in (0..slice.num_rows()).step_by(BATCH_ROWS) {
                batches.push(Ok(slice.slice(at, BATCH_ROWS.min(slice.num_rows() - at))));
            }
        }
        Ok(futures::stream::iter(batches).boxed())
    }

    async fn release(&self, range: &SourceRange) -> Result<()> {
        let end: u64 = range.end.read()?;
        let mut rows = self.lock();
        while let Some(first) = rows.batches.front() {
            let last = rows.dropped + first.num_rows() as u64;
            if last > end {
                break;
            }
            rows.dropped = last;
            rows.batches.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use fluvial_core::{BatchId, ErrorKind, RunId};
    use fluvial_sim::block_on;
    use futures::TryStreamExt;
    use std::num::NonZeroU64;
    use std::sync::Arc;

    fn source(rows: &[i64]) -> MemorySource {
        let batch = numbers(rows);
        let source = MemorySource::new("t", batch.schema());
        source.add_data(batch).unwrap();
        source
    }

    fn numbers(rows: &[i64]) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(rows.to_vec()));
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    }

    fn plan(source: &MemorySource, start: &Offset, rows: Option<u64>) -> Option<SourceRange> {
        let limit = ReadLimit { rows: rows.and_then(NonZeroU64::new), ..ReadLimit::NONE };
        let run = RunId::new("r").unwrap();
        let batch = BatchId(0);
        let request = PlanRequest { batch, run: &run, start, limit, until: None, splits: 2 };
        block_on(source.plan(request)).unwrap()
    }

    fn read(source: &MemorySource, range: &SourceRange) -> Result<Vec<i64>> {
        let mut rows = Vec::new();
        for split in &range.splits {
            let stream = source.read(range, split, None)?;
            for batch in block_on(stream.try_collect::<Vec<_>>())? {
                let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
                rows.extend(column.values());
            }
        }
        Ok(rows)
    }

    #[test]
    fn a_limit_cuts_between_any_two_rows() {
        let source = source(&[1, 2, 3, 4, 5]);
        let initial = block_on(source.initial()).unwrap();
        let first = plan(&source, &initial, Some(2)).unwrap();
        assert_eq!(read(&source, &first).unwrap(), [1, 2]);
        let rest = plan(&source, &first.end, None).unwrap();
        assert_eq!(read(&source, &rest).unwrap(), [3, 4, 5]);
        assert_eq!(plan(&source, &rest.end, None), None);
    }

    #[test]
    fn released_rows_are_gone_and_said_to_be() {
        let source = source(&[1, 2]);
        source.add_data(numbers(&[3])).unwrap();
        let initial = block_on(source.initial()).unwrap();
        let first = plan(&source, &initial, Some(2)).unwrap();
        block_on(source.release(&first)).unwrap();
        assert_eq!(read(&source, &first).unwrap_err().kind(), ErrorKind::NotFound);
        let rest = plan(&source, &first.end, None).unwrap();
        assert_eq!(read(&source, &rest).unwrap(), [3]);
    }

    #[test]
    fn rows_of_another_schema_are_refused() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let other = RecordBatch::try_from_iter([("a", column)]).unwrap();
        assert_eq!(source(&[]).add_data(other).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
