//! Expressions of hundreds of operators, on a thread with a small stack.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use fluvial_datafusion::dialect::{plan_sql, session_state_builder};

/// `value operator value operator ..` over a row with `a` = 1, as text.
async fn repeated(value: &str, operator: &str, count: usize) -> String {
    let state = SessionContext::new_with_state(session_state_builder().build()).state();
    let chain = vec![value; count].join(&format!(" {operator} "));
    let query = format!("SELECT {chain} AS v FROM VALUES (1) t(a)");
    let plan = plan_sql(&state, &query).await.unwrap();
    let plan = state.create_physical_plan(&plan).await.unwrap();
    let batches = collect(plan, state.task_ctx()).await.unwrap();
    let format = FormatOptions::default();
    ArrayFormatter::try_new(batches[0].column(0), &format).unwrap().value(0).to_string()
}

#[tokio::test]
async fn sums_and_texts_of_many_operands() {
    assert_eq!(repeated("a", "+", 1000).await, "1000");
    assert_eq!(repeated("a + 1L", "+", 500).await, "1000");
    assert_eq!(repeated("a * 0.5D", "+", 400).await, "200.0");
    assert_eq!(repeated("a / 2", "+", 400).await, "200.0");
    assert_eq!(repeated("1.5", "+", 200).await, "300.0");
    assert_eq!(repeated("CASE WHEN a = 1 THEN 1 ELSE 0 END", "+", 300).await, "300");
    assert_eq!(repeated("CAST(a AS STRING)", "||", 300).await, "1".repeat(300));
}

#[tokio::test]
async fn many_conditions() {
    for operator in ["AND", "OR"] {
        assert_eq!(repeated("(a = 1)", operator, 1000).await, "true");
        // Each of them protects those behind it.
        assert_eq!(repeated("(1 / a > 0)", operator, 40).await, "true");
    }
}
