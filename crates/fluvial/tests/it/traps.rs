//! How streaming engines have failed in the field, and that this one does not: event time. Every
//! step is a start of its own from the same checkpoint. The book's page on traps lists them all.

mod joins;
mod keys;
mod sinks;

use crate::names::lines;
use fluvial::arrow::array::RecordBatch;
use fluvial::datafusion::prelude::DataFrame;
use fluvial::{BatchId, OutputMode, Session, StreamingDataFrame, StreamingQuery, Trigger};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A query over folders of JSON with a name, a time and a watermark each.
struct Job {
    folder: tempfile::TempDir,
    sources: Vec<(&'static str, &'static str)>,
    sql: &'static str,
    mode: OutputMode,
    settings: Vec<(&'static str, &'static str)>,
    files: std::cell::Cell<u32>,
    /// Whether duplicates by `k` are dropped within the watermark.
    within_watermark: bool,
}

/// What one start gave.
struct Step {
    rows: Vec<String>,
    query: StreamingQuery,
}

impl Step {
    fn dropped(&self) -> u64 {
        let progress = self.query.recent_progress();
        let operators = progress.iter().flat_map(|p| &p.state_operators);
        operators.map(|operator| operator.num_rows_dropped_by_watermark).sum()
    }

    /// Seconds of the newest watermark that a batch ran with.
    fn watermark(&self) -> String {
        self.query.last_progress().unwrap().event_time["watermark"].clone()
    }
}

impl Job {
    fn new(sources: &[(&'static str, &'static str)], mode: OutputMode, sql: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, _) in sources {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (settings, files) = (Vec::new(), std::cell::Cell::default());
        let within_watermark = false;
        Self { folder, sources: sources.to_vec(), sql, mode, settings, files, within_watermark }
    }

    async fn frame(&self, session: &Session) -> DataFrame {
        for (name, delay) in &self.sources {
            let path = self.folder.path().join(name).display().to_string();
            let stream = session.read_stream().schema("k STRING, t TIMESTAMP").json(path).await;
            let stream = stream.unwrap().with_watermark("t", delay).unwrap();
            session.context().register_table(*name, stream.into_view()).unwrap();
        }
        let frame = session.sql(self.sql).await.unwrap();
        match self.within_watermark {
            true => frame.drop_duplicates_within_watermark(&["k"]).unwrap(),
            false => frame,
        }
    }

    /// Lets rows of a source arrive: key and time, which may be missing.
    fn arrive(&self, source: &str, rows: &[(&str, Option<&str>)]) {
        let row = |(key, time): &(&str, Option<&str>)| match time {
            Some(time) => format!("{{\"k\":\"{key}\",\"t\":\"{time}\"}}"),
            None => format!("{{\"k\":\"{key}\",\"t\":null}}"),
        };
        let text: Vec<String> = rows.iter().map(row).collect();
        self.files.set(self.files.get() + 1);
        let file = self.folder.path().join(source).join(format!("{}.json", self.files.get()));
        std::fs::write(file, text.join("\n")).unwrap();
    }

    async fn start(&self) -> Step {
        let mut builder = Session::builder();
        for (name, value) in &self.settings {
            builder = builder.config(*name, value);
        }
        let session = builder.build().unwrap();
        let seen: Arc<Mutex<BTreeMap<BatchId, Vec<RecordBatch>>>> = Arc::default();
        let kept = Arc::clone(&seen);
        let query = self
            .frame(&session)
            .await
            .write_stream()
            .unwrap()
            .foreach_batch_rows(move |batch, rows| {
                kept.lock().unwrap().insert(batch, rows);
                async { Ok(()) }
            })
            .output_mode(self.mode)
            .trigger(Trigger::AvailableNow)
            .option("checkpointLocation", self.folder.path().join("checkpoint").display())
            .start()
            .await
            .unwrap();
        query.await_termination().await.unwrap();
        let rows: Vec<RecordBatch> = seen.lock().unwrap().values().flatten().cloned().collect();
        Step { rows: lines(&rows), query }
    }

    /// Lets rows of one source arrive at these seconds, and starts.
    async fn step(&self, arrivals: &[(&str, &[i64])]) -> Step {
        for (source, seconds) in arrivals {
            let times: Vec<String> = seconds.iter().map(|s| at(*s)).collect();
            let rows: Vec<_> = times.iter().map(|time| ("a", Some(time.as_str()))).collect();
            self.arrive(source, &rows);
        }
        self.start().await
    }
}

/// Seconds after the epoch, below an hour.
fn at(seconds: i64) -> String {
    format!("1970-01-01T00:{:02}:{:02}.000Z", seconds / 60, seconds % 60)
}

