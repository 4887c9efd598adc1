//! Statements other than queries.

use super::{error, one, shown};
use crate::sql::{
    Command, CreateStreamingTable, DropTable, Existing, Missing, Place, RelationKind, SetOption,
    TableFormat, parse_script,
};
use fluvial_core::OutputMode;

fn table(text: &str) -> CreateStreamingTable {
    match one(text) {
        Command::CreateStreamingTable(table) => *table,
        other => panic!("{text} is {}", other.name()),
    }
}

#[test]
fn the_clickstream_job_is_understood() {
    let table = table(
        "CREATE STREAMING TABLE page_views_5m USING delta LOCATION 'out/page_views_5m' AS
         SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views,
                sum(duration_s) AS total_duration_s
         FROM STREAM read_files('landing/clicks', format => 'json', maxFilesPerTrigger => 10,
                schema => 'user_id string, page string, event_time timestamp, duration_s double')
         WATERMARK event_time DELAY OF INTERVAL 10 MINUTES
         GROUP BY 1, 2;",
    );
    assert_eq!(table.name.to_string(), "page_views_5m");
    assert_eq!(table.format, TableFormat::Delta);
    assert_eq!(table.location.as_deref(), Some("out/page_views_5m"));
    assert_eq!(table.existing, Existing::Refuse);
    assert_eq!(
        shown(&table.query),
        "$0 = stream read_files(Text(\"landing/clicks\"), format => Text(\"json\"), \
         maxFilesPerTrigger => Number(\"10\"), schema => Text(\"user_id string, page string, \
         event_time timestamp, duration_s double\")) watermark event_time delay 600000000us\n\
         SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views, \
         sum(duration_s) AS total_duration_s FROM `$0` GROUP BY 1, 2"
    );
}

