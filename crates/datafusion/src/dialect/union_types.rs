//! What reads a UNION, INTERSECT or EXCEPT sees the types that fit both sides.
//!
//! DataFusion gives them the types of their first side until it analyzes the plan, and to INTERSECT
//! and EXCEPT for good. Spark's operators are chosen by types when a query is planned: `v + 1` over
//! a union of bytes and doubles would be one of integers, and cut the doubles off.

use crate::functions::arithmetic::common_type;
use crate::functions::cast::cast_expr;
use crate::functions::error::spark;
use crate::plan::is_set_operation;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder, Union};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::sql::sqlparser::ast::{
    TableFactor, TableSample, TableSampleKind, TableSampleModifier,
};
use fluvial_core::ddl::ddl_name;
use std::sync::Arc;

/// Widens the set operations of a relation before anything is planned that reads them; and those of
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

/// The plan with the types of its set operations. Types that DataFusion alone knows stay as they are
/// until the plan is analyzed.
///
/// # Errors
///
/// `INCOMPATIBLE_COLUMN_TYPE` if no type fits both sides,
/// `UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE` for rows that cannot be compared; or if a node
/// above a set operation cannot have its types.
pub fn widened(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_loose = false;
    plan.apply_with_subqueries(|node| {
        is_loose |= types_to_be(node)?.is_some();
        Ok(if is_loose { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_loose {
        return Ok(plan);
    }
    let widened = plan.transform_up_with_subqueries(|node| {
        let types = types_to_be(&node)?;
        let plan = match (types, node) {
            (Some(types), LogicalPlan::Union(union)) => wide_union(union, &types),
            (Some(types), LogicalPlan::Join(join)) => wide_join(join, &types),
            (_, other) => other.recompute_schema(),
        };
        plan.map(Transformed::yes)
    })?;
    Ok(widened.data)
}

/// The types that fit all sides of a set operation; `None` if it has them.
fn types_to_be(node: &LogicalPlan) -> Result<Option<Vec<DataType>>> {
    let (sides, now): (Vec<&LogicalPlan>, _) = match node {
        LogicalPlan::Union(union) => {
            (union.inputs.iter().map(AsRef::as_ref).collect(), types(&union.schema))
        }
        LogicalPlan::Join(join) if is_set_operation(join) => {
            let now = types(join.left.schema());
            if let Some(map) = now.iter().find(|of| matches!(of, DataType::Map(..))) {
                return Err(spark(
                    "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE",
                    format!("INTERSECT and EXCEPT do not compare maps: {}", ddl_name(map)),
                ));
            }
            (vec![join.left.as_ref(), join.right.as_ref()], now)
        }
        _ => return Ok(None),
    };
    let sides: Vec<_> = sides.into_iter().map(|side| types(side.schema())).collect();
    if sides.iter().all(|side| *side == now) {
        return Ok(None);
    }
    let mut common = sides[0].clone();
    for side in &sides[1..] {
        for (at, (to, other)) in common.iter_mut().zip(side).enumerate() {
            match common_type(to, other).filter(|_| same_names(to, other)) {
                Some(wider) => *to = wider,
                None if is_foreign(to) || is_foreign(other) => return Ok(None),
                None => {
                    return Err(spark(
                        "INCOMPATIBLE_COLUMN_TYPE",
                        format!(
                            "column {} of a UNION, INTERSECT or EXCEPT is {} on one side and {} on \
                             another: cast one of them",
                            at + 1,
                            ddl_name(to),
                            ddl_name(other)
                        ),
                    ));
                }
            }
        }
    }
    Ok(Some(common))
}

fn types(schema: &DFSchema) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

/// Whether fields of structures have the same names: values are never taken by their place.
fn same_names(left: &DataType, right: &DataType) -> bool {
    match (left, right) {
        (DataType::Struct(left), DataType::Struct(right)) => {
            let mut pairs = left.iter().zip(right);
            left.len() == right.len()
                && pairs.all(|(l, r)| {
                    l.name().eq_ignore_ascii_case(r.name())
                        && same_names(l.data_type(), r.data_type())
                })
        }
        (DataType::List(left), DataType::List(right)) => {
            same_names(left.data_type(), right.data_type())
        }
        _ => true,
    }
}

/// Types that Spark does not have: DataFusion says what fits them.
fn is_foreign(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Dictionary(..)
            | DataType::RunEndEncoded(..)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
            | DataType::Time32(_)
            | DataType::Time64(_)
    )
}

fn wide_union(mut union: Union, types: &[DataType]) -> Result<LogicalPlan> {
    let sides = union.inputs.into_iter().map(|side| in_types(side, types).map(Arc::new));
    union.inputs = sides.collect::<Result<_>>()?;
    let fields = union.schema.iter().zip(types).map(|((qualifier, field), to)| {
        let field = field.as_ref().clone().with_data_type(to.clone());
        (qualifier.cloned(), Arc::new(field))
    });
    let metadata = union.schema.metadata().clone();
    union.schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?);
    TypeCoercionRewriter::coerce_union(union)
}

/// Rows are the same, and duplicates, in the common types.
fn wide_join(join: Join, types: &[DataType]) -> Result<LogicalPlan> {
    let left = match join.left.as_ref() {
        LogicalPlan::Distinct(Distinct::All(input)) => {
            LogicalPlanBuilder::from(in_types(Arc::clone(input), types)?).distinct()?.build()?
        }
        _ => in_types(join.left, types)?,
    };
    let right = in_types(join.right, types)?;
    let keys = (left.schema().columns(), right.schema().columns());
    LogicalPlanBuilder::from(left)
        .join_detailed(right, join.join_type, keys, None, join.null_equality)?
        .build()
}

/// A side with its columns cast to these types.
fn in_types(side: Arc<LogicalPlan>, types: &[DataType]) -> Result<LogicalPlan> {
    let schema = Arc::clone(side.schema());
    if schema.fields().iter().zip(types).all(|(field, to)| field.data_type() == to) {
        return Ok(Arc::unwrap_or_clone(side));
    }
    let columns = schema.iter().zip(types).map(|((qualifier, field), to)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        let cast = cast_expr(column, to, schema.as_ref())?;
        Ok(cast.alias_qualified(qualifier.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(side)).project(columns)?.build()
}
