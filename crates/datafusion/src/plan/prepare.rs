//! From the user's plan to the template that every batch instantiates.
//!
//! 1. DataFusion analyses the plan (types, names);
//! 2. what cannot stream is refused, by condition;
//! 3. streaming nodes take the place of aggregations and limits, and get their names;
//! 4. DataFusion optimises, and moves nothing across our nodes.

use super::draw_node::place_draws;
use super::filter_pushdown::{PushFilterBelowAggregate, PushFilterBelowWatermark};
use super::join;
use super::join_node::StreamJoinNode;
use super::never::never;
use super::{
    OperatorNameNode, StreamAggregateNode, StreamDedupNode, StreamDefinition, StreamLimitNode,
    StreamTable, StreamTransformNode, WatermarkNode,
};
use super::{aggregate, batch_time, check, dedup, is_streaming, stream_of, windows};
use crate::dialect::guard_filters;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    Aggregate, Expr, Extension, FetchType, Filter, LogicalPlan, LogicalPlanBuilder, Projection,
    SkipType, UserDefinedLogicalNode,
};
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::scalar::ScalarValue;
use fluvial_core::{EventDuration, OperatorId, OutputMode, SourceId, WatermarkId};
use fluvial_engine::WatermarkInput;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rules that cut off what gives no rows. A stream must be read all the same: its rows count, and
/// its event times move the watermark.
const FORGETS_STREAMS: &[&str] = &["eliminate_filter", "propagate_empty_relation"];

/// Rules that put projections of single fields between a filter and what it filters: it could not
/// move below an aggregation any more.
const PARTS_FILTERS: &[&str] = &["extract_leaf_expressions", "push_down_leaf_projections"];

/// A streaming query, checked and optimised, ready to be run batch by batch.
#[derive(Debug, Clone)]
pub struct StreamingPlan {
    /// The template: no batch, no clock, no file statistics in it.
    pub(crate) template: LogicalPlan,
    /// The sources by name.
    pub(crate) sources: BTreeMap<SourceId, SourceHandle>,
    /// The watermark definitions.
    pub(crate) watermarks: BTreeMap<WatermarkId, EventDuration>,
    /// What each of them hears of.
    pub(crate) inputs: BTreeMap<WatermarkId, WatermarkInput>,
    /// Schema of the rows that go to the sink.
    pub(crate) schema: SchemaRef,
    /// What whoever runs it should know.
    pub(crate) warnings: Vec<String>,
}

/// A definition with a `Debug` that names it.
#[derive(Clone)]
pub(crate) struct SourceHandle(pub(crate) Arc<dyn StreamDefinition>);

impl std::fmt::Debug for SourceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.description())
    }
}

impl StreamingPlan {
    /// Prepares `plan` for running in `mode`.
    ///
    /// # Errors
    ///
    /// `Invalid` with Spark's condition name for every operation that cannot stream.
    pub fn prepare(
        state: &SessionState,
        plan: LogicalPlan,
        mode: OutputMode,
    ) -> fluvial_core::Result<Self> {
        prepare(state, plan, mode).map_err(crate::error::from_datafusion)
    }

    /// Whether a plan reads a stream anywhere, also where none may be: in a subquery expression.
    pub fn reads_stream(plan: &LogicalPlan) -> bool {
        is_streaming(plan) || check::streams_in_subqueries(plan)
    }

    /// The sources, by the names that the checkpoint knows them by.
    pub fn sources(&self) -> BTreeMap<SourceId, Arc<dyn StreamDefinition>> {
        self.sources.iter().map(|(id, s)| (id.clone(), Arc::clone(&s.0))).collect()
    }

    /// Schema of the output rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The plan, for people.
    pub fn explain(&self) -> String {
        self.template.display_indent().to_string()
    }
}

