//! Merging beside the batches.
//!
//! A job merges runs of a committed version into a run of its own object. Its result joins the
//! manifest of a later commit: until then nothing names it, and if the runs that it was made from
//! are no longer there as they were, it is garbage. So a commit never waits for a job, a job waits
//! for commits, and a crash during one leaves nothing to repair.

use crate::block::Block;
use crate::budget::lock;
use crate::builder::Built;
use crate::compaction::{self, Spill};
use crate::objects::Created;
use crate::pace::Pace;
use crate::run::{Run, RunKey};
use crate::seal::{Next, NextRun};
use crate::shared::Shared;
use crate::token::ObjectName;
use crate::version::{Live, Version};
use bytes::Bytes;
use fluvial_core::{KeyGroupRange, Result, StateVersion, StoreId};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

/// Starts tasks on the runtime of the program.
pub(crate) type Spawn = Box<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// Results from this size on are uploaded while they are made.
const SPILL_BYTES: usize = 8 << 20;

type Place = (StoreId, KeyGroupRange);

/// The jobs of a process; at most one for each store and range of groups.
pub(crate) struct Jobs {
    /// `None`: commits merge by themselves.
    pub(crate) spawn: Option<Spawn>,
    jobs: Mutex<BTreeMap<Place, Job>>,
    /// Commits go first.
    pub(crate) pace: Pace,
    /// The objects of results. They stay while their runs are in memory.
    outputs: Mutex<BTreeMap<ObjectName, Weak<Run>>>,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

/// A job: what it merges, and the result when there is one.
#[derive(Debug)]
struct Job {
    inputs: Vec<(RunKey, KeyGroupRange)>,
    /// The runs behind them. What the inputs said of others is forgotten, so behind the result
    /// there may be no others: an attempt over an earlier version can still have some.
    older: Vec<(RunKey, KeyGroupRange)>,
    result: Progress,
}

#[derive(Debug)]
enum Progress {
    Running,
    /// `None` if nothing was left.
    Done(Option<Arc<Run>>),
}

impl Jobs {
    /// No job, with tasks started so.
    pub(crate) fn new(spawn: Option<Spawn>) -> Self {
        let (jobs, pace, outputs) = Default::default();
        Self { spawn, jobs, pace, outputs }
    }

    /// Jobs that run or wait for a commit.
    pub(crate) fn count(&self) -> usize {
        lock(&self.jobs).len()
    }

    /// Objects that no commit may name yet but a later one may.
    pub(crate) fn in_flight(&self) -> Vec<ObjectName> {
        let mut outputs = lock(&self.outputs);
        outputs.retain(|_, run| run.strong_count() > 0);
        outputs.keys().cloned().collect()
    }

    /// Puts the result of a job in place of the runs that it was made from, if they are all there.
    pub(crate) fn join(&self, id: &StoreId, next: &mut Next) {
        let place = (id.clone(), next.groups);
        let mut jobs = lock(&self.jobs);
        let Some(Job { inputs, older, result: Progress::Done(_) }) = jobs.get(&place) else {
            return;
        };
        let is_input = |run: &NextRun, (key, groups): &(RunKey, KeyGroupRange)| match run {
            NextRun::Old(run, clip) => run.key == *key && clip == groups,
            NextRun::New(..) => false,
        };
        let at = next
            .runs
            .windows(inputs.len())
            .position(|runs| runs.iter().zip(inputs).all(|(run, input)| is_input(run, input)));
        let length = inputs.len();
        let at = at.filter(|at| {
            let behind = &next.runs[at + length..];
            behind.iter().all(|run| older.iter().any(|known| is_input(run, known)))
        });
        let Some(Job { result: Progress::Done(result), .. }) = jobs.remove(&place) else { return };
        if let Some(at) = at {
            let groups = next.groups;
            let result = result.map(|run| NextRun::Old(run, groups));
            next.runs.splice(at..at + length, result);
        }
    }

