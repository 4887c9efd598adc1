//! What a query reports about each trigger: Spark's progress, field for field.

use fluvial_core::{BatchId, BatchTime, QueryId, RunId};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// What one trigger did. Serialises to the JSON of Spark's `StreamingQueryProgress`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamingQueryProgress {
    /// The query.
    pub id: QueryId,
    /// The run.
    pub run_id: RunId,
    /// The query's name, if it has one.
    pub name: Option<String>,
    /// When the trigger began.
    #[serde(serialize_with = "as_text")]
    pub timestamp: BatchTime,
    /// The batch that ran, or that would have run next.
    pub batch_id: BatchId,
    /// How long the trigger took, in milliseconds.
    pub batch_duration: u64,
    /// Rows read from all sources, before any filter.
    pub num_input_rows: u64,
    /// Rows that arrived per second since the previous trigger began.
    #[serde(skip_serializing_if = "no_rate", serialize_with = "one_decimal")]
    pub input_rows_per_second: Option<f64>,
    /// Rows processed per second of this trigger.
    #[serde(skip_serializing_if = "no_rate", serialize_with = "one_decimal")]
    pub processed_rows_per_second: Option<f64>,
    /// Where the time went, in milliseconds: `latestOffset`, `walCommit`, `getBatch`,
    /// `queryPlanning`, `addBatch`, `commitOffsets`, `triggerExecution`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub duration_ms: BTreeMap<String, u64>,
    /// `avg`, `max`, `min` of the event times in the batch, and the `watermark` that it ran with.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub event_time: BTreeMap<String, String>,
    /// Each stateful operator, the most downstream one first.
    pub state_operators: Vec<StateOperatorProgress>,
    /// Each source.
    pub sources: Vec<SourceProgress>,
    /// The sink.
    pub sink: SinkProgress,
    /// User-defined metrics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub observed_metrics: BTreeMap<String, serde_json::Value>,
}

impl StreamingQueryProgress {
    /// Compact JSON, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("a progress has string keys only")
    }

    /// Indented JSON, for people.
    pub fn pretty_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a progress has string keys only")
    }
}

impl fmt::Display for StreamingQueryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pretty_json())
    }
}

/// One stateful operator in a progress.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOperatorProgress {
    /// The kind: `stateStoreSave`, `dedupe`, ...
    pub operator_name: String,
    /// Keys in the state afterwards.
    pub num_rows_total: u64,
    /// Keys written.
    pub num_rows_updated: u64,
    /// Time spent on input and updates, over all partitions.
    pub all_updates_time_ms: u64,
    /// Keys removed.
    pub num_rows_removed: u64,
    /// Time spent on eviction, over all partitions.
    pub all_removals_time_ms: u64,
    /// Time spent making state durable, for all operators together.
    pub commit_time_ms: u64,
    /// Bytes of memory held for the state.
    pub memory_used_bytes: u64,
    /// Rows that came too late.
    pub num_rows_dropped_by_watermark: u64,
    /// Partitions of the operator.
    pub num_shuffle_partitions: u32,
    /// Stores that were open.
    pub num_state_store_instances: u32,
    /// Further counters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_metrics: BTreeMap<String, i64>,
}

/// One source in a progress.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceProgress {
    /// [`fluvial_core::Source::description`].
    pub description: String,
    /// Where the batch began; null for the first.
    pub start_offset: Option<serde_json::Value>,
    /// Where it ended; null before the first.
    pub end_offset: Option<serde_json::Value>,
    /// Where the source stands; null if it does not say.
    pub latest_offset: Option<serde_json::Value>,
    /// Rows read.
    pub num_input_rows: u64,
    /// Rows that arrived per second since the previous trigger began.
    #[serde(skip_serializing_if = "no_rate", serialize_with = "one_decimal")]
    pub input_rows_per_second: Option<f64>,
    /// Rows processed per second of this trigger.
    #[serde(skip_serializing_if = "no_rate", serialize_with = "one_decimal")]
    pub processed_rows_per_second: Option<f64>,
    /// Further metrics of the source.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// The sink in a progress.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkProgress {
    /// [`fluvial_core::Sink::description`].
    pub description: String,
    /// Rows handed to it; -1 if nothing ran.
    pub num_output_rows: i64,
    /// Further metrics of the sink.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// `rows` per second of `seconds`; `None` where that is no number (nothing in no time).
