//! Small plans, shapes and snapshots for this crate's unit tests.

use fluvial_core::{
    BatchId, BatchTime, Change, KeyGroupCount, KeyGroupRange, Offset, OperatorId, OperatorShape,
    OutputMode, PinnedSettings, Plan, QueryShape, RunId, SealedStore, Snapshot, SourceId,
    SourceRange, Split, StateSchema, StateVersion, StoreId, StoreName, WatermarkPolicy,
};
use std::collections::BTreeMap;

pub(crate) fn plan(batch: u64) -> Plan {
    let offset = |n: u64| Offset::of(&n).unwrap();
    let range = SourceRange {
        start: offset(batch),
        end: offset(batch + 1),
        splits: vec![Split(serde_json::json!([batch, batch + 1]))],
        log: None,
    };
    let source = SourceId::new("in").unwrap();
    Plan {
        batch: BatchId(batch),
        run: RunId::new("run").unwrap(),
        ranges: [(source.clone(), range)].into(),
        ends: [(source, offset(batch + 1))].into(),
        silent: BTreeMap::new(),
        late: BTreeMap::new(),
        evict: BTreeMap::new(),
        heard: BTreeMap::new(),
        time: BatchTime(0),
        partitions: 2,
        settings: PinnedSettings {
            key_groups: KeyGroupCount::DEFAULT,
            watermark_policy: WatermarkPolicy::Min,
            watermark_scope: Default::default(),
            state_format: String::new(),
        },
        shape: QueryShape {
            sources: BTreeMap::new(),
            operators: BTreeMap::new(),
            mode: OutputMode::Append,
        },
    }
}

pub(crate) fn operators(names: &[&str]) -> BTreeMap<OperatorId, OperatorShape> {
    let schema = StateSchema {
        kind: "count".into(),
        format: 1,
        keys: Vec::new(),
        values: Vec::new(),
        meaning: BTreeMap::new(),
        layout: None,
    };
    let shape = OperatorShape { schema, stores: vec![StoreName::new("default").unwrap()] };
    names.iter().map(|name| (OperatorId::new(*name).unwrap(), shape.clone())).collect()
}

fn store(operator: &str) -> StoreId {
    StoreId {
        operator: OperatorId::new(operator).unwrap(),
        store: StoreName::new("default").unwrap(),
    }
}

pub(crate) fn sealed(operator: &str, start: u16, end: u16, base: u64) -> SealedStore {
    SealedStore {
        id: store(operator),
        groups: KeyGroupRange { start, end },
        base: StateVersion(base),
        rows: 0,
        change: Change::None(String::new()),
    }
}

pub(crate) fn snapshot(operator: &str, start: u16, end: u16, version: u64) -> Snapshot {
    Snapshot {
        id: store(operator),
        groups: KeyGroupRange { start, end },
        version: StateVersion(version),
        rows: 0,
        token: String::new(),
    }
}
