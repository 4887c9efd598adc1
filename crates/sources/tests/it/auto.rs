//! Auto Loader: which files, and schemas that change (traps F14 and F15).

use crate::query::{Query, Spec, put};
use fluvial_core::Source;
use fluvial_sim::Disk;
use fluvial_sources::FileFormat;

pub(crate) fn columns(query: &Query) -> String {
    let schema = query.source.schema();
    let field = |f: &arrow::datatypes::FieldRef| {
        format!("{} {}", f.name(), fluvial_core::ddl::ddl_name(f.data_type()))
    };
    schema.fields().iter().map(field).collect::<Vec<_>>().join(", ")
}

/// Runs until nothing is left, starting again where the query stops for a new schema; the rows,
/// and how often it started again.
pub(crate) fn run(query: &mut Query, spec: &Spec) -> (Vec<String>, u32) {
    let (mut rows, mut starts) = (Vec::new(), 0);
    loop {
        match query.batch() {
            Ok(Some(found)) => rows.extend(found),
            Ok(None) => return (rows, starts),
            Err(error) => {
                assert_eq!(error.condition(), Some("UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE"));
                starts += 1;
                assert!(starts < 5, "{error}");
                query.restart(spec).unwrap();
                // The plan that failed is durable: it is run again.
                let range = query.ranges.last().unwrap().clone();
                rows.extend(query.read(&range).unwrap());
            }
        }
    }
}

/// F15: a column that comes in mid-stream, and a value of another type.
fn f15(mode: Option<&str>) -> (Query, Spec) {
    let disk = Disk::new();
    put(&disk, "f1.json", &["{\"a\":1}"], 1);
    let mut spec =
        Spec::auto().option("inferColumnTypes", "true").option("maxFilesPerTrigger", "1");
    if let Some(mode) = mode {
        spec = spec.option("schemaEvolutionMode", mode);
    }
    let query = Query::start(&disk, &spec).unwrap();
    put(&disk, "f2.json", &["{\"a\":2,\"b\":\"x\"}"], 2);
    put(&disk, "f3.json", &["{\"a\":\"oops\"}"], 3);
    (query, spec)
}

const OOPS: &str = r#"_rescued_data={"a":"oops","_file_path":"sim:///in/f3.json"}"#;

#[test]
fn new_columns_are_added_with_one_start() {
    let (mut query, spec) = f15(None);
    assert_eq!(columns(&query), "a BIGINT, _rescued_data STRING");
    let (rows, starts) = run(&mut query, &spec);
    assert_eq!((rows, starts), (vec!["a=1".into(), "a=2 b=x".into(), OOPS.into()], 1));
    assert_eq!(columns(&query), "a BIGINT, b STRING, _rescued_data STRING");
    query.restart(&spec).unwrap();
    assert_eq!(columns(&query), "a BIGINT, b STRING, _rescued_data STRING");
}

#[test]
fn new_columns_are_rescued_if_asked_for() {
    let (mut query, spec) = f15(Some("rescue"));
    let (rows, starts) = run(&mut query, &spec);
    let b = r#"a=2 _rescued_data={"b":"x","_file_path":"sim:///in/f2.json"}"#;
    assert_eq!((rows, starts), (vec!["a=1".into(), b.into(), OOPS.into()], 0));
}

#[test]
fn new_columns_stop_the_query_if_asked_for() {
    let (mut query, spec) = f15(Some("failOnNewColumns"));
    assert_eq!(query.batch().unwrap().unwrap(), ["a=1"]);
    for _ in 0..2 {
        let error = match query.ranges.get(1).cloned() {
            None => query.batch().unwrap_err(),
            Some(range) => query.read(&range).unwrap_err(),
        };
        assert_eq!(error.condition(), Some("UNKNOWN_FIELD_EXCEPTION"));
        assert!(error.message().contains("in/f2.json"), "{error}");
        query.restart(&spec).unwrap();
    }
}

#[test]
fn new_columns_are_left_out_if_asked_for() {
    let (mut query, spec) = f15(Some("none"));
    let (rows, _) = run(&mut query, &spec);
    assert_eq!(rows, ["a=1", "a=2", ""]);
    let (mut query, spec) = f15(Some("none"));
    let spec = spec.option("rescuedDataColumn", "_rescued_data");
    query.restart(&spec).unwrap();
    let (rows, _) = run(&mut query, &spec);
    let b = r#"a=2 _rescued_data={"b":"x","_file_path":"sim:///in/f2.json"}"#;
    assert_eq!(rows, ["a=1", b, OOPS], "rescued if a column is named for that");
}

