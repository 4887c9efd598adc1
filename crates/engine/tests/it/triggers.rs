//! When batches run, under a virtual clock.

use crate::parts::around::sink_around;
use crate::parts::query::{Parts, What};
use crate::parts::sink::batches;
use crate::parts::source::Script;
use crate::parts::spawner::Tasks;
use crate::world::{go, newest, parts, plan};
use fluvial_core::{
    BatchId, Clock, CommitOutcome, Note, OutputMode, Result, Sink, SinkSpec, Staged,
};
use fluvial_engine::{Queries, Trigger};
use fluvial_sim::{Disk, VirtualClock, yield_now};
use std::sync::Arc;
use std::time::Duration;

fn copy(disk: &Disk, run: &str, source: &Script) -> Parts {
    Parts { what: What::Copy, ..parts(disk, run, source) }
}

/// Trap I2.
#[test]
fn available_now_ends_although_data_keep_arriving() {
    let rows: Vec<_> = (0..7).map(|i| (1, i)).collect();
    let (disk, source) = (Disk::new(), Script::new(&rows));
    source.with(|shared| shared.grows_by = 5);
    let query = go(&copy(&disk, "first", &source.limited(3)));
    let sizes: Vec<_> = batches(&disk).iter().map(|(_, rows)| rows.len()).collect();
    assert_eq!(sizes, [3, 3, 1], "the limits hold, and the end is that of the beginning");
    assert_eq!(query.recent_progress().len(), 3);
}

/// Trap I2.
#[test]
fn available_now_finishes_an_old_batch_and_then_does_its_own_work() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 1), (1, 2)]));
    go(&copy(&disk, "first", &source));
    disk.remove("checkpoint/commits/0");
    disk.remove("out/0");
    source.push(&[(1, 3)]);
    go(&copy(&disk, "second", &source));
    let sizes: Vec<_> = batches(&disk).iter().map(|(_, rows)| rows.len()).collect();
    assert_eq!(sizes, [2, 1]);
    assert_eq!(plan(&disk, 0).unwrap().run.as_str(), "first");
}

#[test]
fn at_most_one_batch_without_data_ends_an_available_now_run() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 5), (1, 25), (1, 45)]));
    let query = go(&parts(&disk, "first", &source.limited(1)));
    let has_data: Vec<_> = query.recent_progress().iter().map(|p| p.num_input_rows).collect();
    assert_eq!(has_data, [1, 1, 1, 0]);
}

#[test]
fn once_is_one_batch_whatever_the_limits_and_none_without_data() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 5), (1, 25), (1, 45)]));
    let once =
        |run: &str| Parts { trigger: Trigger::Once, ..parts(&disk, run, &source.limited(1)) };
    go(&once("first"));
    assert_eq!(batches(&disk), [(0, vec![])], "output lags one start");
    source.push(&[(1, 46)]);
    go(&once("second"));
    assert_eq!(batches(&disk)[1], (1, vec![vec![10, 1, 1], vec![30, 1, 1]]));
    go(&once("third"));
    assert_eq!(batches(&disk).len(), 2);
}

#[test]
fn once_finishes_an_old_batch_first() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 1)]));
    let once = |run: &str| Parts { trigger: Trigger::Once, ..copy(&disk, run, &source) };
    go(&once("first"));
    disk.remove("checkpoint/commits/0");
    source.push(&[(1, 2)]);
    go(&once("second"));
    assert_eq!(newest(&disk).batch, BatchId(1));
}

/// Publishes slowly: the clock moves meanwhile.
struct Slow {
    inner: Arc<dyn Sink>,
    clock: VirtualClock,
    takes: Vec<Duration>,
    began: std::sync::Mutex<Vec<i64>>,
}

sink_around!(Slow, inner, {
    fn modes(&self) -> &[OutputMode] {
        self.inner.modes()
    }
    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.inner.open(spec).await
    }
    async fn commit(&self, n: BatchId, staged: Vec<Staged>, note: &Note) -> Result<CommitOutcome> {
        self.began.lock().unwrap().push(self.clock.now_ms());
        self.clock.advance(self.takes[n.0 as usize]);
        self.inner.commit(n, staged, note).await
    }
});

#[test]
fn processing_time_keeps_to_its_ticks_and_an_overrun_starts_at_once() {
    let rows: Vec<_> = (0..6).map(|i| (1, i)).collect();
    let (disk, source) = (Disk::new(), Script::new(&rows));
    let mut parts = copy(&disk, "first", &source.limited(1));
    parts.trigger = Trigger::ProcessingTime(Duration::from_secs(1));
    parts.clock = VirtualClock::at(100_250);
    let takes = [10, 400, 2300, 10, 0, 0].map(Duration::from_millis).to_vec();
    let sink = Arc::new(Slow {
        inner: parts.sink,
        clock: parts.clock.clone(),
        takes,
        began: Default::default(),
    });
    parts.sink = Arc::clone(&sink) as _;
    let tasks = Tasks::default();
    let queries = Queries::new(Arc::new(tasks.clone()), Arc::new(parts.clock.clone()));
    tasks.run(async {
        let query = queries.start(parts.spec()).await.unwrap();
        while batches(&disk).len() < 6 {
            yield_now().await;
        }
        query.stop().await.unwrap();
    });
    let began = sink.began.lock().unwrap().clone();
    // The first at once; then the ticks; after the overrun of batch 2 at once, then ticks again.
    assert_eq!(began, [100_250, 101_000, 102_000, 104_300, 105_000, 106_000]);
}

#[test]
fn an_idle_query_says_so_now_and_then() {
    let (disk, source) = (Disk::new(), Script::new(&[]));
    let mut parts = copy(&disk, "first", &source);
    parts.trigger = Trigger::ProcessingTime(Duration::from_secs(1));
    let start = parts.clock.now_ms();
    let tasks = Tasks::default();
    let queries = Queries::new(Arc::new(tasks.clone()), Arc::new(parts.clock.clone()));
    let query = tasks.run(async {
        let query = queries.start(parts.spec()).await.unwrap();
        while parts.clock.now_ms() < start + 35_000 {
            yield_now().await;
        }
        query
    });
    let reported: Vec<_> = query.recent_progress().iter().map(|p| p.timestamp.0 - start).collect();
    assert_eq!(reported, [0, 10_000, 20_000, 30_000]);
    let idle = query.last_progress().unwrap();
    assert_eq!((idle.num_input_rows, idle.sink.num_output_rows), (0, -1));
    assert_eq!(idle.sources[0].end_offset, None);
    assert!(query.status().message.contains("waiting"), "{:?}", query.status());
}

/// The only processing time that a batch sees never falls, whatever the clock does.
#[test]
fn batch_time_never_falls() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 1), (1, 2), (1, 3)]));
    for (i, now_ms) in [5_000, 1_000, 9_000].into_iter().enumerate() {
        let mut parts = copy(&disk, &format!("run-{i}"), &source.limited(1));
        parts.trigger = Trigger::AvailableNow;
        parts.clock = VirtualClock::at(now_ms);
        source.push(&[(1, 1)]);
        go(&parts);
    }
    let times: Vec<_> =
        (0..=newest(&disk).batch.0).map(|b| plan(&disk, b).unwrap().time.0).collect();
    assert!(times.is_sorted() && times.first() == Some(&5_000) && times.last() == Some(&9_000));
}
