//! A batch runner without a query engine: sources, at most one operator, a sink.

use crate::account::check_account;
use crate::event_time::EventTimeStats;
use crate::exchange::split;
use crate::idle::WatermarkInput;
use crate::late::{Judged, LateRecords, LateWriter};
use crate::runner::{BatchContext, BatchOutput, BatchRunner, OperatorReport, RunnerShape};
use crate::stopwatch::Stopwatch;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, TimestampMicrosecondType};
use async_trait::async_trait;
use fluvial_core::{
    Error, EventDuration, EvictWatermark, KeyGroup, KeyGroupCount, Operator, OperatorCounts,
    OperatorId, OperatorRun, OperatorShape, OutputMode, PartitionId, PinnedSettings, Result,
    SealedStore, SinkWriter, SourceId, Staged, StateStore, StoreId, StoreName, WatermarkId,
    Watermarks,
};
use futures::TryStreamExt;
use futures::future::try_join_all;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Turns the rows of a source into rows for the operator. Pure.
pub type MapRows = dyn Fn(RecordBatch) -> Result<RecordBatch> + Send + Sync;

/// The key group of each row of an input port: a stable hash of the operator's encoded key.
pub type RouteRows =
    dyn Fn(usize, &RecordBatch, KeyGroupCount) -> Result<Vec<KeyGroup>> + Send + Sync;

/// One source of an [`OperatorRunner`].
#[derive(Clone)]
pub struct Input {
    /// The source.
    pub source: SourceId,
    /// The operator's port that it feeds; several inputs may feed one (a union).
    pub port: usize,
    /// What happens to its rows first.
    pub map: Option<Arc<MapRows>>,
    /// Its event time, if it has one.
    pub watermark: Option<InputWatermark>,
}

/// How an input's watermark follows its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputWatermark {
    /// Its stable name.
    pub id: WatermarkId,
    /// The event-time column of the mapped rows: a timestamp in microseconds.
    pub column: usize,
    /// The lateness that it allows.
    pub delay: EventDuration,
    /// After how long a silence the other inputs go on without it; `None` is never.
    pub idle_after: Option<Duration>,
}

/// The stateful operator of an [`OperatorRunner`].
#[derive(Clone)]
pub struct Stateful {
    /// Its stable name.
    pub id: OperatorId,
    /// The operator. Its state is one store, `default`.
    pub operator: Arc<dyn Operator>,
    /// Which key group each row belongs to.
    pub route: Arc<RouteRows>,
}

/// Runs batches without DataFusion: the rows of each source are mapped, cut by key group,
/// pushed into one operator per partition, and what comes out goes to the sink.
///
/// Everything happens in one order (source, split, chunk, partition), so a replay is exact.
pub struct OperatorRunner {
    schema: SchemaRef,
    inputs: Vec<Input>,
    stateful: Option<(Stateful, StoreId)>,
    late: Option<LateRecords>,
}

impl OperatorRunner {
    /// A runner that maps rows and writes them; `schema` is that of the mapped rows.
    pub fn stateless(schema: SchemaRef, inputs: Vec<Input>) -> Self {
        Self { schema, inputs, stateful: None, late: None }
    }

    /// A runner around one operator.
    pub fn stateful(inputs: Vec<Input>, stateful: Stateful) -> Self {
        let store = StoreName::new("default").expect("a valid name");
        let store = StoreId { operator: stateful.id.clone(), store };
        let schema = stateful.operator.output_schema();
        Self { schema, inputs, stateful: Some((stateful, store)), late: None }
    }

    /// Writes rows that come too late for the operator down like this, if the query has a sink
    /// for them.
    #[must_use]
    pub fn with_late_rows(self, late: LateRecords) -> Self {
        Self { late: Some(late), ..self }
    }

    /// Reads every range of the plan in order.
    async fn read(
        &self,
        batch: &BatchContext,
        output: &mut BatchOutput,
        target: &mut Target<'_>,
    ) -> Result<()> {
        for input in &self.inputs {
            let Some(range) = batch.plan.ranges.get(&input.source) else { continue };
            let source = batch.sources.get(&input.source).ok_or_else(|| {
                Error::invalid(format!("the runner reads {}, which is no source", input.source))
            })?;
            for split in &range.splits {
                let mut rows = source.read(range, split, None).map_err(|e| e.at(&input.source))?;
                while let Some(chunk) = rows.try_next().await.map_err(|e| e.at(&input.source))? {
                    *output.source_rows.entry(input.source.clone()).or_default() +=
                        chunk.num_rows() as u64;
                    let chunk = match &input.map {
                        Some(map) => map(chunk).map_err(|e| e.at(&input.source))?,
                        None => chunk,
                    };
                    note_times(input, &chunk, &mut output.event_times)?;
                    target.take(batch, input.port, chunk).await?;
                }
            }
        }
        Ok(())
    }

