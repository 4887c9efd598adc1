//! What tables are made of, and what becomes of a query when they go.

use crate::golden::text;
use crate::statements::Script;
use std::path::PathBuf;

const SELECT: &str = "SELECT k, v FROM STREAM read_files('in', format => 'json', \
                      schema => 'k STRING, v BIGINT')";

fn files(script: &Script, table: &str) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(script.path("warehouse/default").join(table)).unwrap();
    folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

async fn rows(script: &Script, query: &str) -> Vec<Vec<String>> {
    text(&script.session.sql(query).await.unwrap().collect().await.unwrap())
}

#[tokio::test]
async fn signs_of_csv_and_sizes_of_files_are_properties() {
    let script = Script::new();
    std::fs::write(script.path("in/b.json"), "{\"k\":\"x'y,\",\"v\":2}\n").unwrap();
    let signs = "header = true, quote = '''', escape = '#'";
    let sql = format!("CREATE STREAMING TABLE t USING csv TBLPROPERTIES ({signs}) AS {SELECT}");
    script.run(&sql).await.unwrap();
    let written: String =
        files(&script, "t").iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    assert!(written.contains("'x#'y,',2"), "{written}");
    let found = rows(&script, "SELECT k, v FROM t ORDER BY v").await;
    assert_eq!(found, [["a", "1"], ["x'y,", "2"]]);
    for format in ["parquet", "json", "csv"] {
        let sizes = "maxRecordsPerFile = 1, targetFileSize = '1m'";
        let sql = format!(
            "CREATE STREAMING TABLE {format} USING {format} TBLPROPERTIES ({sizes}) AS {SELECT}"
        );
        script.run(&sql).await.unwrap();
        assert_eq!(files(&script, format).len(), 2, "{format}");
    }
}

#[tokio::test]
async fn a_table_that_could_not_be_made_is_none() {
    let script = Script::new();
    let sql = format!("CREATE STREAMING TABLE t AS {}", SELECT.replacen("k", "k AS `a b`", 1));
    let refused = script.run(&sql).await.unwrap_err();
    let condition = Some("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES");
    assert_eq!(refused.condition(), condition, "{refused}");
    assert_eq!(script.run("SHOW TABLES").await.unwrap(), "");
}

#[tokio::test]
async fn output_that_was_deleted_is_not_gone_on_with() {
    for format in ["delta", "parquet"] {
        let script = Script::new();
        let sql = format!("CREATE STREAMING TABLE t USING {format} AS {SELECT}");
        script.run(&sql).await.unwrap();
        let folder = script.path("warehouse/default/t");
        std::fs::rename(&folder, script.path("aside")).unwrap();
        std::fs::write(script.path("in/b.json"), "{\"k\":\"b\",\"v\":2}\n").unwrap();
        let refused = script.run(&sql).await.unwrap_err();
        assert_eq!(refused.condition(), Some("CHECKPOINT_AHEAD_OF_SINK"), "{format}: {refused}");
        assert!(refused.message().contains("checkpoints/t"), "{refused}");
        assert!(refused.message().contains("warehouse/default/t"), "{refused}");
        // With it back, the query goes on.
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::rename(script.path("aside"), &folder).unwrap();
        script.run(&sql).await.unwrap();
        assert_eq!(script.run("SELECT * FROM t").await.unwrap(), "2", "{format}");
    }
}

#[tokio::test]
async fn a_table_of_csv_that_grows_is_read_by_its_headers() {
    let script = Script::new();
    let sql = "CREATE STREAMING TABLE t USING csv TBLPROPERTIES (header = true) AS SELECT * FROM \
               STREAM read_files('in', format => 'json', schemaLocation => 'schemas')";
    script.run(sql).await.unwrap();
    std::fs::write(script.path("in/b.json"), "{\"k\":\"b\",\"new\":7,\"v\":2}\n").unwrap();
    let grown = script.run(sql).await.unwrap_err();
    assert_eq!(grown.condition(), Some("UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE"));
    script.run(sql).await.unwrap();
    let query = "SELECT k, v, coalesce(new, '-'), coalesce(_rescued_data, '-') FROM t ORDER BY k";
    assert_eq!(rows(&script, query).await, [["a", "1", "-", "-"], ["b", "2", "7", "-"]]);
}

#[tokio::test]
async fn folders_that_options_name_begin_where_all_paths_do() {
    let script = Script::new();
    std::fs::write(script.path("in/b.json"), "{\"k\":\n").unwrap();
    let select = SELECT.replacen("'in',", "'in', badRecordsPath => 'bad',", 1);
    script.run(&format!("CREATE STREAMING TABLE t AS {select}")).await.unwrap();
    assert_eq!(std::fs::read_dir(script.path("bad/bad_records")).unwrap().count(), 1);
    let archive = "'in', cleanSource => 'ARCHIVE', sourceArchiveDir => 'in/old',";
    let select = SELECT.replacen("'in',", archive, 1);
    let refused = script.run(&format!("CREATE STREAMING TABLE u AS {select}")).await.unwrap_err();
    assert_eq!(refused.condition(), Some("ARCHIVE_INSIDE_SOURCE"), "{refused}");
}

#[tokio::test]
async fn a_cache_that_is_no_folder_is_refused() {
    let script = Script::new();
    script.run("SET state.backend = lsm").await.unwrap();
    let file = script.path("in/a.json").display().to_string();
    script.run(&format!("SET state.cache = '{file}'")).await.unwrap();
    let select = SELECT.replacen("k, v", "DISTINCT k, v", 1);
    let properties = "TBLPROPERTIES (outputMode = 'update')";
    let sql = format!("CREATE STREAMING TABLE t USING memory {properties} AS {select}");
    let refused = script.run(&sql).await.unwrap_err();
    assert_eq!(refused.condition(), Some("INVALID_SETTING"), "{refused}");
    assert!(refused.message().contains("no folder"), "{refused}");
}
