//! Facts that recorded runs of Spark pin, and traps that others fell into.

use crate::query::{Query, Spec, put};
use fluvial_core::Source;
use fluvial_sim::Disk;
use fluvial_sources::FileFormat;

const VALUE: &str = "value BIGINT";

fn value(n: i64) -> String {
    format!("{{\"value\": {n}}}")
}

/// A run of batches: numbers of a batch by commas, batches by bars.
fn shown(batches: Vec<Vec<String>>) -> String {
    let batch = |rows: Vec<String>| rows.join(",").replace("value=", "");
    batches.into_iter().map(batch).collect::<Vec<_>>().join("|")
}

/// Puts files, each of one value, and runs until all is read.
fn run(query: &mut Query, spec: &Spec, files: &[(&str, i64, i64)]) -> String {
    for (name, n, modified) in files {
        put(&query.disk, name, &[&value(*n)], *modified);
    }
    query.restart(spec).unwrap();
    shown(query.available_now().unwrap())
}

fn query(spec: &Spec) -> Query {
    Query::start(&Disk::new(), spec).unwrap()
}

#[test]
fn the_oldest_file_comes_first_whatever_its_name() {
    let spec = Spec::json(VALUE).option("maxFilesPerTrigger", "1");
    let files = [("a.json", 1, 30), ("b.json", 2, 10), ("c.json", 3, 20)];
    assert_eq!(run(&mut query(&spec), &spec, &files), "2|3|1");
}

#[test]
fn the_newest_file_comes_first_if_asked_for() {
    let spec = Spec::json(VALUE).option("maxFilesPerTrigger", "1").option("latestFirst", "true");
    let mut query = query(&spec);
    let files = [("1.json", 1, 100), ("2.json", 2, 110), ("3.json", 3, 105)];
    assert_eq!(run(&mut query, &spec, &files), "2|3|1");
    assert_eq!(run(&mut query, &spec, &[("4.json", 4, 120), ("5.json", 5, 130)]), "5|4");
}

/// Trap F1.
#[test]
fn the_newest_first_with_a_limit_has_no_age() {
    let spec = Spec::json(VALUE)
        .option("maxFilesPerTrigger", "1")
        .option("latestFirst", "true")
        .option("maxFileAge", "1m");
    let files = [("1.json", 1, 1_700_000_000), ("2.json", 2, 1_700_003_600)];
    assert_eq!(run(&mut query(&spec), &spec, &files), "2|1");
}

/// Trap F1.
#[test]
fn files_a_week_older_than_the_newest_seen_are_left_out_after_the_first_batch() {
    let spec = Spec::json(VALUE);
    let mut query = query(&spec);
    let (now, day) = (1_700_000_000, 86_400);
    let first = [("0.json", 0, now - 30 * day), ("1.json", 1, now)];
    assert_eq!(run(&mut query, &spec, &first), "0,1");
    let then = [("2.json", 2, now - 8 * day), ("3.json", 3, now - 6 * day)];
    assert_eq!(run(&mut query, &spec, &then), "3");
}

#[test]
fn limits_cut_between_files() {
    let spec = Spec::json(VALUE).option("maxBytesPerTrigger", "30");
    let files: Vec<_> = ["0", "1", "2", "3", "4", "5"].into_iter().zip(0..).collect();
    let files: Vec<_> = files.iter().map(|(name, n)| (*name, *n, *n)).collect();
    assert_eq!(run(&mut query(&spec), &spec, &files), "0,1|2,3|4,5");
    let spec = Spec::json(VALUE).option("maxBytesPerTrigger", "1");
    assert_eq!(run(&mut query(&spec), &spec, &files), "0|1|2|3|4|5");
    let spec = Spec::json(VALUE).option("maxFilesPerTrigger", "4");
    assert_eq!(run(&mut query(&spec), &spec, &files), "0,1,2,3|4,5");
}

#[test]
fn a_path_is_read_once_whatever_its_new_time() {
    let spec = Spec::json(VALUE);
    let mut query = query(&spec);
    assert_eq!(run(&mut query, &spec, &[("1.json", 1, 100)]), "1");
    assert_eq!(run(&mut query, &spec, &[("1.json", 2, 200)]), "");
    assert_eq!(run(&mut query, &spec, &[("2.json", 3, 300)]), "3");
    let month = 30 * 86_400;
    assert_eq!(run(&mut query, &spec, &[("3.json", 4, month)]), "4");
    assert_eq!(run(&mut query, &spec, &[("1.json", 5, month + 1)]), "", "nor after a month");
}

