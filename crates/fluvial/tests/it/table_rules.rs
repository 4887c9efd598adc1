//! Constraints and computed columns of Delta tables, in Spark's SQL, for writes, streams and
//! merges.

use crate::golden::text;
use fluvial::prelude::*;
use fluvial::{DeltaTable, Error};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn session(folder: &Path) -> Session {
    Session::builder().base_dir(folder).warehouse("house").build().unwrap()
}

async fn sql(session: &Session, query: &str) -> Vec<Vec<String>> {
    text(&session.sql(query).await.unwrap().collect().await.unwrap())
}

/// A table as Spark makes it: `id INT NOT NULL`, `v INT`, `at TIMESTAMP`, `day STRING` that is
/// computed, and a constraint.
fn table(folder: &Path, name: &str, day: &str) {
    ruled(folder, name, ("string", day), "length(cast(v AS STRING)) < 3");
}

/// The same with another computed column and constraint.
fn ruled(folder: &Path, name: &str, (of, day): (&str, &str), sized: &str) {
    let field = |name: &str, of: &str, nullable: bool, metadata: Value| json!({"name": name, "type": of, "nullable": nullable, "metadata": metadata});
    let day = json!({"delta.generationExpression": day});
    let schema = json!({"type": "struct", "fields": [
        field("id", "integer", false, json!({})),
        field("v", "integer", true, json!({})),
        field("at", "timestamp", true, json!({})),
        field("day", of, true, day),
    ]});
    let lines = [
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures":
            ["invariants", "checkConstraints", "generatedColumns", "appendOnly"]}}),
        json!({"metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9", "createdTime": 0, "partitionColumns": [],
            "format": {"provider": "parquet", "options": {}}, "schemaString": schema.to_string(),
            "configuration": {"delta.constraints.sized": sized},
        }}),
    ];
    let log = folder.join("house/default").join(name).join("_delta_log");
    fs::create_dir_all(&log).unwrap();
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(log.join("00000000000000000000.json"), text.join("\n")).unwrap();
}

async fn append(session: &Session, rows: &str) -> Result<(), Error> {
    session.sql(rows).await?.write()?.save_as_table("ruled").await
}

fn condition(result: Result<(), Error>) -> String {
    let error = result.unwrap_err();
    error.condition().unwrap_or(error.message()).to_owned()
}

const VIOLATED: &str = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES";

