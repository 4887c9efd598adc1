//! `Transform`, a processor with its declarations, and `TransformWithState`, the operator.

use super::declare::{self, Declared, Variables};
use super::processor::{StatefulProcessor, TimeMode};
use super::run::Run;
use crate::watermark::OutputWatermark;
use arrow::datatypes::{DataType, Fields, Schema, SchemaRef, TimeUnit};
use fluvial_core::{
    BatchInfo, Error, EvictWatermark, KeyGroupCount, Operator, OperatorRun, OutputMode, Result,
    StateLayout, StateSchema,
};
use fluvial_state::{KeyCodec, KeyLayout};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Version of what is stored: see the layout.
const FORMAT: u32 = 1;

/// A processor that has declared its variables, and how it runs.
pub struct Transform {
    pub(super) processor: Box<dyn StatefulProcessor>,
    pub(super) variables: Vec<Declared>,
    pub(super) deleted: Vec<String>,
    pub(super) output: SchemaRef,
    pub(super) time_mode: TimeMode,
    pub(super) output_mode: OutputMode,
    pub(super) event_time: Option<usize>,
    pub(super) rules: Rules,
}

/// Whose rules hold where Spark's two operators differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// Those of `transformWithState`.
    Transform,
    /// Those of `flatMapGroupsWithState`.
    GroupFunction,
}

impl Transform {
    /// Lets the processor declare its variables. `output` are the columns of the rows that it
    /// emits; `output_mode` says whether they are final (append) or replace earlier ones (update).
    ///
    /// # Errors
    ///
    /// `Invalid`: what the processor declares is wrong, or the output mode is complete.
    pub fn new(
        processor: impl StatefulProcessor + 'static,
        output: SchemaRef,
        time_mode: TimeMode,
        output_mode: OutputMode,
    ) -> Result<Self> {
        Self::with_rules(processor, output, time_mode, output_mode, Rules::Transform)
    }

    pub(super) fn with_rules(
        mut processor: impl StatefulProcessor + 'static,
        output: SchemaRef,
        time_mode: TimeMode,
        output_mode: OutputMode,
        rules: Rules,
    ) -> Result<Self> {
        if output_mode == OutputMode::Complete {
            return Err(Error::invalid(
                "a processor keeps no complete result: its output mode is append or update",
            )
            .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"));
        }
        let mut declaring = Variables::new(time_mode);
        processor.init(&mut declaring).map_err(|error| error.at("init of the processor"))?;
        let Variables { declared, deleted, .. } = declaring;
        Ok(Self {
            processor: Box::new(processor),
            variables: declared,
            deleted,
            output,
            time_mode,
            output_mode,
            event_time: None,
            rules,
        })
    }

    /// Names the output column that is event time for operators above. No row may be emitted
    /// whose time they would call late.
    ///
    /// # Errors
    ///
    /// `UNRESOLVED_COLUMN.WITH_SUGGESTION` if there is no such column,
    /// `EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE` if it is no timestamp.
    pub fn with_event_time(mut self, column: &str) -> Result<Self> {
        let Some((at, field)) = self.output.fields().find(column) else {
            let names: Vec<&str> =
                self.output.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(Error::invalid(format!(
                "the output has no column {column}: there are [{}]",
                names.join(", ")
            ))
            .with_condition("UNRESOLVED_COLUMN.WITH_SUGGESTION"));
        };
        if !matches!(field.data_type(), DataType::Timestamp(TimeUnit::Microsecond, Some(_))) {
            return Err(Error::invalid(format!(
                "the event time {column} is {}, but must be a TIMESTAMP",
                field.data_type()
            ))
            .with_condition("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"));
        }
        self.event_time = Some(at);
        Ok(self)
    }

    /// The columns of the rows that are emitted.
    pub fn output_schema(&self) -> &SchemaRef {
        &self.output
    }

    /// The output column that is event time.
    pub fn event_time(&self) -> Option<usize> {
        self.event_time
    }

    /// What timers run by.
    pub fn time_mode(&self) -> TimeMode {
        self.time_mode
    }

    /// Whether rows are final.
    pub fn output_mode(&self) -> OutputMode {
        self.output_mode
    }

    /// Whether it is a function of groups (`flat_map_groups_with_state`).
    pub fn is_group_function(&self) -> bool {
        self.rules == Rules::GroupFunction
    }

    /// How its input's watermark passes it: only if the output has an event time.
    pub fn output_watermark(&self) -> OutputWatermark {
        match self.event_time {
            Some(_) => OutputWatermark::Passes,
            None => OutputWatermark::Ends,
        }
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform")
            .field("variables", &self.variables)
            .field("output", &self.output)
            .field("time_mode", &self.time_mode)
            .field("output_mode", &self.output_mode)
            .finish_non_exhaustive()
    }
}

impl Drop for Transform {
    fn drop(&mut self) {
        self.processor.close();
    }
}

/// The operator around a [`Transform`].
///
/// The input (port 0) is the grouping columns, then the columns that the processor sees. With an
/// initial state, port 1 has its rows, after the same grouping columns; they are handled in the
/// first batch of a query and ignored in any other.
#[derive(Debug)]
pub struct TransformWithState {
    pub(super) config: Arc<Config>,
}

/// What every run needs.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) transform: Arc<Transform>,
    pub(super) keys: Fields,
    pub(super) rows: SchemaRef,
    pub(super) event_time: Option<usize>,
    pub(super) initial: Option<SchemaRef>,
}

