//! Physical plans for streaming nodes.

use super::draw_node::DrawNode;
use super::join_node::StreamJoinNode;
use super::physical_join::{self, JoinPlan};
use super::window_columns;
use super::{
    EventTimeGroup, Remembered, StreamAggregateNode, StreamDedupNode, StreamLimitNode,
    StreamTransformNode, WatermarkNode, physical_transform,
};
use crate::exec::{
    BatchRun, DrawExec, ExchangeExec, Judged, KeyRoute, LateFilterExec, Route, StatefulExec,
    ToNothingsOwner, WatermarkExec,
};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use fluvial_core::{KeyGroupCount, Operator, OperatorId, OperatorShape, StoreId, StoreName};
use fluvial_operators::{Aggregation, Dedup, EventTimeKey, Limit, SessionAggregation, SessionTime};
use std::sync::Arc;

/// Plans our logical nodes.
pub(crate) struct StreamPlanner;

#[async_trait]
impl ExtensionPlanner for StreamPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let any = node.as_any();
        let Some(input) = physical_inputs.first().map(Arc::clone) else { return Ok(None) };
        let Some(run) = session.config().get_extension::<BatchRun>() else {
            return internal_err!("streaming nodes are planned for a batch");
        };
        if let Some(watermark) = any.downcast_ref::<WatermarkNode>() {
            let schema = Arc::new(watermark.schema().as_arrow().clone());
            let column = watermark.column_index()?;
            let exec = WatermarkExec::new(input, column, watermark.id.clone(), schema);
            return Ok(Some(Arc::new(exec)));
        }
        if let Some(draw) = any.downcast_ref::<DrawNode>() {
            let schema = Arc::new(draw.schema().as_arrow().clone());
            let seeds = draw.places.iter().map(|place| (place.number, place.seed)).collect();
            return Ok(Some(Arc::new(DrawExec::new(input, seeds, schema))));
        }
        if let Some(aggregate) = any.downcast_ref::<StreamAggregateNode>() {
            let planned = AggregatePlan { planner, session, planning, node: aggregate };
            return planned.exec(input, &run).map(Some);
        }
        if let Some(dedup) = any.downcast_ref::<StreamDedupNode>() {
            return dedup_exec(dedup, input, &run).map(Some);
        }
        if let Some(join) = any.downcast_ref::<StreamJoinNode>() {
            let planned = JoinPlan { session, planning, node: join };
            return planned.exec(physical_inputs, &run).map(Some);
        }
        if let Some(transform) = any.downcast_ref::<StreamTransformNode>() {
            return physical_transform::exec(transform, physical_inputs, &run).map(Some);
        }
        if let Some(limit) = any.downcast_ref::<StreamLimitNode>() {
            let operator = limit_operator(limit, input.schema());
            let route = ToNothingsOwner::new(run.plan().settings.key_groups);
            let gathered = ExchangeExec::new(input, Arc::new(route), run.partitions());
            let schema = gathered.schema();
            let store = store_of(&limit.operator)?;
            let exec = StatefulExec::new(Arc::new(gathered), operator, store, schema);
            return Ok(Some(Arc::new(exec)));
        }
        Ok(None)
    }
}

/// Late filter, exchange, state.
fn dedup_exec(
    node: &StreamDedupNode,
    input: Arc<dyn ExecutionPlan>,
    run: &BatchRun,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let operator = Arc::new(dedup_operator(node, Arc::clone(&schema))?);
    let input = match node.event_time() {
        None => input,
        Some(column) => {
            let column = Some(column);
            Arc::new(LateFilterExec::new(input, column, node.operator.clone(), Judged::Always))
        }
    };
    let codec = operator.key_codec(run.plan().settings.key_groups).map_err(crate::error::plan)?;
    let route = KeyRoute::by(codec, operator.keys().to_vec());
    let exchange = ExchangeExec::new(input, Arc::new(route), run.partitions());
    let store = store_of(&node.operator)?;
    Ok(Arc::new(StatefulExec::new(Arc::new(exchange), operator, store, schema)))
}

fn dedup_operator(node: &StreamDedupNode, schema: SchemaRef) -> Result<Dedup> {
    let (keys, time) = (node.key_indices()?, node.event_time());
    let operator = match (node.remembered, time) {
        (Remembered::WithinWatermark(Some(delay)), Some(time)) => {
            Dedup::within_watermark(schema, keys, time, delay)
        }
        (Remembered::ByKey, _) => Dedup::new(schema, keys, time),
        (Remembered::WithinWatermark(_), _) => {
            return internal_err!("a prepared query knows the delay of {}", node.operator);
        }
    };
    operator.map_err(crate::error::plan)
}

