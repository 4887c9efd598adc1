//! The handle of a query: stopping, waiting, failing.

use crate::parts::around::sink_around;
use crate::parts::query::{Parts, What};
use crate::parts::sink::{batches, visible};
use crate::parts::source::Script;
use crate::parts::spawner::Tasks;
use crate::scenarios::{build_windows, expect_windows};
use crate::world::{go, parts};
use fluvial_core::{
    BatchId, CommitOutcome, Error, ErrorKind, Note, OutputMode, Result, Sink, SinkSpec, Staged,
};
use fluvial_engine::{Engine, Queries, StreamingQuery, Trigger, Unobserved};
use fluvial_sim::{Disk, block_on, yield_now};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

fn copy(disk: &Disk, source: &Script) -> Parts {
    Parts { what: What::Copy, trigger: Trigger::Default, ..parts(disk, "run", source) }
}

fn session(parts: &Parts) -> (Tasks, Queries) {
    let tasks = Tasks::default();
    let queries = Queries::new(Arc::new(tasks.clone()), Arc::new(parts.clock.clone()));
    (tasks, queries)
}

async fn start(queries: &Queries, parts: &Parts) -> StreamingQuery {
    queries.start(parts.spec()).await.unwrap()
}

/// Trap I1: wherever it is, it stops at once; and whatever it was doing, nothing is lost or twice.
#[test]
fn a_query_stops_at_every_await() {
    let mut stopped_midway = 0;
    for polls in 0.. {
        let disk = Disk::new();
        let parts = build_windows(disk.process().store(), 0);
        let engine = block_on(Engine::open(parts.spec(), Arc::new(Unobserved))).unwrap();
        let query = engine.query();
        let mut running = pin!(engine.run());
        let mut cx = Context::from_waker(Waker::noop());
        let mut ended = false;
        for _ in 0..polls {
            ended = ended || running.as_mut().poll(&mut cx).is_ready();
        }
        if ended {
            break;
        }
        let stopping = query.stop();
        let mut stopping = pin!(stopping);
        assert!(stopping.as_mut().poll(&mut cx).is_pending());
        assert!(running.as_mut().poll(&mut cx).is_ready(), "after {polls} polls");
        assert!(stopping.as_mut().poll(&mut cx).is_ready());
        assert!(!query.is_active() && query.exception().is_none());
        stopped_midway += 1;
        go(&build_windows(disk.process().store(), 1));
        let mut seen = visible(&disk);
        seen.sort();
        assert_eq!(seen, expect_windows(), "after {polls} polls");
    }
    assert!(stopped_midway > 50, "{stopped_midway}");
}

/// A sink with a say of its own.
struct Hooked {
    inner: Arc<dyn Sink>,
    query: Mutex<Option<StreamingQuery>>,
    hook: Hook,
    told: Mutex<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hook {
    HangForEver,
    WaitForItself,
    StopItself,
    Fail,
}

impl Hooked {
    fn around(parts: &mut Parts, hook: Hook) -> Arc<Self> {
        let inner = Arc::clone(&parts.sink);
        let hooked =
            Arc::new(Self { inner, query: Mutex::default(), hook, told: Mutex::default() });
        parts.sink = Arc::clone(&hooked) as _;
        hooked
    }
}

sink_around!(Hooked, inner, {
    fn modes(&self) -> &[OutputMode] {
        self.inner.modes()
    }
    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.inner.open(spec).await
    }
    async fn commit(&self, n: BatchId, staged: Vec<Staged>, note: &Note) -> Result<CommitOutcome> {
        let query = self.query.lock().unwrap().clone();
        match (self.hook, query) {
            (Hook::HangForEver, _) => std::future::pending().await,
            (Hook::Fail, _) => {
                Err(Error::invalid("division by zero").with_condition("DIVIDE_BY_ZERO"))
            }
            (Hook::StopItself, Some(query)) => {
                query.stop().await?;
                self.inner.commit(n, staged, note).await
            }
            (Hook::WaitForItself, Some(query)) => {
                for error in [
                    query.process_all_available().await.unwrap_err(),
                    query.await_termination().await.unwrap_err(),
                ] {
                    self.told.lock().unwrap().push(error.condition().unwrap().to_owned());
                }
                self.inner.commit(n, staged, note).await
            }
            _ => self.inner.commit(n, staged, note).await,
        }
    }
});

/// Trap I1.
#[test]
fn a_callback_that_never_returns_does_not_keep_a_query_from_stopping() {
    let disk = Disk::new();
    let mut parts = copy(&disk, &Script::new(&[(1, 1)]));
    Hooked::around(&mut parts, Hook::HangForEver);
    let (tasks, queries) = session(&parts);
    tasks.run(async {
        let query = start(&queries, &parts).await;
        while query.status().message != "publishing batch 0" {
            yield_now().await;
        }
        assert!(query.status().is_data_available && query.status().is_trigger_active);
        query.stop_within(Duration::from_secs(2)).await.unwrap();
        assert_eq!(query.status().message, "stopped");
        assert!(!query.status().is_trigger_active);
    });
}

