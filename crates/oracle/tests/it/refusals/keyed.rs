//! Sessions, deduplication and grouping sets.

use super::entry::{Entry, accepted, ours, sparks};
use super::world::World;
use fluvial::OutputMode::{Append, Complete, Update};
use fluvial::{OutputMode, Result, StreamingDataFrame};

pub(super) fn entries() -> Vec<Entry> {
    [sessions(), duplicates(), restarts(), grouping_sets()].into_iter().flatten().collect()
}

const ALONE: &str = "SESSION_WINDOW_WITHOUT_KEY_NOT_SUPPORTED";

fn sessions() -> Vec<Entry> {
    vec![
        sparks("session_update", &["update", "session"]).sql(
            Update,
            "SELECT session_window(ts, '5 minutes') AS w, k, count(*) FROM timed GROUP BY 1, 2",
        ),
        ours("session_global_no_key", ALONE, &["session window", "column"]).sql(
            Append,
            "SELECT session_window(ts, '5 minutes') AS w, count(*) FROM timed GROUP BY 1",
        ),
        ours("suite_session_no_key_complete", ALONE, &["session window", "column"]).sql(
            Complete,
            "SELECT session_window(ts, '5 minutes') AS w, count(*) FROM timed GROUP BY 1",
        ),
        accepted("session_gap_month").sql(
            Append,
            "SELECT session_window(ts, '1 month') AS w, k, count(*) FROM timed GROUP BY 1, 2",
        ),
        accepted("suite_session_gap_negative").sql(
            Append,
            "SELECT session_window(ts, '-5 seconds') AS w, k, count(*) FROM timed GROUP BY 1, 2",
        ),
        accepted("suite_session_in_select")
            .sql(Append, "SELECT session_window(ts, '5 minutes') AS w, k FROM timed"),
        ours("suite_session_with_window", "MULTIPLE_TIME_WINDOWS", &["windows"]).sql(
            Append,
            "SELECT session_window(ts, '5 minutes') AS s, window(ts, '5 minutes') AS w, k, \
             count(*) FROM timed GROUP BY 1, 2, 3",
        ),
    ]
}

async fn without(world: World, columns: &[&str], mode: OutputMode) -> Result<()> {
    world.run(world.timed().await?.drop_duplicates(columns)?, mode).await
}

async fn within(world: &World, columns: &[&str], mode: OutputMode) -> Result<()> {
    world.run(world.timed().await?.drop_duplicates_within_watermark(columns)?, mode).await
}

fn duplicates() -> Vec<Entry> {
    const COUNTS: &str =
        "SELECT window(ts, '10 minutes') AS w, k, count(*) AS n FROM timed GROUP BY 1, 2";
    vec![
        sparks("complete_dedup", &["complete", "aggregation"])
            .by(|world| async move { without(world, &["k"], Complete).await }),
        ours(
            "dedup_within_no_watermark",
            "DROP_DUPLICATES_WITHIN_WATERMARK_WITHOUT_WATERMARK",
            &["with_watermark"],
        )
        .by(|world| async move {
            let frame = world.events().await?.drop_duplicates_within_watermark(&["k"])?;
            world.run(frame, Append).await
        }),
        accepted("suite_dedupw_update")
            .by(|world| async move { within(&world, &["k"], Update).await }),
        ours("suite_dedup_missing_column", "UNRESOLVED_COLUMN", &["nope", "k"])
            .by(|world| async move { without(world, &["nope"], Append).await }),
        sparks("suite_map_dedup_key", &["m", "map"]).by(|world| async move {
            let frame = world.frame("SELECT map('a', v) AS m FROM timed").await?;
            world.run(frame.drop_duplicates(&["m"])?, Append).await
        }),
        accepted("dedup_after_agg_append").by(|world| async move {
            world.run(world.frame(COUNTS).await?.drop_duplicates(&["k"])?, Append).await
        }),
        accepted("dedup_after_agg_complete").by(|world| async move {
            world.run(world.frame(COUNTS).await?.drop_duplicates(&["k"])?, Complete).await
        }),
        accepted("suite_dedup_before_agg_complete").by(|world| async move {
            let distinct = world.timed().await?.drop_duplicates(&["k", "v"])?;
            let counted =
                distinct.group_by(vec![fluvial::datafusion::prelude::col("k")]).count()?;
            world.run(counted, Complete).await
        }),
    ]
}

fn restarts() -> Vec<Entry> {
    const SESSIONS: &str =
        "SELECT session_window(ts, '5 minutes') AS w, k, count(*) AS n FROM timed GROUP BY 1, 2";
    vec![
        sparks("restart_agg_to_dedup", &["dedup"]).by(|world| async move {
            let query = "SELECT k, count(*) AS n FROM timed GROUP BY 1";
            world.first(world.run_sql(query, Update).await)?;
            world.more_input();
            without(world, &["k"], Update).await
        }),
        sparks("suite_restart_dedup_key_removed", &["dedup", "v"]).by(|world| async move {
            let both = world.timed().await?.drop_duplicates(&["k", "v"])?;
            world.first(world.run(both, Append).await)?;
            world.more_input();
            without(world, &["k"], Append).await
        }),
        sparks("suite_restart_dedup_to_dedupw", &["dedupe"]).by(|world| async move {
            let frame = world.timed().await?.drop_duplicates(&["k"])?;
            world.first(world.run(frame, Append).await)?;
            world.more_input();
            within(&world, &["k"], Append).await
        }),
        accepted("suite_restart_session_gap").restart(
            (Append, SESSIONS),
            (
                Append,
                "SELECT session_window(ts, '7 minutes') AS w, k, count(*) AS n FROM timed \
                 GROUP BY 1, 2",
            ),
        ),
        sparks("suite_restart_window_to_session", &["session"]).restart(
            (
                Append,
                "SELECT window(ts, '5 minutes') AS w, k, count(*) AS n FROM timed GROUP BY 1, 2",
            ),
            (Append, SESSIONS),
        ),
    ]
}

fn grouping_sets() -> Vec<Entry> {
    vec![
        accepted("rollup")
            .sql(Update, "SELECT k, v, count(*) AS n FROM events GROUP BY ROLLUP (k, v)"),
        accepted("cube").sql(
            Complete,
            "SELECT k, v, count(*) AS n, grouping(k) AS g FROM events GROUP BY CUBE (k, v)",
        ),
        accepted("suite_grouping_sets_sql").sql(
            Update,
            "SELECT k, v, sum(v) AS s FROM events GROUP BY GROUPING SETS ((k), (v), ())",
        ),
    ]
}
