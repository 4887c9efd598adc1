//! Checkpoints that were made up.

use super::read::{Next, Report, find, read};
use super::show::text;
use fluvial_checkpoint::ObjectLog;
use fluvial_core::{
    BatchId, BatchLog, BatchTime, Commit, EventTime, KeyGroupCount, KeyGroupRange, LogRef, Offset,
    OperatorId, OutputMode, PinnedSettings, Plan, QueryId, QueryShape, RunId, Snapshot, SourceId,
    SourceRange, SourceShape, StateVersion, StoreId, StoreName, WatermarkId, WatermarkPolicy,
    Watermarks,
};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const START: i64 = 1_781_086_200_000;

/// A checkpoint in a store of its own.
struct World {
    store: Arc<dyn ObjectStore>,
    log: ObjectLog,
}

impl World {
    async fn new() -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let log = ObjectLog::new(store.clone(), Path::from("cp/views"));
        log.query_id(&QueryId::new("26ff4d8e").unwrap()).await.unwrap();
        Self { store, log }
    }

    /// Plans and commits a batch.
    async fn batch(&self, batch: u64) {
        self.log.put_plan(&plan(batch)).await.unwrap();
        self.log.put_commit(&commit(batch)).await.unwrap();
    }

    async fn report(&self) -> Report {
        read(self.store.clone(), Path::from("cp/views"), "views".into()).await.unwrap()
    }

    async fn change(&self, path: &str, f: impl FnOnce(&mut Vec<u8>)) {
        let path = Path::from(path);
        let mut bytes = self.store.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        f(&mut bytes);
        self.store.put(&path, bytes.into()).await.unwrap();
    }
}

fn watermarks(minutes: Option<i64>) -> Watermarks {
    let time = minutes.map(|m| EventTime::from_millis(START + m * 60_000));
    [(WatermarkId::new("event_time").unwrap(), time)].into()
}

fn plan(batch: u64) -> Plan {
    let source = SourceId::new("source-0").unwrap();
    let offset = |n: u64| Offset::from(json!({ "logOffset": n }));
    let start = if batch == 0 { Offset::from(json!(null)) } else { offset(batch - 1) };
    let range = SourceRange { start, end: offset(batch), splits: Vec::new(), log: None };
    let shape =
        SourceShape { kind: "file/json".into(), description: "FileStreamSource[in]".into() };
    let minutes = i64::try_from(batch).unwrap();
    Plan {
        batch: BatchId(batch),
        run: RunId::new("run").unwrap(),
        ranges: BTreeMap::from([(source.clone(), range)]),
        ends: BTreeMap::from([(source.clone(), offset(batch))]),
        silent: BTreeMap::new(),
        late: watermarks((batch > 1).then_some(minutes - 1)),
        evict: watermarks((batch > 0).then_some(minutes)),
        heard: BTreeMap::new(),
        time: BatchTime(START + minutes * 1000),
        partitions: 2,
        settings: PinnedSettings {
            key_groups: KeyGroupCount::DEFAULT,
            watermark_policy: WatermarkPolicy::Min,
            watermark_scope: Default::default(),
            state_format: "memory/1".into(),
        },
        shape: QueryShape {
            sources: BTreeMap::from([(source, shape)]),
            operators: BTreeMap::new(),
            mode: OutputMode::Append,
        },
    }
}

fn commit(batch: u64) -> Commit {
    let id = StoreId {
        operator: OperatorId::new("stateStoreSave-0").unwrap(),
        store: StoreName::new("default").unwrap(),
    };
    let snapshot = |start, end, rows| Snapshot {
        id: id.clone(),
        groups: KeyGroupRange { start, end },
        version: StateVersion(batch + 1),
        rows,
        token: "token".into(),
    };
    Commit {
        batch: BatchId(batch),
        run: RunId::new("run").unwrap(),
        snapshots: vec![snapshot(64, 128, 1), snapshot(0, 64, 4)],
        watermarks: watermarks(Some(i64::try_from(batch).unwrap() + 1)),
        committed_at: BatchTime(START + i64::try_from(batch).unwrap() * 1000 + 500),
        output: None,
    }
}