const TUMBLING: &str = "SELECT unix_timestamp(w.start) AS s, n FROM \
                        (SELECT window(t, '10 seconds') AS w, count(*) AS n FROM a GROUP BY 1)";

const OF_TWO: &str = "SELECT unix_timestamp(w.start) AS s, n FROM \
                      (SELECT window(t, '10 seconds') AS w, count(*) AS n FROM \
                       (SELECT t FROM a UNION ALL SELECT t FROM b) GROUP BY 1)";

const NOTHING: [String; 0] = [];

#[tokio::test]
async fn a1_a_chained_aggregation_does_not_drop_the_output_of_the_first() {
    let sql = "SELECT unix_timestamp(w.start) AS s, n FROM \
               (SELECT window(window_time(v), '10 seconds') AS w, sum(m) AS n FROM \
                (SELECT window(t, '5 seconds') AS v, count(*) AS m FROM a GROUP BY 1) \
                GROUP BY 1)";
    let job = Job::new(&[("a", "0 seconds")], OutputMode::Append, sql);
    let step = job.step(&[("a", &[1, 2, 12])]).await;
    assert_eq!((step.rows.clone(), step.dropped()), (vec!["0 2".to_owned()], 0));
}

#[tokio::test]
async fn a3_of_several_inputs_the_slowest_counts() {
    let job = Job::new(&[("a", "0 seconds"), ("b", "0 seconds")], OutputMode::Append, OF_TWO);
    let first = job.step(&[("a", &[100]), ("b", &[20])]).await;
    assert_eq!((first.rows.clone(), first.watermark()), (vec![], at(20)));
    let second = job.step(&[("b", &[25])]).await;
    assert_eq!(second.dropped(), 0);
    let third = job.step(&[("a", &[200]), ("b", &[200])]).await;
    assert_eq!(third.rows, ["100 1", "20 2"]);
}

#[tokio::test]
async fn a4_a_silent_input_keeps_its_watermark() {
    let job = Job::new(&[("a", "0 seconds"), ("b", "0 seconds")], OutputMode::Append, OF_TWO);
    assert_eq!(job.step(&[("a", &[100]), ("b", &[10])]).await.watermark(), at(10));
    assert_eq!(job.step(&[("a", &[200])]).await.watermark(), at(10));
    let third = job.step(&[("b", &[11])]).await;
    assert_eq!((third.watermark(), third.dropped()), (at(11), 0));
}

#[tokio::test]
async fn a5_every_input_keeps_its_watermark_over_restarts() {
    let sql = "SELECT unix_timestamp(w.start) AS s, n FROM \
               (SELECT window(t, '10 seconds') AS w, count(*) AS n FROM \
                (SELECT t FROM a UNION ALL SELECT t FROM b UNION ALL SELECT t FROM c) \
                GROUP BY 1)";
    let sources = [("a", "0 seconds"), ("b", "0 seconds"), ("c", "0 seconds")];
    let job = Job::new(&sources, OutputMode::Append, sql);
    job.step(&[("a", &[50, 100]), ("b", &[100])]).await;
    let second = job.step(&[("b", &[110]), ("c", &[100])]).await;
    assert_eq!((second.rows.clone(), second.watermark()), (vec!["50 1".to_owned()], at(100)));
}

#[tokio::test]
async fn a7_runs_of_one_trigger_emit_what_is_closed_and_nothing_twice() {
    let job = Job::new(&[("a", "0 seconds")], OutputMode::Append, TUMBLING);
    assert_eq!(job.step(&[("a", &[5, 25])]).await.rows, ["0 1"]);
    assert_eq!(job.step(&[("a", &[45])]).await.rows, ["20 1"]);
}

#[tokio::test]
async fn a9_with_no_delay_a_row_at_the_watermark_is_late_and_one_after_it_is_not() {
    let sql = "SELECT t, count(*) AS n FROM a GROUP BY t";
    let job = Job::new(&[("a", "0 seconds")], OutputMode::Update, sql);
    job.step(&[("a", &[10])]).await;
    let just_after = "1970-01-01T00:00:10.000001Z";
    job.arrive("a", &[("b", Some(&at(10))), ("c", Some(just_after))]);
    let step = job.start().await;
    assert_eq!(step.dropped(), 1);
    assert_eq!(step.rows, ["1970-01-01T00:00:10.000001Z 1"]);
}

#[tokio::test]
async fn a10_a_time_before_the_epoch_is_in_the_window_around_it() {
    let sql = "SELECT unix_timestamp(w.start) AS s, n FROM (SELECT window(t, '10 seconds', \
               '10 seconds', '5 seconds') AS w, count(*) AS n FROM a GROUP BY 1)";
    let job = Job::new(&[("a", "0 seconds")], OutputMode::Complete, sql);
    let times = ["1969-12-31T00:00:02Z", "1969-12-31T00:00:12Z"];
    job.arrive("a", &times.map(|time| ("a", Some(time))));
    assert_eq!(job.start().await.rows, ["-86395 1", "-86405 1"]);
}

