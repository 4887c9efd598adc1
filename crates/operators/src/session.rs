//! Session windows: groups whose windows grow as long as events follow each other closely.
//!
//! Each row opens a session of its own, from its time to its time plus a gap. Sessions of one key
//! that overlap or touch are one session, whether they met in this batch or in earlier ones; a row
//! between two sessions makes one of them. As in the plain aggregation, DataFusion aggregates rows
//! of exactly the same session below, and aggregates go through `GroupsAccumulator`.
//!
//! Without an engine, on one partition, with any state store: clicks by user, a minute's gap.
//!
//! ```
//! use arrow::array::{
//!     Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StructArray,
//!     TimestampMicrosecondArray,
//! };
//! use arrow::datatypes::{DataType, Field, Int64Type, Schema};
//! use datafusion_functions_aggregate::count::count_udaf;
//! use datafusion_physical_expr::aggregate::AggregateExprBuilder;
//! use datafusion_physical_expr::expressions::lit;
//! # use fluvial_conformance::operator::{Contents, TestStore};
//! use fluvial_core::{
//!     BatchId, BatchInfo, BatchTime, EventTime, EvictWatermark, KeyGroupCount, LateHandling,
//!     LateWatermark, Operator, OutputMode, PartitionId,
//! };
//! use fluvial_operators::{SessionAggregation, SessionTime, window_type};
//! use std::sync::Arc;
//!
//! let count = AggregateExprBuilder::new(count_udaf(), vec![lit(1_i64)])
//!     .schema(Arc::new(Schema::empty()))
//!     .alias("clicks")
//!     .build()
//!     .map_err(|e| fluvial_core::Error::invalid(e.to_string()))?;
//! let groups = vec![
//!     Arc::new(Field::new("session", window_type(None), false)),
//!     Arc::new(Field::new("user", DataType::Utf8, true)),
//! ];
//! let sessions =
//!     SessionAggregation::new(groups, 0, vec![Arc::new(count)], SessionTime::EventTime)?;
//!
//! // Clicks of some users at some seconds, as a partial aggregation gives them: each with the
//! // session that it opens, and a count of one.
//! let clicks = |users: Vec<&str>, seconds: Vec<i64>| {
//!     let DataType::Struct(edges) = window_type(None) else { unreachable!() };
//!     let at = |plus: i64| -> ArrayRef {
//!         let times = seconds.iter().map(|s| (s + plus) * 1_000_000);
//!         Arc::new(TimestampMicrosecondArray::from_iter_values(times))
//!     };
//!     let columns: Vec<ArrayRef> = vec![
//!         Arc::new(StructArray::new(edges, vec![at(0), at(60)], None)),
//!         Arc::new(StringArray::from(users)),
//!         Arc::new(Int64Array::from(vec![1; seconds.len()])),
//!     ];
//!     RecordBatch::try_new(sessions.input_schema(), columns)
//! };
//! let batch = |number: u64, watermark: Option<i64>| BatchInfo {
//!     batch: BatchId(number),
//!     late: LateWatermark(None),
//!     evict: EvictWatermark(watermark.map(|s| EventTime(s * 1_000_000))),
//!     time: BatchTime(0),
//!     mode: OutputMode::Append,
//!     partition: PartitionId(0),
//!     groups: KeyGroupCount::DEFAULT.all(),
//!     key_groups: KeyGroupCount::DEFAULT,
//!     batch_rows: 8192,
//!     late_rows: LateHandling::Drop,
//! };
//! # let mut store = TestStore::open(&Contents::new(), KeyGroupCount::DEFAULT.all());
//! # store.bring(&fluvial_core::Prefetch::Ranges(vec![fluvial_core::KeyRange::all()]));
//! # let state = &mut store;
//! // Two visits of ann, half a minute apart: one session, which is not over.
//! let mut run = sessions.start(batch(0, None))?;
//! run.push(0, clicks(vec!["ann", "ann"], vec![0, 30])?, state)?;
//! run.finish_input(state)?;
//! assert!(run.drain(state)?.is_none());
//! assert_eq!(run.counts().rows_total, 1);
//!
//! // Five minutes later the watermark has passed its end.
//! let mut run = sessions.start(batch(1, Some(200)))?;
//! run.push(0, clicks(vec!["ann"], vec![330])?, state)?;
//! run.finish_input(state)?;
//! let over = run.drain(state)?.expect("one session is over");
//! assert_eq!(over.num_rows(), 1);
//! assert_eq!(over.column(2).as_primitive::<Int64Type>().value(0), 2);
//! # Ok::<(), fluvial_core::Error>(())
//! ```

mod inspect;
mod merge;
mod run;
mod state;

pub(crate) use inspect::SessionTable;

use crate::aggregation::accumulators::Aggregate;
use crate::event_time::EventTimeKey;
use crate::watermark::OutputWatermark;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use fluvial_core::{
    BatchInfo, Error, EvictWatermark, KeyGroupCount, Operator, OperatorRun, OutputMode, Result,
    StateField, StateLayout, StateSchema, TimeColumn, TimeKind,
};
use fluvial_state::{KeyCodec, KeyLayout, ValueCodec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of what is stored: sessions by key and start, and again by their end.
const FORMAT: u32 = 1;

/// Whether the sessions have an event time that a watermark passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionTime {
    /// They do: sessions are over, and rows late.
    EventTime,
    /// They do not: nothing is ever over, which only complete mode can show.
    Timeless,
}

