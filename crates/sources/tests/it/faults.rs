//! Files that change or vanish under a query, and logs that are damaged.

use crate::query::{Query, Spec, put};
use fluvial_core::ErrorKind;
use fluvial_sim::Disk;

const SCHEMA: &str = "value BIGINT";

fn planned(spec: &Spec) -> Query {
    let disk = Disk::new();
    put(&disk, "a.json", &["{\"value\": 1}"], 1);
    put(&disk, "b.json", &["{\"value\": 2}"], 2);
    let mut query = Query::start(&disk, spec).unwrap();
    query.batch().unwrap();
    query
}

#[test]
fn a_planned_file_that_changed_is_named() {
    let query = planned(&Spec::json(SCHEMA));
    put(&query.disk, "b.json", &["{\"value\": 3}"], 3);
    let error = query.read(&query.ranges[0]).unwrap_err();
    assert_eq!(error.condition(), Some("SOURCE_FILE_CHANGED"));
    assert!(error.message().contains("sim:///in/b.json"), "{error}");
}

/// Trap F3.
#[test]
fn a_planned_file_that_is_gone_is_named() {
    let query = planned(&Spec::json(SCHEMA));
    query.disk.remove("in/b.json");
    let error = query.read(&query.ranges[0]).unwrap_err();
    assert_eq!(error.condition(), Some("SOURCE_FILE_MISSING"));
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("sim:///in/b.json"), "{error}");
}

#[test]
fn a_missing_file_has_no_rows_if_that_is_wanted() {
    let query = planned(&Spec::json(SCHEMA).option("ignoreMissingFiles", "true"));
    query.disk.remove("in/a.json");
    assert_eq!(query.read(&query.ranges[0]).unwrap(), ["value=2"]);
}

#[test]
fn a_file_put_back_is_read() {
    let query = planned(&Spec::json(SCHEMA));
    query.disk.remove("in/b.json");
    put(&query.disk, "b.json", &["{\"value\": 2}"], 2);
    assert_eq!(query.read(&query.ranges[0]).unwrap(), ["value=1", "value=2"]);
}

#[test]
fn a_damaged_or_missing_log_is_never_guessed() {
    for damage in [true, false] {
        let spec = Spec::json(SCHEMA);
        let mut query = planned(&spec);
        let path = query.disk.paths_under("checkpoint/").remove(0);
        if damage {
            query.disk.damage(&path, |bytes| bytes[40] ^= 1);
        } else {
            query.disk.remove(&path);
        }
        let error = query.restart(&spec).unwrap_err();
        let kind = if damage { ErrorKind::Corrupt } else { ErrorKind::NotFound };
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn a_batch_that_was_not_adopted_is_noticed() {
    let spec = Spec::json(SCHEMA);
    let mut query = planned(&spec);
    put(&query.disk, "c.json", &["{\"value\": 3}"], 3);
    let ranges = std::mem::take(&mut query.ranges);
    query.restart(&spec).unwrap();
    query.ranges = ranges;
    assert_eq!(query.plan(None).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn what_is_compressed_otherwise_is_refused() {
    let disk = Disk::new();
    put(&disk, "a.json.bz2", &["x"], 1);
    let mut query = Query::start(&disk, &Spec::json(SCHEMA)).unwrap();
    let error = query.batch().unwrap_err();
    assert_eq!(error.condition(), Some("UNSUPPORTED_COMPRESSION"));
    assert!(error.message().contains("sim:///in/a.json.bz2"), "{error}");
}