impl TransformWithState {
    /// An operator over rows with these grouping columns. `event_time` is the position, among
    /// `rows`, of the column that the input's watermark is about.
    ///
    /// # Errors
    ///
    /// `Invalid` for a grouping column that cannot be a key.
    pub fn new(
        transform: Arc<Transform>,
        keys: impl Into<Fields>,
        rows: SchemaRef,
        event_time: Option<usize>,
    ) -> Result<Self> {
        let config = Config { transform, keys: keys.into(), rows, event_time, initial: None };
        config.key_codec(KeyGroupCount::DEFAULT)?;
        Ok(Self { config: Arc::new(config) })
    }

    /// The same with an initial state, of rows with these columns.
    #[must_use]
    pub fn with_initial_state(self, rows: SchemaRef) -> Self {
        let Config { transform, keys, rows: input, event_time, .. } = self.config.as_ref();
        let config = Config {
            transform: Arc::clone(transform),
            keys: keys.clone(),
            rows: Arc::clone(input),
            event_time: *event_time,
            initial: Some(rows),
        };
        Self { config: Arc::new(config) }
    }

    /// The codec of its keys: the exchange in front of it must use the same one, over the
    /// grouping columns.
    ///
    /// # Errors
    ///
    /// None after a successful [`Self::new`].
    pub fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        self.config.key_codec(key_groups)
    }
}

impl Config {
    pub(super) fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        let types = self.keys.iter().map(|field| field.data_type().clone()).collect();
        KeyCodec::new(KeyLayout::Key, types, key_groups)
    }
}

impl Operator for TransformWithState {
    fn kind(&self) -> &str {
        match self.config.transform.rules {
            Rules::Transform => "transformWithStateExec",
            Rules::GroupFunction => "flatMapGroupsWithState",
        }
    }

    fn ports(&self) -> usize {
        if self.config.initial.is_some() { 2 } else { 1 }
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.config.transform.output)
    }

    fn state_schema(&self) -> StateSchema {
        let Transform { variables, time_mode, output_mode, .. } = self.config.transform.as_ref();
        let mode = match output_mode {
            OutputMode::Append => "Append",
            OutputMode::Update => "Update",
            OutputMode::Complete => "Complete",
        };
        StateSchema {
            kind: self.kind().to_owned(),
            format: FORMAT,
            keys: declare::state_fields(&self.config.keys),
            values: variables.iter().map(Declared::state_field).collect(),
            meaning: BTreeMap::from([
                ("outputMode".to_owned(), mode.to_owned()),
                ("timeMode".to_owned(), time_mode.to_string()),
            ]),
            layout: Some(StateLayout {
                variables: variables.iter().map(Declared::state_variable).collect(),
                ..StateLayout::default()
            }),
        }
    }

    fn wants_empty_batch(&self, _: OutputMode, from: EvictWatermark, to: EvictWatermark) -> bool {
        let transform = &self.config.transform;
        // As in Spark: a processor sees every move of the watermark, a function only those that
        // can time groups out.
        let asks =
            transform.rules == Rules::Transform || transform.time_mode == TimeMode::EventTime;
        asks && to > from
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        Ok(Box::new(Run::new(&self.config, info)?))
    }
}

/// The columns of rows, after those of their keys.
pub(super) fn input_schema(keys: &Fields, rows: &Schema) -> SchemaRef {
    let fields: Fields = keys.iter().chain(rows.fields()).cloned().collect();
    Arc::new(Schema::new(fields))
}
