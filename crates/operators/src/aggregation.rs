//! Aggregation: groups whose partial aggregates live in state.
//!
//! DataFusion aggregates a batch in part, below; this operator merges what comes out with what
//! is stored, stores it again, and emits what the output mode asks for. It knows no aggregate
//! function: everything goes through `GroupsAccumulator`.

pub(crate) mod accumulators;
mod blocks;
mod collected;
pub(crate) mod groups;
mod inspect;
mod keys;
mod output;
mod run;

use crate::event_time::EventTimeKey;
use crate::watermark::OutputWatermark;
use accumulators::Aggregate;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use fluvial_core::{
    BatchInfo, Error, EvictWatermark, KeyGroupCount, Operator, OperatorRun, OutputMode, Result,
    StateField, StateLayout, StateSchema,
};
use fluvial_state::ValueCodec;
pub(crate) use inspect::GroupTable;
pub use keys::GroupKeys;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of what is stored: the key codec's and the value codec's formats and how they are used.
const FORMAT: u32 = 2;

/// An aggregation by key, over windows or not.
///
/// The input is what DataFusion's partial aggregation gives: the grouping columns, then the state
/// columns of each aggregate. Without grouping columns that is a row even if there was no data:
/// this is how a batch without rows reaches a global aggregate, whose result is then written and
/// emitted again.
///
/// - *append*: a group leaves once, when the watermark reaches its time. Groups without a time
///   (null) stay for ever.
/// - *update*: every group that the batch touched is emitted, whether its values changed or not;
///   expired groups are removed silently.
/// - *complete*: every group is emitted in every batch; nothing is late, nothing expires.
///
/// Float sums are merged in the order of the input, so equal inputs give equal bits.
#[derive(Debug)]
pub struct Aggregation {
    config: Arc<Config>,
}

/// What every run needs.
#[derive(Debug)]
struct Config {
    groups: Vec<FieldRef>,
    aggregates: Arc<[Aggregate]>,
    event_time: EventTimeKey,
    meaning: BTreeMap<String, String>,
    input: SchemaRef,
    output: SchemaRef,
    /// State keys and the state columns of each aggregate.
    stored: SchemaRef,
}

impl Config {
    fn keys(&self, key_groups: KeyGroupCount) -> Result<GroupKeys> {
        GroupKeys::new(types(&self.groups), self.event_time, key_groups)
    }

    fn value_codec(&self) -> Result<ValueCodec> {
        ValueCodec::new(types(self.aggregates.iter().flat_map(|a| &a.state)))
    }
}

fn types<'a>(fields: impl IntoIterator<Item = &'a FieldRef>) -> Vec<DataType> {
    fields.into_iter().map(|field| field.data_type().clone()).collect()
}

impl Aggregation {
    /// An aggregation by the columns `groups`. `meaning` are the settings that give stored groups
    /// their meaning, such as [`crate::WindowSpec::meaning`].
    ///
    /// # Errors
    ///
    /// `Invalid` for a distinct aggregate, or an event time that is no time.
    pub fn new(
        groups: Vec<FieldRef>,
        aggregates: Vec<Arc<AggregateFunctionExpr>>,
        event_time: EventTimeKey,
        meaning: BTreeMap<String, String>,
    ) -> Result<Self> {
        event_time.check(&groups.iter().map(|field| field.data_type()).collect::<Vec<_>>())?;
        let aggregates: Arc<[Aggregate]> =
            aggregates.into_iter().map(Aggregate::new).collect::<Result<_>>()?;
        let schema = |others: Vec<FieldRef>| {
            let fields: Vec<FieldRef> = groups.iter().cloned().chain(others).collect();
            Arc::new(Schema::new(fields))
        };
        let input = schema(aggregates.iter().flat_map(|a| a.state.iter().cloned()).collect());
        // A stored group may have had no rows that count, so results may be null.
        let result = |a: &Aggregate| Arc::new(Field::clone(&a.field()).with_nullable(true));
        let output = schema(aggregates.iter().map(|a| -> FieldRef { result(a) }).collect());
        let key: FieldRef = Arc::new(Field::new("key", DataType::Binary, false));
        let states = aggregates.iter().flat_map(|a| a.state.iter().cloned());
        let stored = Arc::new(Schema::new(std::iter::once(key).chain(states).collect::<Vec<_>>()));
        let config = Config { groups, aggregates, event_time, meaning, input, output, stored };
        config.keys(KeyGroupCount::DEFAULT)?;
        config.value_codec()?;
        Ok(Self { config: Arc::new(config) })
    }

    /// What it takes: the grouping columns, then the state columns of each aggregate.
    pub fn input_schema(&self) -> SchemaRef {
        Arc::clone(&self.config.input)
    }

    /// Its state keys: the exchange in front of it must use the same, over the grouping columns.
    ///
    /// # Errors
    ///
    /// None after a successful [`Self::new`].
    pub fn keys(&self, key_groups: KeyGroupCount) -> Result<GroupKeys> {
        self.config.keys(key_groups)
    }

    /// The number of grouping columns, which come first.
    pub fn groups(&self) -> usize {
        self.config.groups.len()
    }

    /// Which grouping column is event time.
    pub fn event_time(&self) -> EventTimeKey {
        self.config.event_time
    }

    /// How its input's watermark passes it.
    pub fn output_watermark(&self) -> OutputWatermark {
        self.config.event_time.output_watermark()
    }
}

impl Operator for Aggregation {
    fn kind(&self) -> &str {
        "stateStoreSave"
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
            meaning: self.config.meaning.clone(),
            layout: Some(StateLayout {
                event_time: self.config.event_time.recorded(),
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
        // As in Spark, also without an event time among the groups.
        mode != OutputMode::Complete && to > from
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        if info.mode == OutputMode::Append && self.config.event_time == EventTimeKey::None {
            return Err(Error::invalid(
                "append mode needs a watermark and a grouping by its column or a window over it: \
                 no group would ever be final",
            )
            .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"));
        }
        Ok(Box::new(run::Run::new(&self.config, info)?))
    }
}

#[cfg(test)]
mod tests;