    fn end(&self, place: &Place, result: Result<Option<Arc<Run>>>) {
        let mut jobs = lock(&self.jobs);
        match (jobs.get_mut(place), result) {
            (Some(job), Ok(run)) => job.result = Progress::Done(run),
            // It is tried again after a later commit; if it was damage, a read will say so.
            (_, Err(_)) => drop(jobs.remove(place)),
            (None, Ok(_)) => {}
        }
    }
}

/// Starts a job for a version, if one is due and none is under way.
pub(crate) fn start(
    shared: &Arc<Shared>,
    id: &StoreId,
    version: &Arc<Version>,
    next: StateVersion,
) {
    let Some(spawn) = &shared.jobs.spawn else { return };
    let due = compaction::pick(&version.runs, version.total_rows(), &shared.settings);
    let Some(due) = due else { return };
    let place = (id.clone(), version.groups);
    let keys = |runs: &[Live]| runs.iter().map(|l| (l.run.key.clone(), l.clip)).collect();
    let (inputs, older) = (keys(&version.runs[due.clone()]), keys(&version.runs[due.end..]));
    {
        let mut jobs = lock(&shared.jobs.jobs);
        if jobs.contains_key(&place) {
            return;
        }
        jobs.insert(place.clone(), Job { inputs, older, result: Progress::Running });
    }
    let (shared, version) = (Arc::clone(shared), Arc::clone(version));
    spawn(Box::pin(async move {
        let (runs, older) = (&version.runs[due.clone()], &version.runs[due.end..]);
        let result = work(&shared, runs, older, next).await;
        shared.jobs.end(&place, result);
    }));
}

/// Merges and stores the result.
async fn work(
    shared: &Shared,
    runs: &[Live],
    older: &[Live],
    version: StateVersion,
) -> Result<Option<Arc<Run>>> {
    let object = shared.name(version);
    let mut spill = Spill::new(&shared.objects, &object, SPILL_BYTES);
    let merged = compaction::merge(shared, runs, older, Some(&mut spill)).await;
    match (merged, spill.upload) {
        (Ok(Some(built)), None) => create(shared, built, object).await.map(Some),
        (Ok(Some(mut built)), Some(upload)) => {
            let bytes = std::mem::take(&mut built.bytes);
            let (run, blocks) = output(shared, built, object);
            upload.complete(bytes).await?;
            Ok(Some(publish(shared, run, blocks)))
        }
        (merged, upload) => {
            if let Some(upload) = upload {
                upload.abort().await;
            }
            merged.map(|_| None)
        }
    }
}

/// Creates the object of a small result.
async fn create(shared: &Shared, mut built: Built, mut object: ObjectName) -> Result<Arc<Run>> {
    let version = object.version;
    let bytes = Bytes::from(std::mem::take(&mut built.bytes));
    loop {
        let (run, blocks) = output(shared, built, object);
        if shared.objects.create(&run.key.object, vec![bytes.clone()]).await? == Created::Yes {
            return Ok(publish(shared, run, blocks));
        }
        // A name that is taken is our own lost acknowledgement.
        let Run { meta, tail, filter, .. } =
            Arc::try_unwrap(run).map_err(|_| crate::objects::damaged("a run is shared"))?;
        built = Built { bytes: Vec::new(), meta, tail, filter, blocks, _charge: None };
        object = shared.name(version);
    }
}

/// The run of a result. Its object is known from now on, so that no cleaning comes in between.
fn output(shared: &Shared, built: Built, object: ObjectName) -> (Arc<Run>, Vec<Block>) {
    let key = RunKey { object: object.clone(), offset: 0 };
    let Built { meta, tail, filter, blocks, .. } = built;
    let run = Arc::new(Run::new(key, meta, tail, filter, &shared.budget));
    lock(&shared.jobs.outputs).insert(object, Arc::downgrade(&run));
    (run, blocks)
}

fn publish(shared: &Shared, run: Arc<Run>, blocks: Vec<Block>) -> Arc<Run> {
    for (number, block) in blocks.into_iter().enumerate() {
        run.keep(number as u32, block);
    }
    shared.know(&run);
    run
}