    async fn run_stateless(&self, batch: &BatchContext, output: &mut BatchOutput) -> Result<()> {
        let mut writer = batch.sink.writer(batch.plan.batch, PartitionId(0)).await?;
        self.read(batch, output, &mut Target::Sink(writer.as_mut())).await?;
        output.staged.push(writer.stage().await?);
        Ok(())
    }

    async fn run_stateful(
        &self,
        batch: &BatchContext,
        output: &mut BatchOutput,
        stateful: &Stateful,
        store: &StoreId,
    ) -> Result<()> {
        let partitions = batch.plan.partitions;
        let opening =
            (0..partitions).map(PartitionId).map(|p| Part::open(batch, stateful, store, p));
        let mut parts = try_join_all(opening).await?;
        let mut late = self.late_rows(batch, stateful);
        let target = &mut Target::Parts(&mut parts, &stateful.route, &mut late);
        self.read(batch, output, target).await?;
        if let Some(late) = late {
            output.late = late.writer.stage().await?;
        }
        let mut report = OperatorReport {
            id: stateful.id.clone(),
            kind: stateful.operator.kind().to_owned(),
            rows_in: 0,
            counts: OperatorCounts::default(),
            updates: Duration::ZERO,
            removals: Duration::ZERO,
            store_instances: partitions,
            custom: BTreeMap::new(),
        };
        for done in try_join_all(parts.into_iter().map(Part::finish)).await? {
            report.rows_in += done.rows_in;
            report.counts += done.counts;
            report.updates += done.updates;
            report.removals += done.removals;
            for (name, count) in done.metrics {
                *report.custom.entry(name.to_owned()).or_default() += count as i64;
            }
            output.staged.push(done.staged);
            output.sealed.push(done.sealed);
        }
        output.operators.push(report);
        Ok(())
    }

    fn watermark_inputs(&self) -> BTreeMap<WatermarkId, WatermarkInput> {
        let mut all: BTreeMap<WatermarkId, WatermarkInput> = BTreeMap::new();
        for input in &self.inputs {
            let Some(watermark) = &input.watermark else { continue };
            let known = all.entry(watermark.id.clone()).or_default();
            known.sources.insert(input.source.clone());
            known.idle_after = watermark.idle_after;
        }
        all
    }

    /// Where late rows go, if somebody wants them.
    fn late_rows(&self, batch: &BatchContext, stateful: &Stateful) -> Option<Late> {
        let (records, writer) = (self.late.clone()?, LateWriter::of(batch)?);
        let watermark = batch.info(PartitionId(0)).late.0?;
        let (batch, operator) = (batch.plan.batch, stateful.id.clone());
        Some(Late { records, judged: Judged { batch, operator, watermark }, writer })
    }
}

/// Late rows on their way out.
struct Late {
    records: LateRecords,
    judged: Judged,
    writer: LateWriter,
}

impl Late {
    async fn take(&mut self, run: &mut dyn OperatorRun) -> Result<()> {
        for late in run.take_late() {
            self.writer.write((self.records.record)(&self.judged, late)?).await?;
        }
        Ok(())
    }
}

