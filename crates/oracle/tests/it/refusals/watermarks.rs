//! Watermarks: their columns and their delays.

use super::entry::{Draft, Entry, accepted, ours, sparks};
use fluvial::OutputMode::{Append, Complete, Update};
use fluvial::prelude::*;

pub(super) fn entries() -> Vec<Entry> {
    let mut all = columns();
    all.extend(delays());
    all.extend(twice());
    all
}

/// A watermark on a column of the events.
fn on(draft: Draft, column: &'static str, delay: &'static str) -> Entry {
    draft.by(move |world| async move {
        let frame = world.events().await?.with_watermark(column, delay)?;
        world.run(frame, Append).await
    })
}

fn columns() -> Vec<Entry> {
    vec![
        on(sparks("watermark_on_string", &["k", "STRING", "cast"]), "k", "10 minutes"),
        on(sparks("suite_wm_on_int", &["v", "BIGINT", "cast"]), "v", "10 minutes"),
        on(sparks("suite_wm_on_date", &["d", "DATE", "cast"]), "d", "10 minutes"),
        on(
            ours("suite_wm_on_nested_field", "UNRESOLVED_COLUMN", &["s.t", "ts"]),
            "s.t",
            "1 minute",
        ),
        accepted("suite_wm_on_window_column").by(|world| async move {
            let windows = world.frame("SELECT window(ts, '5 minutes') AS w, k FROM events").await?;
            world.run(windows.with_watermark("w", "10 minutes")?, Append).await
        }),
        accepted("suite_wm_batch_ignored").by(|world| async move {
            let people = world.frame("SELECT *, now() AS t FROM people").await?;
            people
                .with_watermark("t", "1 minute")?
                .collect()
                .await
                .map_err(fluvial::from_datafusion)?;
            Ok(())
        }),
        sparks("suite_wm_ambiguous_case", &["ts"]).by(|world| async move {
            let stream = world.read("ts timestamp, v bigint").json("in").await?;
            let both = stream.with_column("TS", col("ts")).map_err(fluvial::from_datafusion)?;
            world.run(both.with_watermark("ts", "1 minute")?, Append).await
        }),
    ]
}

fn delays() -> Vec<Entry> {
    const NEGATIVE: &str = "WATERMARK_DELAY_NEGATIVE";
    vec![
        on(sparks("watermark_bad_text", &["abc", "10 minutes"]), "ts", "abc"),
        on(sparks("suite_wm_delay_text_2", &["intrval"]), "ts", "intrval '3' day"),
        on(sparks("suite_wm_delay_text_4", &["foo"]), "ts", "interval '5' foo"),
        on(
            sparks("suite_wm_delay_text_5", &["day to hour"]),
            "ts",
            "interval '1 2:3:4' day to hour",
        ),
        on(sparks("suite_wm_delay_text_8", &["10"]), "ts", "10"),
        on(sparks("suite_wm_delay_text_10", &["1e3"]), "ts", "1e3 seconds"),
        on(accepted("suite_wm_delay_text_11"), "ts", "10 SECONDS"),
        on(accepted("suite_wm_delay_text_12"), "ts", "interval 10 seconds 5 seconds"),
        on(
            ours("suite_wm_delay_negative_m10_seconds", NEGATIVE, &["-10 seconds"]),
            "ts",
            "-10 seconds",
        ),
        on(ours("suite_wm_delay_negative_m1_year", NEGATIVE, &["-1 year"]), "ts", "-1 year"),
        on(
            ours("suite_wm_delay_negative_1_month_m40_days", NEGATIVE, &["1 month -40 days"]),
            "ts",
            "1 month -40 days",
        ),
        on(
            ours("suite_wm_delay_negative_1_year_m13_months", NEGATIVE, &["-1 month"]),
            "ts",
            "1 year -13 months",
        ),
    ]
}

fn twice() -> Vec<Entry> {
    vec![
        ours("watermark_twice", "WATERMARK_REDEFINED", &["ts", "one per input"]).by(
            |world| async move {
                let twice = world.timed().await?.with_watermark("ts", "5 minutes")?;
                let windows = vec![window(col("ts"), "5 minutes").alias("w")];
                world.run(twice.group_by(windows).count()?, Append).await
            },
        ),
        ours("suite_wm_redefined_other_column", "WATERMARK_REDEFINED", &["t2", "one per input"])
            .by(|world| async move {
                let twice = world.frame("SELECT *, ts AS t2 FROM timed").await?;
                let twice = twice.with_watermark("t2", "5 minutes")?;
                let windows = vec![window(col("t2"), "5 minutes").alias("w")];
                world.run(twice.group_by(windows).count()?, Append).await
            }),
        accepted("watermark_after_agg_other").by(|world| async move {
            let starts = world
                .frame(
                    "SELECT w.start AS start, n FROM (SELECT window(ts, '5 minutes') AS w, \
                     count(*) AS n FROM timed GROUP BY 1)",
                )
                .await?;
            world.run(starts.with_watermark("start", "1 minute")?, Append).await
        }),
        accepted("suite_restart_watermark_removed").restart(
            (Update, "SELECT k, count(*) FROM timed GROUP BY k"),
            (Update, "SELECT k, count(*) FROM events GROUP BY k"),
        ),
        accepted("suite_restart_watermark_added").restart(
            (Update, "SELECT k, count(*) FROM events GROUP BY k"),
            (Update, "SELECT k, count(*) FROM timed GROUP BY k"),
        ),
        accepted("restart_delay_changed").by(|world| async move {
            let query = |delay: &'static str| {
                let world = &world;
                async move {
                    let frame = world.events().await?.with_watermark("ts", delay)?;
                    let windows = vec![window(col("ts"), "5 minutes").alias("w")];
                    world.run(frame.group_by(windows).count()?, Append).await
                }
            };
            world.first(query("10 minutes").await)?;
            world.more_input();
            query("1 minute").await?;
            Ok(())
        }),
        accepted("suite_restart_session_zone_changed").by(|world| async move {
            const QUERY: &str = "SELECT CAST(ts AS DATE) AS day, count(*) FROM events GROUP BY 1";
            world.first(world.run_sql(QUERY, Complete).await)?;
            world.more_input();
            let world = world.again(&[("timezone", "Asia/Tokyo")]).await?;
            world.run_sql(QUERY, Complete).await
        }),
        accepted("suite_restart_case_sensitivity_changed").by(|world| async move {
            const QUERY: &str = "SELECT k, count(*) FROM events GROUP BY k";
            world.first(world.run_sql(QUERY, Update).await)?;
            world.more_input();
            let world = world.again(&[("spark.sql.caseSensitive", "true")]).await?;
            world.run_sql(QUERY, Update).await
        }),
    ]
}