fn prepare(state: &SessionState, plan: LogicalPlan, mode: OutputMode) -> Result<StreamingPlan> {
    check::before_analysis(&plan, mode).map_err(crate::error::plan)?;
    let plan = place_draws(batch_time::hide_clock(plan)?)?;
    let options = state.config_options();
    let plan = state.analyzer().execute_and_check(plan, options, |_, _| {})?;
    let plan = without_repartitions(plan)?;
    check::supported(&plan, mode)?;
    let plan = join::filters_into_joins(windows::filter_times(check::distinct_last(plan)?)?)?;
    let mut names = Names::default();
    let plan = plan.transform_up(|node| names.stream(node, mode))?.data.recompute_schema()?;
    check::after_rewrite(&plan, mode)?;
    let schema = Arc::new(plan.schema().as_arrow().clone());
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = state
        .optimizers()
        .iter()
        .filter(|rule| {
            !FORGETS_STREAMS.contains(&rule.name()) && !PARTS_FILTERS.contains(&rule.name())
        })
        .cloned()
        .collect();
    rules.push(Arc::new(join::FilterNullKeys));
    rules.push(Arc::new(PushFilterBelowWatermark));
    rules.push(Arc::new(PushFilterBelowAggregate));
    let template = Optimizer::with_rules(rules).optimize(plan, state, |_, _| {})?;
    let template = guard_filters(template)?;
    check::after_optimization(&template)?;
    let Names { sources, watermarks, inputs, warnings, .. } = names;
    Ok(StreamingPlan { template, sources, watermarks, inputs, schema, warnings })
}

