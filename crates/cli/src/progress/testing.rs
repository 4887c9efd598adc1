//! Progress reports for tests.

use fluvial_core::{BatchId, BatchTime, QueryId, RunId};
use fluvial_engine::{SinkProgress, StateOperatorProgress, StreamingQueryProgress};
use std::collections::BTreeMap;

/// A report of a query with a window aggregation.
pub(super) fn progress(
    batch: u64,
    rows: u64,
    input_rate: Option<f64>,
    processed_rate: Option<f64>,
) -> StreamingQueryProgress {
    StreamingQueryProgress {
        id: QueryId::new("query").unwrap(),
        run_id: RunId::new("run").unwrap(),
        name: Some("q".to_owned()),
        timestamp: BatchTime(0),
        batch_id: BatchId(batch),
        batch_duration: 10,
        num_input_rows: rows,
        input_rows_per_second: input_rate,
        processed_rows_per_second: processed_rate,
        duration_ms: BTreeMap::new(),
        event_time: [("watermark".to_owned(), "1970-01-01T00:00:00.000Z".to_owned())].into(),
        state_operators: vec![StateOperatorProgress {
            operator_name: "stateStoreSave".to_owned(),
            num_rows_total: 13,
            num_rows_updated: 0,
            all_updates_time_ms: 0,
            num_rows_removed: 0,
            all_removals_time_ms: 0,
            commit_time_ms: 0,
            memory_used_bytes: 0,
            num_rows_dropped_by_watermark: 0,
            num_shuffle_partitions: 4,
            num_state_store_instances: 4,
            custom_metrics: BTreeMap::new(),
        }],
        sources: Vec::new(),
        sink: SinkProgress {
            description: "sink".to_owned(),
            num_output_rows: -1,
            metrics: BTreeMap::new(),
        },
        observed_metrics: BTreeMap::new(),
    }
}