/// One row.
fn row(id: &str, v: &str) -> String {
    format!(
        "SELECT CAST({id} AS INT) AS id, CAST({v} AS INT) AS v,
                timestamp '2026-11-30 23:30:00' AS at"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_table_asks_of_rows_holds_for_writes_and_streams() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    table(folder.path(), "ruled", "date_format(at, 'yyyy-MM-dd')");
    append(&session, &row("1", "99")).await.unwrap();
    assert_eq!(condition(append(&session, &row("2", "100")).await), VIOLATED);
    let null = condition(append(&session, &row("NULL", "1")).await);
    assert_eq!(null, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED");
    let given = |day: &str| format!("SELECT *, '{day}' AS day FROM ({})", row("3", "3"));
    append(&session, &given("2026-11-30")).await.unwrap();
    assert_eq!(condition(append(&session, &given("2026-12-01")).await), VIOLATED);

    // A stream stops at the row, and its batch is not there.
    for (rows, stops) in [(row("4", "4"), false), (row("5", "500"), true)] {
        session.sql(&rows).await.unwrap().write().unwrap().save_as_table("feed").await.unwrap();
        let feed = session.read_stream().table("feed").await.unwrap();
        let writer = feed.write_stream().unwrap().option("checkpointLocation", "cp");
        let query = writer.trigger(Trigger::AvailableNow).to_table("ruled").await.unwrap();
        match (stops, query.await_termination().await) {
            (false, ended) => ended.unwrap(),
            (true, ended) => assert_eq!(condition(ended), VIOLATED),
        }
    }
    let expected = [["1", "99", "2026-11-30"], ["3", "3", "2026-11-30"], ["4", "4", "2026-11-30"]];
    assert_eq!(sql(&session, "SELECT id, v, day FROM ruled ORDER BY id").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_table_asks_of_rows_holds_for_merges() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    ruled(folder.path(), "ruled", ("integer", "id * 2"), "v < 100 AND v > 0");
    append(&session, &row("1", "1")).await.unwrap();
    let merge = |v: &str| {
        format!(
            "MERGE INTO ruled AS t USING (SELECT * FROM (VALUES (1), (2)) AS x(id)) AS s
             ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = {v}
             WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, {v})"
        )
    };
    assert_eq!(condition(session.sql(&merge("1000")).await.map(drop)), VIOLATED);
    session.sql(&merge("7")).await.unwrap();
    let found = sql(&session, "SELECT id, v, day FROM ruled ORDER BY id").await;
    assert_eq!(found, [["1", "7", "2"], ["2", "7", "4"]]);
    // What it checks and computes in another way than Spark.
    let half = ("double", "v / 2");
    for (name, day, sized) in [
        ("dated", ("string", "date_format(at, 'yyyy-MM-dd')"), "v < 100"),
        ("halved", half, "v < 100"),
        ("cut", ("string", "SUBSTRING(cast(at AS STRING), 1, 4)"), "v < 100"),
        ("checked", ("integer", "id * 2"), "v / 2 <= 2"),
    ] {
        ruled(folder.path(), name, day, sized);
        let source = session.sql("SELECT 1 AS id").await.unwrap();
        let place = DeltaTable::for_path(&session, &format!("house/default/{name}")).unwrap();
        let merge = place.merge(source, "target.id = source.id").when_matched().delete();
        let refused = condition(merge.execute().await.map(drop));
        assert_eq!(refused, "DELTA_FEATURE_NOT_SUPPORTED", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_looks_at_the_clock_is_refused_before_the_first_row() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    for sized in ["at <= current_timestamp()", "date(at) <= current_date()", "v < rand()"] {
        ruled(folder.path(), "ruled", ("integer", "id * 2"), sized);
        let error = append(&session, &row("1", "1")).await.unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_FEATURE_NOT_SUPPORTED"), "{error}");
    }
}

/// Numbers that have no place in their type are Spark's errors, in rules as in what a merge says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_overflows_in_a_merge_is_an_error() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    ruled(folder.path(), "ruled", ("integer", "id * 2"), "v + 1 > 0");
    append(&session, &row("1", "1")).await.unwrap();
    const OVERFLOW: &str = "ARITHMETIC_OVERFLOW";
    // Appended rows, and merged ones.
    for (id, v) in [("1073741824", "1"), ("2", "2147483647")] {
        assert_eq!(condition(append(&session, &row(id, v)).await), OVERFLOW, "{id}, {v}");
        let merge = format!(
            "MERGE INTO ruled AS t USING ({}) AS s ON t.id = s.id
             WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
            row(id, v)
        );
        assert_eq!(condition(session.sql(&merge).await.map(drop)), OVERFLOW, "{id}, {v}");
    }
    for (value, expected) in [
        ("t.v + 2147483647", OVERFLOW),
        ("t.v * s.id * 2147483647 * 2", OVERFLOW),
        ("1 / (s.id - 1)", "DIVIDE_BY_ZERO"),
        ("t.v + 2147483647L", "CAST_OVERFLOW_IN_TABLE_INSERT"),
    ] {
        let merge = format!(
            "MERGE INTO ruled AS t USING (SELECT 1 AS id) AS s ON t.id = s.id
             WHEN MATCHED THEN UPDATE SET v = {value}"
        );
        assert_eq!(condition(session.sql(&merge).await.map(drop)), expected, "{value}");
    }
    let merge = "MERGE INTO ruled AS t USING (SELECT 1 AS id) AS s
         ON t.id = s.id AND t.v + 2147483647 > 0 WHEN MATCHED THEN DELETE";
    assert_eq!(condition(session.sql(merge).await.map(drop)), OVERFLOW);
    assert_eq!(sql(&session, "SELECT id, v, day FROM ruled").await, [["1", "1", "2"]]);
}