#[tokio::test]
async fn a12_a_month_of_delay_is_31_days_and_a_negative_one_is_refused() {
    let sql = "SELECT w.start AS s, n FROM \
               (SELECT window(t, '1 day') AS w, count(*) AS n FROM a GROUP BY 1)";
    let job = Job::new(&[("a", "1 month")], OutputMode::Update, sql);
    job.arrive("a", &[("a", Some("2024-03-31T00:00:00Z"))]);
    job.start().await;
    job.arrive("a", &[("a", Some("2024-03-10T00:00:00Z"))]);
    let step = job.start().await;
    assert_eq!((step.rows.len(), step.dropped()), (1, 0));
    let session = Session::new().unwrap();
    let rate = session.read_stream().format("rate").load_options().await.unwrap();
    assert!(rate.with_watermark("timestamp", "-1 seconds").is_err());
}

#[tokio::test]
async fn a17_windows_begin_at_the_same_times_after_a_restart() {
    let job = Job::new(&[("a", "1 minute")], OutputMode::Update, TUMBLING);
    assert_eq!(job.step(&[("a", &[12])]).await.rows, ["10 1"]);
    assert_eq!(job.step(&[("a", &[19])]).await.rows, ["10 2"]);
}

#[tokio::test]
async fn a18_the_watermark_is_back_before_the_first_batch_after_a_restart() {
    let sql = "SELECT unix_timestamp(w.start) AS s, n FROM (SELECT window(t, '10 seconds', \
               '5 seconds') AS w, count(*) AS n FROM a GROUP BY 1)";
    let job = Job::new(&[("a", "0 seconds")], OutputMode::Append, sql);
    assert_eq!(job.step(&[("a", &[3, 30])]).await.rows, ["-5 1", "0 1"]);
    let second = job.step(&[("a", &[4, 31])]).await;
    // Late rows are counted after they are put into windows, here two.
    assert_eq!((second.rows.clone(), second.dropped()), (NOTHING.to_vec(), 2));
}

#[tokio::test]
async fn a22_the_policy_of_the_first_batch_holds() {
    let mut job = Job::new(&[("a", "0 seconds"), ("b", "0 seconds")], OutputMode::Append, OF_TWO);
    job.step(&[("a", &[100]), ("b", &[10])]).await;
    job.settings.push(("watermark.policy", "max"));
    let second = job.step(&[("b", &[20])]).await;
    assert_eq!((second.dropped(), second.watermark()), (0, at(20)));
    let warnings = second.query.warnings();
    assert!(warnings.iter().any(|w| w.contains("policy")), "{warnings:?}");
}

#[tokio::test]
async fn a23_a_missing_time_moves_nothing_and_is_in_no_window() {
    let job = Job::new(&[("a", "10 seconds")], OutputMode::Complete, TUMBLING);
    job.arrive("a", &[("a", Some(&at(5))), ("b", None), ("c", Some(&at(30)))]);
    assert_eq!(job.start().await.rows, ["0 1", "30 1"]);
    let job = Job::new(&[("a", "10 seconds")], OutputMode::Append, "SELECT k, t FROM a");
    job.arrive("a", &[("a", Some(&at(5))), ("b", None), ("c", Some(&at(30)))]);
    assert_eq!(job.start().await.rows.len(), 3);
}

#[tokio::test]
async fn a26_a_second_watermark_is_refused() {
    let job = Job::new(&[("a", "0 seconds")], OutputMode::Append, "SELECT * FROM a");
    let session = Session::new().unwrap();
    let frame = job.frame(&session).await.with_watermark("t", "1 second").unwrap();
    let refused = frame.write_stream().unwrap().format("noop").start().await.err().unwrap();
    assert_eq!(refused.condition(), Some("WATERMARK_REDEFINED"));
}

#[tokio::test]
async fn c4_what_is_selected_above_does_not_change_what_is_late() {
    for sql in [
        "SELECT k FROM (SELECT k, t, count(*) AS n FROM a GROUP BY k, t)",
        "SELECT k, t FROM (SELECT k, t, count(*) AS n FROM a GROUP BY k, t)",
    ] {
        let job = Job::new(&[("a", "10 seconds")], OutputMode::Update, sql);
        assert_eq!(job.step(&[("a", &[100])]).await.rows.len(), 1, "{sql}");
        let late = job.step(&[("a", &[50])]).await;
        assert_eq!((late.rows.len(), late.dropped()), (0, 1), "{sql}");
    }
}
