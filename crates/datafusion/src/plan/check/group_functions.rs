//! What functions of groups (`map_groups_with_state`, `flat_map_groups_with_state`) and processors
//! may stand beside.

use super::super::{StreamAggregateNode, StreamTransformNode, is_streaming};
use super::refuse;
use datafusion::logical_expr::{Extension, LogicalPlan};
use fluvial_core::{Error, OutputMode, Result};
use fluvial_operators::transform::TimeMode;

/// Checks one processor of `plan`, which runs in `mode`.
pub(super) fn check(
    node: &StreamTransformNode,
    plan: &LogicalPlan,
    mode: OutputMode,
) -> Result<()> {
    if node.initial.as_ref().is_some_and(is_streaming) {
        return Err(refuse(
            "STREAMING_INITIAL_STATE_NOT_SUPPORTED",
            "the initial state must be a table, not a stream: only its first batch would count",
        ));
    }
    if node.transform.is_group_function() {
        function(node, plan, mode)?;
    }
    Ok(())
}

fn function(node: &StreamTransformNode, plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    let own = node.transform.output_mode();
    let aggregates = count(plan, &|plan| extension::<StreamAggregateNode>(plan).is_some());
    let below =
        |plan: &LogicalPlan| count(plan, &|plan| extension::<StreamAggregateNode>(plan).is_some());
    let functions = count(plan, &|plan| {
        extension::<StreamTransformNode>(plan).is_some_and(|n| n.transform.is_group_function())
    });
    if functions > 1 {
        return Err(refused("several of them in one query are not supported"));
    }
    match (own, mode) {
        (OutputMode::Update, _) if aggregates > 0 => {
            Err(refused("in update mode it is not supported together with an aggregation"))
        }
        (OutputMode::Append, _) if below(&node.input) > 0 => {
            Err(refused("in append mode it is not supported after an aggregation"))
        }
        (OutputMode::Append, OutputMode::Complete) if aggregates > 0 => Ok(()),
        (own, mode) if own != mode => Err(refused(&format!(
            "its output mode is {own}, that of the query is {mode}: they must be the same"
        ))),
        _ if node.transform.time_mode() == TimeMode::EventTime && aggregates > 0 => {
            Err(refused("with event-time timeouts nothing stateful may stand above it"))
        }
        _ => Ok(()),
    }
}

fn refused(why: &str) -> Error {
    refuse(
        "GROUP_FUNCTION_NOT_SUPPORTED_IN_STREAMING",
        format!(
            "map_groups_with_state or flat_map_groups_with_state: {why}; use transform_with_state"
        ),
    )
}

fn extension<T: 'static>(plan: &LogicalPlan) -> Option<&T> {
    match plan {
        LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref(),
        _ => None,
    }
}

fn count(plan: &LogicalPlan, is: &dyn Fn(&LogicalPlan) -> bool) -> usize {
    let below: usize = plan.inputs().into_iter().map(|input| count(input, is)).sum();
    below + usize::from(is(plan))
}
