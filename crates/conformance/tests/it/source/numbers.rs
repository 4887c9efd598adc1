//! An honest source over objects of numbers, with one way to break each law.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use fluvial_conformance::source::SourceWorld;
use fluvial_core::{
    Error, Frontier, Offset, PlanRequest, Result, RowStream, Source, SourceRange, Split,
};
use fluvial_sim::Disk;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What is wrong with a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Reads what is there now instead of what was planned.
    ReadsTheLatest,
    /// Plans nothing, and calls it a batch.
    PlansNothing,
    /// Takes what it likes.
    IgnoresLimits,
    /// Skips an object where a limit cuts.
    SkipsAtCuts,
    /// Reads past the frontier.
    PassesTheFrontier,
    /// Advances when it plans.
    RemembersPlans,
    /// Writes down what it planned, and skips that later.
    RecordsPlans,
    /// Deletes more than what was released.
    ReleasesTooMuch,
    /// Fails when there is nothing left to release.
    ReleasesOnce,
    /// Gives the columns in the order of the schema.
    IgnoresTheOrder,
    /// Gives no rows if no columns are asked for.
    LosesRowsWithoutColumns,
}

pub(super) struct Numbers {
    store: Arc<dyn ObjectStore>,
    fault: Fault,
    planned: Mutex<u64>,
}

/// Objects `in/000`, `in/001`, ...: an offset is how many come before it.
pub(super) struct World {
    disk: Disk,
    fault: Fault,
    fed: AtomicU64,
}

impl World {
    pub(super) fn make(fault: Fault) -> impl Fn(&Disk) -> Box<dyn SourceWorld> {
        move |disk| Box::new(Self { disk: disk.clone(), fault, fed: AtomicU64::new(0) })
    }
}

#[async_trait]
impl SourceWorld for World {
    async fn open(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn Source> {
        Arc::new(Numbers { store, fault: self.fault, planned: Mutex::new(0) })
    }

    fn feed(&self) {
        let n = self.fed.fetch_add(1, Ordering::Relaxed);
        self.disk.write(&format!("in/{n:03}"), format!("{} {}", n * 10, n * 10 + 1));
    }

    fn unit_rows(&self) -> u64 {
        2
    }
}

fn schema() -> SchemaRef {
    let number = Field::new("n", DataType::Int64, true);
    Arc::new(Schema::new(vec![number, Field::new("t", DataType::Utf8, true)]))
}

fn object(n: u64) -> Path {
    Path::from(format!("in/{n:03}"))
}

impl Numbers {
    async fn count(&self) -> Result<u64> {
        let all: Vec<_> = self.store.list(Some(&Path::from("in"))).try_collect().await?;
        let last = all.iter().map(|meta| meta.location.filename().unwrap().parse::<u64>().unwrap());
        Ok(last.max().map_or(0, |last| last + 1))
    }

    async fn recorded(&self) -> Result<u64> {
        match self.store.get(&Path::from("planned")).await {
            Ok(found) => {
                let bytes = found.bytes().await?;
                Ok(std::str::from_utf8(&bytes).unwrap().parse().unwrap())
            }
            Err(object_store::Error::NotFound { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

#[async_trait]
impl Source for Numbers {
    fn description(&self) -> String {
        "Numbers[in]".into()
    }

    fn kind(&self) -> &str {
        "numbers"
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    async fn initial(&self) -> Result<Offset> {
        Offset::of(&0)
    }

    async fn frontier(&self) -> Result<Frontier> {
        Ok(Frontier(self.count().await?.into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let mut from: u64 = request.start.read()?;
        if self.fault == Fault::RemembersPlans {
            from = from.max(*self.planned.lock().unwrap());
        }
        if self.fault == Fault::RecordsPlans {
            from = from.max(self.recorded().await?);
        }
        let mut to = self.count().await?;
        if let Some(until) = request.until.filter(|_| self.fault != Fault::PassesTheFrontier) {
            to = to.min(until.0.as_u64().unwrap());
        }
        let all = to;
        let limit = request.limit;
        if self.fault != Fault::IgnoresLimits {
            let files = limit.files.map_or(u64::MAX, u64::from);
            let rows = limit.rows.map_or(u64::MAX, |rows| (rows.get() / 2).max(1));
            let bytes = limit.bytes.map_or(u64::MAX, |bytes| (bytes.get() / 8).max(1));
            to = to.min(from.saturating_add(files.min(rows).min(bytes)));
        }
        if to <= from {
            if self.fault == Fault::PlansNothing {
                let (start, end) = (request.start.clone(), request.start.clone());
                return Ok(Some(SourceRange { start, end, splits: Vec::new(), log: None }));
            }
            return Ok(None);
        }
        *self.planned.lock().unwrap() = to;
        if self.fault == Fault::RecordsPlans {
            self.store.put(&Path::from("planned"), to.to_string().into()).await?;
        }
        let split = |n| Split(serde_json::json!(n));
        let end = if self.fault == Fault::SkipsAtCuts && to < all { to + 1 } else { to };
        Ok(Some(SourceRange {
            start: request.start.clone(),
            end: Offset::of(&end)?,
            splits: (from..to).map(split).collect(),
            log: None,
        }))
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        *self.planned.lock().unwrap() = range.end.read()?;
        Ok(())
    }

    fn read(
        &self,
        range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        let mut n = split.0.as_u64().unwrap();
        let (store, fault, last) =
            (self.store.clone(), self.fault, range.splits.last() == Some(split));
        let mut columns = projection.map_or_else(|| vec![0, 1], <[usize]>::to_vec);
        if fault == Fault::IgnoresTheOrder {
            columns.sort_unstable();
        }
        let rows = async move {
            if fault == Fault::ReadsTheLatest && last {
                while store.head(&object(n + 1)).await.is_ok() {
                    n += 1;
                }
            }
            let bytes = store.get(&object(n)).await?.bytes().await?;
            let text = std::str::from_utf8(&bytes).unwrap();
            let numbers: Vec<i64> = text.split(' ').map(|n| n.parse().unwrap()).collect();
            let texts: ArrayRef =
                Arc::new(StringArray::from_iter_values(numbers.iter().map(|n| format!("t{n}"))));
            let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
            let all = [numbers, texts];
            let empty = fault == Fault::LosesRowsWithoutColumns && columns.is_empty();
            let options = RecordBatchOptions::new().with_row_count(Some(if empty { 0 } else { 2 }));
            let schema = Arc::new(schema().project(&columns)?);
            let arrays = columns.iter().map(|c| all[*c].clone()).collect();
            Ok::<_, Error>(RecordBatch::try_new_with_options(schema, arrays, &options)?)
        };
        Ok(futures::stream::once(rows).boxed())
    }

    async fn release(&self, range: &SourceRange) -> Result<()> {
        let mut end: u64 = range.end.read()?;
        if self.fault == Fault::ReleasesTooMuch {
            end += 1;
        }
        let mut deleted = 0;
        // The last object stays: it tells how many there were.
        let count = self.count().await?;
        for n in 0..end.min(count.saturating_sub(1)) {
            if self.store.head(&object(n)).await.is_ok() {
                self.store.delete(&object(n)).await?;
                deleted += 1;
            }
        }
        if self.fault == Fault::ReleasesOnce && deleted == 0 {
            return Err(Error::not_found("nothing left to release"));
        }
        Ok(())
    }
}
