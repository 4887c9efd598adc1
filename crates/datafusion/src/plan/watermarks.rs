//! Watermarks from operator to operator.
//!
//! A watermark definition puts out the query's combined watermark. What a stateful operator puts
//! out is its own rule, [`OutputWatermark`]; everything else passes on the lowest watermark of its
//! inputs. Inputs without a definition below them, tables for one, do not count. This is done
//! twice a batch, for the late and the evicting one.

use super::join_node::StreamJoinNode;
use super::physical::event_time_key;
use super::physical_join;
use super::{
    StreamAggregateNode, StreamDedupNode, StreamLimitNode, StreamTransformNode, WatermarkNode,
};
use crate::exec::OperatorWatermarks;
use datafusion::logical_expr::{Extension, LogicalPlan};
use fluvial_core::{EventTime, EvictWatermark, LateWatermark, OperatorId};
use fluvial_operators::{Dedup, Limit, OutputWatermark};
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

/// The watermark of some rows, if they have one: `Some(None)` is none yet.
type Watermark = Option<Option<EventTime>>;

/// The output watermark of `plan`.
fn propagate(
    plan: &LogicalPlan,
    query: Option<EventTime>,
    inputs: &mut BTreeMap<OperatorId, Option<EventTime>>,
) -> Watermark {
    let below: Vec<Watermark> =
        plan.inputs().into_iter().map(|input| propagate(input, query, inputs)).collect();
    let known: Vec<Option<EventTime>> = below.into_iter().flatten().collect();
    let passed = (!known.is_empty()).then(|| OutputWatermark::Passes.of(&known));
    let LogicalPlan::Extension(Extension { node }) = plan else { return passed };
    let any = node.as_any();
    if any.is::<WatermarkNode>() {
        return Some(query);
    }
    let Some((operator, rule)) = rule_of(any) else { return passed };
    inputs.insert(operator.clone(), passed.flatten());
    match rule {
        OutputWatermark::Ends => None,
        rule => (!known.is_empty()).then(|| rule.of(&known)),
    }
}

/// The stateful operator that a logical node is, and what it makes of the watermark.
fn rule_of(node: &dyn Any) -> Option<(&OperatorId, OutputWatermark)> {
    if let Some(aggregate) = node.downcast_ref::<StreamAggregateNode>() {
        let key = event_time_key(aggregate);
        return Some((&aggregate.operator, key.output_watermark()));
    }
    if let Some(dedup) = node.downcast_ref::<StreamDedupNode>() {
        return Some((&dedup.operator, Dedup::OUTPUT_WATERMARK));
    }
    if let Some(join) = node.downcast_ref::<StreamJoinNode>() {
        return Some((&join.operator, physical_join::output_watermark(join)));
    }
    if let Some(node) = node.downcast_ref::<StreamTransformNode>() {
        return Some((&node.operator, node.transform.output_watermark()));
    }
    let limit = node.downcast_ref::<StreamLimitNode>()?;
    Some((&limit.operator, Limit::OUTPUT_WATERMARK))
}