#[test]
fn clauses_come_in_any_order() {
    let table = table(
        "create or refresh streaming table web.clicks (day date, n bigint) comment 'by day'
         tblproperties ('outputMode' = 'Complete', trigger = '30 seconds', queryname = 'q',
                        'checkpointLocation' = 'cp', mergeSchema = true, delta.appendOnly = 'false')
         partitioned by (day, `a b`) using DELTA as select day, count(*) n from stream t group by 1",
    );
    assert_eq!((table.name.schema(), table.name.table()), (Some("web"), "clicks"));
    assert_eq!(table.existing, Existing::Replace);
    assert_eq!(table.columns.unwrap().fields().len(), 2);
    assert_eq!(table.partition_by, ["day", "a b"]);
    assert_eq!(table.comment.as_deref(), Some("by day"));
    let properties = table.properties;
    assert_eq!(properties.output_mode, Some(OutputMode::Complete));
    assert_eq!(properties.trigger.as_deref(), Some("30 seconds"));
    assert_eq!(properties.query_name.as_deref(), Some("q"));
    assert_eq!(properties.checkpoint_location.as_deref(), Some("cp"));
    let options: Vec<_> = properties.options.into_iter().collect();
    let expected = [("delta.appendOnly", "false"), ("mergeSchema", "true")];
    assert_eq!(options, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn without_using_a_table_is_a_delta_table() {
    let table = table("CREATE STREAMING TABLE IF NOT EXISTS t AS SELECT * FROM STREAM rate()");
    assert_eq!((table.format, table.existing), (TableFormat::Delta, Existing::Keep));
    for format in TableFormat::ALL {
        let text =
            format!("CREATE STREAMING TABLE t USING {format} AS SELECT * FROM STREAM rate()");
        assert_eq!(self::table(&text).format, format);
    }
}

#[test]
fn small_statements() {
    let view = one("CREATE OR REPLACE TEMP VIEW s.v AS SELECT * FROM STREAM t");
    let Command::CreateView(view) = view else { panic!("a view") };
    assert_eq!((view.name.to_string().as_str(), view.existing), ("s.v", Existing::Replace));
    assert!(view.query.names_a_stream());

    let set = |text: &str| match one(text) {
        Command::Set(SetOption { key, value }) => (key, value),
        other => panic!("{text} is {}", other.name()),
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(set("SET state.partitions = 4;"), pair("state.partitions", "4"));
    assert_eq!(set("set a.`b c`='x y'"), pair("a.b c", "x y"));
    assert_eq!(set("SET trigger = 30 seconds ;"), pair("trigger", "30 seconds"));
    assert_eq!(set("SET TIME ZONE 'Europe/Paris'"), pair("timezone", "Europe/Paris"));

    assert_eq!(one("SHOW TABLES"), Command::ShowTables);
    for text in ["DESCRIBE TABLE a.b", "DESC a.b", "describe a.b"] {
        let Command::DescribeTable(name) = one(text) else { panic!("{text}") };
        assert_eq!(name.to_string(), "a.b");
    }
    let drop = |kind, missing| {
        let Command::Drop(DropTable { name, .. }) = one("DROP TABLE t") else { panic!("drop") };
        Command::Drop(DropTable { name, kind, missing })
    };
    assert_eq!(one("DROP TABLE t"), drop(RelationKind::Table, Missing::Refuse));
    assert_eq!(one("DROP VIEW IF EXISTS t"), drop(RelationKind::View, Missing::Ignore));
}

#[test]
fn a_script_is_statements_with_places_and_texts() {
    let script =
        "\u{feff}-- what this is for\n;;\nSET a = 1; /* and ; here */\n  SELECT ';' -- x;\n FROM t";
    let statements = parse_script(script).unwrap();
    let seen: Vec<(&str, Place)> = statements.iter().map(|s| (s.text.as_str(), s.place)).collect();
    assert_eq!(
        seen,
        [
            ("SET a = 1", Place { line: 3, column: 1 }),
            ("SELECT ';' -- x;\n FROM t", Place { line: 4, column: 3 }),
        ]
    );
    for nothing in ["", " ;; ", "-- only a comment", "/* ; */"] {
        assert_eq!(parse_script(nothing).unwrap(), [], "{nothing}");
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest_one() {
    let create =
        |tail: &str| format!("CREATE STREAMING TABLE t {tail} AS SELECT * FROM STREAM rate()");
    for (text, expected) in [
        (create("TBLPROPERTIES ('outputMod' = 'append')"), "did you mean 'outputMode'?"),
        (create("USING console TBLPROPERTIES (numRow = 5)"), "did you mean 'numRows'?"),
        (create("USING memory TBLPROPERTIES (mergeSchema = true)"), "a table USING memory has"),
        (create("USING delt"), "did you mean delta?"),
        (create("USING hudi"), "use one of delta, parquet, json, csv, text, avro, orc, kafka"),
        (create("TBLPROPERTY ('a' = 'b')"), "did you mean TBLPROPERTIES?"),
        ("CRATE TABLE t".into(), "did you mean CREATE?"),
        ("GRANT ALL".into(), "GRANT is not a statement here: a script has"),
        ("INSERT INTO t SELECT 1".into(), "INSERT is not a statement here: rows are written by"),
        ("UPDATE t SET a = 1".into(), "by MERGE INTO .. WHEN MATCHED THEN UPDATE"),
        ("DELETE FROM t".into(), "by MERGE INTO .. WHEN MATCHED THEN DELETE"),
        ("TRUNCATE TABLE t".into(), "by MERGE INTO .. WHEN MATCHED THEN DELETE"),
        ("SELCT 1".into(), "did you mean SELECT?"),
    ] {
        let message = error(&text);
        assert!(message.contains(expected), "{text}\n{message}");
    }
}

#[test]
fn contradictions_are_refused() {
    let create =
        |tail: &str| format!("CREATE STREAMING TABLE t {tail} AS SELECT * FROM STREAM rate()");
    for (text, expected) in [
        (create("USING memory LOCATION 'x'"), "a table USING memory has no LOCATION"),
        (create("USING console PARTITIONED BY (a)"), "has no partitions"),
        (create("USING delta USING json"), "USING is given twice"),
        (create("TBLPROPERTIES (trigger = 'once', TRIGGER = 'x')"), "TRIGGER is given twice"),
        (create("TBLPROPERTIES (outputMode = 'replace')"), "use append, update or complete"),
        (create("(a bigint, A string)"), "[COLUMN_ALREADY_EXISTS] line 1, column 26"),
        (create("LOCATION out"), "expected the location, in quotes, found out"),
        ("CREATE STREAMING TABLE a.b.c AS SELECT * FROM STREAM rate()".into(), "two levels"),
        ("CREATE STREAMING TABLE t AS SELECT 1".into(), "needs a FROM"),
        ("CREATE STREAMING TABLE t AS".into(), "expected a query, found the end"),
        ("CREATE TABLE t AS SELECT 1".into(), "write CREATE STREAMING TABLE"),
        ("CREATE OR REFRESH VIEW v AS SELECT 1".into(), "expected STREAMING TABLE or VIEW"),
        ("SET a".into(), "expected =, found the end of the statement"),
        ("SET a = ;".into(), "expected the value of the setting"),
        ("DROP t".into(), "expected TABLE or VIEW, found t"),
        ("SHOW TABLES FROM x".into(), "expected the end of the statement, found FROM"),
    ] {
        let message = error(&text);
        assert!(message.contains(expected), "{text}\n{message}");
    }
}
