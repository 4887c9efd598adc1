//! What becomes of files that were read.

use crate::query::{Query, Spec, put};
use fluvial_sim::Disk;

const SPEC: &str = "value BIGINT";

fn fed(spec: &Spec, files: i64) -> Query {
    let disk = Disk::new();
    for n in 0..files {
        put(&disk, &format!("k=1/{n}.json"), &[&format!("{{\"value\": {n}}}")], n);
    }
    let mut query = Query::start(&disk, spec).unwrap();
    query.available_now().unwrap();
    query
}

fn one_by_one() -> Spec {
    Spec::json(SPEC).option("maxFilesPerTrigger", "1")
}

/// Trap F3.
#[test]
fn files_are_deleted_once_they_are_released_and_not_before() {
    let spec = one_by_one().option("cleanSource", "delete");
    let query = fed(&spec, 4);
    assert_eq!(query.disk.paths_under("in/").len(), 4);
    query.release(1).unwrap();
    assert_eq!(query.disk.paths_under("in/"), ["in/k=1/2.json", "in/k=1/3.json"]);
    assert_eq!(query.read(&query.ranges[2]).unwrap(), ["value=2 k=1"]);
}

#[test]
fn files_are_archived_under_their_whole_path() {
    let spec = one_by_one().option("cleanSource", "archive").option("sourceArchiveDir", "/old");
    let mut query = fed(&spec, 2);
    query.release(0).unwrap();
    assert_eq!(query.disk.paths_under("old/"), ["old/in/k=1/0.json"]);
    query.restart(&spec).unwrap();
    assert!(query.available_now().unwrap().is_empty(), "an archived file is not read again");
}

#[test]
fn files_stay_unless_asked_for() {
    let query = fed(&one_by_one(), 3);
    query.release(2).unwrap();
    assert_eq!(query.disk.paths_under("in/").len(), 3);
}

#[test]
fn a_new_file_under_an_old_name_is_left_alone() {
    let spec = one_by_one().option("cleanSource", "delete");
    let mut query = fed(&spec, 2);
    put(&query.disk, "k=1/0.json", &["{\"value\": 7}"], 99);
    query.release(1).unwrap();
    assert_eq!(query.disk.paths_under("in/"), ["in/k=1/0.json"]);
    query.restart(&spec).unwrap();
    query.release(1).unwrap();
    assert_eq!(query.disk.paths_under("in/"), ["in/k=1/0.json"]);
}

#[test]
fn a_later_process_cleans_up_what_an_earlier_one_left() {
    let spec = one_by_one().option("cleanSource", "delete");
    let mut query = fed(&spec, 25);
    query.restart(&spec).unwrap();
    query.release(23).unwrap();
    assert_eq!(query.disk.paths_under("in/"), ["in/k=1/24.json"]);
}

#[test]
fn the_log_does_not_grow_with_the_query() {
    let spec = one_by_one();
    let mut query = fed(&spec, 230);
    for batch in 0..225 {
        query.release(batch).unwrap();
    }
    let left = query.disk.paths_under("checkpoint/").len();
    assert!(left < 30, "{left} objects");
    query.restart(&spec).unwrap();
    assert!(query.available_now().unwrap().is_empty());
}