#[test]
fn new_fields_of_structures_are_added_too() {
    let disk = Disk::new();
    put(&disk, "1", &["{\"s\":{\"x\":1},\"l\":[{\"i\":1}]}"], 1);
    let spec = Spec::auto().option("inferColumnTypes", "true").option("maxFilesPerTrigger", "1");
    let mut query = Query::start(&disk, &spec).unwrap();
    put(&disk, "2", &["{\"s\":{\"x\":2,\"y\":null},\"l\":[{\"i\":1,\"j\":2}]}"], 2);
    let (rows, starts) = run(&mut query, &spec);
    assert_eq!(rows.len(), 2);
    assert_eq!(starts, 1);
    assert_eq!(
        columns(&query),
        "l ARRAY<STRUCT<i: BIGINT, j: BIGINT>>, s STRUCT<x: BIGINT, y: STRING>, _rescued_data STRING"
    );
}

/// F14: names that differ in case only.
#[test]
fn names_in_another_case_are_rescued_or_matched_and_never_lost() {
    let lines = [
        "{\"key\":\"e1\",\"value\":1}",
        "{\"key\":\"e2\",\"Value\":2}",
        "{\"key\":\"e3\",\"value\":3,\"VALUE\":4}",
    ];
    let disk = Disk::new();
    put(&disk, "f", &lines, 1);
    let spec =
        Spec { auto: true, ..Spec::json("key STRING, value INT") }.option("rescuedDataColumn", "r");
    let rescued = |members: &str| format!("r={{{members},\"_file_path\":\"sim:///in/f\"}}");
    let rows = Query::start(&disk, &spec).unwrap().batch().unwrap().unwrap();
    let expected = [
        "key=e1 value=1".to_owned(),
        format!("key=e2 {}", rescued("\"Value\":2")),
        format!("key=e3 value=3 {}", rescued("\"VALUE\":4")),
    ];
    assert_eq!(rows, expected);
    let spec = spec.option("readerCaseSensitive", "false");
    let rows = Query::start(&disk, &spec).unwrap().batch().unwrap().unwrap();
    assert_eq!(rows[1], "key=e2 value=2");
    assert_eq!([&rows[0], &rows[2]], [&expected[0], &expected[2]]);
}

/// In one file, and from file to file: no new column, no stop, nothing lost.
#[test]
fn names_that_differ_in_case_only_stop_no_stream() {
    let disk = Disk::new();
    put(&disk, "1", &["{\"a\":1,\"s\":{\"x\":1}}", "{\"b\":2,\"B\":3}"], 1);
    let spec = Spec::auto().option("inferColumnTypes", "true");
    let mut query = Query::start(&disk, &spec).unwrap();
    let schema = "B BIGINT, a BIGINT, s STRUCT<x: BIGINT>, _rescued_data STRING";
    assert_eq!(columns(&query), schema);
    let rescued = |members: &str, file: u8| {
        format!("_rescued_data={{{members},\"_file_path\":\"sim:///in/{file}\"}}")
    };
    let expected = ["a=1 s={x: 1}".to_owned(), format!("B=3 {}", rescued("\"b\":2", 1))];
    assert_eq!(query.batch().unwrap().unwrap(), expected);
    put(&disk, "2", &["{\"A\":2,\"a\":1}", "{\"s\":{\"X\":4,\"x\":5}}"], 2);
    let expected = [
        format!("a=1 {}", rescued("\"A\":2", 2)),
        format!("s={{x: 5}} {}", rescued("\"s\":{\"X\":4}", 2)),
    ];
    assert_eq!(query.batch().unwrap().unwrap(), expected);

    let disk = Disk::new();
    disk.write("in/1", "a,b\n1,2\n");
    let spec = spec.format(FileFormat::Csv).option("header", "true");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(query.batch().unwrap().unwrap(), ["a=1 b=2"]);
    disk.write("in/2", "A,b\n3,4\n");
    let expected = [format!("b=4 {}", rescued("\"A\":\"3\"", 2))];
    assert_eq!(query.batch().unwrap().unwrap(), expected);
    disk.write("in/3", "A,a,b\n5,6,7\n");
    let expected = [format!("a=6 b=7 {}", rescued("\"A\":\"5\"", 3))];
    assert_eq!(query.batch().unwrap().unwrap(), expected);
}

