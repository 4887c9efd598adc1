//! State of one's own for each group: `transform_with_state` and the functions of groups.

use crate::dataframe::GroupedData;
use crate::stream_reader::SchemaText;
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{Extension, LogicalPlan};
use fluvial_core::{Error, OutputMode, Result};
use fluvial_datafusion::from_datafusion;
use fluvial_datafusion::plan::{StreamTransformNode, is_streaming};
use fluvial_datafusion::transform::{
    GroupState, GroupTimeout, HandlerError, InputRows, Key, OutputRow, StateRow, StatefulProcessor,
    TimeMode, Transform,
};
use std::sync::Arc;

/// The variable that holds the state of a function of groups.
const STATE: &str = "state";

impl GroupedData {
    /// Calls a processor for the rows of each group and for its timers; what it emits are the
    /// rows of the result, with the columns `schema`.
    ///
    /// ```
    /// use fluvial::prelude::*;
    /// use fluvial::transform::{
    ///     Call, HandlerResult, InputRows, Key, StatefulProcessor, TimeMode, ValueState, Variables,
    /// };
    ///
    /// #[derive(Default)]
    /// struct RunningCount {
    ///     count: ValueState<i64>,
    /// }
    ///
    /// impl StatefulProcessor for RunningCount {
    ///     fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
    ///         self.count = variables.value("count")?;
    ///         Ok(())
    ///     }
    ///
    ///     fn handle_input_rows(
    ///         &self,
    ///         key: &Key<'_>,
    ///         rows: InputRows<'_>,
    ///         call: &mut Call<'_>,
    ///     ) -> HandlerResult {
    ///         let count = self.count.get(call)?.unwrap_or(0) + rows.len() as i64;
    ///         self.count.update(call, count)?;
    ///         call.emit((key.get::<&str>("user")?, count))?;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # async fn run(clicks: DataFrame) -> fluvial::Result<()> {
    /// let counts = clicks.group_by(vec![col("user")]).transform_with_state(
    ///     RunningCount::default(),
    ///     "user STRING, count BIGINT",
    ///     TimeMode::None,
    ///     OutputMode::Update,
    /// )?;
    /// # let _ = counts;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Invalid`: what the processor declares is wrong, the output mode is complete, a grouping
    /// column cannot be a key, or the rows are no stream.
    pub fn transform_with_state(
        self,
        processor: impl StatefulProcessor + 'static,
        schema: impl Into<SchemaText>,
        time_mode: TimeMode,
        output_mode: OutputMode,
    ) -> Result<DataFrame> {
        let schema = schema.into().resolve()?;
        self.transform(Transform::new(processor, schema, time_mode, output_mode)?)
    }

    /// As [`Self::transform_with_state`], with a state that begins with the rows of a table,
    /// grouped by the same keys: each is handed to
    /// [`StatefulProcessor::handle_initial_state`] in the first batch of the query.
    ///
    /// # Errors
    ///
    /// As there; also if the table is grouped by keys of other types.
    pub fn transform_with_initial_state(
        self,
        processor: impl StatefulProcessor + 'static,
        schema: impl Into<SchemaText>,
        time_mode: TimeMode,
        output_mode: OutputMode,
        initial: GroupedData,
    ) -> Result<DataFrame> {
        let schema = schema.into().resolve()?;
        let transform = Transform::new(processor, schema, time_mode, output_mode)?;
        self.transform_from(transform, Some(initial))
    }

    /// Calls the processor of a [`Transform`], which may have more settings than
    /// [`Self::transform_with_state`] takes: an output column that is event time, for one.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn transform(self, transform: Transform) -> Result<DataFrame> {
        self.transform_from(transform, None)
    }

    /// As [`Self::transform`], with an initial state.
    ///
    /// # Errors
    ///
    /// As [`Self::transform_with_initial_state`].
    pub fn transform_from(
        self,
        transform: Transform,
        initial: Option<GroupedData>,
    ) -> Result<DataFrame> {
        let (state, input) = self.input.into_parts();
        if !is_streaming(&input) {
            return Err(Error::invalid(
                "a processor keeps its state from batch to batch of a stream, and this is a table",
            )
            .with_condition("TRANSFORM_WITH_STATE_NOT_STREAMING"));
        }
        let initial = initial.map(|grouped| (grouped.input.into_parts().1, grouped.keys));
        let node = StreamTransformNode::try_new(input, self.keys, Arc::new(transform), initial)
            .map_err(from_datafusion)?;
        let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        Ok(DataFrame::new(state, plan))
    }

    /// Calls a function for the rows of each group, and when a group times out. The rows that it
    /// returns are the rows of the result, with the columns `schema`.
    ///
    /// # Errors
    ///
    /// As [`Self::transform_with_state`].
    pub fn flat_map_groups_with_state<S, R, I, F>(
        self,
        schema: impl Into<SchemaText>,
        output_mode: OutputMode,
        timeout: GroupTimeout,
        function: F,
    ) -> Result<DataFrame>
    where
        S: StateRow,
        R: OutputRow,
        I: IntoIterator<Item = R>,
        F: Fn(&Key<'_>, InputRows<'_>, &mut GroupState<S>) -> Result<I, HandlerError>
            + Send
            + Sync
            + 'static,
    {
        let schema = schema.into().resolve()?;
        self.transform(Transform::flat_map_groups(STATE, schema, output_mode, timeout, function)?)
    }

    /// Calls a function for the rows of each group, and when a group times out. It returns the
    /// group's row, which replaces its row before: update mode.
    ///
    /// # Errors
    ///
    /// As [`Self::transform_with_state`].
    pub fn map_groups_with_state<S, R, F>(
        self,
        schema: impl Into<SchemaText>,
        timeout: GroupTimeout,
        function: F,
    ) -> Result<DataFrame>
    where
        S: StateRow,
        R: OutputRow,
        F: Fn(&Key<'_>, InputRows<'_>, &mut GroupState<S>) -> Result<R, HandlerError>
            + Send
            + Sync
            + 'static,
    {
        let schema = schema.into().resolve()?;
        self.transform(Transform::map_groups(STATE, schema, timeout, function)?)
    }
}
