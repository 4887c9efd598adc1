//! What sqlparser must know to read Spark's SQL.

use super::extension::{Node, text};
use super::like;
use super::lower::call;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::dialect::{DatabricksDialect, Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::any::TypeId;

/// Spark SQL's syntax. Double quotes are strings, backticks quote names.
#[derive(Debug, Clone, Copy, Default)]
pub struct SparkDialect;

impl Dialect for SparkDialect {
    fn dialect(&self) -> TypeId {
        // sqlparser asks by type in places: closest is Databricks.
        TypeId::of::<DatabricksDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn identifier_quote_style(&self, _: &str) -> Option<char> {
        Some('`')
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn ignores_wildcard_escapes(&self) -> bool {
        true
    }

    fn supports_string_literal_concatenation(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn supports_lambda_functions(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_struct_literal(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_values_as_table_factor(&self) -> bool {
        true
    }

    fn supports_bang_not_operator(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_named_fn_args_with_rarrow_operator(&self) -> bool {
        true
    }

    fn supports_cte_without_as(&self) -> bool {
        true
    }

    fn supports_select_item_multi_column_alias(&self) -> bool {
        true
    }

    // `extract(YEAROFWEEK FROM t)`: Spark's parts are not all keywords.
    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Number(..) => number(parser).map(Ok),
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::INTERVAL => interval(parser).map(Ok),
                Keyword::CAST => cast(parser, Node::Cast),
                Keyword::TRY_CAST => cast(parser, Node::TryCast),
                Keyword::STRUCT => structure(parser),
                _ => None,
            },
            _ => None,
        }
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(shift) = unsigned_shift(parser, left, precedence) {
            return Some(shift);
        }
        if let Some(like) = like::some(parser, left, precedence) {
            return Some(like);
        }
        if !parser.parse_keyword(Keyword::DIV) {
            return None;
        }
        let right = parser.parse_subexpr(precedence.max(self.prec_value(Precedence::MulDivModOp)));
        Some(right.map(|right| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right),
        }))
    }
}

/// `a >>> 1`, which the tokenizer cuts into `>>` and `>`.
fn unsigned_shift(
    parser: &mut Parser<'_>,
    left: &Expr,
    precedence: u8,
) -> Option<Result<Expr, ParserError>> {
    let [shift, more] = [parser.peek_nth_token(0), parser.peek_nth_token(1)];
    let together = shift.span.end == more.span.start;
    if shift.token != Token::ShiftRight || more.token != Token::Gt || !together {
        return None;
    }
    parser.advance_token();
    parser.advance_token();
    let right = parser.parse_subexpr(precedence);
    Some(right.map(|right| call("shiftrightunsigned", vec![left.clone(), right])))
}

/// A number with a suffix: `1L`, `1.5D`. One without stays sqlparser's.
fn number(parser: &mut Parser<'_>) -> Option<Expr> {
    let token = parser.peek_token();
    let Token::Number(digits, long) = token.token else { return None };
    if long {
        parser.advance_token();
        return Some(Node::Number.of([text(digits), text("L")]));
    }
    let TokenWithSpan { token: Token::Word(word), span } = parser.peek_nth_token(1) else {
        return None;
    };
    // The suffix stands right behind the number: `1 D` is a number and an alias.
    if span.start != token.span.end || word.quote_style.is_some() {
        return None;
    }
    let suffix = word.value.to_ascii_uppercase();
    if !matches!(suffix.as_str(), "L" | "S" | "Y" | "D" | "F" | "BD") {
        return None;
    }
    parser.advance_token();
    parser.advance_token();
    Some(Node::Number.of([text(digits), text(suffix)]))
}

/// `INTERVAL` and all its values and units, whose meaning is checked later.
fn interval(parser: &mut Parser<'_>) -> Option<Expr> {
    let starts_value = |token: &Token| {
        matches!(
            token,
            Token::Number(..) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)
        )
    };
    let (first, second) = (parser.peek_nth_token(1).token, parser.peek_nth_token(2).token);
    let signed = matches!(first, Token::Minus | Token::Plus) && starts_value(&second);
    if !starts_value(&first) && !signed {
        return None;
    }
    parser.advance_token();
    let mut words = vec!["interval".to_owned()];
    loop {
        let mut sign = "";
        match parser.peek_token_ref().token {
            Token::Minus if starts_value(&parser.peek_nth_token(1).token) => sign = "-",
            Token::Plus if starts_value(&parser.peek_nth_token(1).token) => sign = "+",
            _ => {}
        }
        // A sign after a unit belongs to an outer sum.
        if !sign.is_empty() && words.len() > 1 {
            break;
        }
        if !sign.is_empty() {
            parser.advance_token();
        }
        match parser.peek_token().token {
            Token::Number(digits, false) => words.push(format!("{sign}{digits}")),
            Token::SingleQuotedString(s) | Token::DoubleQuotedString(s) => {
                words.push(format!("{sign}'{s}'"));
            }
            _ => break,
        }
        parser.advance_token();
        let Some(first) = unit(parser) else { break };
        words.push(first);
        if parser.parse_keyword(Keyword::TO) {
            words.push("to".to_owned());
            words.extend(unit(parser));
            break;
        }
    }
    Some(Node::Interval.of([text(words.join(" "))]))
}

/// A unit of time, singular or plural.
fn unit(parser: &mut Parser<'_>) -> Option<String> {
    let Token::Word(word) = &parser.peek_token_ref().token else { return None };
    let name = word.value.to_ascii_lowercase();
    let singular = name.strip_suffix('s').unwrap_or(&name);
    let units = [
        "year",
        "month",
        "week",
        "day",
        "hour",
        "minute",
        "second",
        "millisecond",
        "microsecond",
        "nanosecond",
    ];
    if !units.contains(&singular) {
        return None;
    }
    parser.advance_token();
    Some(name)
}

/// `struct(x, y AS z, *)`: sqlparser reads no stars there.
fn structure(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let second = &parser.peek_nth_token_ref(2).token;
    if parser.peek_nth_token_ref(1).token != Token::LParen || *second == Token::RParen {
        return None;
    }
    parser.advance_token();
    parser.advance_token();
    let value = |parser: &mut Parser<'_>| {
        let expr = parser.parse_wildcard_expr()?;
        if !parser.parse_keyword(Keyword::AS) {
            return Ok(expr);
        }
        Ok(Expr::Named { expr: Box::new(expr), name: parser.parse_identifier()? })
    };
    let values = parser.parse_comma_separated(value);
    Some(values.and_then(|values| {
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::Struct { values, fields: Vec::new() })
    }))
}

/// `CAST(x AS type)`, whose type is read as Spark's DDL, not as sqlparser's.
fn cast(parser: &mut Parser<'_>, node: Node) -> Option<Result<Expr, ParserError>> {
    if parser.peek_nth_token_ref(1).token != Token::LParen {
        return None;
    }
    parser.advance_token();
    parser.advance_token();
    Some(cast_body(parser, node))
}

fn cast_body(parser: &mut Parser<'_>, node: Node) -> Result<Expr, ParserError> {
    let operand = parser.parse_expr()?;
    parser.expect_keyword(Keyword::AS)?;
    let mut depth = 0_usize;
    let mut name = String::new();
    loop {
        match parser.peek_token_ref().token {
            Token::RParen if depth == 0 => break,
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF | Token::SemiColon => {
                let found = parser.peek_token();
                return parser.expected("`)` at the end of the cast", found);
            }
            _ => {}
        }
        name.push_str(&parser.next_token().token.to_string());
        name.push(' ');
    }
    parser.expect_token(&Token::RParen)?;
    Ok(node.of([operand, text(name.trim_end())]))
}