#[tokio::test]
async fn a_planned_batch_will_run_again() {
    let world = World::new().await;
    world.batch(0).await;
    world.batch(1).await;
    world.log.put_plan(&plan(2)).await.unwrap();
    let report = world.report().await;
    assert_eq!(report.next, Next::Again(BatchId(2)));
    assert_eq!(
        text(&report, 2),
        "\
checkpoint views
query 26ff4d8e
mode append, watermark policy min, 2 state partitions, 128 key groups
source source-0 (file/json) FileStreamSource[in]

1 older batch not shown

batch 1  committed 2026-06-10T10:10:01.500Z
  source-0  {\"logOffset\":0} -> {\"logOffset\":1}
  watermark event_time  nothing late yet, closed before 2026-06-10T10:11:00.000Z

batch 2  planned 2026-06-10T10:10:02.000Z
  source-0  {\"logOffset\":1} -> {\"logOffset\":2}
  watermark event_time  late before 2026-06-10T10:11:00.000Z, closed before 2026-06-10T10:12:00.000Z

watermark event_time after batch 1: 2026-06-10T10:12:00.000Z

state stateStoreSave-0/default after batch 1: 5 rows
  partition 0  key groups 0..64  4 rows
  partition 1  key groups 64..128  1 row

batch 2 is planned, not committed: it will run again
"
    );
}

#[tokio::test]
async fn level_logs_go_on_with_the_next_batch() {
    let world = World::new().await;
    assert_eq!(world.report().await.next, Next::Begin);
    world.batch(0).await;
    let report = world.report().await;
    assert_eq!((report.next, report.damaged), (Next::Plan(BatchId(1)), Vec::new()));
}

#[tokio::test]
async fn damaged_objects_are_named() {
    let world = World::new().await;
    for batch in 0..3 {
        world.batch(batch).await;
    }
    world.change("cp/views/offsets/1", |bytes| bytes[50] ^= 1).await;
    world.change("cp/views/commits/1", |bytes| bytes.truncate(20)).await;
    world.change("cp/views/metadata", |bytes| bytes[0] ^= 1).await;
    let report = world.report().await;
    let damaged = report.damaged.join("\n");
    // As the user calls it, not as the store does.
    for name in ["views/offsets/1", "views/commits/1", "views/metadata"] {
        assert!(damaged.contains(name), "{name}\n{damaged}");
    }
    assert!(text(&report, 10).contains("\nbatch 1  damaged\n\nbatch 2  committed"));
}

#[tokio::test]
async fn what_sources_wrote_is_checked() {
    let world = World::new().await;
    let name = "0-run-00000000";
    let mut plan = plan(0);
    for range in plan.ranges.values_mut() {
        range.log = Some(LogRef { name: name.into(), crc32: crc32fast::hash(b"files") });
    }
    world.log.put_plan(&plan).await.unwrap();
    let missing = world.report().await.damaged;
    assert_eq!(missing, ["views/sources/source-0/0-run-00000000 is missing: batch 0 needs it"]);
    let path = Path::from(format!("cp/views/sources/source-0/{name}"));
    world.store.put(&path, "files".into()).await.unwrap();
    assert_eq!(world.report().await.damaged, [""; 0]);
    world.store.put(&path, "filez".into()).await.unwrap();
    assert!(world.report().await.damaged[0].contains("is damaged"));
}

#[tokio::test]
async fn logs_that_do_not_fit_are_refused() {
    let world = World::new().await;
    world.batch(0).await;
    world.store.delete(&Path::from("cp/views/offsets/0")).await.unwrap();
    let report = world.report().await;
    assert!(matches!(&report.next, Next::Refuse(why) if why.contains("a commit without a plan")));
    assert!(!report.is_sound());
    assert!(text(&report, 10).contains("the next run will refuse"));
}

#[tokio::test]
async fn checkpoints_are_found_in_a_folder_of_several() {
    let world = World::new().await;
    let find = async |path: &str| find(world.store.as_ref(), &Path::from(path)).await.unwrap();
    assert_eq!(find("cp/views").await, [Path::from("cp/views")]);
    assert_eq!(find("cp").await, [Path::from("cp/views")]);
    assert!(find("elsewhere").await.is_empty());
}

#[tokio::test]
async fn an_entry_that_is_missing_between_others_is_damage() {
    let world = World::new().await;
    for batch in 0..6 {
        world.batch(batch).await;
    }
    assert_eq!(world.report().await.damaged, [""; 0]);
    for path in ["cp/views/offsets/2", "cp/views/commits/3", "cp/views/commits/4"] {
        world.store.delete(&Path::from(path)).await.unwrap();
    }
    assert_eq!(
        world.report().await.damaged,
        [
            "views/offsets/2 is missing, and 3 is there",
            "views/commits/3 to 4 are missing, and 5 is there"
        ]
    );
}

/// Below the mark cleaning may have got to any of them.
#[tokio::test]
async fn what_cleaning_has_begun_with_is_no_damage() {
    let world = World::new().await;
    for batch in 0..6 {
        world.batch(batch).await;
    }
    let kept = ["cp/views/offsets/0", "cp/views/commits/1"].map(Path::from);
    let bytes = world.store.get(&kept[0]).await.unwrap().bytes().await.unwrap();
    world.log.truncate_before(BatchId(3)).await.unwrap();
    world.store.put(&kept[0], bytes.into()).await.unwrap();
    assert_eq!(world.report().await.damaged, [""; 0]);
}
