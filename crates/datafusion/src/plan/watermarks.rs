//! Watermarks from operator to operator.
//!
//! A watermark definition puts out the query's combined watermark. Every operator above passes on
//! the lowest watermark of its inputs, or what it may still emit if that is lower; inputs without
//! a watermark do not count. This is done twice a batch, for the late and the evicting one.

use super::{StreamAggregateNode, StreamLimitNode, WatermarkNode};
use crate::exec::OperatorWatermarks;
use datafusion::logical_expr::{Extension, LogicalPlan};
use fluvial_core::{EventTime, EvictWatermark, LateWatermark, OperatorId};
use std::any::Any;
use std::collections::BTreeMap;

/// The watermarks of each stateful operator of `plan`, given the query's.
pub(crate) fn operator_watermarks(
    plan: &LogicalPlan,
    late: Option<EventTime>,
    evict: Option<EventTime>,
) -> BTreeMap<OperatorId, OperatorWatermarks> {
    let (mut lates, mut evicts) = (BTreeMap::new(), BTreeMap::new());
    propagate(plan, late, &mut lates);
    propagate(plan, evict, &mut evicts);
    lates
        .into_iter()
        .map(|(id, late)| {
            let evict = EvictWatermark(evicts.get(&id).copied().flatten());
            (id, OperatorWatermarks { late: LateWatermark(late), evict })
        })
        .collect()
}

/// The output watermark of `plan`; `None` is none, or none yet.
fn propagate(
    plan: &LogicalPlan,
    query: Option<EventTime>,
    inputs: &mut BTreeMap<OperatorId, Option<EventTime>>,
) -> Option<EventTime> {
    let mut children = Vec::new();
    for input in plan.inputs() {
        children.push(propagate(input, query, inputs));
    }
    let input = children.into_iter().flatten().min();
    match plan {
        LogicalPlan::Extension(Extension { node }) => {
            let any = node.as_any();
            if any.is::<WatermarkNode>() {
                return query;
            }
            if let Some(operator) = operator_of(any) {
                inputs.insert(operator.clone(), input);
            }
            input
        }
        _ => input,
    }
}

/// The stateful operator that a logical node is, if it is one.
pub(crate) fn operator_of(node: &dyn Any) -> Option<&OperatorId> {
    if let Some(aggregate) = node.downcast_ref::<StreamAggregateNode>() {
        return Some(&aggregate.operator);
    }
    node.downcast_ref::<StreamLimitNode>().map(|limit| &limit.operator)
}
