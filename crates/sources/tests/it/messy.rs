//! Files that are not as their schema, and what gets a stream over them.

use crate::auto::{columns, run};
use crate::query::{Query, Spec, put};
use fluvial_sim::Disk;
use fluvial_sources::FileFormat;

fn csv() -> Spec {
    Spec::auto().format(FileFormat::Csv).option("header", "true")
}

#[test]
fn hints_count_at_every_start() {
    let disk = Disk::new();
    put(&disk, "p=1/a", &["{\"v\":\"7\"}"], 1);
    let mut query = Query::start(&disk, &Spec::auto()).unwrap();
    assert_eq!(columns(&query), "v STRING, _rescued_data STRING, p INT");
    assert_eq!(query.batch().unwrap().unwrap(), ["v=7 p=1"]);
    // What stops the stream goes on with what its message says.
    put(&disk, "p=abc/b", &["{\"v\":8}"], 2);
    let error = query.batch().unwrap_err();
    assert_eq!(error.condition(), Some("INVALID_PARTITION_VALUE"));
    assert!(error.message().contains("schemaHints"), "{error}");
    let hinted = Spec::auto().option("schemaHints", "v INT, p STRING");
    query.restart(&hinted).unwrap();
    assert_eq!(columns(&query), "v INT, p STRING, _rescued_data STRING");
    let range = query.ranges.last().unwrap().clone();
    assert_eq!(query.read(&range).unwrap(), ["v=8 p=abc"]);
    // They are in the schema from then on.
    query.restart(&Spec::auto()).unwrap();
    assert_eq!(columns(&query), "v INT, p STRING, _rescued_data STRING");
}

/// The names are Spark's.
#[test]
fn a_header_with_a_name_twice_has_two_columns() {
    let disk = Disk::new();
    disk.write("in/1", "id,v,v,,w\n1,2,3,4,5\n");
    let mut query = Query::start(&disk, &csv()).unwrap();
    let expected = "id STRING, v1 STRING, v2 STRING, _c3 STRING, w STRING, _rescued_data STRING";
    assert_eq!(columns(&query), expected);
    assert_eq!(query.batch().unwrap().unwrap(), ["id=1 v1=2 v2=3 _c3=4 w=5"]);
}

/// Whichever file of a batch has it.
#[test]
fn a_new_column_of_csv_may_be_in_any_file() {
    let disk = Disk::new();
    disk.write("in/1", "a\n1\n");
    let mut query = Query::start(&disk, &csv()).unwrap();
    disk.write("in/2", "a\n2\n");
    disk.write("in/3", "b,A\nx,3\n");
    let (rows, starts) = run(&mut query, &csv());
    assert_eq!(rows[..2], ["a=1", "a=2"]);
    assert!(rows[2].starts_with("b=x") && starts == 1, "{rows:?}");
}

#[test]
fn a_field_with_the_name_of_the_rescued_is_rescued() {
    for (line, of) in [("5", "5"), ("\"x\"", "\"x\"")] {
        let disk = Disk::new();
        put(&disk, "a", &["{\"a\":1}"], 1);
        put(&disk, "b", &[&format!("{{\"a\":2,\"_rescued_data\":{line}}}")], 2);
        let mut query = Query::start(&disk, &Spec::auto()).unwrap();
        assert_eq!(columns(&query), "a STRING, _rescued_data STRING");
        let (rows, starts) = run(&mut query, &Spec::auto());
        let rest = format!(r#"_rescued_data={{"_rescued_data":{of},"_file_path":"sim:///in/b"}}"#);
        assert_eq!(rows, ["a=1".to_owned(), format!("a=2 {rest}")]);
        assert_eq!(starts, 0);
    }
    let disk = Disk::new();
    disk.write("in/1", "a,_rescued_data\n1,2\n");
    let mut query = Query::start(&disk, &csv()).unwrap();
    assert_eq!(columns(&query), "a STRING, _rescued_data STRING");
    let rest = r#"_rescued_data={"_rescued_data":"2","_file_path":"sim:///in/1"}"#;
    assert_eq!(query.batch().unwrap().unwrap(), [format!("a=1 {rest}")]);
}

#[test]
fn files_of_csv_may_have_columns_that_others_lack() {
    let disk = Disk::new();
    put(&disk, "1", &["a,r", "1,x"], 1);
    put(&disk, "2", &["a,b,r", "2,3,y"], 2);
    let spec = Spec { auto: false, ..csv() }.option("mergeSchema", "true");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(columns(&query), "a STRING, r STRING, b STRING");
    assert_eq!(query.batch().unwrap().unwrap(), ["a=1 r=x", "a=2 r=y b=3"]);
}
