//! From text to expressions and plans.

use super::chains;
use super::lateral_alias;
use super::lower::{lower_expression, lower_query};
use super::names;
use super::pretty;
use super::raw_string;
use super::refusal;
use super::session::name_case;
use super::set_operations;
use super::star_arguments;
use super::struct_star;
use super::syntax::SparkDialect;
use super::table_names;
use super::union_types::widened;
use super::unread;
use super::value_types;
use crate::functions::error::spark;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias, Query, Statement};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use fluvial_core::NameCase;

/// Misspelt names that a query may have before we stop correcting.
const CORRECTIONS_MAX: usize = 256;

/// Plans an expression of Spark SQL over the columns of `schema`: `v > 2 AND k LIKE 'a%'`.
///
/// # Errors
///
/// `PARSE_SYNTAX_ERROR`, or what planning refuses.
pub fn parse_expression(state: &SessionState, text: &str, schema: &DFSchema) -> Result<Expr> {
    let (expr, alias) = read(text)?;
    let planned = plan(state, expr, schema)?;
    Ok(match alias {
        Some(alias) => planned.alias(alias),
        None => planned,
    })
}

/// Like [`parse_expression`] for a column of a SELECT: it gets the alias that is written, or the
/// name that Spark would give it.
///
/// # Errors
///
/// As for [`parse_expression`].
pub fn parse_projection(state: &SessionState, text: &str, schema: &DFSchema) -> Result<Expr> {
    let (expr, alias) = read(text)?;
    let name = match alias {
        Some(alias) => Some(alias),
        None => match &expr {
            SqlExpr::Identifier(ident) => Some(ident.value.clone()),
            other => pretty::column_name(other),
        },
    };
    let planned = plan(state, expr, schema)?;
    Ok(match name {
        Some(name) if planned.schema_name().to_string() != name => planned.alias(name),
        _ => planned,
    })
}

fn read(text: &str) -> Result<(SqlExpr, Option<String>)> {
    let dialect = SparkDialect;
    let syntax = |e: ParserError| syntax_error(text, &e.to_string());
    let mut parser = parser(text, &dialect).map_err(syntax)?;
    let parsed = chains::read(|| parser.parse_expr_with_alias()).map_err(syntax)?;
    let ExprWithAlias { expr, alias } = parsed;
    let next = parser.peek_token();
    if next.token != Token::EOF {
        return Err(syntax_error(text, &format!("unexpected `{}`", next.token)));
    }
    Ok((expr, alias.map(|alias| alias.value)))
}

fn parser<'a>(text: &str, dialect: &'a SparkDialect) -> Result<Parser<'a>, ParserError> {
    Ok(Parser::new(dialect).with_tokens_with_locations(raw_string::tokenize(text, dialect)?))
}

fn syntax_error(text: &str, what: &str) -> DataFusionError {
    let what = what.trim_start_matches("sql parser error: ");
    spark("PARSE_SYNTAX_ERROR", format!("cannot read `{text}`: {what}"))
}

fn plan(state: &SessionState, mut expr: SqlExpr, schema: &DFSchema) -> Result<Expr> {
    if name_case(state) == NameCase::Insensitive {
        names::respell_expression(&mut expr, schema);
    }
    lower_expression(&mut expr);
    state
        .create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias: None }, schema)
        .map_err(refusal::named)
}

/// Plans a query that was read with [`SparkDialect`] and not lowered yet. Tables are those of the
/// session's catalog; names of columns are found whatever their case.
///
/// # Errors
///
/// What planning refuses.
pub async fn plan_query(state: &SessionState, mut query: Query) -> Result<LogicalPlan> {
    unread::check(&query)?;
    star_arguments::expand(state, &mut query).await;
    lower_query(&mut query);
    refusal::check_limit(&query)?;
    plan_lowered(state, query).await
}

/// Plans a query that was lowered already.
pub(super) async fn plan_lowered(state: &SessionState, mut query: Query) -> Result<LogicalPlan> {
    let case = name_case(state);
    value_types::unify(state, &mut query)?;
    let mut corrections = 0;
    loop {
        let statement = Statement::Query(Box::new(query.clone()));
        let statement = DfStatement::Statement(Box::new(statement));
        let error = match state.statement_to_plan(statement).await {
            Ok(plan) => return set_operations::counted(state, widened(plan)?),
            Err(error) => error,
        };
        corrections += 1;
        let mut respelt = || {
            case == NameCase::Insensitive
                && (table_names::respell(state, &error, &mut query)
                    || names::correction(&error)
                        .is_some_and(|correction| correction.apply(&mut query)))
        };
        let corrected = corrections <= CORRECTIONS_MAX
            && (respelt()
                || lateral_alias::resolve(state, &error, &mut query)?
                || struct_star::expand(state, &error, &mut query).await);
        if !corrected {
            return Err(refusal::named(error));
        }
    }
}

/// Reads and plans one query: `SELECT ...`, `WITH ...`, `VALUES ...`.
///
/// # Errors
///
/// `PARSE_SYNTAX_ERROR`, or what planning refuses.
pub async fn plan_sql(state: &SessionState, text: &str) -> Result<LogicalPlan> {
    let dialect = SparkDialect;
    let syntax = |e: ParserError| syntax_error(text, &e.to_string());
    let mut parser = parser(text, &dialect).map_err(syntax)?;
    let query = chains::read(|| parser.parse_query()).map_err(syntax)?;
    while parser.consume_token(&Token::SemiColon) {}
    let next = parser.peek_token();
    if next.token != Token::EOF {
        return Err(syntax_error(text, &format!("unexpected `{}`", next.token)));
    }
    plan_query(state, *query).await
}