#[test]
fn what_is_no_json_is_corrupt_and_what_does_not_fit_is_not() {
    let disk = Disk::new();
    put(&disk, "f", &["{\"a\":\"x\"}", "{\"a\":1", "{\"a\":1}"], 1);
    let spec = Spec { auto: true, ..Spec::json("a INT") }
        .option("rescuedDataColumn", "r")
        .option("mode", "DROPMALFORMED");
    let rows = Query::start(&disk, &spec).unwrap().batch().unwrap().unwrap();
    assert_eq!(rows, [r#"r={"a":"x","_file_path":"sim:///in/f"}"#, "a=1"]);
}

#[test]
fn types_are_texts_unless_asked_for_and_hints_say_more() {
    let disk = Disk::new();
    put(&disk, "k=7/f", &["{\"b\":{\"x\":[1]},\"a\":1.5}"], 1);
    let spec = Spec::auto().option("schemaHints", "a DECIMAL(5, 2), c DATE");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(columns(&query), "a DECIMAL(5,2), b STRING, c DATE, _rescued_data STRING, k INT");
    assert_eq!(query.batch().unwrap().unwrap(), ["a=1.50 b={\"x\":[1]} k=7"]);
    let bad = Spec::auto().option("schemaHints", "a.b.c NOTHING");
    let error = Query::start(&Disk::new(), &bad).err().unwrap();
    assert_eq!(error.condition(), Some("UNABLE_TO_INFER_SCHEMA"));
    let disk = Disk::new();
    put(&disk, "k=7/f", &["{}"], 1);
    let spec = Spec::auto().option("partitionColumns", "").option("schemaHints", "a INT");
    assert_eq!(columns(&Query::start(&disk, &spec).unwrap()), "a INT, _rescued_data STRING");
}

#[test]
fn columns_of_csv_go_by_name_and_what_is_left_is_rescued() {
    let disk = Disk::new();
    disk.write("in/1", "NAME,AGE\nBob,31\n");
    disk.write("in/2", "AGE,NAME,CITY\n54,Sam,Rome\nold,Ann,\n");
    disk.write("in/3", "NAME\nEve\n");
    let spec = Spec { auto: true, ..Spec::json("NAME STRING, AGE INT") }
        .format(FileFormat::Csv)
        .option("header", "true")
        .option("rescuedDataColumn", "r");
    let rows = Query::start(&disk, &spec).unwrap().batch().unwrap().unwrap();
    let path = r#""_file_path":"sim:///in/2""#;
    assert_eq!(
        rows,
        [
            "NAME=Bob AGE=31".to_owned(),
            format!("NAME=Sam AGE=54 r={{\"CITY\":\"Rome\",{path}}}"),
            format!("NAME=Ann r={{\"AGE\":\"old\",{path}}}"),
            "NAME=Eve".to_owned(),
        ]
    );
    disk.write("in/4", "NAME,NAME\na,b\n");
    let error = Query::start(&disk, &spec).unwrap().batch().unwrap_err();
    assert_eq!(error.condition(), Some("CSV_HEADER_MISMATCH"));
}

fn given() -> Spec {
    Spec { auto: true, ..Spec::json("v INT") }
}

fn file(disk: &Disk, name: &str, v: i64, modified: i64) {
    put(disk, name, &[&format!("{{\"v\":{v}}}")], modified);
}

#[test]
fn what_was_there_before_is_left_out_if_asked_for() {
    let disk = Disk::new();
    file(&disk, "old", 1, 1);
    let spec = given().option("includeExistingFiles", "false");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(query.batch().unwrap().unwrap(), Vec::<String>::new());
    for n in 2..15 {
        file(&disk, &format!("{n}"), n, n);
        assert_eq!(query.batch().unwrap().unwrap(), [format!("v={n}")]);
        query.restart(&spec).unwrap();
    }
    let changed = given().option("includeExistingFiles", "true");
    query.restart(&changed).unwrap();
    assert_eq!(query.batch().unwrap(), None, "it counts at the first start only");
}

#[test]
fn a_file_that_is_overwritten_is_read_again_if_asked_for() {
    let disk = Disk::new();
    file(&disk, "a", 1, 1);
    let spec = given().option("allowOverwrites", "true");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(query.batch().unwrap().unwrap(), ["v=1"]);
    file(&disk, "a", 2, 2);
    query.restart(&spec).unwrap();
    let range = query.plan(None).unwrap().unwrap();
    query.adopt(range.clone()).unwrap();
    file(&disk, "a", 3, 3);
    assert_eq!(query.read(&range).unwrap(), Vec::<String>::new(), "the version planned is gone");
    assert_eq!(query.batch().unwrap().unwrap(), ["v=3"]);
    assert_eq!(query.batch().unwrap(), None);
}

#[test]
fn times_and_both_limits_hold() {
    let disk = Disk::new();
    let day = 1_767_225_600;
    for n in 0..6 {
        file(&disk, &n.to_string(), n, day + n);
    }
    let spec = given()
        .option("modifiedAfter", "2026-01-01T00:00:00Z")
        .option("modifiedBefore", "2026-01-01T00:00:05Z")
        .option("maxFilesPerTrigger", "3")
        .option("maxBytesPerTrigger", "17");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(query.available_now().unwrap(), [["v=1", "v=2"], ["v=3", "v=4"]]);
}

#[test]
fn only_the_tail_is_listed_where_that_is_safe() {
    for mode in ["true", "false", "auto"] {
        let disk = Disk::new();
        file(&disk, "5", 5, 5);
        let spec = given().option("useIncrementalListing", mode);
        let mut query = Query::start(&disk, &spec).unwrap();
        assert_eq!(query.batch().unwrap().unwrap(), ["v=5"]);
        file(&disk, "6", 6, 6);
        assert_eq!(query.batch().unwrap().unwrap(), ["v=6"], "{mode}");
        // Out of order: found at once where all is listed, at the next full listing otherwise.
        file(&disk, "1", 1, 7);
        let next = (1..20).find(|_| query.batch().unwrap().is_some());
        assert!(next.is_some(), "{mode}: nothing is lost");
        assert_eq!(mode == "false", next == Some(1), "{mode} {next:?}");
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let disk = Disk::new();
    file(&disk, "a", 1, 1);
    let refused = |spec: &Spec| {
        let error = Query::start(&disk, spec).err().unwrap();
        (error.condition().unwrap_or_default().to_owned(), error.message().to_owned())
    };
    for name in
        ["useManagedFileEvents", "fetchParallelism", "queueUrl", "clientSecret", "latestFirst"]
    {
        let (condition, message) = refused(&given().option(name, "true"));
        assert_eq!(condition, "OPTION_NOT_SUPPORTED");
        assert!(message.contains(name), "{message}");
    }
    let evolving = given().option("schemaEvolutionMode", "addNewColumns");
    assert_eq!(refused(&evolving).0, "SCHEMA_EVOLUTION_NOT_ALLOWED");
    let bad = given().option("schemaEvolutionMode", "sometimes");
    assert_eq!(refused(&bad).0, "INVALID_OPTION_VALUE");
    let near = given().option("allowOverwrite", "true");
    assert!(refused(&near).1.contains("allowOverwrites"));
    let text = given().format(FileFormat::Text).option("rescuedDataColumn", "r");
    assert_eq!(refused(&text).0, "OPTION_NOT_SUPPORTED");
    let told = given().option("useNotifications", "true");
    assert_eq!(refused(&told).0, "NOTIFICATIONS_NOT_AVAILABLE");
    let soon =
        given().option("cleanSource", "DELETE").option("cleanSource.retentionDuration", "6 days");
    assert_eq!(refused(&soon).0, "INVALID_OPTION_VALUE");
    let number = Spec { auto: true, ..Spec::json("r INT") }.option("rescuedDataColumn", "r");
    assert_eq!(refused(&number).0, "INVALID_RESCUED_DATA_TYPE");
}

#[test]
fn folders_are_looked_through_once_for_a_schema() {
    let disk = Disk::new();
    put(&disk, "p=1/a", &["{\"v\":\"x\"}"], 1);
    let spec = Spec::auto();
    let looked = |query: &Query| {
        query.process.calls().iter().filter(|call| call.path.trim_matches('/') == "in").count()
    };
    let mut query = Query::start(&disk, &spec).unwrap();
    assert!(looked(&query) > 0);
    assert_eq!(query.batch().unwrap().unwrap(), ["v=x p=1"]);
    // The columns from folders are in the version too: a folder that looks otherwise is no new one.
    put(&disk, "p=1/q=2/b", &["{\"v\":\"y\"}"], 2);
    query.restart(&spec).unwrap();
    assert_eq!(looked(&query), 0, "a start that has a version looks for no columns");
    assert_eq!(query.batch().unwrap().unwrap(), ["v=y p=1"]);
}
