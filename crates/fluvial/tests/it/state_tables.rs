//! State as tables: of any retained batch, by SQL, without the query.

use crate::evolution::run;
use crate::golden::text;
use crate::own_state_backend_example::metered_session;
use fluvial::Result;
use fluvial::prelude::*;
use fluvial::transform::{
    Call, HandlerResult, InputRows, Key, ListState, StatefulProcessor, TimeMode, Variables,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tempfile::TempDir;

/// A file of clicks: page and minute of each.
fn clicks(folder: &Path, file: &str, rows: &[(&str, u32)]) {
    let rows = rows.iter().map(|(page, minute)| {
        format!("{{\"page\":\"{page}\",\"at\":\"2026-06-10T10:{minute:02}:00Z\"}}\n")
    });
    let path = folder.join("in").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, rows.collect::<String>()).unwrap();
}

fn query(select: &str) -> String {
    format!(
        "CREATE STREAMING TABLE t USING noop \
         TBLPROPERTIES ('checkpointLocation' = 'cp', 'outputMode' = 'append') AS {select}"
    )
}

const CLICKS: &str = "STREAM read_files('in', format => 'json', maxFilesPerTrigger => 1, \
                      schema => 'page string, at timestamp') \
                      WATERMARK at DELAY OF INTERVAL 10 MINUTES";

fn session(folder: &Path) -> Session {
    Session::builder().base_dir(folder).build().unwrap()
}

async fn rows_of(session: &Session, sql: &str) -> Vec<Vec<String>> {
    text(&session.sql(sql).await.unwrap().collect().await.unwrap())
}

async fn refused(session: &Session, sql: &str) -> (String, String) {
    let error = session.sql(sql).await.err().unwrap();
    (error.condition().unwrap_or_default().to_owned(), error.to_string())
}

#[tokio::test]
async fn any_retained_batch_is_a_table() {
    let folder = TempDir::new().unwrap();
    clicks(folder.path(), "0.json", &[("/a", 1), ("/a", 2), ("/b", 7)]);
    clicks(folder.path(), "1.json", &[("/a", 3), ("/c", 58)]);
    let windows = query(&format!(
        "SELECT window(at, '5 minutes') AS w, page, count(*) AS n FROM {CLICKS} GROUP BY 1, 2"
    ));
    let partitions = [("state.partitions", "3")];
    run(folder.path(), &windows, &partitions).await.unwrap();
    let session = session(folder.path());
    let counts = "SELECT key.page FROM read_state('cp', operator => 'aggregate', batch => 0) \
                  ORDER BY 1";
    assert_eq!(rows_of(&session, counts).await, [["/a"], ["/b"]]);
    // Spark's names; what the watermark has closed is gone.
    let newest =
        "SELECT key.page FROM read_statestore('cp', operatorId => 0, storeName => 'default')";
    assert_eq!(rows_of(&session, newest).await, [["/c"]]);
    // Where each lies.
    let places = "SELECT count(*), count(DISTINCT key_group), max(partition_id) < 3 \
                  FROM read_state('cp', batch => 0)";
    assert_eq!(rows_of(&session, places).await, [["2", "2", "true"]]);
    let bytes = "SELECT length(key) > 10, length(value) FROM read_state('cp', bytes => true)";
    assert_eq!(rows_of(&session, bytes).await.len(), 1);
    let metadata = "SELECT operatorId, numPartitions, minBatchId, numEntries, tables \
                    FROM read_state_metadata('cp')";
    let stores = rows_of(&session, metadata).await;
    assert_eq!(stores, [["aggregate", "3", "0", "1", "entries"]]);

    for (call, condition, word) in [
        ("read_state('cp', batch => 77)", "STDS_COMMITTED_BATCH_UNAVAILABLE", "batch 77"),
        ("read_state('nowhere')", "STDS_COMMITTED_BATCH_UNAVAILABLE", "is that a checkpoint"),
        ("read_state('cp', operator => 'x')", "STDS_INVALID_OPTION_VALUE", "aggregate"),
        ("read_state('cp', store => 'x')", "STDS_INVALID_OPTION_VALUE", "default"),
        ("read_state('cp', side => 'left')", "STDS_INVALID_OPTION_VALUE", "it has entries"),
        ("read_state('cp', colour => 'red')", "UNKNOWN_OPTION", "colour"),
        ("read_state()", "STDS_REQUIRED_OPTION_UNSPECIFIED", "needs a checkpoint"),
        ("STREAM read_state('cp')", "UNSUPPORTED_STREAMING_TVF", "without STREAM"),
    ] {
        let (found, message) = refused(&session, &format!("SELECT * FROM {call}")).await;
        assert_eq!(found, condition, "{call}: {message}");
        assert!(message.contains(word), "{call}: {message}");
    }
    assert!(!folder.path().join("nowhere").exists(), "looking makes nothing");
}

