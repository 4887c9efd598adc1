//! The clauses of CREATE STREAMING TABLE and DROP, and where checkpoints lie.

use fluvial::sql::parse_script;
use fluvial::{Executed, Result, ScriptOptions, Session};
use std::path::Path;

pub(crate) struct Script {
    pub(crate) session: Session,
    options: ScriptOptions,
    folder: tempfile::TempDir,
}

impl Script {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        std::fs::write(folder.path().join("in/a.json"), "{\"k\":\"a\",\"v\":1}\n").unwrap();
        let session = Session::builder().base_dir(folder.path()).build().unwrap();
        let checkpoints = Some(folder.path().join("checkpoints").display().to_string());
        let trigger = Some(fluvial::Trigger::AvailableNow);
        Self { session, options: ScriptOptions { checkpoints, trigger }, folder }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Runs one statement; what it says.
    pub(crate) async fn run(&self, sql: &str) -> Result<String> {
        let statements = parse_script(sql)?;
        match self.session.execute(&statements[0], &self.options).await? {
            Executed::Query(name, query) => {
                query.await_termination().await?;
                Ok(format!("query {name}"))
            }
            Executed::Rows(frame) => Ok(frame.count().await.unwrap().to_string()),
            Executed::Done(text) => Ok(text),
        }
    }
}

const SELECT: &str = "SELECT k, v FROM STREAM read_files('in', format => 'json', \
                      schema => 'k STRING, v BIGINT')";

fn exists(path: &Path) -> bool {
    path.exists()
}

#[tokio::test]
async fn a_list_of_columns_is_what_the_query_must_give() {
    let script = Script::new();
    for list in ["(k STRING)", "(k STRING, v INT)", "(k STRING, w BIGINT)"] {
        let sql = format!("CREATE STREAMING TABLE t {list} USING parquet AS {SELECT}");
        let refused = script.run(&sql).await.unwrap_err();
        assert_eq!(refused.condition(), Some("STREAMING_TABLE_COLUMNS_MISMATCH"), "{list}");
    }
    let sql = format!("CREATE STREAMING TABLE t (K STRING, v BIGINT) USING parquet AS {SELECT}");
    assert_eq!(script.run(&sql).await.unwrap(), "query t");
}

#[tokio::test]
async fn if_not_exists_leaves_a_table_alone() {
    let script = Script::new();
    let sql = format!("CREATE STREAMING TABLE IF NOT EXISTS t USING parquet AS {SELECT}");
    assert_eq!(script.run(&sql).await.unwrap(), "query t");
    assert_eq!(script.run(&sql).await.unwrap(), "table t is there");
}

#[tokio::test]
async fn a_comment_is_kept_with_the_table() {
    let script = Script::new();
    let sql = format!("CREATE STREAMING TABLE t COMMENT 'every click' AS {SELECT}");
    script.run(&sql).await.unwrap();
    assert_eq!(script.run("DESCRIBE t").await.unwrap(), "-- every click\nk STRING\nv BIGINT");
    let log = script.path("warehouse/default/t/_delta_log/00000000000000000000.json");
    assert!(std::fs::read_to_string(log).unwrap().contains("\"description\":\"every click\""));
}

#[tokio::test]
async fn tables_of_the_same_name_in_two_schemas_have_two_checkpoints() {
    let script = Script::new();
    for name in ["a.t", "b.t", "t"] {
        let sql = format!("CREATE STREAMING TABLE {name} USING parquet AS {SELECT}");
        assert_eq!(script.run(&sql).await.unwrap(), format!("query {name}"));
        assert!(exists(&script.path("checkpoints").join(name).join("metadata")), "{name}");
        assert_eq!(script.run(&format!("SELECT * FROM {name}")).await.unwrap(), "1", "{name}");
    }
}

#[tokio::test]
async fn a_view_has_no_files_that_could_stay() {
    let script = Script::new();
    script.run("CREATE VIEW v AS SELECT 1 AS one").await.unwrap();
    assert_eq!(script.run("DROP VIEW v").await.unwrap(), "dropped v");
    let create = format!("CREATE STREAMING TABLE t USING parquet AS {SELECT}");
    script.run(&create).await.unwrap();
    let refused = script.run("DROP VIEW t").await.unwrap_err();
    assert_eq!(refused.condition(), Some("EXPECT_VIEW_NOT_TABLE"));
    assert_eq!(script.run("DROP TABLE t").await.unwrap(), "dropped t; its files stay");
}

#[tokio::test]
async fn tables_of_separated_values_and_of_lines_are_written_and_read() {
    let script = Script::new();
    for (name, using, select, text) in [
        ("plain", "csv", "k, v", "a,1\n"),
        ("headed", "csv TBLPROPERTIES (header = true, sep = ';')", "k, v", "k;v\na;1\n"),
        ("lines", "text", "concat(k, v) AS value", "a1\n"),
    ] {
        let select = SELECT.replacen("k, v", select, 1);
        let sql = format!("CREATE STREAMING TABLE {name} USING {using} AS {select}");
        assert_eq!(script.run(&sql).await.unwrap(), format!("query {name}"));
        let folder = script.path("warehouse/default").join(name);
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.filter(|path| path.is_file()).collect();
        assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), text, "{name}");
        assert_eq!(script.run(&format!("SELECT * FROM {name}")).await.unwrap(), "1", "{name}");
    }
}

#[cfg(not(feature = "avro"))]
#[tokio::test]
async fn a_format_that_is_not_built_in_is_said_to_be() {
    let script = Script::new();
    let sql = format!("CREATE STREAMING TABLE t USING avro AS {SELECT}");
    let refused = script.run(&sql).await.unwrap_err();
    assert!(refused.message().contains("feature `avro`"), "{refused}");
}
