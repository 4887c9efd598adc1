//! Conditions that protect others: `b <> 0 AND a / b > 1`.
//!
//! Spark evaluates the right side of AND and OR, and the branches of CASE, only for the rows that
//! need them. DataFusion may evaluate the right side for all rows, and takes boolean CASEs apart
//! into ANDs and ORs. Where a side can fail, it is put into a CASE that stays one: over numbers.

use crate::functions::cast::is_string;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator, lit, when};

/// Guards an expression and all that it is made of. What is guarded already stays as it is.
pub(super) fn guard_all(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        if is_guard(&expr) {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        }
        match expr {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::And | Operator::Or),
                right,
            }) if may_fail(&right, schema) && !is_guard(&right) => {
                let left = guard_all(*left, schema)?.data;
                let right = guard_all(*right, schema)?.data;
                let guarded = match op {
                    Operator::And => guarded_and(left, right)?,
                    _ => guarded_or(left, right)?,
                };
                Ok(Transformed::new(guarded, true, TreeNodeRecursion::Jump))
            }
            Expr::Case(case) if is_boolean(&case, schema) && any_may_fail(&case, schema) => {
                let guarded = guarded_case(case, schema)?;
                Ok(Transformed::new(guarded, true, TreeNodeRecursion::Jump))
            }
            other => Ok(Transformed::no(other)),
        }
    })
}

/// For rows where the left side is false, the right one does not count.
fn guarded_and(left: Expr, right: Expr) -> Result<Expr> {
    let both = number(left.clone().and(right));
    let guard = when(left.clone().is_false(), lit(0_i8)).otherwise(both)?;
    Ok(left.and(guard.eq(lit(1_i8))))
}

/// For rows where the left side is true, the right one does not count.
fn guarded_or(left: Expr, right: Expr) -> Result<Expr> {
    let either = number(left.clone().or(right));
    let guard = when(left.is_true(), lit(1_i8)).otherwise(either)?;
    Ok(guard.eq(lit(1_i8)))
}

fn guarded_case(case: Case, schema: &DFSchema) -> Result<Expr> {
    let whole = |e: Expr| Ok::<Expr, DataFusionError>(guard_all(e, schema)?.data);
    let Case { expr, when_then_expr, else_expr } = case;
    let branch =
        |(w, t): (Box<Expr>, Box<Expr>)| Ok((Box::new(whole(*w)?), Box::new(number(whole(*t)?))));
    let branches = when_then_expr.into_iter().map(branch).collect::<Result<Vec<_>>>()?;
    let otherwise = else_expr.map(|e| Ok::<_, DataFusionError>(Box::new(number(whole(*e)?))));
    let numbers = Expr::Case(Case::new(expr, branches, otherwise.transpose()?));
    Ok(numbers.eq(lit(1_i8)))
}

fn number(condition: Expr) -> Expr {
    Expr::Cast(Cast::new(Box::new(condition), DataType::Int8))
}

/// Whether the expression is one that this module made.
fn is_guard(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else {
        return false;
    };
    matches!(left.as_ref(), Expr::Case(_)) && **right == lit(1_i8)
}

fn is_boolean(case: &Case, schema: &DFSchema) -> bool {
    let branch = case.when_then_expr.first();
    branch.is_some_and(|(_, then)| matches!(then.get_type(schema), Ok(DataType::Boolean)))
}

fn any_may_fail(case: &Case, schema: &DFSchema) -> bool {
    case.when_then_expr.iter().any(|(w, t)| may_fail(w, schema) || may_fail(t, schema))
        || case.else_expr.iter().any(|e| may_fail(e, schema))
}

/// Whether evaluating the expression for a row may stop the query. Overflow of sums and products
/// does not count: guards are not written against it, and it would cost every filter.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let fails = |e: &Expr| {
        let Expr::ScalarFunction(call) = e else { return Ok(false) };
        Ok(match (call.func.name(), call.args.as_slice()) {
            ("divide" | "div" | "mod" | "pmod", [_, divisor]) => !is_other_than_zero(divisor),
            ("cast", [operand]) => {
                let to = call.func.return_type(&[]).unwrap_or(DataType::Null);
                let from = operand.get_type(schema).unwrap_or(DataType::Null);
                !is_string(&to) && (is_string(&from) || (from.is_numeric() && to.is_numeric()))
            }
            ("subscript" | "element_at", [container, _]) => {
                matches!(container.get_type(schema), Ok(DataType::List(_)))
            }
            ("to_timestamp" | "to_date" | "raise_error" | "assert_true", _) => true,
            _ => false,
        })
    };
    expr.exists(fails).unwrap_or(false)
}

fn is_other_than_zero(divisor: &Expr) -> bool {
    match divisor {
        Expr::Literal(value, _) => {
            !value.is_null()
                && datafusion::common::ScalarValue::new_zero(&value.data_type())
                    .is_ok_and(|zero| zero != *value)
        }
        Expr::Cast(cast) => is_other_than_zero(&cast.expr),
        _ => false,
    }
}
