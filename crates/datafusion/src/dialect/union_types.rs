//! What reads a UNION sees the types that fit both sides.
//!
//! DataFusion gives a union the types of its first side until it analyzes the plan. Spark's
//! operators are chosen by types when a query is planned: `v + 1` over a union of bytes and doubles
//! would be one of integers, and cut the doubles off.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{LogicalPlan, Union};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::sql::sqlparser::ast::{
    TableFactor, TableSample, TableSampleKind, TableSampleModifier,
};

/// Widens the unions of a relation before anything is planned that reads them; and those of
/// DataFrames, before anything else is made of their plan.
#[derive(Debug)]
pub(super) struct UnionTypes;

impl RelationPlanner for UnionTypes {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if !matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { args: None, .. })
        {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        if !mark(&mut relation) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        // Everybody is asked again, and so are we: the mark says that it is for DataFusion now.
        let plan = widened(context.plan(relation)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

impl AnalyzerRule for UnionTypes {
    fn name(&self) -> &str {
        "spark_union_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        widened(plan)
    }
}

/// Marks a relation, or takes the mark away: `false`. It is a clause that is refused in queries.
fn mark(relation: &mut TableFactor) -> bool {
    let (TableFactor::Derived { sample, .. } | TableFactor::Table { sample, .. }) = relation else {
        return false;
    };
    let is_new = sample.take().is_none();
    if is_new {
        *sample = Some(TableSampleKind::BeforeTableAlias(Box::new(TableSample {
            modifier: TableSampleModifier::TableSample,
            name: None,
            quantity: None,
            seed: None,
            bucket: None,
            offset: None,
        })));
    }
    is_new
}

/// The plan with the types of its unions. Sides that no type fits stay as they are, and are refused
/// when the plan is analyzed.
///
/// # Errors
///
/// If a node above a union cannot have its types.
pub fn widened(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.exists(|node| Ok(matches!(node, LogicalPlan::Union(union) if is_loose(union))))? {
        return Ok(plan);
    }
    let widened = plan.transform_up(|node| match node {
        LogicalPlan::Union(union) if is_loose(&union) => {
            let wide = TypeCoercionRewriter::coerce_union(union.clone());
            Ok(wide.map_or(Transformed::no(LogicalPlan::Union(union)), Transformed::yes))
        }
        other => other.recompute_schema().map(Transformed::yes),
    })?;
    Ok(widened.data)
}

/// Whether a side has other types than the union says.
fn is_loose(union: &Union) -> bool {
    let differs = |input: &LogicalPlan| {
        let fields = input.schema().fields().iter().zip(union.schema.fields());
        fields.into_iter().any(|(side, all)| side.data_type() != all.data_type())
    };
    union.inputs.iter().any(|input| differs(input))
}
