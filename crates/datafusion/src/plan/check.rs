//! What cannot stream is refused before the query starts, under a stable name.
//!
//! Where Spark has a specific condition for the same mistake, it is Spark's. Where Spark only has
//! a `_LEGACY_ERROR_TEMP_*` number, the name is ours.

mod group_functions;
mod set_operation;

use super::draw_node::draws;
use super::event_time::is_event_time;
use super::join;
use super::join_node::StreamJoinNode;
use super::{
    EventTimeGroup, StreamAggregateNode, StreamDedupNode, StreamTransformNode, WatermarkNode,
    is_streaming,
};
use crate::dialect::is_except_all;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, SkipType};
use fluvial_core::{Error, OutputMode};
use fluvial_operators::inspect::without_relations;
use set_operation as set;
pub(super) use set_operation::distinct_last;
pub(crate) use set_operation::is_set_operation;

fn refuse(condition: &'static str, message: impl Into<String>) -> Error {
    Error::invalid(without_relations(&message.into())).with_condition(condition)
}

fn unsupported_mode(mode: OutputMode, operation: &str) -> Error {
    refuse(
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        format!("output mode {mode} is not supported for {operation}"),
    )
}

/// Checks that need no types: is there a stream, and is none hidden in a subquery?
pub(crate) fn before_analysis(plan: &LogicalPlan, _: OutputMode) -> fluvial_core::Result<()> {
    if !is_streaming(plan) && !streams_in_subqueries(plan) {
        return Err(refuse(
            "WRITE_STREAM_NOT_ALLOWED",
            "write_stream can be called only on a streaming DataFrame: read with read_stream, or \
             write this one with write",
        ));
    }
    if streams_in_subqueries(plan) {
        return Err(refuse(
            "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY",
            "a stream is not allowed inside a subquery expression (IN, EXISTS, scalar): join with \
             it instead",
        ));
    }
    Ok(())
}

