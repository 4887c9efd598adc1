//! Small entries, and the shortest possible engine over them.

use fluvial_checkpoint::ObjectLog;
use fluvial_core::protocol::{Resume, resume};
use fluvial_core::{
    BatchId, BatchLog, BatchTime, Commit, ErrorKind, KeyGroupCount, KeyGroupRange, Offset,
    OperatorId, OutputMode, PinnedSettings, Plan, Put, QueryId, QueryShape, Result, RunId,
    Snapshot, SourceId, StoreId, StoreName, WatermarkPolicy, Watermarks,
};
use fluvial_sim::{Disk, Process};
use object_store::path::Path;
use std::collections::BTreeMap;

/// Where the tests' checkpoint is.
pub(crate) const ROOT: &str = "q";

pub(crate) fn log(process: &Process) -> ObjectLog {
    ObjectLog::new(process.store(), Path::from(ROOT))
}

pub(crate) fn reopened(disk: &Disk) -> ObjectLog {
    log(&disk.process())
}

pub(crate) fn plan(batch: u64, run: &str) -> Plan {
    let source = SourceId::new("s").unwrap();
    Plan {
        batch: BatchId(batch),
        run: RunId::new(run).unwrap(),
        ranges: BTreeMap::new(),
        silent: BTreeMap::new(),
        ends: [(source, Offset::of(&batch).unwrap())].into(),
        late: Watermarks::new(),
        evict: Watermarks::new(),
        heard: BTreeMap::new(),
        time: BatchTime(0),
        partitions: 1,
        settings: PinnedSettings {
            key_groups: KeyGroupCount::DEFAULT,
            watermark_policy: WatermarkPolicy::Min,
            watermark_scope: Default::default(),
            state_format: "memory".into(),
        },
        shape: QueryShape {
            sources: BTreeMap::new(),
            operators: BTreeMap::new(),
            mode: OutputMode::Append,
        },
    }
}

/// The commit of a batch that ran the plan of run `planner`.
pub(crate) fn commit(batch: u64, run: &str, planner: &str) -> Commit {
    let id = StoreId {
        operator: OperatorId::new("o").unwrap(),
        store: StoreName::new("default").unwrap(),
    };
    let groups = KeyGroupRange { start: 0, end: 128 };
    let version = BatchId(batch).writes();
    let snapshot = Snapshot { id, groups, version, rows: 1, token: planner.into() };
    Commit {
        batch: BatchId(batch),
        run: RunId::new(run).unwrap(),
        snapshots: vec![snapshot],
        watermarks: Watermarks::new(),
        committed_at: BatchTime(0),
        output: None,
    }
}

/// Plans and commits of `batches`, by one run.
pub(crate) async fn write(log: &ObjectLog, batches: impl IntoIterator<Item = u64>) {
    for batch in batches {
        log.put_plan(&plan(batch, "r")).await.unwrap();
        log.put_commit(&commit(batch, "r", "r")).await.unwrap();
    }
}

/// Reads the logs until they are settled, and decides.
pub(crate) async fn where_it_stands(log: &ObjectLog) -> Result<Resume> {
    loop {
        let before = log.latest_commit().await?;
        let plan = log.latest_plan().await?;
        let after = log.latest_commit().await?;
        if before == after {
            return resume(plan, after);
        }
    }
}

/// Which batch comes next; its plan if there is one.
pub(crate) fn next(resume: Resume) -> (u64, Option<Plan>) {
    match resume {
        Resume::Fresh => (0, None),
        Resume::Rerun { plan, .. } => (plan.batch.0, Some(*plan)),
        Resume::Next { commit, .. } => (commit.batch.0 + 1, None),
    }
}

/// Runs batches until `until` are committed. Other runs' entries are adopted at the start and
/// end the run later on.
pub(crate) async fn run_batches(log: &ObjectLog, run: &str, until: u64) -> Result<()> {
    let proposed = QueryId::new(run).unwrap();
    retried(async || log.query_id(&proposed).await).await?;
    let (mut batch, mut found) = next(retried(async || where_it_stands(log).await).await?);
    while batch < until {
        let own = plan(batch, run);
        let plan = match found.take() {
            Some(plan) => plan,
            None => match retried(async || log.put_plan(&own).await).await? {
                Put::Created => own,
                Put::Exists(plan) => plan,
            },
        };
        let own = commit(batch, run, plan.run.as_str());
        retried(async || log.put_commit(&own).await).await?;
        log.truncate_before(BatchId(batch.saturating_sub(3))).await.or_else(|error| {
            // Off the critical path: the next round cleans more.
            if error.kind() == ErrorKind::Unavailable { Ok(()) } else { Err(error) }
        })?;
        batch += 1;
    }
    Ok(())
}

async fn retried<T>(call: impl AsyncFn() -> Result<T>) -> Result<T> {
    let mut attempts = 0;
    loop {
        match call().await {
            Err(error) if error.kind() == ErrorKind::Unavailable && attempts < 60 => attempts += 1,
            answer => return answer,
        }
    }
}

/// Checks the log of a query that ran to `until`: nothing missing, and every commit is of the
/// plan that is in the log.
pub(crate) async fn assert_whole(log: &ObjectLog, until: u64, what: &str) {
    let latest = log.latest_commit().await.unwrap().unwrap();
    assert_eq!(latest.batch.0 + 1, until, "{what}");
    assert_eq!(log.latest_plan().await.unwrap().unwrap().batch, latest.batch, "{what}");
    let commits = log.commits().await.unwrap();
    assert!(commits.len() >= 2, "{what}");
    for (commit, after) in commits.iter().zip(&commits[1..]) {
        assert_eq!(commit.batch.next(), after.batch, "{what}: no gaps");
    }
    for commit in &commits {
        let plan = log.plan(commit.batch).await.unwrap().unwrap();
        let ran = commit.snapshots[0].token.as_str();
        assert_eq!(ran, plan.run.as_str(), "{what}: batch {} ran another plan", commit.batch);
    }
}
