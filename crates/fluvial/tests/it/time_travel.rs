//! Older versions of tables in SQL, and streams of tables with options.

use crate::golden::text;
use fluvial::prelude::*;
use fluvial::sql::parse_script;
use fluvial::{DeltaTable, Executed, ScriptOptions};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn session(folder: &Path) -> Session {
    Session::builder().base_dir(folder).warehouse("house").build().unwrap()
}

/// Versions 1, 2 and 3 of `t` add a row each; version 0 made it.
async fn table(session: &Session) {
    for v in 1..=3 {
        let row = session.sql(&format!("SELECT {v} AS v")).await.unwrap();
        row.write().unwrap().save_as_table("t").await.unwrap();
    }
}

async fn sql(session: &Session, query: &str) -> Vec<Vec<String>> {
    text(&session.sql(query).await.unwrap().collect().await.unwrap())
}

async fn condition(session: &Session, query: &str) -> String {
    let error = match session.sql(query).await {
        Ok(frame) => fluvial::from_datafusion(frame.collect().await.unwrap_err()),
        Err(error) => error,
    };
    error.condition().unwrap_or(error.message()).to_owned()
}

#[tokio::test]
async fn sql_reads_a_table_as_it_was() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    table(&session).await;
    // Version 0 is of noon of the 10th of January 2026, and each other a day later.
    for version in 0..=3 {
        let name = format!("house/default/t/_delta_log/{version:020}.json");
        let noon = 1_768_046_400 + version * 86_400;
        let log = File::options().write(true).open(folder.path().join(name)).unwrap();
        log.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(noon)).unwrap();
    }
    for (from, rows) in [
        ("t", "3"),
        ("t VERSION AS OF 0", "0"),
        ("t VERSION AS OF 2", "2"),
        ("t FOR VERSION AS OF '1' AS x WHERE x.v = 1", "1"),
        ("default.t TIMESTAMP AS OF '2026-01-13'", "2"),
        ("t FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-13 10:00:00' WHERE t.v < 2", "1"),
        ("t TIMESTAMP AS OF '2026-01-11 06:00:00'", "0"),
    ] {
        let found = sql(&session, &format!("SELECT count(*) FROM {from}")).await;
        assert_eq!(found, [[rows]], "{from}");
    }
    let place = folder.path().join("house/default/t");
    let query = format!("SELECT * FROM delta.`{}` VERSION AS OF 1", place.display());
    assert_eq!(sql(&session, &query).await, [["1"]]);
    // What was added between two versions.
    let query = "SELECT v FROM t VERSION AS OF 3 EXCEPT SELECT v FROM t VERSION AS OF 2";
    assert_eq!(sql(&session, query).await, [["3"]]);
    let joined = "SELECT count(*) FROM t JOIN t VERSION AS OF 2 AS old ON t.v = old.v";
    assert_eq!(sql(&session, joined).await, [["2"]]);
    for (query, expected) in [
        ("SELECT * FROM t VERSION AS OF 9", "DELTA_VERSION_NOT_FOUND"),
        ("SELECT * FROM t TIMESTAMP AS OF '2200-01-01'", "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        (
            "SELECT * FROM t TIMESTAMP AS OF '1999-01-01'",
            "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
        ),
        ("SELECT * FROM t VERSION AS OF 'x'", "INVALID_OPTION_VALUE"),
        ("SELECT * FROM nobody VERSION AS OF 1", "TABLE_OR_VIEW_NOT_FOUND"),
    ] {
        assert_eq!(condition(&session, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn who_reads_a_table_that_is_not_there_makes_no_folder() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    let place = folder.path().join("no/where");
    let path = place.to_str().unwrap();
    let missing = "DELTA_TABLE_NOT_FOUND";
    let read = session.read().delta(path).await.unwrap_err();
    assert_eq!(read.condition(), Some(missing));
    let stream = session.read_stream().format("delta").load(path).await.unwrap_err();
    assert_eq!(stream.condition(), Some(missing));
    let table = DeltaTable::for_path(&session, path).unwrap();
    assert_eq!(table.history(None).await.unwrap_err().condition(), Some(missing));
    assert_eq!(table.optimize().await.unwrap_err().condition(), Some(missing));
    let query = format!("SELECT * FROM delta.`{path}`");
    assert_eq!(condition(&session, &query).await, missing);
    assert!(!folder.path().join("no").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_tables_in_sql_have_options() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    table(&session).await;
    let delete = "MERGE INTO t USING (SELECT 2 AS v) AS s ON t.v = s.v WHEN MATCHED THEN DELETE";
    session.sql(delete).await.unwrap();
    let options = ScriptOptions {
        checkpoints: Some("checkpoints".into()),
        trigger: Some(Trigger::AvailableNow),
    };
    for (name, from, rows) in [
        ("a", "STREAM t WITH ('startingVersion' = '2', skipChangeCommits = true)", vec!["2", "3"]),
        ("b", "STREAM t WITH (startingVersion = latest)", vec![]),
        (
            "c",
            "STREAM default.t WITH (startingVersion = 1, ignoreChanges = true) AS x",
            vec!["1", "2", "3"],
        ),
    ] {
        let from = from.replace("= latest", "= 'latest'");
        let script = format!("CREATE STREAMING TABLE {name} AS SELECT v FROM {from}");
        for statement in parse_script(&script).unwrap() {
            match session.execute(&statement, &options).await.unwrap() {
                Executed::Query(_, query) => query.await_termination().await.unwrap(),
                _ => unreachable!("it starts a query"),
            }
        }
        let found = sql(&session, &format!("SELECT v FROM {name} ORDER BY v")).await;
        let rows: Vec<Vec<String>> = rows.into_iter().map(|row| vec![row.to_owned()]).collect();
        assert_eq!(found, rows, "{from}");
    }
    let typo = "SELECT * FROM STREAM t WITH (startingVersoin = 1)";
    assert_eq!(condition(&session, typo).await, "UNKNOWN_OPTION");
    session.sql("SELECT * FROM STREAM t").await.unwrap().create_or_replace_temp_view("w").unwrap();
    let view = "SELECT * FROM STREAM w WITH (startingVersion = 1)";
    assert_eq!(condition(&session, view).await, "OPTION_NOT_SUPPORTED");
}