/// Whether a stream is read inside a subquery expression.
pub(crate) fn streams_in_subqueries(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // Infallible: the closures never fail.
    let _: Result<TreeNodeRecursion> = plan.apply(|node| {
        for expr in node.expressions() {
            expr.apply(|e| {
                let subquery = match e {
                    Expr::ScalarSubquery(subquery) => Some(subquery),
                    Expr::InSubquery(subquery) => Some(&subquery.subquery),
                    Expr::Exists(subquery) => Some(&subquery.subquery),
                    _ => None,
                };
                found |= subquery.is_some_and(|s| {
                    is_streaming(&s.subquery) || streams_in_subqueries(&s.subquery)
                });
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// Refuses operations that no streaming query has, on the analysed plan.
pub(crate) fn supported(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    if mode == OutputMode::Complete && !aggregates(plan) {
        return Err(crate::error::plan(unsupported_mode(
            mode,
            "queries without an aggregation: use append mode, or group",
        )));
    }
    plan.apply(|node| {
        if is_streaming(node) {
            operation(node, mode).map_err(crate::error::plan)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn operation(node: &LogicalPlan, mode: OutputMode) -> fluvial_core::Result<()> {
    volatile_functions(node)?;
    match node {
        LogicalPlan::Sort(sort) if mode != OutputMode::Complete || !aggregates(&sort.input) => {
            let keys: Vec<String> = sort.expr.iter().map(|key| key.expr.to_string()).collect();
            Err(refuse(
                "STREAMING_SORT_NOT_SUPPORTED",
                format!(
                    "sorting a stream (by {}) is not supported, unless it is aggregated and the \
                     output mode is complete",
                    keys.join(", ")
                ),
            ))
        }
        LogicalPlan::Limit(limit) => {
            let skip = limit.get_skip_type().map_err(crate::error::from_datafusion)?;
            if !matches!(skip, SkipType::Literal(0)) {
                return Err(refuse(
                    "STREAMING_OFFSET_NOT_SUPPORTED",
                    "OFFSET is not supported on streams",
                ));
            }
            if mode == OutputMode::Update {
                return Err(refuse(
                    "STREAMING_LIMIT_NOT_SUPPORTED_IN_UPDATE_MODE",
                    "LIMIT on a stream is not supported in update mode: use append or complete",
                ));
            }
            Ok(())
        }
        LogicalPlan::Window(window) => Err(refuse(
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
            format!(
                "window functions (OVER) are not supported on streams: {}; use window(time, \
                 duration) for time windows",
                window.window_expr.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            ),
        )),
        LogicalPlan::Aggregate(aggregate) => {
            for expr in &aggregate.aggr_expr {
                if let Expr::AggregateFunction(call) = expr.clone().unalias()
                    && call.params.distinct
                {
                    return Err(refuse(
                        "STREAMING_DISTINCT_AGGREGATE_NOT_SUPPORTED",
                        format!(
                            "distinct aggregates are not supported on streams: {expr}; consider \
                             approx_count_distinct()"
                        ),
                    ));
                }
            }
            Ok(())
        }
        LogicalPlan::Union(union)
            if union.inputs.iter().any(|input| !is_streaming(input)) && !is_except_all(union) =>
        {
            Err(refuse(
                "STREAMING_UNION_WITH_BATCH_NOT_SUPPORTED",
                "a union of a stream and a table is not supported: read the table as a stream",
            ))
        }
        LogicalPlan::Join(join) if set::is_set_operation(join) => set::check(join, mode),
        LogicalPlan::Join(join) => {
            join_kind(join.join_type, is_streaming(&join.left), is_streaming(&join.right), mode)
        }
        LogicalPlan::Distinct(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Extension(_) => Ok(()),
        other => Err(refuse(
            "STREAMING_OPERATION_NOT_SUPPORTED",
            format!("this operation is not supported on streams: {}", other.display()),
        )),
    }
}

fn volatile_functions(node: &LogicalPlan) -> fluvial_core::Result<()> {
    for expr in node.expressions() {
        // Elsewhere it has been given the bits that it draws from.
        if draws(&expr) {
            return Err(refuse(
                "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
                format!(
                    "what draws at random may stand in SELECT, WHERE and aggregates of a stream \
                     only: {expr}"
                ),
            ));
        }
        let unusable = expr.exists(|e| {
            Ok(matches!(e, Expr::ScalarFunction(call)
                if call.func.name() == "monotonically_increasing_id"))
        });
        if unusable.unwrap_or(false) {
            return Err(refuse(
                "STREAMING_EXPRESSION_NOT_SUPPORTED",
                "monotonically_increasing_id() is not supported on streams",
            ));
        }
    }
    Ok(())
}

/// Whether a stream is aggregated. That EXCEPT drops duplicates does not count, as in Spark.
fn aggregates(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => is_streaming(plan),
        LogicalPlan::Join(join) if set::is_set_operation(join) => {
            join.left.inputs().into_iter().any(aggregates) || aggregates(&join.right)
        }
        _ => plan.inputs().into_iter().any(aggregates),
    }
}

fn join_kind(
    kind: JoinType,
    left: bool,
    right: bool,
    mode: OutputMode,
) -> fluvial_core::Result<()> {
    if left && right {
        if matches!(kind, JoinType::LeftAnti | JoinType::RightAnti) {
            return Err(refuse(
                "STREAM_STREAM_ANTI_JOIN_NOT_SUPPORTED",
                "an anti join of two streams is not supported",
            ));
        }
        // Pairs, and left rows of a semi join, are final once they are out; nulls are not.
        let is_final = matches!(kind, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi);
        if mode == OutputMode::Complete || (mode == OutputMode::Update && !is_final) {
            return Err(refuse(
                "STREAM_STREAM_JOIN_NOT_SUPPORTED_IN_MODE",
                format!(
                    "a {kind} join of two streams is not supported in {mode} mode: use append{}",
                    if is_final { " or update" } else { "" }
                ),
            ));
        }
        return Ok(());
    }
    // One side is a table: the side whose rows must all appear, or be tested against all of the
    // other, has to be the stream.
    let ok = match kind {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right,
        _ => false,
    };
    if ok {
        return Ok(());
    }
    let side = if left { "left" } else { "right" };
    Err(refuse(
        "STREAM_STATIC_JOIN_NOT_SUPPORTED",
        format!(
            "a {kind} join with the stream on the {side} and a table on the other side is not \
                 supported: it would have to know the whole stream"
        ),
    ))
}

/// Checks on the plan with streaming nodes in place: output modes and chains.
pub(crate) fn after_rewrite(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    plan.apply(|node| {
        let LogicalPlan::Extension(Extension { node }) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let any = node.as_any();
        if let Some(aggregate) = any.downcast_ref::<StreamAggregateNode>() {
            if mode == OutputMode::Update && aggregate.session.is_some() {
                return Err(crate::error::plan(unsupported_mode(
                    mode,
                    "session window streaming aggregations: a session that grows would take back \
                     what was emitted; use append or complete mode",
                )));
            }
            let timed = aggregate.event_time() != EventTimeGroup::None;
            if mode == OutputMode::Append && !timed {
                return Err(crate::error::plan(unsupported_mode(
                    mode,
                    "streaming aggregations without watermark: group by the event time or a \
                     window of it after with_watermark, or use update or complete mode",
                )));
            }
        } else if let Some(join) = any.downcast_ref::<StreamJoinNode>() {
            join::check(join).map_err(crate::error::plan)?;
        } else if let Some(transform) = any.downcast_ref::<StreamTransformNode>() {
            group_functions::check(transform, plan, mode).map_err(crate::error::plan)?;
        } else if let Some(watermark) = any.downcast_ref::<WatermarkNode>()
            && let Some(other) = watermark.input.schema().fields().iter().find(|f| is_event_time(f))
        {
            return Err(crate::error::plan(refuse(
                "WATERMARK_REDEFINED",
                format!(
                    "a second watermark, on {}, of rows whose event time is {} is not allowed: \
                     define one per input",
                    watermark.column,
                    other.name()
                ),
            )));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if mode != OutputMode::Append && aggregate_below_stateful(plan) {
        return Err(crate::error::plan(refuse(
            "STREAMING_CHAINED_STATEFUL_NOT_SUPPORTED",
            format!(
                "several stateful operators in one query are supported in append mode only: in \
                 {mode} mode the first may emit rows that the second has to take back"
            ),
        )));
    }
    Ok(())
}

/// Checks on the optimised plan, whose operators have the columns that they will have.
pub(crate) fn after_optimization(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| {
        if let LogicalPlan::Extension(Extension { node }) = node
            && let Some(join) = node.as_any().downcast_ref::<StreamJoinNode>()
        {
            join::one_event_time(join).map_err(crate::error::plan)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether an aggregation, which outside of append mode emits what it may take back, lies below an
/// operator that cannot take anything back. A limit does not count, nor does dropping duplicates
/// without event time: as in Spark.
fn aggregate_below_stateful(plan: &LogicalPlan) -> bool {
    let inputs = plan.inputs();
    is_stateful(plan) && inputs.iter().any(|input| has_aggregate(input))
        || inputs.into_iter().any(aggregate_below_stateful)
}

fn is_stateful(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Extension(Extension { node }) = plan else { return false };
    let any = node.as_any();
    any.is::<StreamAggregateNode>()
        || any.is::<StreamJoinNode>()
        || any.downcast_ref::<StreamDedupNode>().is_some_and(StreamDedupNode::is_bounded)
}

/// Whether an aggregation over a stream lies in a plan that has been rewritten.
pub(super) fn has_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Extension(Extension { node }) if node.as_any().is::<StreamAggregateNode>() => {
            true
        }
        _ => plan.inputs().into_iter().any(has_aggregate),
    }
}

/// Whether a watermark is defined in `plan`.
pub(super) fn watermark_below(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Extension(Extension { node }) => {
            node.as_any().is::<WatermarkNode>() || node.inputs().into_iter().any(watermark_below)
        }
        _ => plan.inputs().into_iter().any(watermark_below),
    }
}
