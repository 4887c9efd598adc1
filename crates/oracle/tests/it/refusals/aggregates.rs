//! Aggregates, window functions and other expressions.

use super::entry::{Entry, accepted, ours, refused_because, sparks};
use fluvial::OutputMode::{Append, Complete, Update};

const DISTINCT: &str = "STREAMING_DISTINCT_AGGREGATE_NOT_SUPPORTED";

pub(super) fn entries() -> Vec<Entry> {
    let mut all = functions();
    all.extend(time_windows());
    all
}

fn functions() -> Vec<Entry> {
    vec![
        ours("count_distinct", DISTINCT, &["v", "approx_count_distinct"])
            .sql(Update, "SELECT k, count(DISTINCT v) FROM events GROUP BY k"),
        ours("suite_sum_distinct", DISTINCT, &["v", "approx_count_distinct"])
            .sql(Update, "SELECT k, sum(DISTINCT v) FROM events GROUP BY k"),
        ours("suite_collect_list_distinct", DISTINCT, &["v", "approx_count_distinct"])
            .sql(Update, "SELECT k, collect_list(DISTINCT v) FROM events GROUP BY k"),
        accepted("suite_count_distinct_static_joined").sql(
            Append,
            "SELECT k, n FROM events JOIN \
             (SELECT pk, count(DISTINCT age) AS n FROM people GROUP BY pk) ON k = pk",
        ),
        sparks("over_window", &["row_number", "window(time, duration)"]).sql(
            Append,
            "SELECT k, row_number() OVER (PARTITION BY k ORDER BY ts) AS rn FROM timed",
        ),
        sparks("suite_lag_sql", &["lag", "window(time, duration)"])
            .sql(Append, "SELECT k, lag(v, 1) OVER (PARTITION BY k ORDER BY ts) FROM timed"),
        sparks("suite_window_function_after_agg_complete", &["rank", "window(time, duration)"])
            .sql(
                Complete,
                "SELECT k, n, rank() OVER (ORDER BY n) AS r FROM \
                 (SELECT k, count(*) AS n FROM events GROUP BY k)",
            ),
        ours(
            "suite_monotonically_increasing_id",
            "STREAMING_EXPRESSION_NOT_SUPPORTED",
            &["monotonically_increasing_id"],
        )
        .sql(Append, "SELECT monotonically_increasing_id() AS id, k FROM events"),
        refused_because(
            "suite_variant_group_key",
            "UNRESOLVED_ROUTINE",
            &["parse_json"],
            "there is no VARIANT type, so its function is what is missing",
        )
        .sql(Update, "SELECT parse_json('1'), count(*) FROM events GROUP BY parse_json('1')"),
        ours("pivot", "UNSUPPORTED_FEATURE", &["PIVOT"]).sql(
            Update,
            "SELECT * FROM (SELECT k, v FROM events) PIVOT (sum(v) FOR k IN ('a', 'b'))",
        ),
        ours("pivot_no_values", "UNSUPPORTED_FEATURE", &["PIVOT"])
            .sql(Update, "SELECT * FROM (SELECT k, v FROM events) PIVOT (sum(v) FOR k IN (ANY))"),
    ]
}

fn time_windows() -> Vec<Entry> {
    vec![
        ours("two_windows", "MULTIPLE_TIME_WINDOWS", &["window", "cartesian"]).sql(
            Append,
            "SELECT window(ts, '10 minutes') AS a, window(ts, '5 minutes') AS b, count(*) \
             FROM timed GROUP BY 1, 2",
        ),
        sparks("window_start_ge_slide", &["start", "5 minutes"]).sql(
            Append,
            "SELECT window(ts, '5 minutes', '5 minutes', '5 minutes') AS w, count(*) FROM timed \
             GROUP BY 1",
        ),
        sparks("window_zero", &["window_duration", "0 seconds", "10 minutes"])
            .sql(Append, "SELECT window(ts, '0 minutes') AS w, count(*) FROM timed GROUP BY 1"),
        sparks("window_bad_text", &["abc", "10 minutes"])
            .sql(Append, "SELECT window(ts, 'abc') AS w, count(*) FROM timed GROUP BY 1"),
        accepted("suite_window_one_microsecond")
            .sql(Append, "SELECT window(ts, '1 microsecond') AS w, count(*) FROM timed GROUP BY 1"),
        accepted("suite_window_on_date")
            .sql(Complete, "SELECT window(d, '1 day') AS w, count(*) FROM events GROUP BY 1"),
    ]
}
