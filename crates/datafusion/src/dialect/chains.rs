//! `a + b + ..` and `a AND b AND ..` of many operators: a tree as deep as there are operators, which
//! whoever walks, copies or drops it pays for with the stack. One flat node stands for it.

use super::extension::{Node, text};
use super::guard::joined;
use super::operators::binary;
use crate::functions::concat_udf;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{Expr as Planned, Operator};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Operators in a row that stay a tree.
const TREE_MAX: usize = 16;

/// The stack that it takes to read a statement with as many operators as are allowed.
const STACK_BYTES: usize = 64 << 20;

/// Reads a tree with `parse`, with stack for the deepest, and gives it without long chains.
pub(crate) fn read<T: VisitMut, E>(parse: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    stacker::grow(STACK_BYTES, || {
        let mut tree = parse()?;
        let _: ControlFlow<()> = tree.visit(&mut Flatten);
        Ok(tree)
    })
}

/// Operators that may stand in one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    And,
    Or,
    Values,
}

fn kind(op: &BinaryOperator) -> Option<Kind> {
    match op {
        BinaryOperator::And => Some(Kind::And),
        BinaryOperator::Or => Some(Kind::Or),
        _ => value_operator(&op.to_string()).map(|_| Kind::Values),
    }
}

fn value_operator(symbol: &str) -> Option<Operator> {
    Some(match symbol {
        "+" => Operator::Plus,
        "-" => Operator::Minus,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "%" => Operator::Modulo,
        "DIV" => Operator::IntegerDivide,
        "||" => Operator::StringConcat,
        _ => return None,
    })
}

struct Flatten;

impl VisitorMut for Flatten {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::BinaryOp { op, .. } = &*expr else { return ControlFlow::Continue(()) };
        let Some(of) = kind(op).filter(|of| is_long(expr, *of)) else {
            return ControlFlow::Continue(());
        };
        // From the last operand to the first.
        let mut arguments = Vec::new();
        let mut rest = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        loop {
            match rest {
                Expr::BinaryOp { left, op, right } if kind(&op) == Some(of) => {
                    arguments.extend([*right, text(op.to_string())]);
                    rest = *left;
                }
                first => {
                    arguments.push(first);
                    break;
                }
            }
        }
        arguments.reverse();
        *expr = Node::Chain.of(arguments);
        ControlFlow::Continue(())
    }
}

fn is_long(expr: &Expr, of: Kind) -> bool {
    let (mut expr, mut operators) = (expr, 0);
    while let Expr::BinaryOp { left, op, .. } = expr
        && kind(op) == Some(of)
        && operators <= TREE_MAX
    {
        (expr, operators) = (left, operators + 1);
    }
    operators > TREE_MAX
}

/// The chain of operands with the text of an operator between two each.
pub(super) fn planned(values: Vec<Planned>, schema: &DFSchema) -> Result<Planned> {
    let mut values = values.into_iter();
    let Some(first) = values.next() else { return internal_err!("a chain begins with a value") };
    let mut conditions = Vec::new();
    let mut value = first;
    while let (Some(op), Some(operand)) = (values.next(), values.next()) {
        let Planned::Literal(ScalarValue::Utf8(Some(symbol)), _) = &op else {
            return internal_err!("an operator stands between two operands");
        };
        match (symbol.as_str(), value_operator(symbol)) {
            ("AND" | "OR", _) => {
                conditions.push(std::mem::replace(&mut value, operand));
                let op = if symbol == "AND" { Operator::And } else { Operator::Or };
                if values.len() == 0 {
                    conditions.push(value);
                    return Ok(joined(op, conditions));
                }
            }
            (_, Some(op)) => {
                value = match binary(op, &value, &operand, schema)? {
                    Some(planned) => planned,
                    // Of arrays.
                    None if op == Operator::StringConcat => Planned::ScalarFunction(
                        ScalarFunction::new_udf(concat_udf(true), vec![value, operand]),
                    ),
                    None => {
                        Planned::BinaryExpr(BinaryExpr::new(Box::new(value), op, Box::new(operand)))
                    }
                };
            }
            _ => return internal_err!("no chain of `{symbol}`"),
        }
    }
    Ok(value)
}