pub(crate) fn rate(rows: u64, seconds: f64) -> Option<f64> {
    let rate = rows as f64 / seconds;
    rate.is_finite().then_some(rate)
}

fn no_rate(rate: &Option<f64>) -> bool {
    !rate.is_some_and(f64::is_finite)
}

fn one_decimal<S: Serializer>(rate: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((rate.unwrap_or(0.0) * 10.0).round() / 10.0)
}

fn as_text<S: Serializer>(time: &BatchTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn progress() -> StreamingQueryProgress {
        let strings = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
        };
        StreamingQueryProgress {
            id: QueryId::new("26ff4d8e").unwrap(),
            run_id: RunId::new("6e3b5d76").unwrap(),
            name: None,
            timestamp: BatchTime(1_796_062_716_852),
            batch_id: BatchId(2),
            batch_duration: 1217,
            num_input_rows: 2,
            input_rows_per_second: rate(2, f64::INFINITY),
            processed_rows_per_second: rate(2, 1.217),
            duration_ms: [("addBatch".to_owned(), 894), ("walCommit".to_owned(), 37)].into(),
            event_time: strings(&[
                ("watermark", "2026-06-10T10:20:00.000Z"),
                ("max", "2026-06-10T10:40:00.000Z"),
            ]),
            state_operators: vec![StateOperatorProgress {
                operator_name: "stateStoreSave".into(),
                num_rows_total: 6,
                num_rows_updated: 1,
                all_updates_time_ms: 48,
                num_rows_removed: 0,
                all_removals_time_ms: 62,
                commit_time_ms: 568,
                memory_used_bytes: 3432,
                num_rows_dropped_by_watermark: 1,
                num_shuffle_partitions: 4,
                num_state_store_instances: 4,
                custom_metrics: BTreeMap::new(),
            }],
            sources: vec![SourceProgress {
                description: "FileStreamSource[file:///in]".into(),
                start_offset: Some(json!({"logOffset": 0})),
                end_offset: Some(json!({"logOffset": 1})),
                latest_offset: None,
                num_input_rows: 2,
                input_rows_per_second: rate(0, 0.0),
                processed_rows_per_second: rate(2, 0.0),
                metrics: BTreeMap::new(),
            }],
            sink: SinkProgress {
                description: "FileSink[file:///out]".into(),
                num_output_rows: -1,
                metrics: BTreeMap::new(),
            },
            observed_metrics: BTreeMap::new(),
        }
    }

    #[test]
    fn json_has_the_fields_of_spark_in_its_order() {
        let expected = concat!(
            r#"{"id":"26ff4d8e","runId":"6e3b5d76","name":null,"#,
            r#""timestamp":"2026-11-30T18:18:36.852Z","batchId":2,"batchDuration":1217,"#,
            r#""numInputRows":2,"inputRowsPerSecond":0.0,"processedRowsPerSecond":1.6,"#,
            r#""durationMs":{"addBatch":894,"walCommit":37},"#,
            r#""eventTime":{"max":"2026-06-10T10:40:00.000Z","#,
            r#""watermark":"2026-06-10T10:20:00.000Z"},"#,
            r#""stateOperators":[{"operatorName":"stateStoreSave","numRowsTotal":6,"#,
            r#""numRowsUpdated":1,"allUpdatesTimeMs":48,"numRowsRemoved":0,"#,
            r#""allRemovalsTimeMs":62,"commitTimeMs":568,"memoryUsedBytes":3432,"#,
            r#""numRowsDroppedByWatermark":1,"numShufflePartitions":4,"#,
            r#""numStateStoreInstances":4}],"#,
            r#""sources":[{"description":"FileStreamSource[file:///in]","#,
            r#""startOffset":{"logOffset":0},"endOffset":{"logOffset":1},"latestOffset":null,"#,
            r#""numInputRows":2}],"#,
            r#""sink":{"description":"FileSink[file:///out]","numOutputRows":-1}}"#,
        );
        assert_eq!(progress().json(), expected);
        assert!(progress().pretty_json().contains("\n  \"batchId\": 2,\n"));
    }

    /// Trap I6.
    #[test]
    fn rates_are_never_nan_or_infinite() {
        assert_eq!(rate(0, 0.0), None);
        assert_eq!(rate(5, 0.0), None);
        assert_eq!(rate(0, 2.0), Some(0.0));
        assert_eq!(rate(5, f64::INFINITY), Some(0.0));
    }
}
