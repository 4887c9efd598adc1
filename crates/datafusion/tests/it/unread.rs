//! Clauses that would be passed over are refused, or written so that they are not.

use datafusion::prelude::SessionContext;
use fluvial_datafusion::dialect::{plan_sql, session_state_builder};
use fluvial_datafusion::from_datafusion;

#[tokio::test]
async fn clauses_that_would_be_passed_over_are_refused() {
    let state = SessionContext::new_with_state(session_state_builder().build()).state();
    for query in [
        "select a from values (1) t(a) for update",
        "select a from (select 1 as a) t tablesample (10 percent)",
        "select a from t tablesample (1 rows)",
        "select a from t version as of 3",
        "select a from t timestamp as of '2026-01-01'",
        "select a from t with (nolock)",
        "select top 3 a from values (1) t(a)",
        "select a, count(*) from values (1) t(a) group by a with totals",
        "select a from (select a from t version as of 1) u",
        "with u as (select a from t tablesample (1 rows)) select a from u",
        "select collect_list(a order by a desc) from values (1) t(a)",
        "select timestamp'2026-01-01 00:00:00' at time zone 'Asia/Tokyo'",
        "select array_agg(a order by a desc) from values (1) t(a)",
    ] {
        let error = plan_sql(&state, query).await.map_err(from_datafusion).unwrap_err();
        assert_eq!(error.condition(), Some("UNSUPPORTED_FEATURE"), "{query}: {error}");
    }
}
