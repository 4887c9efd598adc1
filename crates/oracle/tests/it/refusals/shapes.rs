//! Shapes of queries: sorting, limits, set operations, subqueries, joins with tables.

use super::entry::{Entry, accepted, ours, sparks};
use fluvial::OutputMode::{Append, Complete, Update};

const SORT: &str = "STREAMING_SORT_NOT_SUPPORTED";
const STATIC: &str = "STREAM_STATIC_JOIN_NOT_SUPPORTED";
const SET: &str = "STREAMING_SET_OPERATION_NOT_SUPPORTED";

pub(super) fn entries() -> Vec<Entry> {
    let mut all = sorted_and_limited();
    all.extend(sets());
    all.extend(subqueries());
    all.extend(joins_with_tables());
    all
}

fn sorted_and_limited() -> Vec<Entry> {
    vec![
        ours("sort_append", SORT, &["ts", "complete"])
            .sql(Append, "SELECT * FROM events ORDER BY ts"),
        ours("sort_update_agg", SORT, &["n", "complete"])
            .sql(Update, "SELECT k, count(*) AS n FROM events GROUP BY k ORDER BY n"),
        ours("suite_sort_agg_append", SORT, &["w", "complete"]).sql(
            Append,
            "SELECT window(ts, '10 minutes') AS w, count(*) FROM timed GROUP BY 1 ORDER BY w",
        ),
        ours("limit_update", "STREAMING_LIMIT_NOT_SUPPORTED_IN_UPDATE_MODE", &["update", "append"])
            .sql(Update, "SELECT * FROM events LIMIT 5"),
        ours("offset_append", "STREAMING_OFFSET_NOT_SUPPORTED", &["OFFSET"])
            .sql(Append, "SELECT * FROM events OFFSET 5"),
        sparks("suite_limit_negative", &["-1"]).sql(Append, "SELECT * FROM events LIMIT -1"),
        accepted("suite_limit_after_agg_append").sql(
            Append,
            "SELECT window(ts, '10 minutes') AS w, count(*) FROM timed GROUP BY 1 LIMIT 1",
        ),
        accepted("suite_limit_complete_no_sort")
            .sql(Complete, "SELECT k, count(*) FROM events GROUP BY k LIMIT 1"),
    ]
}

fn sets() -> Vec<Entry> {
    vec![
        accepted("suite_except_all_stream_static_update")
            .sql(Update, "SELECT k FROM events EXCEPT ALL SELECT pk FROM people"),
        sparks("except", &["append", "watermark"])
            .sql(Append, "SELECT k FROM events EXCEPT SELECT pk FROM people"),
        ours("suite_except_static_stream", SET, &["EXCEPT"])
            .sql(Update, "SELECT pk FROM people EXCEPT SELECT k FROM events"),
        ours("suite_intersect_stream_static", SET, &["INTERSECT"])
            .sql(Append, "SELECT k FROM events INTERSECT SELECT pk FROM people"),
        ours("suite_intersect_stream_static_update", SET, &["INTERSECT"])
            .sql(Update, "SELECT k FROM events INTERSECT SELECT pk FROM people"),
        ours(
            "union_stream_batch",
            "STREAMING_UNION_WITH_BATCH_NOT_SUPPORTED",
            &["union", "read the table as a stream"],
        )
        .sql(Append, "SELECT k FROM events UNION ALL SELECT pk FROM people"),
    ]
}

fn subqueries() -> Vec<Entry> {
    vec![
        sparks("suite_stream_in_subquery", &["subquery", "join"])
            .sql(Append, "SELECT * FROM people WHERE pk IN (SELECT k FROM events)"),
        sparks("suite_scalar_subquery_of_stream", &["subquery", "join"])
            .sql(Append, "SELECT k, (SELECT max(rv) FROM others) AS m FROM events"),
        sparks("suite_stream_exists_stream", &["subquery", "join"]).sql(
            Append,
            "SELECT * FROM timed WHERE EXISTS (SELECT 1 FROM others_timed \
             WHERE rk = k AND rts BETWEEN ts AND ts + INTERVAL 10 MINUTES)",
        ),
        sparks("suite_stream_not_exists_stream", &["subquery", "join"]).sql(
            Append,
            "SELECT * FROM timed WHERE NOT EXISTS (SELECT 1 FROM others_timed WHERE rk = k)",
        ),
    ]
}

fn joins_with_tables() -> Vec<Entry> {
    vec![
        ours("stream_right_outer_static", STATIC, &["Right", "left"])
            .sql(Append, "SELECT k, age FROM events RIGHT JOIN people ON k = pk"),
        ours("static_anti_stream", STATIC, &["Anti", "right"])
            .sql(Append, "SELECT pk FROM people LEFT ANTI JOIN events ON k = pk"),
        ours("suite_static_full_outer_stream", STATIC, &["Full", "right"])
            .sql(Append, "SELECT k, age FROM people FULL JOIN events ON k = pk"),
        accepted("suite_static_cross_stream")
            .sql(Append, "SELECT k, age FROM events CROSS JOIN people"),
        accepted("suite_dedup_static_inside").sql(
            Append,
            "SELECT k, age FROM events JOIN (SELECT DISTINCT * FROM people) ON k = pk",
        ),
    ]
}