#[test]
fn stopping_gives_up_when_nobody_lets_the_query_run() {
    let disk = Disk::new();
    let parts = copy(&disk, &Script::new(&[]));
    let engine = block_on(Engine::open(parts.spec(), Arc::new(Unobserved))).unwrap();
    let query = engine.query();
    let error = block_on(query.stop_within(Duration::from_secs(2))).unwrap_err();
    assert_eq!(error.condition(), Some("STREAMING_QUERY_STOP_TIMEOUT"));
    assert!(query.is_active());
    block_on(engine.run());
    assert!(!query.is_active() && query.exception().is_none(), "it stops as soon as it can");
}

/// Trap I3.
#[test]
fn waiting_for_oneself_is_refused() {
    let disk = Disk::new();
    let mut parts = copy(&disk, &Script::new(&[(1, 1)]));
    let sink = Hooked::around(&mut parts, Hook::WaitForItself);
    let (tasks, queries) = session(&parts);
    tasks.run(async {
        let query = start(&queries, &parts).await;
        *sink.query.lock().unwrap() = Some(query.clone());
        query.process_all_available().await.unwrap();
        query.stop().await.unwrap();
    });
    assert_eq!(*sink.told.lock().unwrap(), ["STREAMING_QUERY_WAITS_FOR_ITSELF"; 2]);
    assert_eq!(visible(&disk), [[1, 1]]);
}

#[test]
fn a_query_may_stop_itself() {
    let disk = Disk::new();
    let mut parts = copy(&disk, &Script::new(&[(1, 1)]));
    let sink = Hooked::around(&mut parts, Hook::StopItself);
    let (tasks, queries) = session(&parts);
    tasks.run(async {
        let query = start(&queries, &parts).await;
        *sink.query.lock().unwrap() = Some(query.clone());
        query.await_termination().await.unwrap();
    });
}

/// Trap I2.
#[test]
fn process_all_available_returns_although_data_keep_arriving() {
    let disk = Disk::new();
    let rows: Vec<_> = (0..9).map(|i| (1, i)).collect();
    let source = Script::new(&rows);
    source.with(|shared| shared.grows_by = 3);
    let parts = copy(&disk, &source.limited(2));
    let (tasks, queries) = session(&parts);
    tasks.run(async {
        let query = start(&queries, &parts).await;
        for _ in 0..3 {
            let there = source.with(|shared| shared.rows.len());
            query.process_all_available().await.unwrap();
            assert!(visible(&disk).len() >= there);
        }
        query.stop().await.unwrap();
    });
}

#[test]
fn process_all_available_includes_the_batch_without_data() {
    let disk = Disk::new();
    let mut parts = parts(&disk, "run", &Script::new(&[(1, 5), (1, 25)]));
    parts.trigger = Trigger::Default;
    let (tasks, queries) = session(&parts);
    tasks.run(async {
        let query = start(&queries, &parts).await;
        query.process_all_available().await.unwrap();
        assert_eq!(visible(&disk), [[10, 1, 1]]);
        query.process_all_available().await.unwrap();
        assert_eq!(batches(&disk).len(), 2);
    });
}

/// Trap I3: wherever it fails, whoever waits is told why, before and after.
#[test]
fn a_failure_reaches_everybody_who_waits() {
    type Break<'a> = &'a dyn Fn(&mut Parts, &Script);
    let broken: [(&str, Break<'_>); 4] = [
        ("planning", &|_, source| {
            source.with(|shared| shared.failures.push(Error::invalid("no such topic")));
        }),
        ("reading", &|_, source| {
            source.with(|shared| shared.read_failures.push(Error::corrupt("half a file")));
        }),
        ("publishing", &|parts, _| drop(Hooked::around(parts, Hook::Fail))),
        ("panicking", &|_, source| source.with(|shared| shared.panics = true)),
    ];
    for (place, sabotage) in broken {
        let (disk, source) = (Disk::new(), Script::new(&[(1, 1)]));
        let mut parts = copy(&disk, &source);
        sabotage(&mut parts, &source);
        let (tasks, queries) = session(&parts);
        tasks.run(async {
            let query = start(&queries, &parts).await;
            let before = query.process_all_available().await.unwrap_err();
            let after = query.process_all_available().await.unwrap_err();
            let waiting = query.await_termination().await.unwrap_err();
            let exception = query.exception().unwrap();
            for error in [&before, &after, &waiting] {
                assert_eq!(error.to_string(), exception.to_string(), "{place}");
            }
            assert!(query.await_termination_within(Duration::ZERO).await.is_err());
            assert!(query.status().message.contains("terminated with exception"));
        });
    }
}

/// Trap I11.
#[test]
fn a_failure_says_what_where_and_which() {
    let disk = Disk::new();
    let mut parts = copy(&disk, &Script::new(&[(1, 1)]));
    parts.name = Some("clicks".into());
    Hooked::around(&mut parts, Hook::Fail);
    let error = block_on(parts.live()).unwrap_err();
    assert_eq!((error.kind(), error.condition()), (ErrorKind::Invalid, Some("DIVIDE_BY_ZERO")));
    assert_eq!(
        error.message(),
        "query clicks [id = q-run, runId = run]: batch 0: division by zero"
    );
}

#[test]
fn what_is_unavailable_for_long_fails_the_query_and_can_be_started_again() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 1)]));
    source.with(|shared| {
        shared.read_failures.extend((0..6).map(|_| Error::unavailable("timed out")));
    });
    let mut parts = copy(&disk, &source);
    parts.trigger = Trigger::AvailableNow;
    let error = block_on(parts.live()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("batch 0: after 6 attempts: in: timed out"), "{error}");
    parts.run = "again".into();
    go(&parts);
    assert_eq!(visible(&disk), [[1, 1]]);
}

