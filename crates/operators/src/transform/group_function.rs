//! `map_groups_with_state` and `flat_map_groups_with_state`, as processors.

use super::call::Call;
use super::declare::{Variable, Variables};
use super::definition::{Rules, Transform};
use super::group_state::{GroupState, GroupTimeout, StateChange};
use super::handles::ValueState;
use super::processor::{ExpiredTimer, HandlerError, HandlerResult, StatefulProcessor};
use super::rows::{InputRows, Key};
use super::state_row::{OutputRow, StateRow};
use arrow::datatypes::SchemaRef;
use fluvial_core::{OutputMode, Result};

/// A function of groups: one value as state, at most one timer.
struct GroupFunction<S, F> {
    declared: Variable,
    state: ValueState<S>,
    timeout: GroupTimeout,
    function: F,
}

impl Transform {
    /// Calls `function` for the rows of each group, and when a group times out; what it returns
    /// is emitted. `state` declares the group's state.
    ///
    /// # Errors
    ///
    /// `Invalid` if the output mode is complete, or the columns of the state do not fit `S`.
    pub fn flat_map_groups<S, R, I, F>(
        state: impl Into<Variable>,
        output: SchemaRef,
        output_mode: OutputMode,
        timeout: GroupTimeout,
        function: F,
    ) -> Result<Self>
    where
        S: StateRow,
        R: OutputRow,
        I: IntoIterator<Item = R>,
        F: Fn(&Key<'_>, InputRows<'_>, &mut GroupState<S>) -> Result<I, HandlerError>
            + Send
            + Sync
            + 'static,
    {
        let emitting = move |key: &Key<'_>,
                             rows: InputRows<'_>,
                             state: &mut GroupState<S>,
                             call: &mut Call<'_>|
              -> HandlerResult {
            for row in function(key, rows, state)? {
                call.emit(row)?;
            }
            Ok(())
        };
        let state = state.into();
        let function = GroupFunction::<S, _> {
            declared: state,
            state: ValueState::default(),
            timeout,
            function: emitting,
        };
        let rules = Rules::GroupFunction;
        Self::with_rules(function, output, timeout.time_mode(), output_mode, rules)
    }

    /// Calls `function` for the rows of each group, and when a group times out; it returns the
    /// one row that is emitted, which replaces the group's row before: update mode.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns of the state do not fit `S`.
    pub fn map_groups<S, R, F>(
        state: impl Into<Variable>,
        output: SchemaRef,
        timeout: GroupTimeout,
        function: F,
    ) -> Result<Self>
    where
        S: StateRow,
        R: OutputRow,
        F: Fn(&Key<'_>, InputRows<'_>, &mut GroupState<S>) -> Result<R, HandlerError>
            + Send
            + Sync
            + 'static,
    {
        let one = move |key: &Key<'_>, rows: InputRows<'_>, state: &mut GroupState<S>| {
            function(key, rows, state).map(|row| [row])
        };
        Self::flat_map_groups(state, output, OutputMode::Update, timeout, one)
    }
}

impl<S, F> GroupFunction<S, F>
where
    S: StateRow,
    F: Fn(&Key<'_>, InputRows<'_>, &mut GroupState<S>, &mut Call<'_>) -> HandlerResult,
{
    fn call(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        timed_out: bool,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let value = self.state.get(call)?;
        let mut state = GroupState::new(value, self.timeout, timed_out, call);
        (self.function)(key, rows, &mut state, call)?;
        let GroupState { value, change, timeout_ms, .. } = state;
        match (change, value) {
            (StateChange::Updated, Some(value)) => self.state.update(call, value)?,
            (StateChange::Removed, _) => self.state.clear(call)?,
            _ => {}
        }
        if let Some(timeout) = timeout_ms {
            // A timer fires at its time, a group times out after it.
            call.register_timer(timeout.saturating_add(1))?;
        }
        Ok(())
    }
}

impl<S, F> StatefulProcessor for GroupFunction<S, F>
where
    S: StateRow,
    F: Fn(&Key<'_>, InputRows<'_>, &mut GroupState<S>, &mut Call<'_>) -> HandlerResult
        + Send
        + Sync,
{
    fn init(&mut self, variables: &mut Variables) -> Result<()> {
        self.state = variables.value(self.declared.clone())?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        if self.timeout != GroupTimeout::None {
            for timer in call.timers()? {
                call.delete_timer(timer)?;
            }
        }
        self.call(key, rows, false, call)
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        _: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        self.call(key, InputRows::NONE, true, call)
    }
}