fn limit_operator(limit: &StreamLimitNode, schema: SchemaRef) -> Arc<dyn Operator> {
    Arc::new(Limit::new(limit.rows, schema))
}

/// The only store of our operators so far.
pub(super) fn store_of(operator: &OperatorId) -> Result<StoreId> {
    let store = StoreName::new("default").map_err(crate::error::plan)?;
    Ok(StoreId { operator: operator.clone(), store })
}

/// What the physical planning of an aggregation needs at every step.
struct AggregatePlan<'a> {
    planner: &'a dyn PhysicalPlanner,
    session: &'a dyn Session,
    planning: &'a PhysicalPlanningContext,
    node: &'a StreamAggregateNode,
}

impl AggregatePlan<'_> {
    /// Late filter, DataFusion's partial aggregation, exchange, state.
    fn exec(
        &self,
        input: Arc<dyn ExecutionPlan>,
        run: &BatchRun,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = self.node;
        let schema = Arc::new(node.schema().as_arrow().clone());
        let groups = self.groups()?;
        let (aggregates, filters) = self.aggregates(&input.schema())?;
        let operator = aggregation(node, &aggregates)?;
        let time = match node.event_time() {
            EventTimeGroup::None => None,
            EventTimeGroup::Column(i) | EventTimeGroup::Window(i) => {
                let Expr::Column(column) = &node.group[i] else {
                    return internal_err!("groups of a streaming aggregation are columns");
                };
                Some(node.input.schema().index_of_column(column)?)
            }
        };
        // As in Spark, rows are late by their own session in complete mode too.
        let judged = if node.session.is_some() { Judged::Always } else { Judged::ByMode };
        let input = Arc::new(LateFilterExec::new(input, time, node.operator.clone(), judged));
        let input_schema = input.schema();
        let options = Arc::clone(self.session.config().options());
        let flat = window_columns::apart(groups.clone(), &input_schema, &options)?;
        let partial = AggregateExec::try_new(
            AggregateMode::Partial,
            PhysicalGroupBy::new_single(flat),
            aggregates,
            filters,
            input,
            Arc::clone(&input_schema),
        )?;
        let partial =
            window_columns::together(Arc::new(partial), &groups, &input_schema, &options)?;
        let route = operator.route(run.plan().settings.key_groups)?;
        let exchange = ExchangeExec::new(partial, route, run.partitions());
        let store = store_of(&node.operator)?;
        let operator = operator.into_operator();
        Ok(Arc::new(StatefulExec::new(Arc::new(exchange), operator, store, schema)))
    }

    fn groups(&self) -> Result<Vec<(Arc<dyn PhysicalExpr>, String)>> {
        let input = self.node.input.schema();
        let mut groups = Vec::new();
        for (expr, field) in self.node.group.iter().zip(self.node.schema().fields()) {
            let expr =
                self.planner.create_physical_expr(expr, input, self.session, self.planning)?;
            groups.push((expr, field.name().clone()));
        }
        Ok(groups)
    }

    fn aggregates(&self, physical: &SchemaRef) -> Result<Lowered> {
        lower(self.node, physical, self.session, self.planning)
    }
}

/// Aggregates and their filters.
type Lowered = (Vec<Arc<AggregateFunctionExpr>>, Vec<Option<Arc<dyn PhysicalExpr>>>);

fn lower(
    node: &StreamAggregateNode,
    physical: &SchemaRef,
    session: &dyn Session,
    planning: &PhysicalPlanningContext,
) -> Result<Lowered> {
    let (mut aggregates, mut filters) = (Vec::new(), Vec::new());
    for expr in &node.aggregates {
        let lowered = LoweredAggregateBuilder::new(
            expr,
            node.input.schema(),
            physical,
            session.execution_props(),
            planning,
        )
        .build()?;
        aggregates.push(lowered.aggregate);
        filters.push(lowered.filter);
    }
    Ok((aggregates, filters))
}

/// The operator of an aggregation.
enum Grouped {
    Plainly(Aggregation),
    InSessions(SessionAggregation),
}

