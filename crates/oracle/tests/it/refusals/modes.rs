//! Output modes: of queries, and of sinks.

use super::entry::{Entry, accepted, accepted_because, ours, sparks};
use fluvial::OutputMode::{Append, Complete, Update};
use fluvial::prelude::*;

const JOIN: &str = "SELECT k, v, rv FROM timed JOIN others_timed ON k = rk AND ts >= rts";
const IN_MODE: &str = "STREAM_STREAM_JOIN_NOT_SUPPORTED_IN_MODE";
const FINAL: &str =
    "as Spark since 4.2: what comes out of it is final, so append and update are one";

pub(super) fn entries() -> Vec<Entry> {
    let mut all = queries();
    all.extend(joins());
    all.extend(sinks());
    all
}

fn queries() -> Vec<Entry> {
    vec![
        sparks("append_agg_watermark_not_in_group", &["append", "with_watermark", "update"])
            .sql(Append, "SELECT k, count(*) FROM timed GROUP BY k"),
        sparks("complete_no_agg", &["complete", "aggregation", "append"])
            .sql(Complete, "SELECT * FROM events"),
        sparks("two_aggs_append_no_window", &["append", "with_watermark"]).sql(
            Append,
            "SELECT k, sum(n) FROM (SELECT window(ts, '10 minutes') AS w, k, count(*) AS n \
             FROM timed GROUP BY 1, 2) GROUP BY k",
        ),
        sparks("suite_union_distinct_append", &["append", "with_watermark"])
            .sql(Append, "SELECT k FROM events UNION SELECT rk FROM others"),
        sparks("suite_current_timestamp_key_append", &["append", "with_watermark"]).sql(
            Append,
            "SELECT window(current_timestamp(), '10 minutes') AS w, count(*) FROM timed GROUP BY 1",
        ),
        sparks("suite_select_distinct_append", &["append", "with_watermark"])
            .sql(Append, "SELECT DISTINCT k FROM timed"),
        sparks("suite_except_stream_static_complete", &["complete", "aggregation"])
            .sql(Complete, "SELECT k FROM events EXCEPT SELECT pk FROM people"),
        sparks("window_on_string", &["append", "with_watermark"])
            .sql(Append, "SELECT window(k, '10 minutes') AS w, count(*) FROM timed GROUP BY 1"),
        ours(
            "suite_two_aggs_global_update",
            "STREAMING_CHAINED_STATEFUL_NOT_SUPPORTED",
            &["update", "append mode"],
        )
        .sql(Update, "SELECT sum(n) FROM (SELECT k, count(*) AS n FROM events GROUP BY k)"),
        ours(
            "suite_two_aggs_global_complete",
            "STREAMING_CHAINED_STATEFUL_NOT_SUPPORTED",
            &["complete", "append mode"],
        )
        .sql(Complete, "SELECT sum(n) FROM (SELECT k, count(*) AS n FROM events GROUP BY k)"),
        accepted("suite_agg_then_static_agg_joined").sql(
            Update,
            "SELECT a.k, a.n, b.m FROM (SELECT k, count(*) AS n FROM events GROUP BY k) a \
             JOIN (SELECT pk, max(age) AS m FROM people GROUP BY pk) b ON a.k = b.pk",
        ),
    ]
}

fn joins() -> Vec<Entry> {
    vec![
        sparks("complete_join", &["complete", "aggregation"]).sql(Complete, JOIN),
        accepted_because("update_join_inner", FINAL).sql(Update, JOIN),
        ours("update_join_left", IN_MODE, &["update", "append"]).sql(
            Update,
            "SELECT k, v, rv FROM timed LEFT JOIN others_timed ON k = rk AND ts >= rts",
        ),
        ours("suite_left_outer_update_mode", IN_MODE, &["update", "append"]).sql(
            Update,
            "SELECT k, v, rv FROM timed LEFT JOIN others_timed ON k = rk AND ts >= rts",
        ),
        accepted_because("suite_left_semi_update_mode", FINAL).sql(
            Update,
            "SELECT k, v FROM timed LEFT SEMI JOIN others_timed ON k = rk AND ts >= rts",
        ),
        ours("suite_full_outer_update_mode", IN_MODE, &["update", "append"]).sql(
            Update,
            "SELECT k, v, rv FROM timed FULL JOIN others_timed ON k = rk AND ts >= rts",
        ),
        accepted_because("suite_join_inner_update_agg", FINAL).sql(
            Update,
            "SELECT k, count(*) FROM timed JOIN others_timed ON k = rk AND ts >= rts GROUP BY k",
        ),
        ours("join_then_agg_complete", IN_MODE, &["complete", "append"]).sql(
            Complete,
            "SELECT window(ts, '10 minutes') AS w, count(*) FROM timed JOIN others_timed \
             ON k = rk AND ts >= rts GROUP BY 1",
        ),
        ours("suite_join_after_agg_complete", IN_MODE, &["complete", "append"]).sql(
            Complete,
            "SELECT a.k, a.n, rv FROM (SELECT k, count(*) AS n FROM events GROUP BY k) a \
             JOIN others ON a.k = rk",
        ),
        ours("suite_left_semi_complete_agg", IN_MODE, &["complete", "append"]).sql(
            Complete,
            "SELECT k, count(*) FROM timed LEFT SEMI JOIN others_timed ON k = rk AND ts >= rts \
             GROUP BY k",
        ),
        ours("suite_full_outer_complete_agg", IN_MODE, &["complete", "append"]).sql(
            Complete,
            "SELECT k, count(*) FROM timed FULL JOIN others_timed ON k = rk AND ts >= rts \
             GROUP BY k",
        ),
        ours("suite_right_outer_complete_agg", IN_MODE, &["complete", "append"]).sql(
            Complete,
            "SELECT rk, count(*) FROM timed RIGHT JOIN others_timed ON k = rk AND ts >= rts \
             GROUP BY rk",
        ),
        ours("left_anti_stream_stream", "STREAM_STREAM_ANTI_JOIN_NOT_SUPPORTED", &["anti"])
            .sql(Append, "SELECT k FROM timed LEFT ANTI JOIN others_timed ON k = rk"),
    ]
}

fn sinks() -> Vec<Entry> {
    vec![
        sparks("suite_sink_append_agg_no_watermark", &["append", "with_watermark"]).by(
            |world| async move {
                let counts = world.events().await?.group_by(vec![col("k")]).count()?;
                let writer = world.writer(counts, Append)?;
                world.end(writer.format("json").option("path", "out")).await
            },
        ),
        sparks("parquet_update", &["parquet", "update", "append"]).by(|world| async move {
            let writer = world.writer(world.events().await?, Update)?;
            world.end(writer.format("parquet").option("path", "out")).await
        }),
        accepted("memory_update").by(|world| async move {
            let counts = world.events().await?.group_by(vec![col("k")]).count()?;
            let writer = counts.write_stream()?.output_mode(Update);
            world.end(writer.format("memory").query_name("counts")).await
        }),
        sparks("bad_mode", &["upsert", "append", "update", "complete"])
            .by(|_| async { "upsert".parse::<OutputMode>().map(drop) }),
    ]
}