/// An aggregation by key and session.
///
/// The input is what DataFusion's partial aggregation gives: the grouping columns, one of which is
/// the session of the row, a struct of `start` and `end`, then the state columns of each aggregate.
///
/// - *append*: a session leaves once, when the watermark reaches its end.
/// - *complete*: every session is emitted in every batch, and stays.
///
/// A row is late when its own session is, whichever session it would belong to, in either mode.
/// Update mode is refused, as in Spark: a session that grows takes back what was emitted.
///
/// `rows_updated` counts the sessions of every key that the batch touched, and `rows_removed` also
/// those that became part of another: the numbers of Spark.
#[derive(Debug)]
pub struct SessionAggregation {
    config: Arc<Config>,
}

/// What every run needs.
#[derive(Debug)]
struct Config {
    groups: Vec<FieldRef>,
    /// Position of the session among the groups.
    session: usize,
    aggregates: Arc<[Aggregate]>,
    time: SessionTime,
    input: SchemaRef,
    output: SchemaRef,
}

impl Config {
    /// The groups without the session.
    fn keys(&self) -> impl Iterator<Item = &FieldRef> {
        self.groups.iter().enumerate().filter(|(at, _)| *at != self.session).map(|(_, key)| key)
    }

    fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        let types = self.keys().map(|key| key.data_type().clone()).collect();
        KeyCodec::new(KeyLayout::KeyTime, types, key_groups)
    }

    /// The end of a session and the states of its aggregates.
    fn value_codec(&self) -> Result<ValueCodec> {
        let states = self.aggregates.iter().flat_map(|aggregate| &aggregate.state);
        let states = states.map(|state| state.data_type().clone());
        let end = DataType::Timestamp(TimeUnit::Microsecond, None);
        ValueCodec::new(std::iter::once(end).chain(states).collect())
    }
}

impl SessionAggregation {
    /// An aggregation by the columns `groups`, of which the one at `session` is the session.
    ///
    /// # Errors
    ///
    /// `Invalid` if that is no session, for a distinct aggregate, and if there is no other group:
    /// all sessions of a stream would be one key.
    pub fn new(
        groups: Vec<FieldRef>,
        session: usize,
        aggregates: Vec<Arc<AggregateFunctionExpr>>,
        time: SessionTime,
    ) -> Result<Self> {
        let types: Vec<&DataType> = groups.iter().map(|field| field.data_type()).collect();
        EventTimeKey::Window(session).check(&types)?;
        if groups.len() == 1 {
            return Err(Error::invalid(
                "a session window needs another group beside it: as the only one it would make \
                 all rows of the stream one key; group by a column too",
            )
            .with_condition("SESSION_WINDOW_WITHOUT_KEY_NOT_SUPPORTED"));
        }
        let aggregates: Arc<[Aggregate]> =
            aggregates.into_iter().map(Aggregate::new).collect::<Result<_>>()?;
        let schema = |others: Vec<FieldRef>| {
            let fields: Vec<FieldRef> = groups.iter().cloned().chain(others).collect();
            Arc::new(Schema::new(fields))
        };
        let input = schema(aggregates.iter().flat_map(|a| a.state.iter().cloned()).collect());
        let result = |a: &Aggregate| Arc::new(Field::clone(&a.field()).with_nullable(true));
        let output = schema(aggregates.iter().map(|a| -> FieldRef { result(a) }).collect());
        let config = Config { groups, session, aggregates, time, input, output };
        config.key_codec(KeyGroupCount::DEFAULT)?;
        config.value_codec()?;
        Ok(Self { config: Arc::new(config) })
    }

    /// What it takes: the grouping columns, then the state columns of each aggregate.
    pub fn input_schema(&self) -> SchemaRef {
        Arc::clone(&self.config.input)
    }

    /// Positions of the grouping columns without the session: what the exchange in front of it
    /// routes by.
    pub fn keys(&self) -> Vec<usize> {
        (0..self.config.groups.len()).filter(|at| *at != self.config.session).collect()
    }

    /// The codec of its keys: the exchange in front of it must use the same one, over the columns
    /// [`Self::keys`].
    ///
    /// # Errors
    ///
    /// None after a successful [`Self::new`].
    pub fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        self.config.key_codec(key_groups)
    }

    /// How its input's watermark passes it.
    pub fn output_watermark(&self) -> OutputWatermark {
        match self.config.time {
            SessionTime::EventTime => OutputWatermark::Passes,
            SessionTime::Timeless => OutputWatermark::Ends,
        }
    }
}

impl Operator for SessionAggregation {
    fn kind(&self) -> &str {
        "sessionWindowStateStoreSaveExec"
    }

    fn ports(&self) -> usize {
        1
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.config.output)
    }

    fn state_schema(&self) -> StateSchema {
        let field = |f: &FieldRef| StateField::of(f.name(), f.data_type());
        StateSchema {
            kind: self.kind().to_owned(),
            format: FORMAT,
            keys: self.config.groups.iter().map(field).collect(),
            values: self.config.aggregates.iter().flat_map(|a| &a.state).map(field).collect(),
            // The gap may change: a stored session keeps its end.
            meaning: BTreeMap::new(),
            layout: Some(StateLayout {
                event_time: Some(TimeColumn {
                    column: self.config.session,
                    kind: TimeKind::Session,
                }),
                ..StateLayout::default()
            }),
        }
    }

    fn wants_empty_batch(
        &self,
        mode: OutputMode,
        from: EvictWatermark,
        to: EvictWatermark,
    ) -> bool {
        mode != OutputMode::Complete && to > from
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        let refused = match (info.mode, self.config.time) {
            (OutputMode::Update, _) => {
                "session windows need append or complete mode, not update: a session that grows \
                 takes back what was emitted"
            }
            (OutputMode::Append, SessionTime::Timeless) => {
                "session windows in append mode need a watermark on their time: no session would \
                 ever be over"
            }
            _ => return Ok(Box::new(run::Run::new(&self.config, info)?)),
        };
        Err(Error::invalid(refused).with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"))
    }
}

#[cfg(test)]
mod tests;