impl Grouped {
    /// Where rows go in front of it.
    fn route(&self, key_groups: KeyGroupCount) -> Result<Arc<dyn Route>> {
        Ok(match self {
            Self::Plainly(operator) => {
                let keys = operator.keys(key_groups).map_err(crate::error::plan)?;
                Arc::new(KeyRoute::by_groups(keys, operator.groups()))
            }
            Self::InSessions(operator) => {
                let codec = operator.key_codec(key_groups).map_err(crate::error::plan)?;
                Arc::new(KeyRoute::by(codec, operator.keys()))
            }
        })
    }

    fn into_operator(self) -> Arc<dyn Operator> {
        match self {
            Self::Plainly(operator) => Arc::new(operator),
            Self::InSessions(operator) => Arc::new(operator),
        }
    }
}

fn aggregation(
    node: &StreamAggregateNode,
    aggregates: &[Arc<AggregateFunctionExpr>],
) -> Result<Grouped> {
    let schema = node.schema();
    let groups = (0..node.group.len())
        .zip(&node.key_names)
        .map(|(i, name)| Arc::new(schema.field(i).as_ref().clone().with_name(name)))
        .collect();
    let (time, aggregates) = (event_time_key(node), aggregates.to_vec());
    let grouped = match node.session {
        None => {
            let meaning = node.meaning.clone();
            Aggregation::new(groups, aggregates, time, meaning).map(Grouped::Plainly)
        }
        Some(session) => {
            let time = match time {
                EventTimeKey::None => SessionTime::Timeless,
                EventTimeKey::Column(_) | EventTimeKey::Window(_) => SessionTime::EventTime,
            };
            SessionAggregation::new(groups, session, aggregates, time).map(Grouped::InSessions)
        }
    };
    grouped.map_err(crate::error::plan)
}

/// The event time among the groups of an aggregation, as its operator knows it.
pub(super) fn event_time_key(node: &StreamAggregateNode) -> EventTimeKey {
    match node.event_time() {
        EventTimeGroup::None => EventTimeKey::None,
        EventTimeGroup::Column(i) => EventTimeKey::Column(i),
        EventTimeGroup::Window(i) => EventTimeKey::Window(i),
    }
}

/// The operator of each stateful node of a template, for asking about its state and its wishes.
pub(crate) fn operators_of(
    template: &LogicalPlan,
    session: &dyn Session,
) -> Result<Vec<(OperatorId, Arc<dyn Operator>)>> {
    let mut found: Vec<(OperatorId, Arc<dyn Operator>)> = Vec::new();
    collect(template, session, &mut found)?;
    Ok(found)
}

/// Downstream first, as in Spark's progress.
fn collect(
    plan: &LogicalPlan,
    session: &dyn Session,
    found: &mut Vec<(OperatorId, Arc<dyn Operator>)>,
) -> Result<()> {
    if let LogicalPlan::Extension(extension) = plan {
        let any = extension.node.as_any();
        if let Some(node) = any.downcast_ref::<StreamAggregateNode>() {
            let physical = Arc::new(node.input.schema().as_arrow().clone());
            let planning = PhysicalPlanningContext::default();
            let (aggregates, _) = lower(node, &physical, session, &planning)?;
            let operator = aggregation(node, &aggregates)?.into_operator();
            found.push((node.operator.clone(), operator));
        } else if let Some(node) = any.downcast_ref::<StreamDedupNode>() {
            let schema = Arc::new(node.input.schema().as_arrow().clone());
            found.push((node.operator.clone(), Arc::new(dedup_operator(node, schema)?)));
        } else if let Some(node) = any.downcast_ref::<StreamJoinNode>() {
            let planning = PhysicalPlanningContext::default();
            let join = physical_join::operator(node, session, &planning)?;
            found.push((node.operator.clone(), Arc::new(join)));
        } else if let Some(node) = any.downcast_ref::<StreamTransformNode>() {
            found.push((node.operator.clone(), Arc::new(node.operator()?)));
        } else if let Some(node) = any.downcast_ref::<StreamLimitNode>() {
            let schema = Arc::new(node.input.schema().as_arrow().clone());
            found.push((node.operator.clone(), limit_operator(node, schema)));
        }
    }
    for input in plan.inputs() {
        collect(input, session, found)?;
    }
    Ok(())
}

/// How an operator is written into a plan.
pub(crate) fn shape_of(operator: &dyn Operator, id: &OperatorId) -> Result<OperatorShape> {
    let store = store_of(id)?.store;
    Ok(OperatorShape { schema: operator.state_schema(), stores: vec![store] })
}