/// The plan without what says in how many parts the rows of a stream are to be: a batch has its own.
fn without_repartitions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let stripped = plan.transform_up(|node| match node {
        LogicalPlan::Repartition(repartition) if is_streaming(&repartition.input) => {
            Ok(Transformed::yes(Arc::unwrap_or_clone(repartition.input)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(stripped.data)
}

/// The streams that a plan reads, which have their names.
fn sources_below(plan: &LogicalPlan) -> Result<BTreeSet<SourceId>> {
    let mut sources = BTreeSet::new();
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some((Some(name), _)) = stream_of(scan)
        {
            sources.insert(name);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(sources)
}

/// Gives sources, watermarks and operators their names, bottom-up and from left to right.
#[derive(Default)]
struct Names {
    sources: BTreeMap<SourceId, SourceHandle>,
    watermarks: BTreeMap<WatermarkId, EventDuration>,
    inputs: BTreeMap<WatermarkId, WatermarkInput>,
    operators: BTreeSet<OperatorId>,
    warnings: Vec<String>,
}

impl Names {
    /// The streaming form of one node whose inputs are done.
    fn stream(&mut self, node: LogicalPlan, mode: OutputMode) -> Result<Transformed<LogicalPlan>> {
        match node {
            LogicalPlan::TableScan(mut scan) => {
                let Some((name, source)) = stream_of(&scan) else {
                    return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
                };
                let id = self.source(name, &source)?;
                scan.source = provider_as_source(Arc::new(StreamTable::new(Some(id), source)));
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            LogicalPlan::Extension(Extension { node }) => {
                if let Some(named) = node.as_any().downcast_ref::<OperatorNameNode>() {
                    return self.rename(named).map(Transformed::yes);
                }
                if let Some(dedup) = node.as_any().downcast_ref::<StreamDedupNode>() {
                    let operator = self.operator("dedup")?;
                    let node = Arc::new(dedup::prepared(dedup, operator)?);
                    self.warnings.extend(dedup::warning(&node));
                    return Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })));
                }
                if let Some(transform) = node.as_any().downcast_ref::<StreamTransformNode>() {
                    let node = Arc::new(transform.named(self.operator("transform")?));
                    return Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })));
                }
                let Some(watermark) = node.as_any().downcast_ref::<WatermarkNode>() else {
                    return Ok(Transformed::no(LogicalPlan::Extension(Extension { node })));
                };
                let id = WatermarkId::new(format!("watermark-{}", self.watermarks.len()))
                    .map_err(crate::error::plan)?;
                self.watermarks.insert(id.clone(), watermark.delay);
                self.warnings.extend(stacked(watermark));
                let sources = sources_below(&watermark.input)?;
                let input = WatermarkInput { sources, idle_after: watermark.idle_after };
                self.inputs.insert(id.clone(), input);
                let named = WatermarkNode::try_new(
                    watermark.input.clone(),
                    watermark.column.clone(),
                    watermark.delay,
                    id,
                )?;
                let node = Arc::new(named.idle_after(watermark.idle_after));
                Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })))
            }
            LogicalPlan::Aggregate(aggregate) if is_streaming(&aggregate.input) => {
                let operator = self.operator("aggregate")?;
                aggregate::streaming(aggregate, operator).map(Transformed::yes)
            }
            LogicalPlan::Distinct(distinct) if is_streaming(distinct.input()) => {
                let aggregate: Aggregate = aggregate::of_distinct(distinct)?;
                let operator = self.operator("aggregate")?;
                aggregate::streaming(aggregate, operator).map(Transformed::yes)
            }
            LogicalPlan::Join(join)
                if is_streaming(&join.left)
                    && is_streaming(&join.right)
                    && !check::is_set_operation(&join) =>
            {
                let operator = self.operator("join")?;
                let plan = join::streaming(join, operator)?;
                self.warnings.extend(join::warning(&plan));
                Ok(Transformed::yes(plan))
            }
            // A limit of a complete result begins anew in every batch and needs no state.
            LogicalPlan::Limit(limit)
                if is_streaming(&limit.input)
                    && (mode != OutputMode::Complete || !check::has_aggregate(&limit.input)) =>
            {
                let (FetchType::Literal(Some(rows)), SkipType::Literal(0)) =
                    (limit.get_fetch_type()?, limit.get_skip_type()?)
                else {
                    return plan_err!("the limit of a stream must be a number, without an offset");
                };
                // Nothing passes, so there is nothing to count; the stream is read all the same.
                if rows == 0 {
                    let predicate = never(&limit.input);
                    let filter = Filter::try_new(predicate, limit.input)?;
                    return Ok(Transformed::yes(LogicalPlan::Filter(filter)));
                }
                let input = Arc::unwrap_or_clone(limit.input);
                if let Some(inner) = limit_of(&input) {
                    let rows = inner.rows.min(rows as u64);
                    let node = Arc::new(StreamLimitNode { rows, ..inner.clone() });
                    return Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })));
                }
                let operator = self.operator("limit")?;
                let node = StreamLimitNode { input, rows: rows as u64, operator };
                let node = Arc::new(node);
                Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })))
            }
            // DataFusion would move it below whatever it filters, and rows must not be lost there.
            LogicalPlan::Filter(filter) if is_streaming(&filter.input) && filters_all(&filter) => {
                let predicate = never(&filter.input);
                let filter = Filter::try_new(predicate, filter.input)?;
                Ok(Transformed::yes(LogicalPlan::Filter(filter)))
            }
            LogicalPlan::Projection(projection)
                if windows::asks_for_window(&projection.expr)
                    && is_streaming(&projection.input) =>
            {
                let input = Arc::unwrap_or_clone(projection.input);
                let assigned = windows::assign(input, projection.expr)?;
                let plan = Projection::try_new(assigned.exprs, Arc::new(assigned.input))?;
                let plan = LogicalPlanBuilder::from(LogicalPlan::Projection(plan));
                let names = renamed(plan.schema().columns(), projection.schema.columns());
                Ok(Transformed::yes(plan.project(names)?.build()?))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    fn source(
        &mut self,
        name: Option<SourceId>,
        source: &Arc<dyn StreamDefinition>,
    ) -> Result<SourceId> {
        let same =
            |other: &SourceHandle| std::ptr::addr_eq(Arc::as_ptr(&other.0), Arc::as_ptr(source));
        if let Some((id, _)) = self.sources.iter().find(|(_, other)| same(other)) {
            return Ok(id.clone());
        }
        let id = match name {
            Some(name) => name,
            None => SourceId::new(format!("source-{}", self.sources.len()))
                .map_err(crate::error::plan)?,
        };
        if self.sources.insert(id.clone(), SourceHandle(Arc::clone(source))).is_some() {
            return plan_err!(
                "two sources of the query have the name {id}: give them different ones"
            );
        }
        Ok(id)
    }

    /// `aggregate`, `aggregate-2`, ... unless the user gave a name.
    fn operator(&mut self, kind: &str) -> Result<OperatorId> {
        let prefix = format!("{kind}-");
        let same_kind = |id: &&OperatorId| id.as_str() == kind || id.as_str().starts_with(&prefix);
        let derived = match self.operators.iter().filter(same_kind).count() {
            0 => kind.to_owned(),
            n => format!("{kind}-{}", n + 1),
        };
        let derived = OperatorId::new(derived).map_err(crate::error::plan)?;
        self.operators.insert(derived.clone());
        Ok(derived)
    }

    /// The input of a name, with its nearest stateful operator renamed.
    fn rename(&mut self, named: &OperatorNameNode) -> Result<LogicalPlan> {
        let mut renamed = false;
        let plan = named.input.clone().transform_down(|node| {
            let LogicalPlan::Extension(Extension { node: extension }) = &node else {
                return Ok(Transformed::no(node));
            };
            let any = extension.as_any();
            let new: Arc<dyn UserDefinedLogicalNode> =
                if let Some(aggregate) = any.downcast_ref::<StreamAggregateNode>() {
                    Arc::new(aggregate.named(named.name.clone()))
                } else if let Some(limit) = any.downcast_ref::<StreamLimitNode>() {
                    Arc::new(StreamLimitNode { operator: named.name.clone(), ..limit.clone() })
                } else if let Some(dedup) = any.downcast_ref::<StreamDedupNode>() {
                    Arc::new(StreamDedupNode { operator: named.name.clone(), ..dedup.clone() })
                } else if let Some(join) = any.downcast_ref::<StreamJoinNode>() {
                    Arc::new(join.named(named.name.clone()))
                } else if let Some(transform) = any.downcast_ref::<StreamTransformNode>() {
                    Arc::new(transform.named(named.name.clone()))
                } else {
                    return Ok(Transformed::no(node));
                };
            renamed = true;
            let node = LogicalPlan::Extension(Extension { node: new });
            Ok(Transformed::new(node, true, TreeNodeRecursion::Stop))
        })?;
        if !renamed {
            return plan_err!("there is no stateful operator below named({:?})", named.name);
        }
        if !self.operators.insert(named.name.clone()) {
            return plan_err!(
                "two operators have the name {}: give them different ones",
                named.name
            );
        }
        Ok(plan.data)
    }
}

/// What there is to say of a watermark above another one.
fn stacked(watermark: &WatermarkNode) -> Option<String> {
    check::watermark_below(&watermark.input).then(|| {
        format!(
            "the watermark on {} stands above another one, and the query's watermark is the lowest \
             of both: what comes out below only when the watermark moves never comes out. Keep \
             the event time of the input, or set watermark.policy = max",
            watermark.column
        )
    })
}

/// Whether a filter lets nothing through.
fn filters_all(filter: &Filter) -> bool {
    matches!(&filter.predicate, Expr::Literal(ScalarValue::Boolean(Some(false) | None), _))
}

/// The streaming limit that a plan is.
fn limit_of(plan: &LogicalPlan) -> Option<&StreamLimitNode> {
    match plan {
        LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref(),
        LogicalPlan::SubqueryAlias(alias) => limit_of(&alias.input),
        _ => None,
    }
}

fn renamed(
    have: Vec<datafusion::common::Column>,
    want: Vec<datafusion::common::Column>,
) -> Vec<Expr> {
    have.into_iter()
        .zip(want)
        .map(|(have, want)| match have == want {
            true => Expr::Column(have),
            false => Expr::Column(have).alias_qualified(want.relation, want.name),
        })
        .collect()
}
