//! What may change about a query between two runs on one checkpoint: the table in the docs, row
//! by row, on real queries.

mod cases;

use cases::{CASES, Case, ELSEWHERE, Verdict};
use fluvial::arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial::prelude::*;
use fluvial::{Error, Executed, Result, ScriptOptions, sql::parse_script};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Change and verdict of each row of the table.
fn documented() -> Vec<(&'static str, &'static str)> {
    let page = include_str!("../../../../docs/src/checkpoints.md");
    let (_, section) = page.split_once("## What may change between two runs").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = |row: &'static str| row.trim_matches('|').split_once(" | ").unwrap();
    rows.map(cells).map(|(change, verdict)| (change.trim(), verdict.trim())).collect()
}

/// Runs a script until all is read; gives its query.
pub(crate) async fn run(
    folder: &Path,
    script: &str,
    settings: &[(&str, &str)],
) -> Result<StreamingQuery> {
    let mut builder = Session::builder().base_dir(folder);
    for (name, value) in settings {
        builder = builder.config(*name, *value);
    }
    let session = builder.build()?;
    let options = ScriptOptions { trigger: Some(Trigger::AvailableNow), ..Default::default() };
    let statement = parse_script(script)?.pop().expect("a script has a statement");
    let Executed::Query(_, query) = session.execute(&statement, &options).await? else {
        return Err(Error::invalid("not a streaming query"));
    };
    query.await_termination().await?;
    Ok(query)
}

/// More input, for the first source of every case.
fn arrive(folder: &Path, name: &str) {
    for source in ["in", "in2"] {
        fs::create_dir_all(folder.join(source)).unwrap();
    }
    let row = r#"{"page":"/a","user":"u","at":"2026-06-10T10:00:00Z","v":1.5}"#;
    fs::write(folder.join("in").join(name), format!("{row}\n")).unwrap();
}

async fn check(case: &Case) {
    let folder = TempDir::new().unwrap();
    arrive(folder.path(), "0.json");
    let first = run(folder.path(), case.query, &[("state.partitions", "2")]).await;
    first.unwrap_or_else(|error| panic!("{}: {error}", case.query));
    arrive(folder.path(), "1.json");
    let second = run(folder.path(), &case.changed(), case.settings).await;
    let name = format!("{}: {:?} {:?}", case.row, case.edits, case.settings);
    match (&case.verdict, second) {
        (Verdict::Accepted, Ok(query)) => {
            let warnings: Vec<String> = query.warnings();
            let ignored = warnings.iter().any(|warning| warning.contains("ignored"));
            assert!(!ignored, "{name}: {warnings:?}");
            let batches = query.recent_progress();
            assert!(batches.iter().any(|batch| batch.num_input_rows > 0), "{name}: nothing ran");
            assert!(batches.iter().any(|batch| batch.batch_id.0 > 0), "{name}: it began anew");
        }
        (Verdict::Ignored(words), Ok(query)) => {
            let warnings: Vec<String> = query.warnings();
            assert!(warnings.iter().any(|warning| warning.contains(words)), "{name}: {warnings:?}");
        }
        (Verdict::Refused(condition, words), Err(error)) => {
            assert_eq!(error.condition(), Some(*condition), "{name}: {error}");
            let text = error.to_string();
            for word in *words {
                assert!(text.contains(word), "{name}: {word:?} is not in: {text}");
            }
            assert!(text.contains("start with a new checkpoint"), "{name}: {text}");
        }
        (verdict, Ok(_)) => panic!("{name}: accepted, not {verdict:?}"),
        (verdict, Err(error)) => panic!("{name}: not {verdict:?}: {error}"),
    }
}

/// Trap E13.
#[tokio::test]
async fn every_change_of_the_table_is_judged_as_it_says() {
    for case in CASES {
        check(case).await;
    }
}

#[test]
fn every_row_of_the_table_has_a_test() {
    let documented = documented();
    let rows: BTreeSet<&str> = documented.iter().map(|(row, _)| *row).collect();
    let tested: BTreeSet<&str> =
        CASES.iter().map(|case| case.row).chain(ELSEWHERE.iter().copied()).collect();
    assert_eq!(rows, tested);
    for case in CASES {
        let (_, verdict) = documented.iter().find(|(row, _)| *row == case.row).unwrap();
        match case.verdict {
            Verdict::Accepted => assert!(verdict.starts_with("accepted"), "{}", case.row),
            Verdict::Ignored(_) => assert!(verdict.starts_with("ignored"), "{}", case.row),
            Verdict::Refused(condition, _) => {
                assert!(verdict.starts_with("refused"), "{}", case.row);
                assert!(verdict.contains(condition), "{}: {condition}", case.row);
            }
        }
    }
}

