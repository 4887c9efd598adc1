//! Several queries in a session, and those who listen.

use crate::parts::query::{Parts, What};
use crate::parts::source::Script;
use crate::parts::spawner::Tasks;
use crate::world::parts;
use fluvial_core::Error;
use fluvial_engine::{
    Queries, QueryIdle, QueryStarted, QueryTerminated, StreamingQueryListener,
    StreamingQueryProgress, Trigger,
};
use fluvial_sim::{Disk, VirtualClock, yield_now};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn copy(disk: &Disk, run: &str, source: &Script) -> Parts {
    Parts { what: What::Copy, trigger: Trigger::Default, ..parts(disk, run, source) }
}

fn session() -> (Tasks, Queries) {
    let tasks = Tasks::default();
    let queries = Queries::new(Arc::new(tasks.clone()), Arc::new(VirtualClock::new()));
    (tasks, queries)
}

fn failing(run: &str) -> Parts {
    let source = Script::new(&[(1, 1)]);
    source.with(|shared| shared.failures.push(Error::invalid("no such topic")));
    copy(&Disk::new(), run, &source)
}

/// Trap I4.
#[test]
fn a_failure_before_the_wait_is_told_until_it_is_reset() {
    let (tasks, queries) = session();
    tasks.run(async {
        let first = queries.start(failing("first").spec()).await.unwrap();
        first.await_termination().await.unwrap_err();
        let second = copy(&Disk::new(), "second", &Script::new(&[]));
        let second = queries.start(second.spec()).await.unwrap();
        for _ in 0..2 {
            let error = queries.await_any_termination().await.unwrap_err();
            assert!(error.to_string().contains("no such topic"), "{error}");
        }
        assert_eq!(queries.active().len(), 1, "of the first nothing is kept but its error");
        queries.reset_terminated();
        let wait = Duration::from_secs(1);
        assert!(!queries.await_any_termination_within(wait).await.unwrap());
        second.stop().await.unwrap();
        assert!(queries.await_any_termination_within(wait).await.unwrap());
        queries.await_any_termination().await.unwrap();
    });
}

#[test]
fn names_and_ids_are_unique_among_running_queries() {
    let (tasks, queries) = session();
    tasks.run(async {
        let (disk, source) = (Disk::new(), Script::new(&[]));
        let named = |run: &str, disk: &Disk| {
            let mut parts = copy(disk, run, &source);
            parts.name = Some("clicks".into());
            parts
        };
        let first = queries.start(named("first", &disk).spec()).await.unwrap();
        assert_eq!(queries.get(first.id()).unwrap().run_id(), first.run_id());
        let same_name = queries.start(named("second", &Disk::new()).spec()).await.unwrap_err();
        assert_eq!(same_name.condition(), Some("CONCURRENT_QUERY"), "{same_name}");
        let same_id = queries.start(copy(&disk, "third", &source).spec()).await.unwrap_err();
        assert!(same_id.to_string().contains("query q-first is running already"), "{same_id}");
        queries.stop_all().await.unwrap();
        assert!(queries.active().is_empty() && queries.get(first.id()).is_none());
        queries.start(named("fourth", &disk).spec()).await.unwrap();
    });
}

/// Writes down what it is told, or misbehaves.
#[derive(Default)]
struct Notebook {
    told: Mutex<Vec<String>>,
    panics: bool,
}

impl Notebook {
    fn note(&self, what: String) {
        self.told.lock().unwrap().push(what);
        assert!(!self.panics, "the listener is upset");
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

impl StreamingQueryListener for Notebook {
    fn on_started(&self, event: &QueryStarted) {
        self.note(format!("started {}", event.run_id));
    }
    fn on_progress(&self, progress: &StreamingQueryProgress) {
        self.note(format!("batch {} of {}", progress.batch_id, progress.run_id));
    }
    fn on_idle(&self, event: &QueryIdle) {
        self.note(format!("idle {}", event.run_id));
    }
    fn on_terminated(&self, event: &QueryTerminated) {
        let how =
            event.exception.as_ref().map_or("well", |e| e.condition.as_deref().unwrap_or("?"));
        self.note(format!("ended {}: {how}", event.run_id));
    }
}

async fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        yield_now().await;
    }
}

#[test]
fn listeners_hear_everything_in_order_and_only_of_their_session() {
    let (tasks, queries) = session();
    let (_, others) = session();
    let (mine, foreign) = (Arc::new(Notebook::default()), Arc::new(Notebook::default()));
    queries.add_listener(Arc::clone(&mine) as _);
    others.add_listener(Arc::clone(&foreign) as _);
    tasks.run(async {
        let source = Script::new(&[(1, 1), (1, 2)]);
        let parts = copy(&Disk::new(), "a", &source.limited(1));
        let query = queries.start(parts.spec()).await.unwrap();
        query.process_all_available().await.unwrap();
        query.stop().await.unwrap();
        until(|| mine.told().last().is_some_and(|last| last.starts_with("ended"))).await;
    });
    assert_eq!(mine.told(), ["started a", "batch 0 of a", "batch 1 of a", "ended a: well"]);
    assert!(foreign.told().is_empty());
}

#[test]
fn a_listener_that_panics_hurts_nobody() {
    let (tasks, queries) = session();
    let upset = Arc::new(Notebook { panics: true, ..Notebook::default() });
    let fine = Arc::new(Notebook::default());
    queries.add_listener(Arc::clone(&upset) as _);
    queries.add_listener(Arc::clone(&fine) as _);
    tasks.run(async {
        let query = queries.start(failing("a").spec()).await.unwrap();
        query.await_termination().await.unwrap_err();
        until(|| fine.told().len() == 2 && upset.told().len() == 2).await;
    });
    assert_eq!(fine.told(), ["started a", "ended a: ?"]);
    assert_eq!(upset.told(), fine.told());
}

#[test]
fn a_removed_listener_hears_no_more() {
    let (tasks, queries) = session();
    let (stays, goes) = (Arc::new(Notebook::default()), Arc::new(Notebook::default()));
    let first = queries.add_listener(Arc::clone(&stays) as _);
    let second = queries.add_listener(Arc::clone(&goes) as _);
    assert_eq!(queries.list_listeners(), [first, second]);
    tasks.run(async {
        let source = Script::new(&[(1, 1)]);
        let query = queries.start(copy(&Disk::new(), "a", &source).spec()).await.unwrap();
        query.process_all_available().await.unwrap();
        queries.remove_listener(second);
        query.stop().await.unwrap();
        until(|| stays.told().len() == 3).await;
    });
    assert_eq!(goes.told(), ["started a", "batch 0 of a"]);
    assert_eq!(queries.list_listeners(), [first]);
}

#[test]
fn idle_is_told_once_in_a_while() {
    let (tasks, queries) = session();
    let listener = Arc::new(Notebook::default());
    queries.add_listener(Arc::clone(&listener) as _);
    let mut parts = copy(&Disk::new(), "a", &Script::new(&[(1, 1)]));
    parts.trigger = Trigger::ProcessingTime(Duration::from_secs(3));
    tasks.run(async {
        queries.start(parts.spec()).await.unwrap();
        until(|| listener.told().len() >= 4).await;
    });
    assert_eq!(listener.told(), ["started a", "batch 0 of a", "idle a", "idle a"]);
}
