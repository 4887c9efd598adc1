//! The log of a checkpoint on a server that speaks S3. `cargo xtask s3` starts one and says where
//! it is in `FLUVIAL_S3`; without it there is nothing to test.

use fluvial::Storage;
use fluvial_checkpoint::{ObjectLog, probe};
use fluvial_core::{
    BatchId, BatchLog, BatchTime, Commit, ErrorKind, KeyGroupCount, OutputMode, PinnedSettings,
    Plan, Put, QueryId, QueryShape, RunId, WatermarkPolicy,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ROUNDS: u64 = 60;
const RUNS: u64 = 8;

/// The log below a folder of the server's bucket, as one process sees it.
fn log(server: &str, folder: &str) -> ObjectLog {
    let place = storage(server).open(&format!("s3://fluvial/{folder}")).unwrap();
    ObjectLog::new(place.store, place.path)
}

fn storage(server: &str) -> Storage {
    let options = [
        ("aws_endpoint", server),
        ("aws_allow_http", "true"),
        ("aws_region", "us-east-1"),
        ("aws_access_key_id", "fluvial"),
        ("aws_secret_access_key", "fluvial"),
    ];
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Storage::new("/".into(), options.map(own).into())
}

fn plan(batch: u64, run: u64) -> Plan {
    Plan {
        batch: BatchId(batch),
        run: RunId::new(format!("run-{run}")).unwrap(),
        ranges: BTreeMap::new(),
        silent: BTreeMap::new(),
        ends: BTreeMap::new(),
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

fn commit(batch: u64, run: u64) -> Commit {
    Commit {
        batch: BatchId(batch),
        run: RunId::new(format!("run-{run}")).unwrap(),
        snapshots: Vec::new(),
        watermarks: BTreeMap::new(),
        committed_at: BatchTime(0),
        output: None,
    }
}

/// What each of several runs got that put an entry at the same time.
async fn race<T: Send + 'static>(
    server: &str,
    folder: &str,
    put: impl AsyncFnPut<T>,
) -> Vec<(u64, Put<T>)> {
    let start = Arc::new(tokio::sync::Barrier::new(RUNS as usize));
    let runs: Vec<_> = (0..RUNS)
        .map(|run| {
            let (log, start) = (log(server, folder), Arc::clone(&start));
            let put = put.call(log, run);
            tokio::spawn(async move {
                start.wait().await;
                (run, put.await)
            })
        })
        .collect();
    let mut answers = Vec::new();
    for run in runs {
        answers.push(run.await.unwrap());
    }
    answers
}

/// Puts an entry for a run.
trait AsyncFnPut<T> {
    fn call(&self, log: ObjectLog, run: u64) -> futures::future::BoxFuture<'static, Put<T>>;
}

struct PutPlan(u64);

impl AsyncFnPut<Plan> for PutPlan {
    fn call(&self, log: ObjectLog, run: u64) -> futures::future::BoxFuture<'static, Put<Plan>> {
        let batch = self.0;
        Box::pin(async move { log.put_plan(&plan(batch, run)).await.unwrap() })
    }
}

struct PutCommit(u64);

impl AsyncFnPut<Commit> for PutCommit {
    fn call(&self, log: ObjectLog, run: u64) -> futures::future::BoxFuture<'static, Put<Commit>> {
        let batch = self.0;
        Box::pin(async move { log.put_commit(&commit(batch, run)).await.unwrap() })
    }
}

/// The one run that created the entry; everybody else got its entry.
fn winner<T: std::fmt::Debug>(answers: &[(u64, Put<T>)], run_of: impl Fn(&T) -> String) -> u64 {
    let created: Vec<u64> = answers
        .iter()
        .filter(|(_, put)| matches!(put, Put::Created))
        .map(|(run, _)| *run)
        .collect();
    assert_eq!(created.len(), 1, "{answers:?}");
    for (_, put) in answers {
        if let Put::Exists(entry) = put {
            assert_eq!(run_of(entry), format!("run-{}", created[0]), "{answers:?}");
        }
    }
    created[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_laws_of_the_log_hold_on_s3() {
    let Ok(server) = std::env::var("FLUVIAL_S3") else { return };
    let folder = format!("laws-{}", std::process::id());
    let place = storage(&server).open(&format!("s3://fluvial/{folder}")).unwrap();
    probe(place.store.as_ref(), &place.path, &RunId::new("run-0").unwrap()).await.unwrap();

    let ids: Vec<_> = (0..RUNS)
        .map(|run| {
            let log = log(&server, &folder);
            tokio::spawn(async move {
                log.query_id(&QueryId::new(format!("query-{run}")).unwrap()).await.unwrap()
            })
        })
        .collect();
    let mut found = BTreeSet::new();
    for id in ids {
        found.insert(id.await.unwrap().as_str().to_owned());
    }
    assert_eq!(found.len(), 1, "one id: {found:?}");

    let mut winners = BTreeSet::new();
    for batch in 0..ROUNDS {
        let plans = race(&server, &folder, PutPlan(batch)).await;
        let planner = winner(&plans, |plan| plan.run.to_string());
        let commits = race(&server, &folder, PutCommit(batch)).await;
        winner(&commits, |commit| commit.run.to_string());
        winners.insert(planner);
        // Durable on return, in any process; the newest is the newest; a put again finds itself.
        let other = log(&server, &folder);
        assert_eq!(other.latest_plan().await.unwrap(), Some(plan(batch, planner)));
        assert_eq!(other.latest_commit().await.unwrap().unwrap().batch, BatchId(batch));
        let again = other.put_plan(&plan(batch, planner)).await.unwrap();
        assert_eq!(again, Put::Exists(plan(batch, planner)));
    }
    println!("s3: {ROUNDS} of {ROUNDS} plans and commits had one winner of {RUNS}: {winners:?}");

    let cleaned = log(&server, &folder);
    cleaned.truncate_before(BatchId(ROUNDS - 5)).await.unwrap();
    let kept = cleaned.commits().await.unwrap();
    assert_eq!(kept.first().unwrap().batch, BatchId(ROUNDS - 5));
    assert_eq!(kept.len(), 5);
    let late = log(&server, &folder).put_plan(&plan(3, 1)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Fenced, "{late}");
    cleaned.truncate_before(BatchId(ROUNDS + 100)).await.unwrap();
    assert_eq!(cleaned.commits().await.unwrap().len(), 2, "recovery needs the newest two");
}
