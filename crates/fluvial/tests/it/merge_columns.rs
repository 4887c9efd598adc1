//! MERGE, column by column: new ones, other cases, fields inside; and partitions of text.

use crate::golden::text;
use fluvial::prelude::*;
use fluvial::{DeltaTable, Error};
use std::path::Path;
use tempfile::TempDir;

struct House {
    session: Session,
    folder: TempDir,
}

impl House {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let session = Session::builder().base_dir(folder.path()).warehouse("house").build();
        Self { session: session.unwrap(), folder }
    }

    async fn save(&self, table: &str, query: &str, partitions: &[&str]) {
        let rows = self.session.sql(query).await.unwrap();
        let writer = rows.write().unwrap().partition_by(partitions.iter().copied());
        writer.save_as_table(table).await.unwrap();
    }

    async fn run(&self, statement: &str) -> Result<Vec<Vec<String>>, Error> {
        Ok(text(&self.session.sql(statement).await?.collect().await.unwrap()))
    }

    async fn rows(&self, query: &str) -> Vec<Vec<String>> {
        self.run(query).await.unwrap()
    }

    fn log(&self, table: &str) -> std::path::PathBuf {
        self.folder.path().join("house/default").join(table).join("_delta_log")
    }

    /// What the versions of a table say of `key` in their metadata.
    fn metadata(&self, table: &str, key: &str) -> Vec<serde_json::Value> {
        let mut files: Vec<_> = versions(&self.log(table));
        files.sort();
        let lines = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
        let lines: Vec<_> =
            lines.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let lines =
            lines.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter_map(|line| Some(line.get("metaData")?.get(key)?.clone())).collect()
    }
}

fn versions(log: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect()
}

const NESTED: &str = "SELECT CAST(1 AS INT) AS id, CAST(1 AS INT) AS v,
      named_struct('x', CAST(1 AS INT), 'y', CAST(2 AS INT)) AS b
    UNION ALL SELECT CAST(2 AS INT) AS id, CAST(2 AS INT) AS v, NULL AS b";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_evolution_leaves_the_table_its_id_and_streams_go_on() {
    let house = House::new();
    house.save("users", "SELECT 1 AS id, 'a' AS p", &["p"]).await;
    let merge = "MERGE WITH SCHEMA EVOLUTION INTO users t USING (SELECT 2 AS id, 'a' AS p, 3.5D AS extra)
        s ON t.id = s.id AND t.p = s.p WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *";
    assert_eq!(house.rows(merge).await, [["1", "0", "0", "1"]]);
    assert_eq!(house.rows(merge).await, [["1", "1", "0", "0"]]);
    let query = "SELECT id, p, coalesce(extra, 0) FROM users ORDER BY id";
    assert_eq!(house.rows(query).await, [["1", "a", "0.0"], ["2", "a", "3.5"]]);
    let ids = house.metadata("users", "id");
    assert_eq!((ids.len(), &ids[0]), (2, &ids[1]), "the columns are added once, to the same table");
    let partitions = house.metadata("users", "partitionColumns");
    assert_eq!(partitions[0], partitions[1]);
}

