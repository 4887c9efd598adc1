//! What the kinds are put together from.

use crate::parts::{Ground, Parts};
use crate::query::Query;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use fluvial::{arrow, parse_ddl};
use fluvial_core::{
    BatchInfo, BatchTime, EventDuration, EvictWatermark, KeyGroup, LateBatch, Operator,
    OperatorCounts, OperatorId, OperatorRun, Options, OutputMode, PartitionId, Prefetch, Result,
    Source, SourceId, StateSchema, StateStore, WatermarkId,
};
use fluvial_engine::{Input, InputWatermark, MapRows, OperatorRunner, RouteRows, Stateful};
use fluvial_sources::{FileFormat, FilePlace, FileSource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The delay of every watermark.
pub(super) const DELAY: EventDuration = EventDuration(10_000_000);

/// A folder of files that a kind reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files {
    pub(super) name: &'static str,
    folder: &'static str,
    ddl: &'static str,
    /// Where its event time is.
    pub(super) time: usize,
}

pub(super) const EVENTS: Files = Files {
    name: "events",
    folder: "in/events",
    ddl: "id int, page string, at timestamp, v int",
    time: 2,
};

pub(super) const SALES: Files = Files {
    name: "sales",
    folder: "in/sales",
    ddl: "item string, sold timestamp, price int",
    time: 1,
};

impl Files {
    pub(super) fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::new(parse_ddl(self.ddl)?))
    }

    async fn open(&self, ground: &Ground) -> Result<Arc<dyn Source>> {
        let place = FilePlace::new(ground.store(), ground.root(), self.folder)?;
        let source = FileSource::builder(place, FileFormat::Json)
            .schema(parse_ddl(self.ddl)?)
            .options(Options::new([("maxFilesPerTrigger", ground.limit().to_string())]))
            .log(ground.store(), ground.source_folder(self.name));
        Ok(Arc::new(source.open().await?))
    }

    /// Its rows, mapped, for a port. Column `time` of what `map` gives is the event time.
    pub(super) fn input(
        &self,
        port: usize,
        time: usize,
        map: Option<Arc<MapRows>>,
    ) -> Result<Input> {
        let watermark = InputWatermark {
            id: WatermarkId::new(self.name)?,
            column: time,
            delay: DELAY,
            idle_after: None,
        };
        Ok(Input { source: SourceId::new(self.name)?, port, map, watermark: Some(watermark) })
    }
}

/// A query that runs `runner` over `files`: the runner is made once, and shared by all starts.
pub(super) fn query(name: &str, files: Vec<Files>, runner: OperatorRunner) -> Query {
    let runner = Arc::new(runner);
    Query::of_parts(name, move |ground| {
        let (files, runner) = (files.clone(), Arc::clone(&runner));
        async move {
            let mut sources = BTreeMap::new();
            for files in &files {
                sources.insert(SourceId::new(files.name)?, files.open(&ground).await?);
            }
            Ok(Parts { sources, runner })
        }
    })
}

/// An operator whose rows go where `owners` says of some of their columns.
pub(super) fn stateful(
    operator: Arc<dyn Operator>,
    columns: Vec<Vec<usize>>,
    owners: impl Fn(&[ArrayRef], usize, u32) -> Result<Vec<PartitionId>> + Send + Sync + 'static,
) -> Result<Stateful> {
    let route: Arc<RouteRows> = Arc::new(move |port, rows, groups| {
        let keys = columns[port].iter().map(|at| Arc::clone(rows.column(*at)));
        let keys: Vec<ArrayRef> = keys.collect();
        // Of as many partitions as there are groups, each owns one.
        let owners = owners(&keys, rows.num_rows(), u32::from(groups.get()))?;
        Ok(owners.into_iter().map(|owner| KeyGroup(owner.0 as u16)).collect())
    });
    Ok(Stateful { id: OperatorId::new("operator")?, operator, route })
}

/// An operator that does not see the last column: the time that the watermark follows.
pub(super) struct WithoutTime(pub(super) Arc<dyn Operator>);

impl Operator for WithoutTime {
    fn kind(&self) -> &str {
        self.0.kind()
    }

    fn ports(&self) -> usize {
        self.0.ports()
    }

    fn output_schema(&self) -> SchemaRef {
        self.0.output_schema()
    }

    fn state_schema(&self) -> StateSchema {
        self.0.state_schema()
    }

    fn wants_empty_batch(
        &self,
        mode: OutputMode,
        from: EvictWatermark,
        to: EvictWatermark,
    ) -> bool {
        self.0.wants_empty_batch(mode, from, to)
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        Ok(Box::new(RunWithoutTime(self.0.start(info)?)))
    }
}

struct RunWithoutTime(Box<dyn OperatorRun>);

impl OperatorRun for RunWithoutTime {
    fn push(&mut self, port: usize, rows: RecordBatch, state: &mut dyn StateStore) -> Result<()> {
        let kept: Vec<usize> = (0..rows.num_columns().saturating_sub(1)).collect();
        self.0.push(port, rows.project(&kept)?, state)
    }

    fn prefetch(&self) -> Result<Prefetch> {
        self.0.prefetch()
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.0.finish_input(state)
    }

    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        self.0.drain(state)
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        self.0.take_late()
    }

    fn counts(&self) -> OperatorCounts {
        self.0.counts()
    }

    fn metrics(&self) -> BTreeMap<&'static str, u64> {
        self.0.metrics()
    }

    fn next_timer(&self) -> Option<BatchTime> {
        self.0.next_timer()
    }
}
