//! What a query does to a source, step by step.

use super::{Make, SourceWorld};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use fluvial_core::{
    BatchId, Frontier, Offset, PlanRequest, ReadLimit, Result, RunId, Source, SourceRange,
};
use fluvial_sim::Disk;
use futures::TryStreamExt;
use object_store::ObjectStore;
use proptest::prelude::*;
use std::num::NonZeroU64;
use std::sync::Arc;

/// A step.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Data arrives.
    Feed,
    /// A batch is planned, and its plan wins.
    Batch(ReadLimit),
    /// A batch is planned, and its plan is lost.
    Lost(ReadLimit),
    /// The process ends and another one starts.
    Restart,
}

pub(super) fn limits() -> impl Strategy<Value = ReadLimit> {
    let at_most = |most: u64| proptest::option::of((1..=most).prop_map(NonZeroU64::new));
    (at_most(9), at_most(3), at_most(300)).prop_map(|(rows, files, bytes)| ReadLimit {
        rows: rows.flatten(),
        files: files.flatten(),
        bytes: bytes.flatten(),
    })
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Feed),
        4 => limits().prop_map(Step::Batch),
        2 => limits().prop_map(Step::Lost),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..14)
}

/// A query that reads one source.
pub(super) struct History {
    world: Box<dyn SourceWorld>,
    pub(super) disk: Disk,
    pub(super) source: Arc<dyn Source>,
    pub(super) at: Offset,
    /// What was adopted, and the rows that it had when it was read first.
    pub(super) batches: Vec<(SourceRange, RecordBatch)>,
    runs: u64,
}

impl History {
    /// A new query, and `portions` of data that arrived after its start.
    pub(super) fn new(make: Make<'_>, portions: usize) -> Self {
        let disk = Disk::new();
        let world = make(&disk);
        let opened = async {
            let source = world.open(disk.process().store()).await;
            let at = source.initial().await.expect("the initial offset");
            (source, at)
        };
        let (source, at) = drive(world.as_ref(), opened);
        (0..portions).for_each(|_| world.feed());
        Self { world, disk, source, at, batches: Vec::new(), runs: 0 }
    }

    /// Runs `work` on the world's executor.
    pub(super) fn wait<'a, T: 'a>(&'a self, work: impl Future<Output = T> + 'a) -> T {
        drive(self.world.as_ref(), work)
    }

    pub(super) fn is_endless(&self) -> bool {
        self.world.is_endless()
    }

    pub(super) fn unit_rows(&self) -> u64 {
        self.world.unit_rows()
    }

    pub(super) fn feed(&self) {
        self.world.feed();
    }

    pub(super) fn run_id(&self) -> RunId {
        RunId::new(format!("run-{}", self.runs)).expect("a name")
    }

    fn batch_id(&self) -> BatchId {
        BatchId(self.batches.len() as u64)
    }

    /// Plans the next batch.
    pub(super) async fn plan_with(
        &self,
        source: &dyn Source,
        limit: ReadLimit,
        until: Option<&Frontier>,
    ) -> Result<Option<SourceRange>> {
        let run = self.run_id();
        let (batch, start) = (self.batch_id(), &self.at);
        source.plan(PlanRequest { batch, run: &run, start, limit, until, splits: 3 }).await
    }

    pub(super) fn plan(&self, limit: ReadLimit, until: Option<&Frontier>) -> Option<SourceRange> {
        let planned = self.wait(self.plan_with(self.source.as_ref(), limit, until));
        let range = planned.expect("a plan");
        if let Some(range) = &range {
            assert_eq!(range.start, self.at, "a range starts where the batch does");
            assert_ne!(range.end, range.start, "law 2: a range is progress");
        }
        range
    }

    /// Plans, adopts and reads a batch; its rows, if there was anything.
    pub(super) fn batch(
        &mut self,
        limit: ReadLimit,
        until: Option<&Frontier>,
    ) -> Option<RecordBatch> {
        let range = self.plan(limit, until)?;
        self.wait(self.source.adopt(&range)).expect("adopt");
        let rows = self.read(self.source.as_ref(), &range, None).expect("read");
        self.at = range.end.clone();
        self.batches.push((range, rows.clone()));
        Some(rows)
    }

    pub(super) fn restart(&mut self) {
        self.source = self.reopen(self.disk.process().store());
        self.runs += 1;
    }

    /// Another process over a store, which knows the newest plan.
    pub(super) fn reopen(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn Source> {
        self.wait(self.reopening(store)).expect("a new process goes on")
    }

    pub(super) async fn reopening(&self, store: Arc<dyn ObjectStore>) -> Result<Arc<dyn Source>> {
        let source = self.world.open(store).await;
        if let Some((newest, _)) = self.batches.last() {
            source.adopt(newest).await?;
        }
        Ok(source)
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Feed => self.feed(),
            Step::Batch(limit) => drop(self.batch(*limit, None)),
            Step::Lost(limit) => drop(self.plan(*limit, None)),
            Step::Restart => self.restart(),
        }
    }

    /// Reads on, batch by batch, until nothing is left or `most` rows were read in all.
    pub(super) fn finish(&mut self, limit: ReadLimit, until: Option<&Frontier>, most: usize) {
        for _ in 0..10_000 {
            if self.rows() >= most || self.batch(limit, until).is_none() {
                return;
            }
        }
        panic!("the source did not come to an end within 10000 batches");
    }

    pub(super) fn rows(&self) -> usize {
        self.batches.iter().map(|(_, rows)| rows.num_rows()).sum()
    }

    /// All rows that were read, in order.
    pub(super) fn all(&self) -> RecordBatch {
        let schema = self.source.schema();
        let batches: Vec<_> = self.batches.iter().map(|(_, rows)| rows).collect();
        concat_batches(&schema, batches).expect("one schema")
    }

    /// Reads all splits of a range, in order.
    pub(super) fn read(
        &self,
        source: &dyn Source,
        range: &SourceRange,
        projection: Option<&[usize]>,
    ) -> Result<RecordBatch> {
        let schema = source.schema();
        let schema = match projection {
            Some(columns) => Arc::new(schema.project(columns)?),
            None => schema,
        };
        let mut batches = Vec::new();
        for split in &range.splits {
            let stream = source.read(range, split, projection)?;
            batches.extend(self.wait(stream.try_collect::<Vec<_>>())?);
        }
        for batch in &batches {
            assert_eq!(batch.schema(), schema, "rows have the schema that was promised");
        }
        Ok(concat_batches(&schema, &batches)?)
    }
}

fn drive<'a, T: 'a>(world: &'a dyn SourceWorld, work: impl Future<Output = T> + 'a) -> T {
    let mut answer = None;
    let slot = &mut answer;
    world.drive(Box::pin(async move { *slot = Some(work.await) }));
    answer.expect("`drive` ran the work to its end")
}
