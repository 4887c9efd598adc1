//! Processors in whole queries: over restarts, failures and chains.

use crate::fraud_rules_example::{FraudRules, LANDING, PAYMENTS, fraud_rules};
use crate::golden::text;
use fluvial::prelude::*;
use fluvial::transform::{
    Call, GroupState, GroupTimeout, HandlerResult, InputRows, Key, StatefulProcessor, TimeMode,
    Transform, TransformTester, ValueState, Variables,
};
use fluvial::{Result, parse_ddl};
use std::fs;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

async fn alarms(session: &Session) -> Vec<Vec<String>> {
    let alarms = "SELECT card, rule, CAST(at AS STRING) FROM alarms ORDER BY at, card";
    text(&session.sql(alarms).await.unwrap().collect().await.unwrap())
}

#[tokio::test]
async fn fraud_is_found_while_payments_come() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join(LANDING)).unwrap();
    let session = Session::builder().base_dir(folder.path()).build().unwrap();
    let query = fraud_rules(&session).await.unwrap();
    for (number, payments) in PAYMENTS.into_iter().enumerate() {
        let file = folder.path().join(LANDING).join(format!("{number}.json"));
        fs::write(file, payments).unwrap();
        query.process_all_available().await.unwrap();
    }
    let expected =
        [["2222", "probe", "2026-06-10 10:00:40"], ["1111", "velocity", "2026-06-10 10:00:58"]];
    assert_eq!(alarms(&session).await, expected);
    query.stop().await.unwrap();
}

/// The rules without a query: time is moved by hand.
#[test]
fn rules_are_tested_without_a_query() {
    let output = parse_ddl("card STRING, rule STRING, at TIMESTAMP").unwrap().into();
    let rules =
        Transform::new(FraudRules::default(), output, TimeMode::EventTime, OutputMode::Append);
    let rows = parse_ddl("ts TIMESTAMP, card STRING, amount DOUBLE").unwrap().into();
    let mut tester =
        TransformTester::with_event_time(rules.unwrap(), rows, &["card"], "ts").unwrap();
    let at = |second: i64| fluvial::transform::EventTime(second * 1_000_000);
    assert!(tester.run(&[(at(10), "1", 0.5), (at(20), "1", 50.)]).unwrap().is_empty());
    assert_eq!(tester.list::<i64>("recent", ("1",)).unwrap(), [10_000, 20_000]);
    assert_eq!(tester.timers(("1",)).unwrap(), [70_000, 80_000]);
    assert_eq!(tester.run(&[(at(60), "1", 100.)]).unwrap(), ["1 probe 1970-01-01T00:01:00Z"]);
    tester.set_watermark(at(75));
    tester.run_empty().unwrap();
    assert_eq!(tester.list::<i64>("recent", ("1",)).unwrap(), [20_000, 60_000]);
    assert_eq!(tester.value::<i64>("probed_until", ("1",)).unwrap(), None);
}

/// Counts rows, and fails at a value of 13 unless it was cured.
#[derive(Default)]
struct Superstitious {
    count: ValueState<i64>,
    cured: bool,
}

impl StatefulProcessor for Superstitious {
    fn init(&mut self, variables: &mut Variables) -> Result<()> {
        self.count = variables.value("count")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let mut count = self.count.get(call)?.unwrap_or(0);
        for row in rows {
            assert!(self.cured || row.get::<i64>("v")? != 13, "not that one");
            count += 1;
        }
        self.count.update(call, count)?;
        call.emit((key.get::<&str>("k")?, count))?;
        Ok(())
    }
}

/// Runs until there is nothing left; what comes out, in its order.
async fn run_to_the_end(session: &Session, cured: bool) -> Result<Vec<Vec<String>>> {
    let rows = session.read_stream().schema("k STRING, v BIGINT").json("in").await?;
    let counts = rows.group_by(vec![col("k")]).transform_with_state(
        Superstitious { cured, ..Superstitious::default() },
        "k STRING, n BIGINT",
        TimeMode::None,
        OutputMode::Update,
    )?;
    let query = counts
        .write_stream()?
        .output_mode(OutputMode::Update)
        .trigger(Trigger::AvailableNow)
        .option("checkpointLocation", "checkpoint");
    let emitted = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&emitted);
    let query = query.foreach_batch_rows(move |_, rows| {
        into.lock().unwrap().extend(text(&rows));
        async { Ok(()) }
    });
    query.start().await?.await_termination().await?;
    let mut emitted = emitted.lock().unwrap().clone();
    emitted.sort();
    Ok(emitted)
}

#[tokio::test]
async fn a_panic_fails_the_batch_and_leaves_the_checkpoint() {
    let folder = TempDir::new().unwrap();
    let put = |name: &str, text: &str| {
        fs::create_dir_all(folder.path().join("in")).unwrap();
        fs::write(folder.path().join("in").join(name), text).unwrap();
    };
    let session = || Session::builder().base_dir(folder.path()).build().unwrap();
    put("1.json", "{\"k\": \"a\", \"v\": 1}\n{\"k\": \"b\", \"v\": 2}\n");
    let counts = run_to_the_end(&session(), false).await.unwrap();
    assert_eq!(counts, [["a", "1"], ["b", "1"]]);
    put("2.json", "{\"k\": \"a\", \"v\": 3}\n{\"k\": \"b\", \"v\": 13}\n");
    for _ in 0..2 {
        let error = run_to_the_end(&session(), false).await.unwrap_err();
        assert_eq!(error.condition(), Some("STATEFUL_PROCESSOR_USER_FUNCTION_ERROR"));
        assert!(error.message().contains("key (k=b)"), "{error}");
        assert!(error.message().contains("not that one"), "{error}");
    }
    let counts = run_to_the_end(&session(), true).await.unwrap();
    assert_eq!(counts, [["a", "2"], ["b", "2"]], "the same batch, on the state before it");
}

#[tokio::test]
async fn a_function_of_groups_feeds_an_aggregation() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("in")).unwrap();
    let rows: String = (0..9).map(|i| format!("{{\"k\": \"k{}\", \"v\": {i}}}\n", i % 3)).collect();
    fs::write(folder.path().join("in/1.json"), rows).unwrap();
    let session = Session::builder().base_dir(folder.path()).build().unwrap();
    let rows = session.read_stream().schema("k STRING, v BIGINT").json("in").await.unwrap();
    let parity = rows
        .group_by(vec![col("k")])
        .flat_map_groups_with_state(
            "odd BOOLEAN, v BIGINT",
            OutputMode::Append,
            GroupTimeout::None,
            |_, rows, state: &mut GroupState<i64>| {
                state.update(state.get().copied().unwrap_or(0) + rows.len() as i64);
                let values = rows.iter().map(|row| row.get::<i64>("v").map(|v| (v % 2 == 1, v)));
                Ok(values.collect::<Result<Vec<_>>>()?)
            },
        )
        .unwrap();
    let sums = parity.group_by(vec![col("odd")]).agg(vec![sum(col("v")).alias("s")]).unwrap();
    let query = sums
        .write_stream()
        .unwrap()
        .format("memory")
        .query_name("sums")
        .output_mode(OutputMode::Complete)
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let rows = session.sql("SELECT odd, s FROM sums ORDER BY odd").await.unwrap();
    assert_eq!(text(&rows.collect().await.unwrap()), [["false", "20"], ["true", "16"]]);
}