#[test]
fn a_runtime_that_shuts_down_ends_its_queries() {
    let disk = Disk::new();
    let parts = copy(&disk, &Script::new(&[]));
    let (tasks, queries) = session(&parts);
    let query = tasks.run(async { start(&queries, &parts).await });
    tasks.shut_down();
    assert!(query.exception().unwrap().to_string().contains("was dropped"));
    assert!(queries.active().is_empty());
}

#[test]
fn dropping_the_handle_leaves_the_query_running() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 1)]));
    let parts = copy(&disk, &source);
    let (tasks, queries) = session(&parts);
    tasks.run(async {
        drop(start(&queries, &parts).await);
        while visible(&disk).is_empty() {
            yield_now().await;
        }
        source.push(&[(2, 2)]);
        let query = queries.active().pop().unwrap();
        query.process_all_available().await.unwrap();
        assert_eq!(visible(&disk).len(), 2);
    });
}

/// Trap I10.
#[test]
fn a_query_keeps_its_last_hundred_reports() {
    let rows: Vec<_> = (0..130).map(|i| (1, i)).collect();
    let disk = Disk::new();
    let mut parts = copy(&disk, &Script::new(&rows).limited(1));
    parts.trigger = Trigger::AvailableNow;
    let recent = go(&parts).recent_progress();
    let kept: Vec<_> = recent.iter().map(|p| p.batch_id.0).collect();
    assert_eq!(kept, (30..130).collect::<Vec<_>>());
}

#[test]
fn waiting_with_a_timeout_says_whether_it_ended() {
    let disk = Disk::new();
    let parts = copy(&disk, &Script::new(&[]));
    let (tasks, queries) = session(&parts);
    tasks.run(async {
        let query = start(&queries, &parts).await;
        assert!(!query.await_termination_within(Duration::from_secs(1)).await.unwrap());
        assert!(query.is_active());
        query.stop().await.unwrap();
        assert!(query.await_termination_within(Duration::from_secs(1)).await.unwrap());
    });
}

/// Trap I8.
#[test]
fn a_source_that_does_not_advance_is_refused_by_name() {
    use crate::parts::source::Lie;
    for (lie, condition) in [
        (Lie::EndIsStart, "SOURCE_OFFSET_DID_NOT_ADVANCE"),
        (Lie::EndBeforeStart, "SOURCE_OFFSET_WENT_BACK"),
    ] {
        let (disk, source) = (Disk::new(), Script::new(&[(1, 1), (1, 2)]));
        source.with(|shared| {
            shared.lie = Some(lie);
            shared.initial = 1;
        });
        let mut parts = copy(&disk, &source);
        parts.trigger = Trigger::AvailableNow;
        let error = block_on(parts.live()).unwrap_err();
        assert_eq!(error.condition(), Some(condition), "{error}");
        assert!(error.to_string().contains("planning batch 0: in: "), "{error}");
        assert!(disk.paths_under("checkpoint/offsets").is_empty());
    }
}

#[test]
fn what_cannot_run_is_refused_before_the_checkpoint_is_touched() {
    struct AppendOnly(Arc<dyn Sink>);
    sink_around!(AppendOnly, 0, {
        fn modes(&self) -> &[OutputMode] {
            &[OutputMode::Append]
        }
        async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
            self.0.open(spec).await
        }
        async fn commit(&self, n: BatchId, s: Vec<Staged>, note: &Note) -> Result<CommitOutcome> {
            self.0.commit(n, s, note).await
        }
    });
    let disk = Disk::new();
    let mut update = parts(&disk, "run", &Script::new(&[]));
    update.mode = OutputMode::Update;
    update.sink = Arc::new(AppendOnly(Arc::clone(&update.sink)));
    let error = block_on(update.live()).unwrap_err();
    assert_eq!(error.condition(), Some("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"));
    let mut without = parts(&disk, "run", &Script::new(&[]));
    without.sources.clear();
    assert!(block_on(without.live()).unwrap_err().to_string().contains("streaming source"));
    let mut spec = parts(&disk, "run", &Script::new(&[])).spec();
    spec.environment.state = None;
    let error = block_on(Engine::open(spec, Arc::new(Unobserved))).err().unwrap();
    assert!(error.to_string().contains("state backend"), "{error}");
    assert!(disk.paths().is_empty());
}