#[tokio::test]
async fn each_side_of_a_join_is_a_table() {
    let folder = TempDir::new().unwrap();
    clicks(folder.path(), "0.json", &[("/a", 1), ("/b", 2)]);
    let join = query(&format!(
        "SELECT l.page FROM {CLICKS} AS l JOIN {CLICKS} AS r ON l.page = r.page AND \
         r.at BETWEEN l.at AND l.at + INTERVAL 1 MINUTE"
    ));
    run(folder.path(), &join, &[]).await.unwrap();
    let session = session(folder.path());
    let left = "SELECT key.page, value.page AS stored, value.matched FROM read_state('cp', side => 'left') \
                ORDER BY 1";
    let found = rows_of(&session, left).await;
    assert_eq!(found.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["/a", "/b"]);
    let right = "SELECT count(*) FROM read_statestore('cp', joinSide => 'RIGHT')";
    assert_eq!(rows_of(&session, right).await, [["2"]]);
    let (condition, message) = refused(&session, "SELECT * FROM read_state('cp')").await;
    assert_eq!(condition, "STDS_REQUIRED_OPTION_UNSPECIFIED");
    assert!(message.contains("left side, right side"), "{message}");
}

/// Remembers every row, and when to look again.
#[derive(Default)]
struct Remembers {
    seen: ListState<String>,
}

impl StatefulProcessor for Remembers {
    fn init(&mut self, variables: &mut Variables) -> Result<()> {
        self.seen = variables.list("seen")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            self.seen.append(call, row.get::<String>("at")?)?;
        }
        call.register_timer(i64::MAX)?;
        call.emit((key.get::<&str>("page")?,))?;
        Ok(())
    }
}

#[tokio::test]
async fn variables_and_timers_are_tables() {
    let folder = TempDir::new().unwrap();
    clicks(folder.path(), "0.json", &[("/a", 1), ("/a", 2), ("/b", 3)]);
    let session = session(folder.path());
    let rows = session.read_stream().schema("page STRING, at STRING").json("in").await.unwrap();
    let remembered = rows.group_by(vec![col("page")]).transform_with_state(
        Remembers::default(),
        "page STRING",
        TimeMode::ProcessingTime,
        OutputMode::Update,
    );
    let query = remembered
        .unwrap()
        .write_stream()
        .unwrap()
        .format("noop")
        .output_mode(OutputMode::Update)
        .trigger(Trigger::AvailableNow)
        .option("checkpointLocation", "cp")
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let seen = session.read_state("cp").variable("seen").load().await.unwrap();
    let names: Vec<String> = seen.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["key", "list_element", "partition_id", "key_group"]);
    let seen = "SELECT key.page, list_element.value FROM \
                read_statestore('cp', stateVarName => 'seen') ORDER BY 1, 2";
    let minute = |minute: u32| format!("2026-06-10T10:{minute:02}:00Z");
    let expected =
        [["/a".to_owned(), minute(1)], ["/a".to_owned(), minute(2)], ["/b".to_owned(), minute(3)]];
    assert_eq!(rows_of(&session, seen).await, expected);
    let timers = session.read_state("cp").timers().load().await.unwrap();
    assert_eq!(timers.count().await.unwrap(), 2);
}

