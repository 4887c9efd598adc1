//! Small plans and commits for this crate's tests.

use crate::key_group::KeyGroupCount;
use crate::log::{Commit, PinnedSettings, Plan, QueryShape, WatermarkPolicy};
use crate::sink::OutputMode;
use crate::time::BatchTime;
use crate::{BatchId, RunId};
use std::collections::BTreeMap;

pub(crate) fn plan(batch: u64) -> Plan {
    Plan {
        batch: BatchId(batch),
        run: RunId::new("run").unwrap(),
        ranges: BTreeMap::new(),
        ends: BTreeMap::new(),
        silent: BTreeMap::new(),
        late: BTreeMap::new(),
        evict: BTreeMap::new(),
        heard: BTreeMap::new(),
        time: BatchTime(0),
        partitions: 1,
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

pub(crate) fn commit(batch: u64) -> Commit {
    Commit {
        batch: BatchId(batch),
        run: RunId::new("run").unwrap(),
        snapshots: Vec::new(),
        watermarks: BTreeMap::new(),
        committed_at: BatchTime(0),
        output: None,
    }
}