/// What Delta 4.1 on Spark 4.1 does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_evolution_adds_fields_by_name() {
    let house = House::new();
    house.save("m", NESTED, &[]).await;
    let merge = |using: &str, rest: &str| {
        format!("MERGE WITH SCHEMA EVOLUTION INTO m t USING ({using}) s ON t.id = s.id {rest}")
    };
    let source = "SELECT 1 AS id, named_struct('z', 6, 'x', 5) AS b";
    house.rows(&merge(source, "WHEN MATCHED THEN UPDATE SET *")).await;
    let query = "SELECT id, v, b.x, b.y, b.z FROM m WHERE id = 1";
    assert_eq!(house.rows(query).await, [["1", "1", "5", "2", "6"]]);
    house.rows(&merge("SELECT 7 AS id, 3 AS n", "WHEN NOT MATCHED THEN INSERT *")).await;
    house.rows(&merge("SELECT 7 AS id, 4 AS k", "WHEN MATCHED THEN UPDATE SET k = s.k + 1")).await;
    assert_eq!(house.rows("SELECT n, k FROM m WHERE id = 7").await, [["3", "5"]]);
    for (using, rest, condition) in [
        ("SELECT 7 AS id, 4 AS q", "UPDATE SET other = s.q", "DELTA_MERGE_UNRESOLVED_EXPRESSION"),
        ("SELECT 7 AS id, 4 AS `n w`", "UPDATE SET *", "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
    ] {
        let statement = merge(using, &format!("WHEN MATCHED THEN {rest}"));
        let error = house.run(&statement).await.unwrap_err();
        assert_eq!(error.condition(), Some(condition), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_the_source_are_found_whatever_their_case() {
    let house = House::new();
    house.save("m", "SELECT 1 AS id, 1 AS v", &[]).await;
    house
        .rows(
            "MERGE INTO m t USING (SELECT 1 AS ID, 10 AS V) s ON t.id = s.id AND T.ID = S.Id
        WHEN MATCHED AND s.v > t.V THEN UPDATE SET V = s.v + t.v",
        )
        .await;
    assert_eq!(house.rows("SELECT id, v FROM m").await, [["1", "11"]]);
}

/// What Delta 4.1 on Spark 4.1 does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_inside_of_a_column_are_set_and_the_others_stay() {
    let house = House::new();
    house.save("m", NESTED, &[]).await;
    house
        .rows(
            "MERGE INTO m t USING (SELECT 1 AS id UNION ALL SELECT 2) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET t.b.X = 9, v = t.v + 1",
        )
        .await;
    let query = "SELECT id, v, b.x, coalesce(b.y, -1) FROM m ORDER BY id";
    assert_eq!(house.rows(query).await, [["1", "2", "9", "2"], ["2", "3", "9", "-1"]]);
}

/// The conditions are those of Delta 4.1 on Spark 4.1.
#[tokio::test]
async fn clauses_that_contradict_each_other_are_refused() {
    let house = House::new();
    house.save("m", NESTED, &[]).await;
    for (clauses, condition) in [
        ("WHEN MATCHED THEN UPDATE SET v = 1, V = 2", "DELTA_CONFLICT_SET_COLUMN"),
        ("WHEN MATCHED THEN UPDATE SET b.x = 9, b = NULL", "DELTA_CONFLICT_SET_COLUMN"),
        ("WHEN MATCHED THEN UPDATE SET b.nope = 9", "FIELD_NOT_FOUND"),
        (
            "WHEN NOT MATCHED THEN INSERT (id, v, v) VALUES (1, 2, 3)",
            "DELTA_DUPLICATE_COLUMNS_ON_INSERT",
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (id, b.x) VALUES (1, 3)",
            "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
        ),
        (
            "WHEN MATCHED THEN UPDATE SET v = 1 WHEN MATCHED AND t.v > 1 THEN DELETE",
            "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (1)
             WHEN NOT MATCHED AND s.id > 1 THEN INSERT (id) VALUES (2)",
            "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION",
        ),
        (
            "WHEN NOT MATCHED BY SOURCE THEN DELETE
             WHEN NOT MATCHED BY SOURCE AND t.v > 1 THEN UPDATE SET v = 1",
            "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
        ),
    ] {
        let statement = format!("MERGE INTO m t USING (SELECT 1 AS id) s ON t.id = s.id {clauses}");
        let error = house.run(&statement).await.unwrap_err();
        assert_eq!(error.condition(), Some(condition), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_of_text_compare_with_text() {
    let house = House::new();
    let rows = "SELECT 1 AS id, 'a' AS p UNION ALL SELECT 2, 'b' UNION ALL SELECT 3, NULL";
    house.save("m", rows, &["p"]).await;
    for (filter, expected) in [
        ("p = 'a'", &["1"][..]),
        ("'b' <= p", &["2"]),
        ("p IN ('b', 'c')", &["2"]),
        ("p LIKE 'a%' OR p IS NULL", &["1", "3"]),
        ("concat(p, 'x') = 'bx'", &["2"]),
    ] {
        let found = house.rows(&format!("SELECT id FROM m WHERE {filter} ORDER BY id")).await;
        assert_eq!(found.concat(), expected, "{filter}");
    }
    let found = house.rows("SELECT p, count(*) FROM m GROUP BY p ORDER BY p DESC LIMIT 1").await;
    assert_eq!(found, [["b", "1"]]);
}

/// As in Delta 4.1 on Spark 4.1, which writes all three as null.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_text_and_the_name_of_null_are_null_partitions() {
    let house = House::new();
    for (id, p) in [(1, "NULL"), (2, "''"), (3, "'__HIVE_DEFAULT_PARTITION__'"), (4, "'a'")] {
        let rows = format!("SELECT {id} AS id, CAST({p} AS STRING) AS p");
        house.save("m", &rows, &["p"]).await;
    }
    let query = "SELECT id, coalesce(p, 'null') FROM m ORDER BY id";
    let expected = [["1", "null"], ["2", "null"], ["3", "null"], ["4", "a"]];
    assert_eq!(house.rows(query).await, expected);
    let table = DeltaTable::for_name(&house.session, "m").await.unwrap();
    let report = table.optimize().await.unwrap();
    assert_eq!((report.files_removed, report.files_added), (3, 1));
    assert_eq!(house.rows(query).await, expected);
}

/// Other writers may keep the name of null as a text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn optimize_never_writes_two_partitions_into_one() {
    let house = House::new();
    for (id, p) in [(1, "'z'"), (2, "NULL"), (3, "'z'"), (4, "NULL"), (5, "'a'"), (6, "'a'")] {
        let rows = format!("SELECT {id} AS id, CAST({p} AS STRING) AS p");
        house.save("m", &rows, &["p"]).await;
    }
    for file in versions(&house.log("m")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace(r#""p":"z""#, r#""p":"__HIVE_DEFAULT_PARTITION__""#);
        std::fs::write(&file, text).unwrap();
    }
    let query = "SELECT id, coalesce(p, 'null') FROM m ORDER BY id";
    let before = house.rows(query).await;
    assert_eq!(before[0][1], "__HIVE_DEFAULT_PARTITION__");
    let table = DeltaTable::for_name(&house.session, "m").await.unwrap();
    assert!(table.optimize().await.unwrap().files_removed >= 2, "the others are optimized");
    assert_eq!(house.rows(query).await, before);
}
