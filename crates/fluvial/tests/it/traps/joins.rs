//! Group B: joins of two streams.

use super::{Job, NOTHING, at};
use fluvial::OutputMode;

/// What comes in one batch: rows of each input, as seconds.
type Batch = &'static [(&'static str, &'static [i64])];

fn two(sql: &'static str) -> Job {
    Job::new(&[("a", "0 seconds"), ("b", "0 seconds")], OutputMode::Append, sql)
}

#[tokio::test]
async fn a2_and_b11_a_window_over_a_join_waits_for_what_the_join_may_emit() {
    let job = two("SELECT unix_timestamp(w.start) AS s, n FROM \
                   (SELECT window(l, '5 seconds') AS w, count(*) AS n FROM \
                    (SELECT a.t AS l FROM a JOIN b ON a.k = b.k AND b.t >= a.t \
                     AND b.t <= a.t + INTERVAL 10 SECONDS) GROUP BY 1)");
    // Both watermarks pass the end of the window before its pair is there.
    assert_eq!(job.step(&[("a", &[1, 10]), ("b", &[10])]).await.rows, NOTHING);
    let second = job.step(&[("b", &[11])]).await;
    assert_eq!((second.rows.clone(), second.dropped()), (NOTHING.to_vec(), 0));
    let third = job.step(&[("a", &[100]), ("b", &[100])]).await;
    // (1, 10) and (1, 11); then (10, 10) and (10, 11).
    assert_eq!((third.rows.clone(), third.dropped()), (vec!["0 2".into(), "10 2".into()], 0));
}

#[tokio::test]
async fn b3_rows_that_expire_at_once_meet_their_batch() {
    let mut job =
        two("SELECT unix_timestamp(a.t) AS l, unix_timestamp(b.t) AS r FROM a LEFT JOIN b \
                       ON a.k = b.k AND a.t = b.t");
    job.settings.push(("spark.sql.streaming.noDataMicroBatches.enabled", "false"));
    job.step(&[("a", &[100]), ("b", &[100])]).await;
    let second = job.step(&[("a", &[50, 60]), ("b", &[50])]).await;
    assert_eq!((second.rows.clone(), second.dropped()), (vec!["50 50".into(), "60 ".into()], 0));
}

#[tokio::test]
async fn b6_nothing_comes_out_with_nulls_while_a_partner_may_still_come() {
    let sql = "SELECT unix_timestamp(a.t) AS l, unix_timestamp(b.t) AS r FROM a LEFT JOIN b \
               ON a.k = b.k AND b.t >= a.t AND b.t <= a.t + INTERVAL 3 SECONDS";
    let orders: [&[Batch]; 3] = [
        &[&[("a", &[17]), ("b", &[19, 19, 19])]],
        &[&[("a", &[17])], &[("b", &[19, 19, 19])]],
        &[&[("b", &[19, 19])], &[("a", &[17]), ("b", &[19])]],
    ];
    for order in orders {
        let job = Job::new(&[("a", "5 seconds"), ("b", "5 seconds")], OutputMode::Append, sql);
        let mut rows = Vec::new();
        for step in order {
            rows.extend(job.step(step).await.rows.clone());
        }
        let later = at(60);
        job.arrive("a", &[("x", Some(later.as_str()))]);
        job.arrive("b", &[("y", Some(later.as_str()))]);
        rows.extend(job.start().await.rows.clone());
        assert_eq!(rows, ["17 19", "17 19", "17 19"], "{order:?}");
    }
}

#[tokio::test]
async fn b10_a_stream_joined_with_itself_is_one_source_and_has_all_pairs() {
    let sql = "SELECT unix_timestamp(p.t) AS p, unix_timestamp(q.t) AS q FROM a AS p JOIN a AS q \
               ON unix_timestamp(p.t) % 5 = unix_timestamp(q.t) % 5";
    let job = Job::new(&[("a", "1 hour")], OutputMode::Append, sql);
    let first = job.step(&[("a", &[1, 6])]).await;
    assert_eq!(first.rows, ["1 1", "1 6", "6 1", "6 6"]);
    let second = job.step(&[("a", &[11])]).await;
    assert_eq!(second.rows, ["1 11", "11 1", "11 11", "11 6", "6 11"]);
    let progress = second.query.last_progress().unwrap();
    // One source; each of the two scans counts its rows.
    assert_eq!(progress.sources.len(), 1);
}

#[tokio::test]
async fn b12_partitions_follow_all_keys_whatever_the_query_did_before() {
    let sql = "SELECT k, unix_timestamp(t) AS s, count(*) AS n FROM a GROUP BY k, t";
    let mut job = Job::new(&[("a", "1 hour")], OutputMode::Update, sql);
    job.settings.push(("state.partitions", "4"));
    job.step(&[("a", &[1, 2])]).await;
    // Another way to the same keys, and another number of partitions.
    job.sql = "SELECT k, unix_timestamp(t) AS s, count(*) AS n FROM \
               (SELECT k, t FROM a WHERE k IS NOT NULL) GROUP BY k, t";
    job.settings[0].1 = "7";
    assert_eq!(job.step(&[("a", &[1])]).await.rows, ["a 1 2"]);
}

#[tokio::test]
async fn b13_null_keys_match_nothing_and_come_out_of_an_outer_join() {
    let number = "CASE k WHEN 'zero' THEN 0.0D WHEN '-zero' THEN -0.0D \
                  WHEN 'nan' THEN double('NaN') END AS d";
    let sql: &'static str = format!(
        "SELECT l.k, r.k FROM (SELECT k, t, {number} FROM a) l FULL JOIN \
         (SELECT k, t, {number} FROM b) r ON l.d = r.d AND r.t >= l.t \
         AND r.t <= l.t + INTERVAL 10 SECONDS"
    )
    .leak();
    let job = two(sql);
    let time = at(5);
    let row = |k: &'static str| (k, Some(time.as_str()));
    job.arrive(
        "a",
        &[row("null"), row("-zero"), row("nan"), ("last", Some("1970-01-01T00:50:00Z"))],
    );
    job.arrive(
        "b",
        &[row("null"), row("zero"), row("nan"), ("last", Some("1970-01-01T00:50:00Z"))],
    );
    assert_eq!(job.start().await.rows, [" null", "-zero zero", "nan nan", "null "]);
}

#[tokio::test]
async fn b7_a_full_outer_join_with_one_bound_says_what_never_comes_out() {
    let job = two("SELECT a.t AS l, b.t AS r FROM a FULL JOIN b ON a.k = b.k AND b.t >= a.t");
    let step = job.step(&[("a", &[1]), ("b", &[2])]).await;
    let warnings = step.query.warnings();
    assert!(warnings.iter().any(|w| w.contains("a left row")), "{warnings:?}");
}
