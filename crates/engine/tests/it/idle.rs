//! Inputs that say nothing for long do not hold the others back, if the query says so.

use crate::parts::query::Parts;
use crate::parts::sink::visible;
use crate::parts::source::Script;
use crate::world::{go, plan};
use fluvial_engine::StreamingQuery;
use fluvial_sim::{CrashAt, Disk, VirtualClock, block_on, run};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: u64 = 60_000;

/// Two inputs that allow a minute of silence, each script as far as it is.
fn parts(disk: &Disk, run: &str, busy: &Script, quiet: &Script, clock: &VirtualClock) -> Parts {
    let mut parts = Parts::on(disk.process().store(), run, busy);
    parts.sources.push(("quiet", Arc::new(quiet.clone())));
    parts.idle_after = Some(Duration::from_millis(MINUTE));
    parts.clock = clock.clone();
    parts
}

fn watermarks(disk: &Disk, batch: u64) -> Vec<Option<i64>> {
    let plan = plan(disk, batch).unwrap();
    plan.evict.values().map(|at| at.map(|at| at.0 / 1_000_000)).collect()
}

fn held(query: &StreamingQuery) -> Option<String> {
    query.last_progress()?.event_time.get("heldBy").cloned()
}

#[test]
fn the_others_go_on_without_it_and_it_comes_back_late() {
    let (disk, clock) = (Disk::new(), VirtualClock::at(1_000_000));
    let (busy, quiet) = (Script::new(&[(1, 5), (1, 50)]), Script::new(&[(2, 12)]));
    let query = go(&parts(&disk, "first", &busy, &quiet, &clock));
    assert_eq!(visible(&disk), [[10, 1, 1]], "held at 12 by the quiet one");
    assert_eq!(held(&query).as_deref(), Some("quiet"));
    assert!(query.explain().contains("held at 1970-01-01T00:00:12.000Z by quiet"));
    // Not silent for long enough.
    clock.advance(Duration::from_millis(MINUTE - 1));
    busy.push(&[(1, 60)]);
    go(&parts(&disk, "second", &busy, &quiet, &clock));
    assert_eq!(visible(&disk).len(), 1);
    // Now it is.
    clock.advance(Duration::from_millis(1));
    busy.push(&[(1, 70)]);
    let query = go(&parts(&disk, "third", &busy, &quiet, &clock));
    assert_eq!(visible(&disk), [[10, 1, 1], [20, 2, 1], [60, 1, 1], [70, 1, 1]]);
    assert_eq!(held(&query), None);
    // What it says now is judged by the watermark of all; it holds them from here on.
    quiet.push(&[(2, 33), (2, 75)]);
    let query = go(&parts(&disk, "fourth", &busy, &quiet, &clock));
    let late: u64 = query
        .recent_progress()
        .iter()
        .map(|p| p.state_operators[0].num_rows_dropped_by_watermark)
        .sum();
    assert_eq!(late, 1);
}

#[test]
fn a_query_that_is_idle_as_a_whole_stands_still() {
    let (disk, clock) = (Disk::new(), VirtualClock::at(1_000_000));
    let (busy, quiet) = (Script::new(&[(1, 5), (1, 50)]), Script::new(&[(2, 12)]));
    go(&parts(&disk, "first", &busy, &quiet, &clock));
    clock.advance(Duration::from_millis(100 * MINUTE));
    let before = disk.contents();
    go(&parts(&disk, "second", &busy, &quiet, &clock));
    assert_eq!(disk.contents(), before, "both were heard in the same batch");
}

#[test]
fn without_the_policy_it_holds_the_others_for_ever() {
    let (disk, clock) = (Disk::new(), VirtualClock::at(1_000_000));
    let (busy, quiet) = (Script::new(&[(1, 5), (1, 50)]), Script::new(&[(2, 12)]));
    for (n, time) in [60, 70, 80].into_iter().enumerate() {
        let mut parts = parts(&disk, &format!("run-{n}"), &busy, &quiet, &clock);
        parts.idle_after = None;
        go(&parts);
        clock.advance(Duration::from_millis(100 * MINUTE));
        busy.push(&[(1, time)]);
    }
    assert_eq!(visible(&disk), [[10, 1, 1]]);
}

/// The plan decides: a rerun years later, by its own clock, evicts with the same watermarks.
#[test]
fn a_rerun_looks_at_no_clock() {
    let mut reruns = 0;
    for crash in CrashAt::each(60) {
        let (disk, clock) = (Disk::new(), VirtualClock::at(1_000_000));
        let (busy, quiet) = (Script::new(&[(1, 5), (1, 50)]), Script::new(&[(2, 12)]));
        go(&parts(&disk, "first", &busy, &quiet, &clock));
        busy.push(&[(1, 60)]);
        clock.advance(Duration::from_millis(MINUTE - 1));
        let process = disk.mortal(crash);
        let mut mortal = Parts::on(process.store(), "mortal", &busy);
        let whole = parts(&disk, "mortal", &busy, &quiet, &clock);
        (mortal.sources, mortal.idle_after, mortal.clock) =
            (whole.sources.clone(), whole.idle_after, whole.clock.clone());
        let _ = run(&process, async { mortal.live().await.map(drop) });
        let newest = (0..9).take_while(|batch| plan(&disk, *batch).is_some()).last().unwrap();
        let planned = watermarks(&disk, newest);
        clock.advance(Duration::from_millis(1_000_000 * MINUTE));
        block_on(parts(&disk, "again", &busy, &quiet, &clock).live()).unwrap();
        assert_eq!(watermarks(&disk, newest), planned, "{crash:?}");
        reruns += u32::from(newest > 1);
    }
    assert!(reruns > 5, "{reruns}");
}