/// Trap A6.
#[tokio::test]
async fn named_sources_and_operators_may_be_written_in_another_order() {
    let folder = TempDir::new().unwrap();
    arrive(folder.path(), "0.json");
    for (order, batches) in [(["left", "right"], 0), (["right", "left"], 1)] {
        let session = Session::builder().base_dir(folder.path()).build().unwrap();
        let mut frames = Vec::new();
        for name in order {
            let place = if name == "left" { "in" } else { "in2" };
            let reader = session.read_stream().format("json").schema("page string, v double");
            frames.push(reader.name(name).load(place).await.unwrap());
        }
        let (second, first) = (frames.pop().unwrap(), frames.pop().unwrap());
        let frame = first.union(second).unwrap();
        let counted = frame.group_by(vec![col("page")]).count().unwrap().named("pages").unwrap();
        let writer = counted.write_stream().unwrap().format("noop");
        let writer = writer.output_mode(OutputMode::Update).trigger(Trigger::AvailableNow);
        let query = writer.option("checkpointLocation", "cp").start().await.unwrap();
        query.await_termination().await.unwrap();
        assert_eq!(query.last_progress().unwrap().batch_id.0, batches);
        assert_eq!(query.last_progress().unwrap().num_input_rows, 1, "{order:?}");
        arrive(folder.path(), "1.json");
    }
}

/// Who renames the results of a DataFrame's aggregation changes nothing that is stored; who
/// changes the function under the name does.
#[tokio::test]
async fn a_function_is_known_whatever_its_result_is_called() {
    let folder = TempDir::new().unwrap();
    arrive(folder.path(), "0.json");
    for (aggregate, refused) in [
        (min(col("v")).alias("x"), false),
        (min(col("v")).alias("y"), false),
        (max(col("v")).alias("x"), true),
        (min(col("v")).alias("x"), false),
    ] {
        let session = Session::builder().base_dir(folder.path()).build().unwrap();
        let reader = session.read_stream().format("json").schema("page string, v double");
        let frame = reader.load("in").await.unwrap();
        let lowest = frame.group_by(vec![col("page")]).agg(vec![aggregate]).unwrap();
        let writer = lowest.write_stream().unwrap().format("noop");
        let writer = writer.output_mode(OutputMode::Update).trigger(Trigger::AvailableNow);
        let query = writer.option("checkpointLocation", "cp").start().await.unwrap();
        match (query.await_termination().await, refused) {
            (Ok(()), false) => {}
            (Err(error), true) => {
                let condition = Some("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE");
                assert_eq!(error.condition(), condition, "{error}");
                let text = error.to_string();
                assert!(text.contains("max(") && text.contains("min("), "{text}");
            }
            (ended, _) => panic!("{ended:?}"),
        }
    }
}

#[tokio::test]
async fn the_number_of_state_partitions_changes_at_any_restart() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("in")).unwrap();
    let query = "CREATE STREAMING TABLE counts USING memory \
        TBLPROPERTIES ('checkpointLocation' = 'cp', 'outputMode' = 'complete') AS \
        SELECT k, count(*) AS n, sum(v) AS total FROM STREAM \
        read_files('in', format => 'json', schema => 'k int, v double') GROUP BY k";
    for (times, partitions) in (1_i64..).zip([1_u32, 4, 3, 8]) {
        let rows: String = (0..200).map(|k| format!("{{\"k\":{k},\"v\":0.{k}}}\n")).collect();
        fs::write(folder.path().join(format!("in/{times}.json")), rows).unwrap();
        let session = Session::builder().base_dir(folder.path());
        let session = session.config("state.partitions", partitions).build().unwrap();
        let options = ScriptOptions { trigger: Some(Trigger::AvailableNow), ..Default::default() };
        let statement = parse_script(query).unwrap().pop().unwrap();
        let Executed::Query(_, query) = session.execute(&statement, &options).await.unwrap() else {
            panic!("not a query");
        };
        query.await_termination().await.unwrap();
        let state = &query.last_progress().unwrap().state_operators[0];
        assert_eq!((state.num_state_store_instances, state.num_rows_total), (partitions, 200));
        let counts = session.sql("SELECT k, n FROM counts ORDER BY k").await.unwrap();
        let counts = counts.collect().await.unwrap();
        let mut keys = 0;
        for batch in &counts {
            let n = ArrayFormatter::try_new(batch.column(1), &FormatOptions::default()).unwrap();
            for row in 0..batch.num_rows() {
                assert_eq!(n.value(row).to_string(), times.to_string());
            }
            keys += batch.num_rows();
        }
        assert_eq!(keys, 200);
    }
}
