//! One life: runs of the real engine in one world, on one thread.

use crate::output::{Output, table_rows};
use crate::parts::{self, Ground};
use crate::query::{Build, Query, Start};
use crate::schedule::{Life, RunPlan};
use crate::world::{ROOT, World};
use fluvial::prelude::{Session, Trigger};
use fluvial_core::{Error, Result};
use fluvial_sim::{Call, Process, VirtualClock};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// How long a life may take by a real clock before it is taken for a deadlock. No result depends
/// on it but this one.
const HANGS: Duration = Duration::from_secs(120);

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    /// As its schedule says.
    Crashed,
    /// It did all there was to do.
    Done,
    /// With an error.
    Failed(Error),
    /// It went on for ever.
    Endless,
    /// It panicked outside of the query.
    Panicked,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) calls: Vec<Call>,
}

/// A runtime whose order is fixed: one thread, and every call to a store waits for turns drawn
/// from a seed.
fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|e| Error::unavailable("no runtime can be had").with_source(e))
}

/// Does `work` in a runtime of its own, which is thrown away with all that it still holds.
pub(crate) fn drive<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime()?;
    let answer = runtime.block_on(work);
    runtime.shutdown_background();
    answer
}

/// Lives a life to its end.
pub(crate) fn live(world: &World, query: &Query, life: &Life) -> Result<Vec<Ended>> {
    let processes: Vec<Process> = life.runs.iter().map(|run| world.process(run)).collect();
    let ends = drive(async {
        let runs = life.runs.iter().zip(&processes);
        let runs = runs.map(|(run, process)| one(world, query, run, process));
        Ok(futures::future::join_all(runs).await)
    })?;
    let ended = ends.into_iter().zip(processes);
    Ok(ended.map(|(end, process)| Ended { end, calls: process.calls() }).collect())
}

async fn one(world: &World, query: &Query, run: &RunPlan, process: &Process) -> End {
    if run.jump_ms != 0 {
        let now = fluvial_core::Clock::now_ms(world.clock());
        world.clock().set_wall(now.saturating_add(run.jump_ms));
    }
    let work = AssertUnwindSafe(process.live(work(world, query, run, process))).catch_unwind();
    match tokio::time::timeout(HANGS, work).await {
        Err(_) => End::Endless,
        Ok(Err(_)) => End::Panicked,
        Ok(Ok(None)) if process.exhausted() => End::Endless,
        Ok(Ok(None)) => End::Crashed,
        Ok(Ok(Some(Ok(())))) => End::Done,
        Ok(Ok(Some(Err(error)))) => End::Failed(error),
    }
}

async fn work(world: &World, query: &Query, run: &RunPlan, process: &Process) -> Result<()> {
    let store = query.wrapped(process.store());
    let build = match query.build() {
        Build::Parts(build) => {
            let (world, limit) = (world.clone(), run.limit);
            let ground = Ground { world: world.clone(), store: Arc::clone(&store), limit };
            let parts = build(ground).await?;
            return parts::work(&world, query, parts, run, process, store).await;
        }
        Build::Session(build) => build,
    };
    let session = session(world, query, run, Arc::clone(&store))?;
    let start = Start {
        session: session.clone(),
        world: world.clone(),
        process: process.clone(),
        store,
        limit: run.limit,
    };
    let trigger = if run.once { Trigger::Once } else { Trigger::AvailableNow };
    let writer = query.writer(build.as_ref(), start).await?.trigger(trigger);
    let running = writer.option("checkpointLocation", format!("{ROOT}/checkpoint")).start().await?;
    running.await_termination().await?;
    if matches!(query.out(), Output::Table) && !process.crashed() {
        world.set_table(table_rows(&session).await?);
    }
    Ok(())
}

fn session(
    world: &World,
    query: &Query,
    run: &RunPlan,
    store: Arc<dyn object_store::ObjectStore>,
) -> Result<Session> {
    let clock: VirtualClock = world.clock().clone();
    let names = world.clone();
    let builder = Session::builder()
        .object_store(ROOT, store)
        .clock(Arc::new(clock))
        .unique_names(move || names.next_name())
        .warehouse(format!("{ROOT}/warehouse"))
        .config("state.partitions", run.partitions)
        .config("input.splits", 2)
        .config("batches.retained", run.retained);
    let session = query.set_up(builder).build()?;
    let state = session.context().state_ref();
    state.write().config_mut().options_mut().execution.target_partitions = run.target_partitions;
    Ok(session)
}

/// A session of somebody who looks at the world from outside.
pub(crate) fn observer(world: &World, query: &Query) -> Result<Session> {
    session(world, query, &RunPlan::clean(), world.disk().process().store())
}
