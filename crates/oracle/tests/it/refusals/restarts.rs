//! Restarts with a changed query.

use super::entry::{Entry, accepted, accepted_because, ours, refused_because, sparks};
use super::world::World;
use fluvial::OutputMode::{Append, Complete, Update};
use fluvial::Result;

const BY_WINDOW: &str = "SELECT window(ts, '5 minutes') AS w, count(*) AS n FROM timed GROUP BY 1";
const BY_KEY: &str = "SELECT k, count(*) AS n FROM events GROUP BY k";

pub(super) fn entries() -> Vec<Entry> {
    let mut all = state();
    all.extend(sources());
    all.extend(settings());
    all
}

fn state() -> Vec<Entry> {
    vec![
        sparks("restart_extra_key", &["v", "new checkpoint"]).restart(
            (Update, BY_KEY),
            (Update, "SELECT k, v, count(*) AS n FROM events GROUP BY k, v"),
        ),
        accepted("restart_key_renamed").restart(
            (Update, "SELECT k AS a, count(*) AS n FROM events GROUP BY k"),
            (Update, "SELECT k AS b, count(*) AS n FROM events GROUP BY k"),
        ),
        refused_because(
            "restart_window_size",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            &["5 minutes", "10 minutes", "new checkpoint"],
            "old and new windows in one state give wrong results",
        )
        .restart(
            (Append, BY_WINDOW),
            (Append, "SELECT window(ts, '10 minutes') AS w, count(*) AS n FROM timed GROUP BY 1"),
        ),
        refused_because(
            "restart_output_mode",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            &["append", "update", "new checkpoint"],
            "another output mode on old state gives wrong results",
        )
        .restart((Append, BY_WINDOW), (Update, BY_WINDOW)),
        refused_because(
            "restart_stateless_to_agg",
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
            &["aggregate", "new checkpoint"],
            "Spark stumbles over state that is not there; what is wrong is the added operator",
        )
        .restart((Update, "SELECT k FROM events"), (Update, BY_KEY)),
        sparks("suite_restart_stateful_removed", &["aggregate", "new checkpoint"])
            .restart((Update, BY_KEY), (Update, "SELECT k FROM events")),
        sparks("suite_restart_second_agg_added", &["aggregate-2", "new checkpoint"]).restart(
            (Append, BY_WINDOW),
            (
                Append,
                "SELECT window(w, '10 minutes') AS w2, sum(n) FROM (SELECT window(ts, '5 minutes') \
                 AS w, count(*) AS n FROM timed GROUP BY 1) GROUP BY 1",
            ),
        ),
        sparks("suite_restart_agg_removed_function", &["sum", "new checkpoint"]).restart(
            (Update, "SELECT k, count(*) AS n, sum(v) AS s FROM events GROUP BY k"),
            (Update, BY_KEY),
        ),
        sparks("suite_restart_agg_order_of_functions", &["sum", "count", "new checkpoint"])
            .restart(
                (Update, "SELECT k, count(*) AS n, sum(v) AS s FROM events GROUP BY k"),
                (Update, "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"),
            ),
        accepted("suite_restart_limit_lowered").restart(
            (Append, "SELECT k FROM events LIMIT 5"),
            (Append, "SELECT k FROM events LIMIT 1"),
        ),
    ]
}

const CHANGED: &str = "SOURCES_CHANGED";

fn sources() -> Vec<Entry> {
    const ONE: &str = "SELECT k FROM events";
    const TWO: &str = "SELECT k FROM events UNION ALL SELECT rk FROM others";
    vec![
        ours("restart_more_sources", CHANGED, &["source-1", "new checkpoint"])
            .restart((Append, ONE), (Append, TWO)),
        ours("restart_fewer_sources", CHANGED, &["source-1", "new checkpoint"])
            .restart((Append, TWO), (Append, ONE)),
        ours("restart_other_source_dir", CHANGED, &["in", "others", "new checkpoint"]).by(
            |world| async move {
                world.first(world.run(world.read("k string").json("in").await?, Append).await)?;
                world.run(world.read("k string").json("others").await?, Append).await
            },
        ),
        ours("suite_restart_union_sides_swapped", CHANGED, &["in", "others", "new checkpoint"]).by(
            |world| async move {
                world.first(sides(&world, "in", "others").await)?;
                sides(&world, "others", "in").await
            },
        ),
        accepted("deleted_processed_input").by(|world| async move {
            world.first(world.run_sql(BY_KEY, Update).await)?;
            std::fs::remove_file(world.path("in/1.json")).unwrap();
            world.more_input();
            world.run_sql(BY_KEY, Update).await
        }),
    ]
}

async fn sides(world: &World, left: &str, right: &str) -> Result<()> {
    let left = world.read("k string").json(left).await?;
    let right = world.read("k string").json(right).await?;
    world.run(left.union(right).map_err(fluvial::from_datafusion)?, Append).await
}

fn settings() -> Vec<Entry> {
    vec![
        accepted("restart_provider").by(|world| async move {
            const KEY: &str = "spark.sql.streaming.stateStore.providerClass";
            const PACKAGE: &str = "org.apache.spark.sql.execution.streaming.state";
            let hdfs = format!("{PACKAGE}.HDFSBackedStateStoreProvider");
            let world = world.again(&[(KEY, &hdfs)]).await?;
            world.first(world.run_sql(BY_KEY, Update).await)?;
            world.more_input();
            let rocks = format!("{PACKAGE}.RocksDBStateStoreProvider");
            world.again(&[(KEY, &rocks)]).await?.run_sql(BY_KEY, Update).await
        }),
        accepted_because(
            "suite_restart_agg_format_changed",
            "there is one format of state, so there is no such setting to change",
        )
        .restart((Complete, BY_KEY), (Complete, BY_KEY)),
    ]
}
