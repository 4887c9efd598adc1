//! What must hold, whatever happens.

use crate::backend::Backend;
use crate::life::{End, Ended, drive, observer};
use crate::output::{Output, as_json, is_missing, rows_as_text};
use crate::query::Query;
use crate::schedule::{Life, OldFiles, RunPlan};
use crate::simulation::Violation;
use crate::world::World;
use fluvial::{ErrorKind, OutputMode};
use fluvial_checkpoint::ObjectLog;
use fluvial_core::{BatchId, BatchLog, Commit, Result, RunId, StateVersion, Watermarks};
use fluvial_sim::{Fault, block_on};
use object_store::path::Path;
use std::collections::BTreeMap;

/// Garbage that may be left of runs that died, in objects; besides, there may be four times as many
/// as without faults, where batches are small.
const GARBAGE_MAX: usize = 24;

/// What the run without faults left.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// Its output, sorted.
    pub(crate) rows: Vec<String>,
    /// Rows of state at its end.
    pub(crate) state_rows: u64,
    /// Objects of its state after cleaning.
    pub(crate) state_objects: usize,
    /// Objects in other folders.
    pub(crate) counts: BTreeMap<&'static str, usize>,
}

/// What was seen of the checkpoint so far: it may only grow.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    commits: BTreeMap<BatchId, (RunId, Watermarks)>,
}

pub(crate) fn log(world: &World) -> ObjectLog {
    ObjectLog::new(world.disk().process().store(), Path::from("checkpoint"))
}

/// The commits that are there. Before the first run there is no checkpoint.
fn commits(world: &World) -> Result<Vec<Commit>> {
    match block_on(log(world).commits()) {
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        commits => commits,
    }
}

/// The output that a reader sees.
pub(crate) fn rows(world: &World, query: &Query) -> Result<Vec<String>> {
    drive(async {
        // A session takes longer to make than most schedules: only what needs one has one.
        let session = match query.out() {
            Output::Delta | Output::Merged => Some(observer(world, query)?),
            _ => None,
        };
        query.out().rows(world, session.as_ref(), query.output_mode()).await
    })
}

/// The result of the query over all input as a table.
pub(crate) fn batch_rows(world: &World, query: &Query, sql: &str) -> Result<Vec<String>> {
    drive(async {
        let session = observer(world, query)?;
        let table = session.sql(sql).await?;
        let mut rows = match query.out() {
            Output::EachBatch | Output::Table => {
                rows_as_text(&table.collect().await.map_err(fluvial::from_datafusion)?)?
            }
            _ => as_json(world, table, "batch").await?,
        };
        rows.sort();
        Ok(rows)
    })
}

/// Whether a run may end like this under its schedule.
pub(crate) fn check_end(life: &Life, run: &RunPlan, ended: &Ended) -> Result<(), Violation> {
    let error = match &ended.end {
        End::Done if run.changed => {
            return Err(Violation::new("a changed query went on from a checkpoint of another"));
        }
        End::Crashed | End::Done => return Ok(()),
        End::Panicked => return Err(Violation::new("a panic outside of the query")),
        End::Endless => {
            let last = ended.calls.last();
            let steps = ended.calls.len();
            return Err(Violation::new(format!("no end after {steps} steps; the last: {last:?}")));
        }
        End::Failed(error) => error,
    };
    let panicked = error.condition() == Some("STREAMING_QUERY_PANICKED");
    let damaged = |fault: &Fault| matches!(fault, Fault::Flip | Fault::Cut | Fault::Stale);
    let may_fail = run.faults.iter().any(|(_, fault)| damaged(fault));
    let (rivals, away) = (life.runs.len() > 1, life.old == OldFiles::Away);
    let expected = match error.kind() {
        ErrorKind::Unavailable => !run.faults.is_empty() || rivals,
        ErrorKind::Fenced => rivals,
        ErrorKind::NotFound => rivals || away,
        // A schema is taken from files, and they are not there.
        ErrorKind::Invalid if error.condition() == Some("UNABLE_TO_INFER_SCHEMA") => away,
        ErrorKind::Invalid => run.changed,
        _ => false,
    };
    if !panicked && (expected || may_fail) {
        return Ok(());
    }
    Err(Violation::new(format!("the query failed: {error}")))
}

/// At any moment: what is visible is part of what is expected, nothing is there twice, and no
/// watermark has gone back.
pub(crate) fn check_moment(
    world: &World,
    query: &Query,
    expected: &Expected,
    seen: &mut Seen,
) -> Result<(), Violation> {
    check_commits(world, seen)?;
    for (batch, attempts) in world.delivered() {
        let mut sorted = attempts.into_iter().map(|mut rows| {
            rows.sort();
            rows
        });
        let first = sorted.next();
        if let Some(other) = sorted.find(|rows| Some(rows) != first.as_ref()) {
            return Err(Violation::new(format!(
                "batch {batch} was handed over with rows {first:?} and again with {other:?}"
            )));
        }
    }
    // Rows change there until the end.
    if query.output_mode() == OutputMode::Complete || matches!(query.out(), Output::Merged) {
        return Ok(());
    }
    let visible = rows(world, query)
        .map_err(|error| Violation::new(format!("the output cannot be read: {error}")))?;
    let mut left = expected.rows.iter().peekable();
    for row in &visible {
        // Both are sorted.
        while left.next_if(|expected| *expected < row).is_some() {}
        if left.next_if(|expected| *expected == row).is_none() {
            return Err(Violation::new(format!("visible, but wrong or there twice: {row}")));
        }
    }
    Ok(())
}

