//! Spark's meaning for expressions that were not written in SQL, and for the casts that
//! DataFusion itself puts in.

use super::frames;
use super::guard::guard_all;
use super::operators;
use crate::functions;
use crate::functions::cast::{arrow_agrees, can_cast, cast_expr, try_cast_expr};
use crate::functions::typing::Typed;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::{FunctionRewrite, NamePreserver};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, LogicalPlan, TryCast};
use datafusion::optimizer::AnalyzerRule;

/// Arithmetic, casts and aggregates built in Rust (`sum(col("a") + lit(1))`), before types are
/// coerced.
#[derive(Debug)]
pub(super) struct SparkOperators;

impl FunctionRewrite for SparkOperators {
    fn name(&self) -> &str {
        "spark_operators"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match &expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                match operators::binary(*op, left, right, schema)? {
                    Some(planned) if planned != expr => Ok(Transformed::yes(planned)),
                    _ => Ok(Transformed::no(expr)),
                }
            }
            // Ours know no order of their own.
            Expr::AggregateFunction(call) => match functions::aggregate_of_spark(&call.func) {
                Some(func) if call.params.order_by.is_empty() => {
                    let call = AggregateFunction { func, params: call.params.clone() };
                    Ok(Transformed::yes(Expr::AggregateFunction(call)))
                }
                _ => Ok(Transformed::no(expr)),
            },
            Expr::WindowFunction(_) => frames::typed(expr, schema, config),
            _ => spark_cast(expr, schema),
        }
    }
}

/// A cast of Arrow's as one of Spark's, where they differ.
fn spark_cast(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match &expr {
        Expr::Cast(Cast { expr: operand, field }) => {
            let from = operand.type_in(schema)?;
            let to = field.data_type();
            if from == *to || arrow_agrees(&from, to) || !can_cast(&from, to) {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(cast_expr(operand.as_ref().clone(), to, schema)?))
        }
        Expr::TryCast(TryCast { expr: operand, field }) => {
            let from = operand.type_in(schema)?;
            let to = field.data_type();
            if from == *to || arrow_agrees(&from, to) || !can_cast(&from, to) {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(try_cast_expr(operand.as_ref().clone(), to, schema)?))
        }
        _ => Ok(Transformed::no(expr)),
    }
}

/// The casts that type coercion put in: text of numbers, times from text.
#[derive(Debug)]
pub(super) struct SparkCasts;

impl AnalyzerRule for SparkCasts {
    fn name(&self) -> &str {
        "spark_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                schema.merge(&DFSchema::try_from_qualified_schema(
                    scan.table_name.clone(),
                    &scan.source.schema(),
                )?);
            }
            let names = NamePreserver::new(&plan);
            // The parts of a join's condition belong to its sides: a guard would tie them together.
            let guards = !matches!(plan, LogicalPlan::Join(_));
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let cast = expr.transform_up(|expr| spark_cast(expr, &schema))?;
                let cast = if guards {
                    cast.transform_data(|expr| guard_all(expr, &schema))?
                } else {
                    cast
                };
                Ok(cast.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }
}
