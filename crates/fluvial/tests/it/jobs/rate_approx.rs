//! Viewers per title and minute, under a clock that the test moves.

use crate::clock::ManualClock;
use crate::golden;
use crate::rate_approx_example::{TABLE, heartbeats, viewers_per_minute};
use fluvial::arrow::datatypes::DataType;
use fluvial::prelude::*;
use fluvial::timestamp_type;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// 2026-06-10 10:00:00, a multiple of 30 seconds since the epoch.
const TEN: i64 = 1_781_085_600_000;
const TICK: Duration = Duration::from_secs(30);

fn session(folder: &TempDir, clock: &ManualClock) -> Session {
    let builder = Session::builder().base_dir(folder.path()).config("state.partitions", 2);
    builder.clock(Arc::new(clock.clone())).build().unwrap()
}

/// End of the window and title of each row of the table.
async fn rows(session: &Session) -> Vec<(String, String)> {
    let table = session.read().format("delta").load(TABLE).await.unwrap();
    let columns = ["date_format(w.end, \"yyyy-MM-dd'T'HH:mm:ss.SSS'Z'\")", "title"];
    let columns = columns.map(|sql| session.expr(sql, &table).unwrap());
    let rows = table.select(columns.to_vec()).unwrap().collect().await.unwrap();
    golden::text(&rows).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

#[tokio::test]
async fn a_window_is_written_once_and_not_before_it_is_over() {
    let folder = TempDir::new().unwrap();
    let clock = ManualClock::at(TEN);
    let session = session(&folder, &clock);
    let query = viewers_per_minute(&session).await.unwrap();

    let mut seen = 0;
    let mut windows = BTreeSet::new();
    for tick in 1..=12 {
        clock.advance(TICK).await;
        let progress = query.last_progress().unwrap();
        assert_eq!(progress.timestamp.0, TEN + 30_000 * tick, "batches run at the ticks");
        assert_eq!(progress.num_input_rows, 6000, "200 a second");
        let late: u64 =
            progress.state_operators.iter().map(|o| o.num_rows_dropped_by_watermark).sum();
        assert_eq!(late, 0, "nothing comes later than the watermark waits");
        let watermark = progress.event_time.get("watermark").unwrap();
        let rows = rows(&session).await;
        assert!(rows.len() >= seen, "append only");
        seen = rows.len();
        for (end, title) in rows {
            assert!(end <= *watermark, "{end} was written at {watermark}");
            windows.insert((end, title));
        }
        assert_eq!(windows.len(), seen, "one row per window and title");
    }
    // 10:06:00 less two minutes is the watermark of the next batch; this one's was 10:03:30, and
    // heartbeats reach back to 9:58:30.
    let ends: BTreeSet<&str> = windows.iter().map(|(end, _)| &end[11..16]).collect();
    assert_eq!(ends, ["09:59", "10:00", "10:01", "10:02", "10:03"].into());
    let full = windows.iter().filter(|(end, _)| &end[11..16] == "10:02").count();
    assert_eq!(full, 240, "every title was watched");
    query.stop().await.unwrap();
    has_schema(&session).await;
}

async fn has_schema(session: &Session) {
    let table = session.read().format("delta").load(TABLE).await.unwrap();
    let schema = table.schema().as_arrow();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["w", "title", "viewers"]);
    let DataType::Struct(window) = schema.field(0).data_type() else { panic!("{schema:?}") };
    let window: Vec<_> = window.iter().map(|f| (f.name().as_str(), f.data_type())).collect();
    assert_eq!(window, [("start", &timestamp_type()), ("end", &timestamp_type())]);
    assert_eq!(schema.field(2).data_type(), &DataType::Int64);
}

#[tokio::test]
async fn counts_are_at_most_five_percent_off() {
    let folder = TempDir::new().unwrap();
    let clock = ManualClock::at(TEN);
    let session = session(&folder, &clock);
    let beats = heartbeats(&session).await.unwrap();
    let counts = ["approx_count_distinct(viewer) AS viewers", "size(collect_set(viewer)) AS exact"]
        .map(|sql| session.expr(sql, &beats).unwrap());
    let query = beats
        .with_watermark("event_time", "2 minutes")
        .unwrap()
        // Titles together, so that there is something to be wrong about.
        .group_by(vec![window(col("event_time"), "1 minute").alias("w")])
        .agg(counts.to_vec())
        .unwrap()
        .write_stream()
        .unwrap()
        .format("memory")
        .query_name("counts")
        .trigger(Trigger::ProcessingTime(TICK))
        .start()
        .await
        .unwrap();
    for _ in 0..12 {
        clock.advance(TICK).await;
    }
    query.stop().await.unwrap();
    let counts = session.sql("SELECT viewers, exact FROM counts").await.unwrap();
    let counts = golden::text(&counts.collect().await.unwrap());
    assert_eq!(counts.len(), 5);
    for row in counts {
        let (viewers, exact): (f64, f64) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert!(exact > 500.0, "{row:?}");
        assert!((viewers - exact).abs() <= 0.05 * exact, "{row:?}");
    }
}
