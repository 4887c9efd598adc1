//! Progress, as Spark would report the same batches.

use crate::parts::query::{Parts, What};
use crate::parts::source::Script;
use crate::world::{go, parts};
use fluvial_engine::Trigger;
use fluvial_sim::{Disk, VirtualClock};
use serde_json::{Value, json};
use std::sync::Arc;

fn reports(parts: &Parts) -> Vec<Value> {
    let recent = go(parts).recent_progress();
    recent.iter().map(|p| serde_json::from_str(&p.json()).unwrap()).collect()
}

/// The shape of the clickstream job: a batch of data, then one without that closes windows; after
/// a restart a late row is dropped.
#[test]
fn a_windowed_job_reports_what_spark_reports() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 1), (2, 2), (1, 12), (1, 35)]));
    let mut first = parts(&disk, "first", &source);
    first.delay_s = 5;
    let [data, empty] = reports(&first).try_into().unwrap();

    assert_eq!(data["batchId"], 0);
    assert_eq!(data["numInputRows"], 4);
    assert_eq!(data["inputRowsPerSecond"], 0.0);
    let event_time = json!({
        "avg": "1970-01-01T00:00:12.500Z",
        "max": "1970-01-01T00:00:35.000Z",
        "min": "1970-01-01T00:00:01.000Z",
        "watermark": "1970-01-01T00:00:00.000Z",
    });
    assert_eq!(data["eventTime"], event_time);
    let operator = &data["stateOperators"][0];
    assert_eq!(operator["operatorName"], "stateStoreSave");
    assert_eq!((&operator["numRowsTotal"], &operator["numRowsUpdated"]), (&json!(4), &json!(4)));
    assert_eq!(operator["numShufflePartitions"], 2);
    assert_eq!(operator["numStateStoreInstances"], 2);
    let source_report = &data["sources"][0];
    assert_eq!(source_report["startOffset"], Value::Null);
    assert_eq!(source_report["endOffset"], 4);
    assert_eq!(data["sink"], json!({"description": "ObjectSink", "numOutputRows": 0}));
    let durations: Vec<_> = data["durationMs"].as_object().unwrap().keys().collect();
    let expected = [
        "addBatch",
        "commitOffsets",
        "getBatch",
        "latestOffset",
        "queryPlanning",
        "triggerExecution",
        "walCommit",
    ];
    assert_eq!(durations, expected);

    assert_eq!(empty["numInputRows"], 0);
    assert_eq!(empty["eventTime"], json!({"watermark": "1970-01-01T00:00:30.000Z"}));
    assert_eq!(empty["stateOperators"][0]["numRowsRemoved"], 3);
    assert_eq!(empty["stateOperators"][0]["numRowsTotal"], 1);
    assert_eq!(empty["sources"][0]["startOffset"], empty["sources"][0]["endOffset"]);
    assert_eq!(empty["sink"]["numOutputRows"], 3);

    source.push(&[(1, 3), (1, 36)]);
    let mut second = parts(&disk, "second", &source);
    second.delay_s = 5;
    let after = reports(&second);
    assert_eq!(after[0]["id"], data["id"]);
    assert_eq!(after[0]["stateOperators"][0]["numRowsDroppedByWatermark"], 1);
    assert_eq!(
        (&after[0]["sources"][0]["startOffset"], &after[0]["batchId"]),
        (&json!(4), &json!(2))
    );
}

#[test]
fn a_query_without_watermarks_or_state_says_nothing_of_them() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 1)]));
    let runner = fluvial_engine::OperatorRunner::stateless(
        crate::parts::rows::input_schema(),
        vec![fluvial_engine::Input {
            source: fluvial_core::SourceId::new("in").unwrap(),
            port: 0,
            map: None,
            watermark: None,
        }],
    );
    let parts = Parts { what: What::Copy, ..parts(&disk, "first", &source) };
    let [report] = reports(&Parts { runner: Some(Arc::new(runner)), ..parts }).try_into().unwrap();
    assert_eq!(report.get("eventTime"), None);
    assert_eq!(report["stateOperators"], json!([]));
    assert_eq!(report.get("observedMetrics"), None);
    assert_eq!(report["name"], Value::Null);
    assert_eq!(report["sink"]["numOutputRows"], 1);
}

/// Trap I6: the wall clock is set back an hour between batches.
#[test]
fn rates_and_durations_come_from_a_clock_that_never_falls() {
    let rows: Vec<_> = (0..6).map(|i| (1, i)).collect();
    let (disk, source) = (Disk::new(), Script::new(&rows));
    let clock = VirtualClock::at(7_200_000);
    let mut parts = Parts { what: What::Copy, ..parts(&disk, "first", &source.limited(2)) };
    parts.clock = clock.clone();
    parts.trigger = Trigger::AvailableNow;
    let set_back = Arc::new(fluvial_engine::OperatorRunner::stateless(
        crate::parts::rows::input_schema(),
        vec![fluvial_engine::Input {
            source: fluvial_core::SourceId::new("in").unwrap(),
            port: 0,
            map: Some(Arc::new(move |rows| {
                clock.set_wall(3_600_000);
                clock.advance(std::time::Duration::from_millis(250));
                Ok(rows)
            })),
            watermark: None,
        }],
    ));
    parts.runner = Some(set_back);
    let reports = reports(&parts);
    assert_eq!(reports.len(), 3);
    for (i, report) in reports.iter().enumerate() {
        assert_eq!(report["batchDuration"], 500, "two splits of 250 ms");
        assert_eq!(report["processedRowsPerSecond"], 4.0);
        let input = if i == 0 { 0.0 } else { 4.0 };
        assert_eq!(report["inputRowsPerSecond"], input);
    }
}
