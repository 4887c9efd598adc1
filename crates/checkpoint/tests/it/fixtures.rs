//! Bytes that earlier versions wrote and every later version must read.

use fluvial_checkpoint::format::{
    commit_bytes, low_water_bytes, metadata_bytes, parse_commit, parse_low_water, parse_metadata,
    parse_plan, plan_bytes,
};
use fluvial_core::{
    BatchId, BatchTime, Commit, EventTime, KeyGroupCount, KeyGroupRange, LogRef, Offset,
    OperatorId, OperatorShape, OutputMode, PinnedSettings, Plan, QueryId, QueryShape, RunId,
    Snapshot, SourceId, SourceRange, SourceShape, Split, StateField, StateSchema, StateVersion,
    StoreId, StoreName, WatermarkId, WatermarkPolicy, Watermarks,
};
use serde_json::json;

const PLAN: &[u8] = include_bytes!("../fixtures/v1/plan");
const COMMIT: &[u8] = include_bytes!("../fixtures/v1/commit");
/// The same with what later versions say besides.
const COMMIT_OUTPUT: &[u8] = include_bytes!("../fixtures/v1/commit-output");
const METADATA: &[u8] = include_bytes!("../fixtures/v1/metadata");
const LOW_WATER: &[u8] = include_bytes!("../fixtures/v1/low-water");

fn watermarks() -> Watermarks {
    let id = |name: &str| WatermarkId::new(name).unwrap();
    [(id("w0"), Some(EventTime(-1_500_000))), (id("w1"), None)].into()
}

fn plan() -> Plan {
    let (source, other) = (SourceId::new("s").unwrap(), SourceId::new("quiet").unwrap());
    let range = SourceRange {
        start: Offset::of(&json!({"logOffset": 6})).unwrap(),
        end: Offset::of(&json!({"logOffset": 7})).unwrap(),
        splits: vec![Split(json!({"files": ["a", "b"]}))],
        log: Some(LogRef { name: "7-run-1-0000002a".into(), crc32: 42 }),
    };
    let field =
        |name: &str, data_type: &str| StateField { name: name.into(), data_type: data_type.into() };
    let schema = StateSchema {
        kind: "stateStoreSave".into(),
        format: 1,
        keys: vec![field("k", "Utf8")],
        values: vec![field("count(1)", "Int64")],
        meaning: [("window size".into(), "10m".into())].into(),
        layout: None,
    };
    let shape = OperatorShape { schema, stores: vec![StoreName::new("default").unwrap()] };
    let files = SourceShape { kind: "files".into(), description: "Files[/in]".into() };
    Plan {
        batch: BatchId(7),
        run: RunId::new("run-1").unwrap(),
        ends: [(source.clone(), range.end.clone()), (other.clone(), range.start.clone())].into(),
        silent: [(other, SourceRange { log: None, ..range.clone() })].into(),
        ranges: [(source.clone(), range)].into(),
        late: watermarks(),
        evict: watermarks(),
        heard: [].into(),
        time: BatchTime(1_781_086_200_123),
        partitions: 4,
        settings: PinnedSettings {
            key_groups: KeyGroupCount::DEFAULT,
            watermark_policy: WatermarkPolicy::Max,
            watermark_scope: Default::default(),
            state_format: "memory".into(),
        },
        shape: QueryShape {
            sources: [(source, files)].into(),
            operators: [(OperatorId::new("count").unwrap(), shape)].into(),
            mode: OutputMode::Update,
        },
    }
}

fn commit() -> Commit {
    let id = StoreId {
        operator: OperatorId::new("count").unwrap(),
        store: StoreName::new("default").unwrap(),
    };
    let groups = KeyGroupRange { start: 0, end: 128 };
    let snapshot =
        Snapshot { id, groups, version: StateVersion(8), rows: 3, token: "o:1:2".into() };
    Commit {
        batch: BatchId(7),
        run: RunId::new("run-1").unwrap(),
        snapshots: vec![snapshot],
        watermarks: watermarks(),
        committed_at: BatchTime(1_781_086_200_456),
        output: None,
    }
}

fn commit_with_output() -> Commit {
    Commit { output: Some("DeltaSink[file:///out]".into()), ..commit() }
}

#[test]
fn version_1_is_read() {
    assert_eq!(parse_plan(PLAN).unwrap(), plan());
    assert_eq!(parse_commit(COMMIT).unwrap(), commit());
    assert_eq!(parse_commit(COMMIT_OUTPUT).unwrap(), commit_with_output());
    assert_eq!(parse_metadata(METADATA).unwrap(), QueryId::new("q-1").unwrap());
    assert_eq!(parse_low_water(LOW_WATER).unwrap(), BatchId(5));
}

/// Fails when what is written changes. If that is meant, the format needs a new number and new
/// fixtures beside the old ones.
#[test]
fn version_1_is_written() {
    assert_eq!(plan_bytes(&plan()).unwrap(), PLAN);
    assert_eq!(commit_bytes(&commit()).unwrap(), COMMIT);
    assert_eq!(commit_bytes(&commit_with_output()).unwrap(), COMMIT_OUTPUT);
    assert_eq!(metadata_bytes(&QueryId::new("q-1").unwrap()).unwrap(), METADATA);
    assert_eq!(low_water_bytes(BatchId(5)).unwrap(), LOW_WATER);
}