fn check_commits(world: &World, seen: &mut Seen) -> Result<(), Violation> {
    let found = commits(world)
        .map_err(|error| Violation::new(format!("the commits cannot be read: {error}")))?;
    for commit in found {
        let now = (commit.run.clone(), commit.watermarks.clone());
        match seen.commits.get(&commit.batch) {
            Some(before) if *before != now => {
                return Err(Violation::new(format!("commit {} has changed", commit.batch)));
            }
            _ => drop(seen.commits.insert(commit.batch, now)),
        }
    }
    let mut highest = Watermarks::new();
    for (batch, (_, watermarks)) in &seen.commits {
        for (id, time) in watermarks {
            if highest.get(id).is_some_and(|before| before > time) {
                return Err(Violation::new(format!("watermark {id} went back at batch {batch}")));
            }
            highest.insert(id.clone(), *time);
        }
    }
    Ok(())
}

/// What the checkpoint's newest commit names is there, and how many rows of state it has.
pub(crate) fn state_rows(world: &World) -> Result<u64, Violation> {
    let found = commits(world).map_err(|e| Violation::new(e.to_string()))?;
    // The two newest commits are those that a restart may begin from.
    for commit in found.iter().rev().take(2) {
        check_snapshots(world, commit)?;
    }
    let newest = found.last().map(|commit| commit.snapshots.iter().map(|s| s.rows).sum());
    Ok(newest.unwrap_or_default())
}

/// Opens what a commit names, as a restart would.
fn check_snapshots(world: &World, commit: &Commit) -> Result<(), Violation> {
    let plan = block_on(log(world).plan(commit.batch));
    let Ok(Some(plan)) = plan else {
        return Err(Violation::new(format!("commit {} has no plan", commit.batch)));
    };
    let format = match plan.settings.state_format.as_str() {
        "memory" => Backend::Memory,
        "lsm" => Backend::Lsm,
        _ => return Ok(()),
    };
    let store = world.disk().process().store();
    let failed = |e: fluvial::Error| Violation::new(e.to_string());
    let run = RunId::new("observer").map_err(failed)?;
    let backend = format.open(store, Path::from("checkpoint/state"), run).map_err(failed)?;
    let mut stores = BTreeMap::new();
    for snapshot in &commit.snapshots {
        stores.entry(snapshot.id.clone()).or_insert_with(Vec::new).push(snapshot.clone());
    }
    for (id, snapshots) in stores {
        let groups = plan.settings.key_groups.all();
        let version: StateVersion = commit.batch.writes();
        if let Err(error) = block_on(backend.open(&id, groups, version, &snapshots)) {
            return Err(Violation::new(format!("commit {}: {error}", commit.batch)));
        }
    }
    Ok(())
}

/// Objects of state.
pub(crate) fn state_objects(world: &World) -> usize {
    world.disk().paths_under("checkpoint/state/").len()
}

/// At the end: output, state and garbage are those of the run without faults.
pub(crate) fn check_end_state(
    world: &World,
    query: &Query,
    expected: &Expected,
) -> Result<(), Violation> {
    let found = rows(world, query)
        .map_err(|error| Violation::new(format!("the output cannot be read: {error}")))?;
    // A table in memory is empty until the first batch of its process: the last one may have had
    // nothing left to do.
    if !(matches!(query.out(), Output::Table) && found.is_empty()) {
        compare("the run without faults", &expected.rows, &found)?;
    }
    let state = state_rows(world)?;
    if query.is_free() && state != expected.state_rows {
        return Err(Violation::new(format!(
            "{state} rows of state are left, {} without faults",
            expected.state_rows
        )));
    }
    let objects = state_objects(world);
    if objects > 4 * expected.state_objects + GARBAGE_MAX {
        return Err(Violation::new(format!(
            "{objects} objects of state are left, {} without faults",
            expected.state_objects
        )));
    }
    Ok(())
}

/// Says what is missing and what is too much.
pub(crate) fn compare(with: &str, expected: &[String], found: &[String]) -> Result<(), Violation> {
    if expected == found {
        return Ok(());
    }
    let without = |all: &[String], taken: &[String]| {
        let mut taken = taken.to_vec();
        let left = all.iter().filter(|row| match taken.iter().position(|t| t == *row) {
            Some(at) => {
                taken.swap_remove(at);
                false
            }
            None => true,
        });
        left.take(3).cloned().collect::<Vec<_>>()
    };
    Err(Violation::new(format!(
        "the output is not that of {with}: {} rows for {}; missing {:?}, too much {:?}",
        found.len(),
        expected.len(),
        without(expected, found),
        without(found, expected),
    )))
}