#[tokio::test]
async fn passing_the_budget_names_query_operator_and_setting() {
    let folder = TempDir::new().unwrap();
    let pages: Vec<String> = (0..20_000).map(|i| format!("/page-{i:06}")).collect();
    let rows: Vec<(&str, u32)> = pages.iter().map(|page| (page.as_str(), 1)).collect();
    clicks(folder.path(), "0.json", &rows);
    let counts = query(&format!(
        "SELECT window(at, '5 minutes') AS w, page, count(*) AS n FROM {CLICKS} GROUP BY 1, 2"
    ));
    let small = [("state.memory", "256k"), ("state.partitions", "2")];
    let error = run(folder.path(), &counts, &small).await.err().unwrap();
    assert_eq!(error.condition(), Some("STATE_MEMORY_EXCEEDED"), "{error}");
    for part in ["query t", "aggregate", "state.memory allows 262144"] {
        assert!(error.to_string().contains(part), "{part} is not in: {error}");
    }
    // With more the same batch goes on where it was.
    run(folder.path(), &counts, &[("state.memory", "64m")]).await.unwrap();
    let session = session(folder.path());
    let count = session.read_state("cp").load().await.unwrap().count().await.unwrap();
    assert_eq!(count, 20_000);
}

#[tokio::test]
async fn the_backend_that_wrote_state_is_asked_for_by_name() {
    let folder = TempDir::new().unwrap();
    clicks(folder.path(), "0.json", &[("/a", 1)]);
    let distinct =
        query(&format!("SELECT DISTINCT page FROM {CLICKS}")).replace("'append'", "'update'");
    run(folder.path(), &distinct, &[]).await.unwrap();
    // A session with a backend of its own still reads what ours wrote.
    let session = metered_session(Arc::new(AtomicUsize::new(0))).unwrap();
    let checkpoint = folder.path().join("cp").display().to_string();
    let state = session.read_state(checkpoint).load().await.unwrap();
    assert_eq!(state.count().await.unwrap(), 1);
}

#[cfg(feature = "lsm")]
#[tokio::test]
async fn blocks_are_cached_where_the_setting_says_and_may_be_lost() {
    let folder = TempDir::new().unwrap();
    let pages: Vec<String> = (0..40_000).map(|i| format!("/page-{i:06}")).collect();
    let rows: Vec<(&str, u32)> = pages.iter().map(|page| (page.as_str(), 1)).collect();
    clicks(folder.path(), "0.json", &rows);
    let counts = query(&format!(
        "SELECT window(at, '5 minutes') AS w, page, count(*) AS n FROM {CLICKS} GROUP BY 1, 2"
    ));
    let cache = folder.path().join("cache");
    let place = cache.display().to_string();
    let settings = [
        ("state.backend", "lsm"),
        ("state.memory", "1k"),
        ("state.partitions", "1"),
        ("state.cache", place.as_str()),
        ("state.cache.max", "1m"),
    ];
    let files = || fs::read_dir(&cache).map_or(0, |found| found.count());
    run(folder.path(), &counts, &settings).await.unwrap();
    for file in ["1.json", "2.json"] {
        // A new process reads what it needs of them from the store, and keeps it there.
        clicks(folder.path(), file, &rows[..20_000]);
        run(folder.path(), &counts, &settings).await.unwrap();
        assert_eq!(files(), 1, "a folder for the query");
        fs::remove_dir_all(&cache).unwrap();
    }
    let session = session(folder.path());
    let count = session.read_state("cp").load().await.unwrap().count().await.unwrap();
    assert_eq!(count, 40_000);
}
