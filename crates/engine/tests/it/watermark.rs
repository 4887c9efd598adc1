//! Watermarks over batches, inputs and restarts.

use crate::parts::query::{Parts, What};
use crate::parts::sink::{batches, visible};
use crate::parts::source::Script;
use crate::world::{commit, go, newest, parts, plan, watermark};
use fluvial_core::{EventTime, OutputMode, WatermarkPolicy};
use fluvial_engine::EmptyBatches;
use fluvial_sim::Disk;
use std::sync::Arc;

fn with_inputs(disk: &Disk, run: &str, inputs: &[(&'static str, &Script)]) -> Parts {
    let mut parts = parts(disk, run, inputs[0].1);
    parts.sources =
        inputs.iter().map(|(name, s)| (*name, Arc::new((*s).clone()) as Arc<_>)).collect();
    parts
}

/// Trap A3.
#[test]
fn every_watermark_counts_not_only_the_first() {
    let (a, b) = (Script::new(&[(1, 100)]), Script::new(&[(2, 20)]));
    let disk = Disk::new();
    go(&with_inputs(&disk, "first", &[("a", &a), ("b", &b)]));
    b.push(&[(2, 25), (2, 200)]);
    a.push(&[(1, 200)]);
    let query = go(&with_inputs(&disk, "second", &[("a", &a), ("b", &b)]));
    let second = query.recent_progress()[0].clone();
    assert_eq!(second.state_operators[0].num_rows_dropped_by_watermark, 0, "25 is not late");
    assert!(visible(&disk).contains(&vec![30, 2, 2]));
}

/// Trap A4.
#[test]
fn a_silent_input_holds_the_watermark_where_it_was() {
    let (s1, s2) = (Script::new(&[(1, 100)]), Script::new(&[(2, 10)]));
    let disk = Disk::new();
    let step = |i: u64| {
        let mut parts = with_inputs(&disk, &format!("run-{i}"), &[("s1", &s1), ("s2", &s2)]);
        parts.settings.empty_batches = EmptyBatches::Never;
        let query = go(&parts);
        let done = newest(&disk);
        assert_eq!(done.batch.0, i);
        let combined = WatermarkPolicy::Min.combine(&done.watermarks).map(|EventTime(t)| t);
        (combined.map(|t| t / 1_000_000), query.recent_progress()[0].clone())
    };
    assert_eq!(step(0).0, Some(10));
    s1.push(&[(1, 200)]);
    assert_eq!(step(1).0, Some(10));
    s2.push(&[(2, 11)]);
    let (combined, progress) = step(2);
    assert_eq!(combined, Some(11));
    assert_eq!(progress.state_operators[0].num_rows_dropped_by_watermark, 0);
}

/// Trap A5.
#[test]
fn every_input_keeps_its_watermark_over_restarts() {
    let scripts =
        [(1, 100), (2, 100), (3, 0)].map(|row| Script::new(&[row][..usize::from(row.0 < 3)]));
    let [a, b, c] = &scripts;
    let disk = Disk::new();
    let run = |name: &str| go(&with_inputs(&disk, name, &[("a", a), ("b", b), ("c", c)]));
    run("first");
    assert_eq!(visible(&disk), Vec::<Vec<i64>>::new());
    assert_eq!(watermark(&newest(&disk), "c"), None, "not seen is not zero");
    b.push(&[(2, 110)]);
    c.push(&[(3, 100), (3, 5)]);
    run("second");
    let done = newest(&disk);
    let all = ["a", "b", "c"].map(|name| watermark(&done, name));
    assert_eq!(all, [Some(100), Some(110), Some(100)]);
    assert_eq!(visible(&disk), [[10, 3, 1]], "what ends at or before 100 is out");
}

/// Trap A7.
#[test]
fn scheduled_runs_emit_what_their_own_data_closed() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 5), (1, 25)]));
    go(&parts(&disk, "first", &source));
    assert_eq!(visible(&disk), [[10, 1, 1]]);
    source.push(&[(1, 45)]);
    go(&parts(&disk, "second", &source));
    assert_eq!(visible(&disk), [[10, 1, 1], [30, 1, 1]]);
    let before = disk.contents();
    go(&parts(&disk, "third", &source));
    assert_eq!(disk.contents(), before, "and nothing when there is nothing");
}

/// Trap A18.
#[test]
fn after_a_restart_late_is_still_late() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 3), (1, 30)]));
    go(&parts(&disk, "first", &source));
    assert_eq!(visible(&disk), [[10, 1, 1]]);
    source.push(&[(1, 4), (1, 31)]);
    let query = go(&parts(&disk, "second", &source));
    let dropped = query.recent_progress()[0].state_operators[0].num_rows_dropped_by_watermark;
    assert_eq!((dropped, visible(&disk).len()), (1, 1));
}

/// The late watermark of a batch is what the batch before it evicted with.
#[test]
fn late_is_judged_by_the_previous_batch() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 5), (1, 25), (1, 45), (1, 65)]));
    let mut one_by_one = parts(&disk, "first", &source.limited(1));
    one_by_one.settings.empty_batches = EmptyBatches::Never;
    go(&one_by_one);
    for batch in 0..4 {
        let plan = plan(&disk, batch).unwrap();
        let before = batch.checked_sub(1).map(|b| self::plan(&disk, b).unwrap().evict);
        let unseen = |w: &fluvial_core::Watermarks| w.values().all(Option::is_none);
        assert!(before.map_or(unseen(&plan.late), |evict| evict == plan.late), "{batch}");
        let committed = batch.checked_sub(1).map(|b| commit(&disk, b).unwrap().watermarks);
        assert!(committed.map_or(unseen(&plan.evict), |w| w == plan.evict), "{batch}");
    }
}

#[test]
fn empty_batches_run_only_when_the_watermark_moved_and_somebody_cares() {
    let rows = [(1, 5), (1, 25)];
    let batches_of = |change: &dyn Fn(&mut Parts)| {
        let (disk, source) = (Disk::new(), Script::new(&rows));
        let mut parts = parts(&disk, "first", &source);
        change(&mut parts);
        go(&parts);
        batches(&disk).len()
    };
    assert_eq!(batches_of(&|_| {}), 2);
    assert_eq!(batches_of(&|p| p.mode = OutputMode::Update), 2);
    assert_eq!(batches_of(&|p| p.mode = OutputMode::Complete), 1);
    assert_eq!(batches_of(&|p| p.what = What::Copy), 1);
    assert_eq!(batches_of(&|p| p.settings.empty_batches = EmptyBatches::Never), 1);
    assert_eq!(batches_of(&|p| p.delay_s = 1_000_000), 2, "unseen to seen is a move");
}

#[test]
fn a_shorter_delay_jumps_ahead_and_a_longer_one_never_goes_back() {
    let (disk, source) = (Disk::new(), Script::new(&[(1, 100)]));
    for (i, (delay_s, time, expected)) in
        [(50, 100, 50), (10, 101, 91), (90, 102, 91), (90, 190, 100)].into_iter().enumerate()
    {
        if i > 0 {
            source.push(&[(1, time)]);
        }
        let mut parts = parts(&disk, &format!("run-{i}"), &source);
        parts.delay_s = delay_s;
        go(&parts);
        assert_eq!(watermark(&newest(&disk), "in"), Some(expected), "{delay_s}");
    }
}
