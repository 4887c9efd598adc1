//! `f(..) WITHIN GROUP (ORDER BY key)`, as calls whose arguments say the order.

use super::extension::{Node, text};
use super::lower::{call, number};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    OrderByExpr, Value,
};

/// The call in other words, if the function is one that Spark gives an order. Its children are
/// lowered already.
pub(super) fn lowered(name: &str, function: &Function) -> Option<Expr> {
    let keys = function.within_group.as_slice();
    let filter = function.filter.as_deref();
    let arguments = arguments(function)?;
    let call = |name: &str, arguments| filtered(call(name, arguments), filter);
    match (name, arguments.as_slice(), keys) {
        ("percentile_cont" | "percentile_disc", [percentage], [key]) => {
            let arguments = vec![key.expr.clone(), percentage.clone(), truth(descends(key))];
            Some(call(name, arguments))
        }
        ("mode", [], [key]) if descends(key) => {
            Some(call("mode_descending", vec![key.expr.clone()]))
        }
        ("mode", [], [key]) => Some(call("mode", vec![key.expr.clone(), truth(true)])),
        ("listagg" | "string_agg", [value], _) => listed(value, text(""), keys, filter),
        ("listagg" | "string_agg", [value, delimiter], _) => {
            let delimiter = match delimiter {
                Expr::Value(value) if value.value == Value::Null => text(""),
                other => other.clone(),
            };
            listed(value, delimiter, keys, filter)
        }
        _ => None,
    }
}

/// The arguments, if they are plain.
fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() || function.over.is_some() {
        return None;
    }
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(plain).collect()
}

fn descends(key: &OrderByExpr) -> bool {
    key.options.asc == Some(false)
}

fn truth(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

fn filtered(call: Expr, filter: Option<&Expr>) -> Expr {
    match call {
        Expr::Function(function) => {
            Expr::Function(Function { filter: filter.cloned().map(Box::new), ..function })
        }
        other => other,
    }
}

/// Texts in order: all of them, with their keys, are collected, sorted and joined.
fn listed(
    value: &Expr,
    delimiter: Expr,
    keys: &[OrderByExpr],
    filter: Option<&Expr>,
) -> Option<Expr> {
    const TEXT: &str = "text";
    let descending = descends(keys.first()?);
    // An array is sorted one way, and so are its nulls.
    let fits = |key: &OrderByExpr| {
        descends(key) == descending
            && key.options.nulls_first.is_none_or(|first| first != descending)
    };
    if !keys.iter().all(fits) {
        return None;
    }
    let mut fields = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        fields.extend([text(format!("key{i}")), key.expr.clone()]);
    }
    fields.extend([text(TEXT), value.clone()]);
    let present = Expr::IsNotNull(Box::new(value.clone()));
    let counted = match filter {
        Some(filter) => Expr::BinaryOp {
            left: Box::new(present),
            op: BinaryOperator::And,
            right: Box::new(filter.clone()),
        },
        None => present,
    };
    let collected =
        filtered(call("collect_list", vec![call("named_struct", fields)]), Some(&counted));
    let sorted = call("sort_array", vec![collected.clone(), truth(!descending)]);
    let texts = Expr::CompoundFieldAccess {
        root: Box::new(sorted),
        access_chain: vec![AccessExpr::Dot(text(TEXT))],
    };
    let none = Expr::BinaryOp {
        left: Box::new(call("size", vec![collected])),
        op: BinaryOperator::Eq,
        right: Box::new(number("0".to_owned())),
    };
    let joined = call("array_join", vec![texts, delimiter]);
    Some(Node::If.of([none, Expr::Value(Value::Null.into()), joined]))
}