/// Trap F4.
#[test]
fn a_file_without_bytes_is_a_batch_without_rows() {
    let spec = Spec::json(VALUE);
    let mut query = query(&spec);
    put(&query.disk, "empty.json", &[], 1);
    assert_eq!(query.available_now().unwrap(), [Vec::<String>::new()]);
    assert_eq!(query.at.to_string(), r#"{"logOffset":0}"#);
    put(&query.disk, "empty.json", &[&value(1)], 2);
    query.restart(&spec).unwrap();
    assert!(query.available_now().unwrap().is_empty(), "it was seen");
}

/// Trap F4.
#[test]
fn files_in_flight_are_read_once_they_are_there() {
    let spec = Spec::json(VALUE);
    let mut query = query(&spec);
    for hidden in [".a.json.tmp", "_b.json", "c.json._COPYING_"] {
        put(&query.disk, hidden, &[&value(9)], 1);
    }
    put(&query.disk, "d.json", &[], 1);
    put(&query.disk, "_p=1/e.json", &[&value(1), &value(2)], 1);
    assert_eq!(
        query.available_now().unwrap(),
        [["value=1 _p=1", "value=2 _p=1"]].map(|_| {
            // The source was opened before there was a folder: its schema has no such column.
            vec!["value=1".to_owned(), "value=2".to_owned()]
        })
    );
    assert_eq!(run(&mut query, &spec, &[("a.json", 3, 2)]), "3");
}

#[test]
fn a_pattern_reads_two_levels_down_and_no_deeper() {
    let spec = Spec::json("value STRING").format(FileFormat::Text).path("in/*/*");
    let mut query = query(&spec);
    let mut step = |files: &[(&str, &[&str])]| {
        for (name, lines) in files {
            put(&query.disk, name, lines, query.ranges.len() as i64);
        }
        query.restart(&spec).unwrap();
        shown(query.available_now().unwrap())
    };
    assert_eq!(step(&[("sub/1.txt", &["drop1", "keep2"])]), "drop1,keep2");
    assert_eq!(step(&[("sub/2.txt", &["keep3"])]), "keep3");
    assert_eq!(step(&[("sub/subsub/3.txt", &["keep4"])]), "keep4");
    let last: [(&str, &[&str]); 3] =
        [("4.txt", &["keep6"]), ("sub/subsub/deep/5.txt", &["keep7"]), ("sub/6.txt", &["keep8"])];
    assert_eq!(step(&last), "keep8");
}

#[test]
fn plain_folders_are_not_looked_into() {
    let spec = Spec::json(VALUE);
    let mut query = query(&spec);
    assert_eq!(run(&mut query, &spec, &[("d/a.json", 1, 1)]), "");
    assert_eq!(run(&mut query, &spec, &[("b.json", 2, 2)]), "2");
}

#[test]
fn folders_fill_their_column() {
    let spec = Spec::json("value STRING, partition STRING");
    let disk = Disk::new();
    put(&disk, "partition=foo/1.json", &["{\"value\": \"keep2\"}"], 1);
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(query.batch().unwrap().unwrap(), ["value=keep2 partition=foo"]);
    put(&disk, "partition=bar/3.json", &["{\"value\": \"keep4\", \"partition\": \"x\"}"], 2);
    assert_eq!(query.batch().unwrap().unwrap(), ["value=keep4 partition=bar"]);
    // A file beside the folders has no value for the column.
    put(&disk, "top.json", &["{\"value\": \"keep5\", \"partition\": \"x\"}"], 3);
    assert_eq!(query.batch().unwrap().unwrap(), ["value=keep5"]);
}

#[test]
fn folders_that_the_schema_lacks_become_columns() {
    let disk = Disk::new();
    put(&disk, "y=2026/m=01/a.json", &[&value(1)], 1);
    put(&disk, "y=2025/m=12/b.json", &[&value(2)], 2);
    let mut query = Query::start(&disk, &Spec::json(VALUE)).unwrap();
    assert_eq!(query.batch().unwrap().unwrap(), ["value=1 y=2026 m=01", "value=2 y=2025 m=12"]);
    let pattern = Spec::json(VALUE).path("in/y=2026/*");
    let mut query = Query::start(&disk, &pattern).unwrap();
    assert_eq!(query.batch().unwrap().unwrap(), ["value=1"], "behind a pattern they do not");
}

#[test]
fn a_folder_that_is_no_value_of_its_column_is_an_error() {
    let disk = Disk::new();
    put(&disk, "k=x/a.json", &[&value(1)], 1);
    let mut query = Query::start(&disk, &Spec::json("value BIGINT, k INT")).unwrap();
    let error = query.batch().unwrap_err();
    assert_eq!(error.condition(), Some("INVALID_PARTITION_VALUE"));
    assert!(error.message().contains("in/k=x/a.json"), "{error}");
}

#[test]
fn the_metadata_column_names_the_file() {
    let mut spec = Spec::json(VALUE);
    spec.metadata = true;
    let mut query = query(&spec);
    put(&query.disk, "a b.json", &[&value(1)], 1_700_000_000);
    assert_eq!(
        query.batch().unwrap().unwrap(),
        ["value=1 _metadata={file_path: \
        sim:///in/a%20b.json, file_name: a%20b.json, file_size: 13, file_block_start: 0, \
        file_block_length: 13, file_modification_time: 2023-11-14T22:13:20Z}"]
    );
}

#[test]
fn a_batch_that_failed_keeps_its_files() {
    let strict = Spec::json(VALUE).option("mode", "FAILFAST");
    let mut query = query(&strict);
    put(&query.disk, "1.json", &[&value(1), "broken"], 1);
    let error = query.available_now().unwrap_err();
    assert_eq!(error.condition(), Some("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"));
    assert!(error.message().contains("sim:///in/1.json, line 2"), "{error}");
    put(&query.disk, "2.json", &[&value(2)], 2);
    query.restart(&Spec::json(VALUE).option("mode", "DROPMALFORMED")).unwrap();
    assert_eq!(query.read(&query.ranges[0]).unwrap(), ["value=1"], "the same plan, the same file");
    assert_eq!(query.batch().unwrap().unwrap(), ["value=2"]);
}

#[test]
fn many_restarts_read_every_file_once() {
    let spec = Spec::json(VALUE).option("maxFilesPerTrigger", "1");
    let mut query = query(&spec);
    let mut all = Vec::new();
    for n in 0..130 {
        put(&query.disk, &format!("{n}.json"), &[&value(n)], n);
        if n % 7 == 0 {
            query.restart(&spec).unwrap();
        }
        if n % 3 == 0 {
            all.extend(query.available_now().unwrap().concat());
        }
    }
    all.extend(query.available_now().unwrap().concat());
    let expected: Vec<_> = (0..130).map(|n| format!("value={n}")).collect();
    assert_eq!(all, expected);
    assert_eq!(query.at.to_string(), r#"{"logOffset":129}"#);
}

#[test]
fn a_full_batch_needs_no_listing_and_a_file_no_request_of_its_own() {
    let spec = Spec::json(VALUE).option("maxFilesPerTrigger", "10");
    let mut query = query(&spec);
    for n in 0..45 {
        put(&query.disk, &format!("{n}.json"), &[&value(n)], n);
    }
    let mut requests = Vec::new();
    for _ in 0..5 {
        let before = query.process.steps();
        let range = query.plan(None).unwrap().unwrap();
        requests.push(query.process.steps() - before);
        query.adopt(range).unwrap();
    }
    // One listing (of one level) and one entry; then entries only; the rest needs a look around.
    assert_eq!(requests, [2, 1, 1, 1, 2]);
}

#[test]
fn small_files_make_large_batches() {
    let spec = Spec::json(VALUE);
    let mut query = query(&spec);
    for n in 0..300 {
        put(&query.disk, &format!("{n}.json"), &[&value(n)], n);
    }
    let range = query.plan(None).unwrap().unwrap();
    query.adopt(range.clone()).unwrap();
    let batches = |split| {
        let rows = query.source.read(&range, split, None).unwrap();
        let batches: Vec<_> = fluvial_sim::block_on(futures::StreamExt::collect(rows));
        batches.len()
    };
    assert_eq!(range.splits.iter().map(batches).collect::<Vec<_>>(), [1, 1]);
}
