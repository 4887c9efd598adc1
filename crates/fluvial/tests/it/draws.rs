//! `rand()` and its like: other numbers in every row, the same ones in a replay.

use fluvial::arrow::array::{Array, AsArray, RecordBatch};
use fluvial::arrow::datatypes::Float64Type;
use fluvial::{BatchId, Error, Session, StreamingDataFrame, Trigger};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const ROWS: usize = 30_000;

const QUERY: &str = "rand() AS r, randn() AS n, uuid() AS u, \
                     shuffle(array(1, 2, 3, 4, 5, 6, 7, 8)) AS s, rand() + rand(7) AS t";

fn input() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..ROWS).map(|v| format!("{{\"v\":{v}}}")).collect();
    std::fs::write(folder.path().join("a.json"), lines.join("\n")).unwrap();
    folder
}

type Seen = Arc<Mutex<Vec<RecordBatch>>>;

/// Runs the query; a callback that fails leaves its batch to be run again.
async fn run(input: &Path, checkpoint: &Path, where_clause: &str, fails: bool) -> Vec<RecordBatch> {
    let session = Session::new().unwrap();
    let source =
        format!("STREAM read_files('{}', format => 'json', schema => 'v BIGINT')", input.display());
    let sql = format!("SELECT v, {QUERY} FROM {source} {where_clause}");
    let frame = session.sql(&sql).await.unwrap();
    let (seen, failing) = (Seen::default(), Arc::new(AtomicBool::new(fails)));
    let kept = Arc::clone(&seen);
    let callback = move |_: BatchId, rows: Vec<RecordBatch>| {
        kept.lock().unwrap().extend(rows);
        let failed = failing.load(SeqCst);
        async move { if failed { Err(Error::invalid("on purpose")) } else { Ok(()) } }
    };
    let writer = frame.write_stream().unwrap().foreach_batch_rows(callback);
    let query = writer
        .trigger(Trigger::AvailableNow)
        .option("checkpointLocation", checkpoint.display())
        .start()
        .await
        .unwrap();
    assert_eq!(query.await_termination().await.is_err(), fails);

    std::mem::take(&mut *seen.lock().unwrap())
}

fn count(rows: &[RecordBatch]) -> usize {
    rows.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn rand_draws_the_same_in_a_replay_and_other_numbers_in_every_row() {
    let (input, folder) = (input(), tempfile::tempdir().unwrap());
    let checkpoint = folder.path().join("one");
    let first = run(input.path(), &checkpoint, "", true).await;
    let again = run(input.path(), &checkpoint, "", false).await;
    assert_eq!(count(&first), ROWS);
    assert_eq!(first, again, "a replay draws the same, bit for bit");
    let other = run(input.path(), &folder.path().join("two"), "", false).await;
    assert_ne!(first, other, "another query draws other numbers");
    for column in 1..6 {
        let distinct: BTreeSet<String> = first
            .iter()
            .flat_map(|rows| {
                let column = rows.column(column);
                (0..column.len()).map(move |i| match column.data_type() {
                    fluvial::arrow::datatypes::DataType::Float64 => {
                        column.as_primitive::<Float64Type>().value(i).to_bits().to_string()
                    }
                    fluvial::arrow::datatypes::DataType::Utf8 => {
                        column.as_string::<i32>().value(i).to_owned()
                    }
                    _ => format!("{:?}", column.as_list::<i32>().value(i)),
                })
            })
            .collect();
        // There are 40,320 orders of eight items.
        let expected = if column == 4 { ROWS / 2 } else { ROWS };
        assert!(distinct.len() >= expected, "column {column}: {}", distinct.len());
    }
}

#[tokio::test]
async fn rand_filters_a_share_of_the_rows() {
    let (input, folder) = (input(), tempfile::tempdir().unwrap());
    let rows = run(input.path(), &folder.path().join("c"), "WHERE rand() < 0.25", false).await;
    let share = count(&rows) as f64 / ROWS as f64;
    assert!((0.22..0.28).contains(&share), "{share}");
    assert_eq!(rows[0].num_columns(), 6);
}

#[tokio::test]
async fn rand_is_drawn_in_aggregates_and_tables_and_refused_elsewhere() {
    let (input, session) = (input(), Session::new().unwrap());
    let stream = format!(
        "STREAM read_files('{}', format => 'json', schema => 'v BIGINT')",
        input.path().display()
    );
    let sql = format!("SELECT avg(rand()) AS mean, count(*) AS n FROM {stream}");
    let query = session
        .sql(&sql)
        .await
        .unwrap()
        .write_stream()
        .unwrap()
        .format("memory")
        .query_name("means")
        .output_mode(fluvial::OutputMode::Complete)
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let near = "SELECT count(*) FROM means WHERE mean > 0.45 AND mean < 0.55 AND n = 30000";
    let rows = session.sql(near).await.unwrap().collect().await.unwrap();
    let one = rows[0].column(0).as_primitive::<fluvial::arrow::datatypes::Int64Type>().value(0);
    assert_eq!(one, 1);
    let table = session.sql("SELECT rand(), randn(3), uuid(), shuffle(array(1, 2))").await.unwrap();
    assert_eq!(count(&table.collect().await.unwrap()), 1);
    let seed = session.sql(&format!("SELECT rand(v) FROM {stream}")).await.unwrap();
    let refused = seed.write_stream().unwrap().format("noop").start().await.err().unwrap();
    assert_eq!(refused.condition(), Some("SEED_EXPRESSION_IS_UNFOLDABLE"), "{refused}");
}
