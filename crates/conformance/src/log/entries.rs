//! Small plans and commits with something in every field.

use fluvial_core::{
    BatchId, BatchLog, BatchTime, Commit, EventTime, KeyGroupCount, KeyGroupRange, LogRef, Offset,
    OperatorId, OutputMode, PinnedSettings, Plan, QueryShape, RunId, Snapshot, SourceId,
    SourceRange, SourceShape, Split, StoreId, StoreName, WatermarkId, WatermarkPolicy, Watermarks,
};
use serde_json::json;

const VALID: &str = "a valid name";

fn watermarks(time: i64) -> Watermarks {
    let id = |name: &str| WatermarkId::new(name).expect(VALID);
    [(id("seen"), Some(EventTime(time))), (id("unseen"), None)].into()
}

fn offset(position: u64) -> Offset {
    Offset::of(&json!({ "position": position })).expect("JSON")
}

/// A plan of `batch`, as `run` would make it: another run chooses another range.
pub(super) fn plan(batch: u64, run: &str) -> Plan {
    let source = SourceId::new("s").expect(VALID);
    let end = offset(batch * 10 + run.len() as u64);
    let range = SourceRange {
        start: offset(batch * 10),
        end: end.clone(),
        splits: vec![Split(json!([batch, run, "é\n\0"]))],
        log: Some(LogRef { name: format!("{batch}-{run}"), crc32: 7 }),
    };
    let shape = SourceShape { kind: "k".into(), description: "K[here]".into() };
    Plan {
        batch: BatchId(batch),
        run: RunId::new(run).expect(VALID),
        ranges: [(source.clone(), range.clone())].into(),
        silent: [(SourceId::new("quiet").expect(VALID), range)].into(),
        ends: [(source.clone(), end)].into(),
        late: watermarks(-7),
        evict: watermarks(i64::MAX),
        heard: [].into(),
        time: BatchTime(i64::MIN),
        partitions: 3,
        settings: PinnedSettings {
            key_groups: KeyGroupCount::DEFAULT,
            watermark_policy: WatermarkPolicy::Max,
            watermark_scope: Default::default(),
            state_format: "memory".into(),
        },
        shape: QueryShape {
            sources: [(source, shape)].into(),
            operators: Default::default(),
            mode: OutputMode::Update,
        },
    }
}

/// A commit of `batch` by `run`.
pub(super) fn commit(batch: u64, run: &str) -> Commit {
    let id = StoreId {
        operator: OperatorId::new("o").expect(VALID),
        store: StoreName::new("default").expect(VALID),
    };
    let snapshot = Snapshot {
        id,
        groups: KeyGroupRange { start: 0, end: 128 },
        version: BatchId(batch).writes(),
        rows: u64::MAX,
        token: format!("{run}/{batch}"),
    };
    Commit {
        batch: BatchId(batch),
        run: RunId::new(run).expect(VALID),
        snapshots: vec![snapshot],
        watermarks: watermarks(i64::MIN),
        committed_at: BatchTime(batch as i64),
        output: None,
    }
}

/// Writes plans and commits of `batches` in order.
pub(super) async fn write(log: &dyn BatchLog, batches: impl IntoIterator<Item = u64>) {
    for batch in batches {
        log.put_plan(&plan(batch, "r")).await.expect("the plan is new");
        log.put_commit(&commit(batch, "r")).await.expect("the commit is new");
    }
}
