//! Expressions with the results that Spark 4.1 gives (ANSI, session zone UTC): one fact a line,
//! `expression <tab> type <tab> value as text`, or `expression <tab> ERROR <tab> condition`.
//!
//! A line that starts with `≠` is a deliberate difference: what stands there is ours, and the
//! comment lines above it say why.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Float64Type;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionContext, col, lit};
use fluvial_datafusion::dialect::{parse_expression, plan_sql, session_state_builder};
use fluvial_datafusion::from_datafusion;

/// What an expression or a query gives: type and value of its only column, or a condition.
async fn evaluate(state: &SessionState, text: &str) -> Result<(String, String), String> {
    let lower = text.to_lowercase();
    let is_query = lower.starts_with("select ") || lower.starts_with("with ");
    let query = if is_query { text.to_owned() } else { format!("SELECT {text} AS v") };
    let shown = |e| {
        let error = from_datafusion(e);
        match error.condition() {
            Some(condition) => condition.to_owned(),
            None => format!("no condition: {error}"),
        }
    };
    let plan = plan_sql(state, &query).await.map_err(shown)?;
    let names: Vec<String> = plan.schema().fields().iter().map(|f| f.name().clone()).collect();
    // Types and text of the columns, by the expressions that users have for them.
    let mut exprs = Vec::new();
    for name in &names {
        for text in [format!("typeof(`{name}`)"), format!("cast(`{name}` AS STRING)")] {
            let expr = parse_expression(state, &text, plan.schema()).map_err(shown)?;
            exprs.push(expr.alias(exprs.len().to_string()));
        }
    }
    let plan = LogicalPlanBuilder::from(plan).project(exprs).and_then(|p| p.build());
    let plan = state.create_physical_plan(&plan.map_err(shown)?).await.map_err(shown)?;
    let batches = collect(plan, state.task_ctx()).await.map_err(shown)?;
    Ok((types(&batches, &names), rows(&batches)))
}

fn cell(batch: &RecordBatch, column: usize, row: usize) -> String {
    let text = batch.column(column).as_string::<i32>();
    if text.is_null(row) { "None".to_owned() } else { text.value(row).to_owned() }
}

fn types(batches: &[RecordBatch], names: &[String]) -> String {
    let Some(batch) = batches.iter().find(|b| b.num_rows() > 0) else { return String::new() };
    if names.len() == 1 {
        return cell(batch, 0, 0);
    }
    let field = |(i, name): (usize, &String)| format!("{name}:{}", cell(batch, 2 * i, 0));
    let fields: Vec<String> = names.iter().enumerate().map(field).collect();
    format!("struct<{}>", fields.join(","))
}

fn rows(batches: &[RecordBatch]) -> String {
    let mut out = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = (0..batch.num_columns()).skip(1).step_by(2);
            out.push(values.map(|column| cell(batch, column, row)).collect::<Vec<_>>().join(", "));
        }
    }
    // Facts are of sets of rows.
    out.sort();
    out.join(" | ")
}

async fn check(facts: &str) {
    check_in("UTC", facts).await;
}

async fn check_in(zone: &str, facts: &str) {
    let mut state = session_state_builder().build();
    state.config_mut().options_mut().execution.time_zone = Some(zone.to_owned());
    let state = SessionContext::new_with_state(state).state();
    let mut wrong = Vec::new();
    for line in facts.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix('≠').unwrap_or(line);
        let mut parts = line.split('\t');
        let mut part = || parts.next().unwrap_or_default();
        let (text, data_type, value) = (part(), part(), part().replace("\\n", "\n"));
        let text = text.replace("\\t", "\t");
        let expected = match data_type {
            "ERROR" => Err(value),
            _ => Ok((data_type.to_owned(), value)),
        };
        let found = evaluate(&state, &text).await;
        if found != expected {
            wrong.push(format!("{text}\n   expected {expected:?}\n      found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} facts differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn literals() {
    check(include_str!("facts/literals.tsv")).await;
}

#[tokio::test]
async fn operators() {
    check(include_str!("facts/operators.tsv")).await;
}

#[tokio::test]
async fn frames() {
    check(include_str!("facts/frames.tsv")).await;
}

#[tokio::test]
async fn lambdas() {
    check(include_str!("facts/lambdas.tsv")).await;
}

#[tokio::test]
async fn syntax() {
    check(include_str!("facts/syntax.tsv")).await;
}

#[tokio::test]
async fn queries() {
    check(include_str!("facts/queries.tsv")).await;
}

#[tokio::test]
async fn session_zone() {
    check_in("America/New_York", include_str!("facts/new_york.tsv")).await;
}

#[tokio::test]
async fn aggregates() {
    check(include_str!("facts/aggregates.tsv")).await;
}

#[tokio::test]
async fn functions() {
    check(include_str!("facts/functions.tsv")).await;
}

#[tokio::test]
async fn casts() {
    check(include_str!("facts/casts.tsv")).await;
}

#[tokio::test]
async fn a_union_of_dataframes_has_the_types_that_fit_both() {
    let state = SessionContext::new_with_state(session_state_builder().build()).state();
    let frame = async |query| DataFrame::new(state.clone(), plan_sql(&state, query).await.unwrap());
    let (bytes, doubles) = (frame("SELECT 1Y AS v").await, frame("SELECT 1.5D AS v").await);
    let sum = bytes.union(doubles).unwrap().select(vec![(col("v") + lit(1)).alias("w")]);
    let rows = sum.unwrap().sort_by(vec![col("w")]).unwrap().collect().await.unwrap();
    let values = rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Float64Type>().values());
    assert_eq!(values.copied().collect::<Vec<_>>(), [2.0, 2.5]);
}

#[tokio::test]
async fn output_columns_keep_the_case_as_written() {
    let state = SessionContext::new_with_state(session_state_builder().build()).state();
    let query = "SELECT K, V + 1, t.v FROM (VALUES ('a', 1)) AS T(k, v) WHERE K = 'a'";
    let plan = plan_sql(&state, query).await.unwrap();
    let names: Vec<&str> = plan.schema().fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["K", "(V + 1)", "v"]);
}

#[tokio::test]
async fn tables_are_found_in_any_case_and_not_sampled() {
    let context = SessionContext::new_with_state(session_state_builder().build());
    let plan = plan_sql(&context.state(), "SELECT 1 AS k").await.unwrap();
    let view = datafusion::datasource::ViewTable::new(plan, None);
    context.register_table("events", std::sync::Arc::new(view)).unwrap();
    let state = context.state();
    let plan = plan_sql(&state, "SELECT EVENTS.K FROM Events MINUS SELECT 2").await.unwrap();
    let plan = state.create_physical_plan(&plan).await.unwrap();
    let rows: usize =
        collect(plan, state.task_ctx()).await.unwrap().iter().map(|b| b.num_rows()).sum();
    assert_eq!(rows, 1);
    let sampled = plan_sql(&state, "SELECT k FROM events TABLESAMPLE (10 PERCENT)").await;
    let error = from_datafusion(sampled.unwrap_err());
    assert_eq!(error.condition(), Some("UNSUPPORTED_FEATURE"));
}
