//! Programs that are stopped, and programs that meet.

use crate::program::{Folder, printed, table_rows};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

/// Goes on until somebody stops it.
const ENDLESS: &str = "
CREATE STREAMING TABLE ticks USING delta LOCATION 'out' TBLPROPERTIES (trigger = '100ms') AS
SELECT timestamp, value FROM STREAM rate_micro_batch(rowsPerBatch => 10);
SELECT 'never seen';
";

#[test]
fn ctrl_c_stops_cleanly() {
    let folder = Folder::with(ENDLESS);
    for signal in ["-INT", "-TERM"] {
        let program = folder.start(&[]).with_a_batch();
        let kill = Command::new("kill").args([signal, &program.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let (code, out, errors) = program.end();
        assert_eq!(code, 0, "{errors}");
        assert!(!out.contains("never seen"));
    }
}

/// Trap E3.
#[test]
fn of_two_runs_one_says_that_the_other_has_taken_over() {
    let folder = Folder::with(ENDLESS);
    let runs = [folder.start(&[]).with_a_batch(), folder.start(&[])];
    let ids = runs.each_ref().map(|run| run.child.id().to_string());
    let (send, ended) = mpsc::channel();
    let waiting = runs.map(|run| {
        let send = send.clone();
        thread::spawn(move || send.send(run.end()))
    });
    // Which of them depends on who plans the next batch first.
    let (code, _, errors) = ended.recv().unwrap();
    for id in ids {
        // One of them has ended already.
        let _ = Command::new("kill").args(["-INT", &id]).stderr(Stdio::null()).status();
    }
    let (other, _, other_errors) = ended.recv().unwrap();
    for thread in waiting {
        thread.join().unwrap().unwrap();
    }
    assert_eq!((code, other), (3, 0), "{errors}\n{other_errors}");
    assert!(errors.contains("another run has taken over"), "{errors}");
}

/// A table that does not exist yet is no mistake when a query above fills it.
#[test]
fn a_stream_over_a_table_of_the_same_file_waits_for_it() {
    let folder = Folder::with(
        "
CREATE STREAMING TABLE bronze AS
SELECT value FROM STREAM rate_micro_batch(rowsPerBatch => 3);
CREATE STREAMING TABLE silver AS SELECT value * 2 AS twice FROM STREAM bronze;
SELECT sum(twice) AS total FROM silver;
",
    );
    let (code, out, errors) = folder.start(&[]).end();
    assert_eq!(code, 0, "{errors}");
    assert!(out.contains("|6    |"), "{out}");
}

/// Without `--evolve` each new column ends the program once; with it none does.
#[test]
fn a_stream_goes_on_with_a_new_column_by_itself_if_asked_to() {
    let script = "
CREATE STREAMING TABLE bronze USING json LOCATION 'out' AS
SELECT * FROM STREAM read_files('in', format => 'json', schemaLocation => 'schema');
";
    for evolve in [false, true] {
        let folder = Folder::with(script);
        let input = folder.path().join("in");
        fs::create_dir(&input).unwrap();
        fs::write(input.join("1.json"), "{\"a\":1}\n").unwrap();
        let args: &[&str] = if evolve { &["--evolve"] } else { &[] };
        let (code, _, errors) = folder.start(args).end();
        assert_eq!(code, 0, "{errors}");
        fs::write(input.join("2.json"), "{\"a\":2,\"b\":3}\n").unwrap();
        let (code, out, errors) = folder.start(args).end();
        assert_eq!(code, if evolve { 0 } else { 1 }, "{out}{errors}");
        if !evolve {
            assert!(errors.contains("UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE"), "{errors}");
            let (code, _, errors) = folder.start(args).end();
            assert_eq!(code, 0, "{errors}");
        }
        let written = fs::read_dir(folder.path().join("out")).unwrap();
        let files = written.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let mut lines: Vec<_> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
        lines.sort();
        assert_eq!(lines.concat(), "{\"a\":\"1\"}\n{\"a\":\"2\",\"b\":\"3\"}\n");
    }
}

/// What runs again is the query, whatever the statement says of a table that is there, as it was
/// planned the first time: under the settings and over the views above it, not those below.
#[test]
fn a_query_that_goes_on_with_new_columns_is_the_one_that_was_started() {
    let source = "STREAM read_files('in', format => 'json', schemaLocation => 'schema')";
    let folder = Folder::with(&format!(
        "CREATE STREAMING TABLE before USING json LOCATION 'before' AS SELECT * FROM {source}"
    ));
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    fs::write(input.join("1.json"), "{\"a\":1}\n").unwrap();
    let (code, _, errors) = folder.start(&[]).end();
    assert_eq!(code, 0, "{errors}");

    fs::write(input.join("2.json"), "{\"a\":2,\"b\":3}\n").unwrap();
    let script = format!(
        "SET timezone = 'Europe/Berlin';
CREATE VIEW landed AS SELECT * FROM {source};
CREATE STREAMING TABLE IF NOT EXISTS bronze USING json LOCATION 'out' AS
SELECT *, CAST(timestamp_seconds(CAST(a AS BIGINT)) AS STRING) AS at FROM STREAM landed;
SET timezone = 'UTC';
CREATE OR REPLACE VIEW landed AS SELECT 77 AS other;
SELECT other, CAST(timestamp_seconds(5) AS STRING) AS at FROM landed;"
    );
    fs::write(folder.path().join("pipeline.sql"), script).unwrap();
    let (code, out, errors) = folder.start(&["--evolve"]).end();
    assert_eq!(code, 0, "{out}{errors}");
    assert!(out.contains("77") && out.contains("1970-01-01 00:00:05"), "{out}");
    let written = fs::read_dir(folder.path().join("out")).unwrap();
    let files = written.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut lines: Vec<_> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    lines.sort();
    let expected = [
        "{\"a\":\"1\",\"at\":\"1970-01-01 01:00:01\"}\n",
        "{\"a\":\"2\",\"b\":\"3\",\"at\":\"1970-01-01 01:00:02\"}\n",
    ];
    assert_eq!(lines.concat(), expected.concat());
}

#[test]
fn points_in_time_are_shown_in_the_session_s_zone() {
    let script = "\
SET timezone = 'Europe/Berlin';
CREATE STREAMING TABLE shown USING console AS
SELECT value, timestamp FROM STREAM rate_micro_batch(rowsPerBatch => 1, startTimestamp => 1000);
SELECT TIMESTAMP '2026-07-01 12:00:00Z' AS at, TIMESTAMP_NTZ '2026-07-01 12:00:00' AS plain;
";
    let printed = printed(&Folder::with(script).run(&[]));
    assert!(printed.contains("1970-01-01 01:00:01"), "{printed}");
    assert_eq!(
        table_rows(&printed).last().unwrap(),
        &["2026-07-01 14:00:00", "2026-07-01 12:00:00"]
    );
}

#[test]
fn filters_that_are_merged_protect_each_other_on_a_stream() {
    let script = "\
CREATE STREAMING TABLE shares USING memory AS
SELECT r FROM (
  SELECT 12 / value AS r FROM STREAM rate_micro_batch(rowsPerBatch => 5) WHERE value <> 0
) WHERE r > 3;
SELECT r FROM shares ORDER BY r;
";
    let printed = printed(&Folder::with(script).run(&[]));
    assert_eq!(table_rows(&printed), [["4.0"], ["6.0"], ["12.0"]]);
}
