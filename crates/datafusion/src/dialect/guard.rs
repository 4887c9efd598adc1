//! Conditions that protect others: `b <> 0 AND a / b > 1`.
//!
//! Spark evaluates the right side of AND and OR, and the branches of CASE, only for the rows that
//! need them. DataFusion may evaluate the right side for all rows, and takes boolean CASEs apart
//! into ANDs and ORs. Where a side can fail, it is put into a CASE that stays one: over numbers.

use crate::functions::arithmetic::Chain;
use crate::functions::cast::is_string;
use crate::functions::typing::{Typed, downcast};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, Operator, lit};

/// Guards an expression and all that it is made of. What is guarded already stays as it is.
pub(super) fn guard_all(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        if is_guard(&expr) {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        }
        match expr {
            Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
                let conditions = chain(&expr, op);
                let mut behind = conditions[1..].iter();
                if !conditions.iter().any(|condition| may_fail(condition, schema)) {
                    return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
                }
                let at = behind.position(|c| may_fail(c, schema) && !is_guard(c));
                let whole = |condition: &&Expr| Ok(guard_all((*condition).clone(), schema)?.data);
                let conditions = conditions.iter().map(whole).collect::<Result<Vec<_>>>()?;
                let guarded = match at {
                    Some(at) => guarded(op, conditions, at + 1),
                    None => joined(op, conditions),
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

/// The conditions of `a AND b AND c`, in their order.
fn chain(expr: &Expr, op: Operator) -> Vec<&Expr> {
    let (mut conditions, mut left) = (Vec::new(), vec![expr]);
    while let Some(next) = left.pop() {
        match next {
            Expr::BinaryExpr(binary) if binary.op == op => {
                left.extend([binary.right.as_ref(), binary.left.as_ref()]);
            }
            condition => conditions.push(condition),
        }
    }
    conditions
}

/// The conditions together, in a tree that is no deeper than it must be.
pub(super) fn joined(op: Operator, mut conditions: Vec<Expr>) -> Expr {
    if conditions.len() < 2 {
        return conditions.pop().unwrap_or_else(|| lit(op == Operator::And));
    }
    let right = conditions.split_off(conditions.len().div_ceil(2));
    let (left, right) = (joined(op, conditions), joined(op, right));
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// For rows where a condition decides, those behind it do not count. Those before `safe` cannot
/// fail where they should not be looked at, and stay as they are.
fn guarded(op: Operator, conditions: Vec<Expr>, safe: usize) -> Expr {
    let decides = |condition: &Expr| {
        let condition = Box::new(condition.clone());
        match op {
            Operator::And => (Box::new(Expr::IsFalse(condition)), Box::new(lit(0_i8))),
            _ => (Box::new(Expr::IsTrue(condition)), Box::new(lit(1_i8))),
        }
    };
    let decided = conditions[..conditions.len() - 1].iter().map(decides).collect();
    let before = conditions[..safe].to_vec();
    let all = number(joined(op, conditions));
    let guard = Expr::Case(Case::new(None, decided, Some(Box::new(all)))).eq(lit(1_i8));
    // What stands before an OR decides nothing alone.
    match op {
        Operator::And => joined(op, before).and(guard),
        _ => guard,
    }
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

pub(super) fn number(condition: Expr) -> Expr {
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
    branch.is_some_and(|(_, then)| matches!(then.type_in(schema), Ok(DataType::Boolean)))
}

fn any_may_fail(case: &Case, schema: &DFSchema) -> bool {
    case.when_then_expr.iter().any(|(w, t)| may_fail(w, schema) || may_fail(t, schema))
        || case.else_expr.iter().any(|e| may_fail(e, schema))
}

/// Whether evaluating the expression for a row may stop the query. Overflow of sums and products
/// does not count: guards are not written against it, and it would cost every filter.
pub(super) fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let fails = |e: &Expr| {
        let Expr::ScalarFunction(call) = e else { return Ok(false) };
        if let Some(chain) = downcast::<Chain>(call) {
            return Ok(chain.divides());
        }
        Ok(match (call.func.name(), call.args.as_slice()) {
            ("divide" | "div" | "mod" | "pmod", [_, divisor]) => !is_other_than_zero(divisor),
            ("cast", [operand]) => {
                let to = call.func.return_type(&[]).unwrap_or(DataType::Null);
                let from = operand.type_in(schema).unwrap_or(DataType::Null);
                !is_string(&to) && (is_string(&from) || (from.is_numeric() && to.is_numeric()))
            }
            ("subscript" | "element_at", [container, _]) => {
                matches!(container.type_in(schema), Ok(DataType::List(_)))
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
