//! LIKE before planning. `LIKE ANY (..)` and `LIKE ALL (..)` are one comparison for each pattern.

use super::extension::{Node, text};
use super::lower::{negated_if, plain_arguments};
use crate::functions::cast::{cast_expr, is_string};
use crate::functions::error::{spark, unexpected_type};
use crate::functions::typing::Typed;
use crate::functions::{like_pattern, like_pattern_udf};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr as Planned, Like};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Function};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

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
        _ => return comparison(expr),
    };
    let one =
        |pattern: Expr| Expr::Nested(Box::new(comparison(with_pattern(expr.clone(), pattern))));
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

/// The comparison with one pattern as a node of ours.
fn comparison(expr: Expr) -> Expr {
    let (node, negated, value, pattern, escape) = match expr {
        Expr::Like { negated, expr, pattern, escape_char, .. } => {
            (Node::Like, negated, expr, pattern, escape_char)
        }
        Expr::ILike { negated, expr, pattern, escape_char, .. } => {
            (Node::Ilike, negated, expr, pattern, escape_char)
        }
        other => return other,
    };
    let escape = escape.map_or_else(|| text("\\"), Expr::Value);
    negated_if(negated, node.of([*value, *pattern, escape]))
}

/// `v LIKE SOME (..)` is `v LIKE ANY (..)`, which sqlparser reads.
pub(super) fn some(
    parser: &mut Parser<'_>,
    left: &Expr,
    precedence: u8,
) -> Option<Result<Expr, ParserError>> {
    let word = |at: usize| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    };
    let negated = word(0) == Some(Keyword::NOT);
    let at = usize::from(negated);
    let like = word(at).filter(|k| matches!(k, Keyword::LIKE | Keyword::ILIKE))?;
    if word(at + 1) != Some(Keyword::SOME) {
        return None;
    }
    (0..at + 2).for_each(|_| parser.advance_token());
    Some(parser.parse_subexpr(precedence).map(|patterns| {
        let (expr, pattern) = (Box::new(left.clone()), Box::new(patterns));
        match like {
            Keyword::LIKE => Expr::Like { negated, any: true, expr, pattern, escape_char: None },
            _ => Expr::ILike { negated, any: true, expr, pattern, escape_char: None },
        }
    }))
}

/// `value LIKE pattern`: both are brought to text, and the pattern is one that Arrow takes.
pub(super) fn planned(
    values: Vec<Planned>,
    ignores_case: bool,
    schema: &DFSchema,
) -> Result<Planned> {
    let Ok([value, pattern, escape]) = <[Planned; 3]>::try_from(values) else {
        return internal_err!("LIKE has a value, a pattern and an escape");
    };
    let Planned::Literal(ScalarValue::Utf8(Some(escape)), _) = &escape else {
        return internal_err!("the escape of LIKE is a text");
    };
    let &[escape] = escape.chars().collect::<Vec<_>>().as_slice() else {
        return Err(spark(
            "INVALID_ESC",
            format!("the escape of LIKE is one character, such as '/', not '{escape}'"),
        ));
    };
    let as_text = |expr: Planned| {
        let of = expr.type_in(schema)?;
        if of.is_nested() {
            return Err(unexpected_type("like", "text", &of));
        }
        if is_string(&of) {
            return Ok(expr);
        }
        cast_expr(expr, &DataType::Utf8, schema)
    };
    let (value, pattern) = (as_text(value)?, as_text(pattern)?);
    let pattern = match pattern {
        Planned::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            let text = like_pattern(&text, escape)?;
            Planned::Literal(ScalarValue::Utf8(Some(text)), metadata)
        }
        pattern => {
            let escape = datafusion::logical_expr::lit(escape.to_string());
            let arguments = vec![pattern, escape];
            Planned::ScalarFunction(ScalarFunction::new_udf(like_pattern_udf(), arguments))
        }
    };
    Ok(Planned::Like(Like::new(false, Box::new(value), Box::new(pattern), None, ignores_case)))
}