/// Where rows go that were read.
enum Target<'a> {
    /// Out.
    Sink(&'a mut dyn SinkWriter),
    /// Into the operator, each row to the partition that owns its key.
    Parts(&'a mut Vec<Part>, &'a Arc<RouteRows>, &'a mut Option<Late>),
}

impl Target<'_> {
    async fn take(&mut self, batch: &BatchContext, port: usize, rows: RecordBatch) -> Result<()> {
        match self {
            Self::Sink(writer) => writer.write(rows).await,
            Self::Parts(parts, route, late) => {
                let key_groups = batch.plan.settings.key_groups;
                let groups = route(port, &rows, key_groups)?;
                for (p, rows) in split(&rows, &groups, key_groups, batch.plan.partitions)? {
                    let part = &mut parts[p.0 as usize];
                    part.push(port, rows).await?;
                    if let Some(late) = late {
                        late.take(part.run.as_mut()).await?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// The operator on one partition, in one batch.
struct Part {
    run: Box<dyn OperatorRun>,
    state: Box<dyn StateStore>,
    writer: Box<dyn SinkWriter>,
    stopwatch: Stopwatch,
    updates: Duration,
    operator: OperatorId,
    partition: PartitionId,
    rows_in: u64,
}

struct DonePart {
    rows_in: u64,
    counts: OperatorCounts,
    metrics: BTreeMap<&'static str, u64>,
    updates: Duration,
    removals: Duration,
    staged: Staged,
    sealed: SealedStore,
}

impl Part {
    async fn open(
        batch: &BatchContext,
        stateful: &Stateful,
        store: &StoreId,
        partition: PartitionId,
    ) -> Result<Self> {
        Ok(Self {
            run: stateful.operator.start(batch.info(partition))?,
            state: batch.open(store, partition).await?,
            writer: batch.sink.writer(batch.plan.batch, partition).await?,
            stopwatch: batch.stopwatch.clone(),
            updates: Duration::ZERO,
            operator: stateful.id.clone(),
            partition,
            rows_in: 0,
        })
    }

    async fn push(&mut self, port: usize, rows: RecordBatch) -> Result<()> {
        let start = self.stopwatch.now();
        self.rows_in += rows.num_rows() as u64;
        self.run.push(port, rows, self.state.as_mut())?;
        self.updates += self.stopwatch.since(start);
        self.drain().await
    }

    /// Brings what comes next will read.
    async fn prefetch(&mut self) -> Result<()> {
        if self.state.is_local() {
            return Ok(());
        }
        let what = self.run.prefetch()?;
        self.state.prefetch(&what).await
    }

    async fn drain(&mut self) -> Result<()> {
        while let Some(rows) = self.run.drain(self.state.as_mut())? {
            self.writer.write(rows).await?;
        }
        Ok(())
    }

    /// To the end, whoever listens: input, state, eviction, output.
    async fn finish(mut self) -> Result<DonePart> {
        self.prefetch().await?;
        let start = self.stopwatch.now();
        self.run.finish_input(self.state.as_mut())?;
        let updates = self.stopwatch.since(start);
        self.prefetch().await?;
        let finished = self.stopwatch.now();
        self.drain().await?;
        let removals = self.stopwatch.since(finished);
        let (counts, metrics) = (self.run.counts(), self.run.metrics());
        drop(self.run);
        check_account(&self.operator, self.partition, self.rows_in, &counts)?;
        Ok(DonePart {
            rows_in: self.rows_in,
            counts,
            metrics,
            updates: self.updates + updates,
            removals,
            staged: self.writer.stage().await?,
            sealed: self.state.seal()?,
        })
    }
}

fn note_times(
    input: &Input,
    rows: &RecordBatch,
    seen: &mut BTreeMap<WatermarkId, EventTimeStats>,
) -> Result<()> {
    let Some(watermark) = &input.watermark else { return Ok(()) };
    let column = rows.columns().get(watermark.column);
    let times =
        column.and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>()).ok_or_else(|| {
            Error::invalid(format!(
                "watermark {} needs a timestamp in microseconds in column {} of {}",
                watermark.id,
                watermark.column,
                rows.schema()
            ))
        })?;
    if let Some(stats) = EventTimeStats::of(times) {
        seen.entry(watermark.id.clone()).and_modify(|all| all.merge(stats)).or_insert(stats);
    }
    Ok(())
}

#[async_trait]
impl BatchRunner for OperatorRunner {
    fn shape(&self) -> RunnerShape {
        let operators = self.stateful.iter().map(|(stateful, store)| {
            let schema = stateful.operator.state_schema();
            (stateful.id.clone(), OperatorShape { schema, stores: vec![store.store.clone()] })
        });
        let watermarks = self.inputs.iter().filter_map(|input| input.watermark.as_ref());
        RunnerShape {
            schema: Arc::clone(&self.schema),
            operators: operators.collect(),
            watermarks: watermarks.map(|w| (w.id.clone(), w.delay)).collect(),
            inputs: self.watermark_inputs(),
            late: self.late.as_ref().map(|late| Arc::clone(&late.schema)),
        }
    }

    fn wants_empty_batch(
        &self,
        settings: &PinnedSettings,
        mode: OutputMode,
        from: &Watermarks,
        to: &Watermarks,
    ) -> bool {
        let combined = |all| EvictWatermark(settings.watermark_policy.combine(all));
        let (from, to) = (combined(from), combined(to));
        self.stateful
            .as_ref()
            .is_some_and(|(s, _)| from != to && s.operator.wants_empty_batch(mode, from, to))
    }

    async fn run(&self, batch: BatchContext) -> Result<BatchOutput> {
        let mut output = BatchOutput::default();
        match &self.stateful {
            None => self.run_stateless(&batch, &mut output).await?,
            Some((stateful, store)) => {
                self.run_stateful(&batch, &mut output, stateful, store).await?;
            }
        }
        Ok(output)
    }
}

impl fmt::Debug for OperatorRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<_> = self.inputs.iter().map(|input| input.source.as_str()).collect();
        let operator = self.stateful.as_ref().map(|(_, store)| store.operator.as_str());
        f.debug_struct("OperatorRunner")
            .field("sources", &sources)
            .field("operator", &operator)
            .finish()
    }
}
