//! `LIKE ANY (..)` and `LIKE ALL (..)`: one comparison for each pattern.

use super::lower::plain_arguments;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Function};

/// The comparison with several patterns as comparisons with one, put together.
pub(super) fn lowered(expr: Expr) -> Expr {
    let (Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. }) = &expr else {
        return expr;
    };
    let (together, patterns) = match pattern.as_ref() {
        Expr::Tuple(patterns) if *any => (BinaryOperator::Or, patterns.clone()),
        Expr::Nested(pattern) if *any => (BinaryOperator::Or, vec![pattern.as_ref().clone()]),
        Expr::Function(function) if !any && is_all(function) => {
            (BinaryOperator::And, plain_arguments(function).unwrap_or_default())
        }
        _ => return expr,
    };
    let one = |pattern: Expr| Expr::Nested(Box::new(with_pattern(expr.clone(), pattern)));
    let all = patterns.into_iter().map(one).reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: together.clone(),
        right: Box::new(right),
    });
    all.map_or(expr, |all| Expr::Nested(Box::new(all)))
}

fn is_all(function: &Function) -> bool {
    function.name.to_string().eq_ignore_ascii_case("all")
}

fn with_pattern(mut expr: Expr, one: Expr) -> Expr {
    if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut expr {
        *any = false;
        **pattern = one;
    }
    expr
}
