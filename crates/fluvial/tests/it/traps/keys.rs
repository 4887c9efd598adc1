//! Sessions of group A, and group C: what is remembered by key.

use super::{Job, NOTHING, at};
use fluvial::{OutputMode, Session, StreamingDataFrame, Trigger};

const SESSIONS: &str = "SELECT k, unix_timestamp(w.start) AS s, unix_timestamp(w.end) AS e, n FROM \
                        (SELECT k, session_window(t, '5 seconds') AS w, count(*) AS n FROM a \
                         GROUP BY 1, 2)";

#[tokio::test]
async fn a14_a_gap_that_is_none_drops_its_row_and_the_query_goes_on() {
    let sql = "SELECT unix_timestamp(w.start) AS s, unix_timestamp(w.end) AS e, n FROM \
               (SELECT k IS NULL AS c, session_window(t, CASE k WHEN 'five' THEN '5 seconds' \
                WHEN 'zero' THEN '0 seconds' WHEN 'minus' THEN '-1 seconds' END) AS w, \
                count(*) AS n FROM a GROUP BY 1, 2)";
    let job = Job::new(&[("a", "0 seconds")], OutputMode::Complete, sql);
    let gaps = ["five", "zero", "minus", "none"];
    let times: Vec<String> = (1..5).map(at).collect();
    let rows: Vec<_> = gaps.iter().zip(&times).map(|(gap, t)| (*gap, Some(t.as_str()))).collect();
    job.arrive("a", &rows);
    assert_eq!(job.start().await.rows, ["1 6 1"]);
}

#[tokio::test]
async fn a24_a_session_is_over_at_its_end_and_a_late_row_is_judged_by_its_own() {
    let job = Job::new(&[("a", "0 seconds")], OutputMode::Append, SESSIONS);
    job.step(&[("a", &[10])]).await;
    job.arrive("a", &[("b", Some("1970-01-01T00:00:14.999999Z"))]);
    assert_eq!(job.start().await.rows, NOTHING);
    job.arrive("a", &[("b", Some(&at(15)))]);
    assert_eq!(job.start().await.rows, ["a 10 15 1"]);
    let late = job.step(&[("a", &[9])]).await;
    assert_eq!((late.rows.clone(), late.dropped()), (NOTHING.to_vec(), 1));
}

#[tokio::test]
async fn a25_a_row_between_two_sessions_makes_them_one() {
    let job = Job::new(&[("a", "20 seconds")], OutputMode::Append, SESSIONS);
    for second in [10, 18, 14] {
        assert_eq!(job.step(&[("a", &[second])]).await.rows, NOTHING);
    }
    job.arrive("a", &[("b", Some(&at(60)))]);
    let last = job.start().await;
    assert_eq!(last.rows, ["a 10 23 3"]);
    let progress = last.query.last_progress().unwrap();
    assert_eq!(progress.state_operators[0].num_rows_total, 1, "only the session of b is left");
}

#[tokio::test]
async fn c1_duplicates_by_keys_without_a_time_are_warned_of() {
    let job = Job::new(&[("a", "10 seconds")], OutputMode::Append, "SELECT k, t FROM a");
    let session = Session::new().unwrap();
    let frame = job.frame(&session).await.drop_duplicates(&["k"]).unwrap();
    let writer = frame.write_stream().unwrap().format("noop").trigger(Trigger::AvailableNow);
    let query = writer.start().await.unwrap();
    query.await_termination().await.unwrap();
    let warnings = query.warnings();
    let told = |w: &String| w.contains("without bound") && w.contains("within_watermark");
    assert!(warnings.iter().any(told), "{warnings:?}");
}

#[tokio::test]
async fn c2_within_the_watermark_the_first_row_of_a_key_sets_its_end() {
    let mut job = Job::new(&[("a", "10 seconds")], OutputMode::Append, "SELECT k, t FROM a");
    job.within_watermark = true;
    let passed = |rows: &[String]| rows.len();
    assert_eq!(passed(&job.step(&[("a", &[20])]).await.rows), 1);
    assert_eq!(passed(&job.step(&[("a", &[29])]).await.rows), 0);
    job.arrive("a", &[("z", Some(&at(41)))]);
    assert_eq!(passed(&job.start().await.rows), 1);
    assert_eq!(passed(&job.step(&[("a", &[41])]).await.rows), 1, "its end was at 30");
}

#[tokio::test]
async fn c3_zeros_are_one_key_and_so_are_nans() {
    let sql = "SELECT DISTINCT CASE k WHEN 'zero' THEN 0.0D WHEN '-zero' THEN -0.0D \
               WHEN 'nan' THEN double('NaN') WHEN '-nan' THEN -double('NaN') END AS d FROM a";
    let job = Job::new(&[("a", "1 hour")], OutputMode::Update, sql);
    let time = at(1);
    let keys = ["zero", "-zero", "nan", "-nan", "null", "null"];
    job.arrive("a", &keys.map(|key| (key, Some(time.as_str()))));
    assert_eq!(job.start().await.rows, ["", "0.0", "NaN"]);
}
