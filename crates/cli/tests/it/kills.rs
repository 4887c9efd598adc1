//! The program is killed with SIGKILL, again and again, and its table is as if nothing had been.
//!
//! `FLUVIAL_KILLS` says how many kills have to land while the job is under way: `cargo xtask
//! kills` asks for a hundred. `FLUVIAL_KILLS_LSM` says it for the job whose state lies in runs.
//! Where they land depends on the machine, what is right does not.

mod aim;
mod auto_loader;
mod clicks;
mod place;

use crate::program::{Folder, printed, table_rows};
use aim::{Aim, Ended};
use fluvial_sim::Rng;
use place::{Place, Snapshot, transactions};
use std::collections::BTreeMap;

const SEED: u64 = 2;
/// How many kills a plain run of the tests waits for.
const KILLS: usize = 10;
/// And how many for state in runs.
const KILLS_LSM: usize = 3;
/// Nothing stays in memory, and old runs are merged while the job is killed.
const LSM: &[&str] = &["--set", "state.backend=lsm", "--set", "state.memory=64k"];
/// Of a hundred, this many have to land between a plan and its commit.
const BETWEEN_OF_100: usize = 30;
/// A folder has some fifty batches; with more kills than that its job hardly moves.
const KILLS_PER_FOLDER: usize = 25;

/// A table and how it came about.
#[derive(Debug, PartialEq, Eq)]
struct Table {
    rows: Vec<Vec<String>>,
    /// The batch of each transaction, in the order of the table's log.
    batches: Vec<u64>,
}

impl Table {
    /// What a job that has ended has left behind. Asks the program: it has nothing to do any more.
    fn of(folder: &Folder, options: &[&str]) -> Self {
        let text = printed(&folder.run(options));
        assert!(text.contains("nothing new"), "{text}");
        Self { rows: table_rows(&text), batches: transactions(folder.path()) }
    }
}

#[test]
fn a_job_that_is_killed_again_and_again_writes_what_an_undisturbed_one_writes() {
    let kills = asked("FLUVIAL_KILLS", KILLS);
    let landed = kill(kills, &[]);
    let between: usize =
        landed.iter().filter(|(place, _)| place.is_between()).map(|(_, count)| count).sum();
    assert!(between * 100 >= kills * BETWEEN_OF_100, "too few between plan and commit: {landed:?}");
}

#[test]
fn a_job_with_its_state_in_runs_that_is_killed_writes_what_an_undisturbed_one_writes() {
    kill(asked("FLUVIAL_KILLS_LSM", KILLS_LSM), LSM);
}

fn asked(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |n| n.parse().unwrap())
}

/// Kills the job until so many kills have landed, and says where. The undisturbed job has its state
/// in memory.
fn kill(kills: usize, options: &[&str]) -> BTreeMap<Place, usize> {
    let undisturbed = clicks::folder(SEED);
    printed(&undisturbed.run(&["--set", "state.partitions=2"]));
    let expected = Table::of(&undisturbed, &[]);
    let batches = expected.batches.len() as u64;
    assert_eq!(expected.batches, Vec::from_iter(0..batches), "one transaction for each batch");

    let mut rng = Rng::new(SEED);
    let mut landed: BTreeMap<Place, usize> = BTreeMap::new();
    let mut folders = 0;
    while in_flight(&landed) < kills {
        let folder = clicks::folder(SEED);
        let left = KILLS_PER_FOLDER.min(kills - in_flight(&landed));
        let before = in_flight(&landed);
        // Towards the end it is hard to hit; whoever asks for many gets more folders.
        while in_flight(&landed) < before + left
            && strike(&folder, options, batches, &mut rng, &mut landed)
        {}
        printed(&folder.run(options));
        let table = Table::of(&folder, options);
        assert_eq!(table, expected, "seed {SEED}, folder {folders}, {landed:?}");
        folders += 1;
    }
    let rows = expected.rows.len();
    println!("{folders} folders, {batches} batches and {rows} rows in each, all as undisturbed");
    println!("{} kills in flight:", in_flight(&landed));
    for (place, count) in &landed {
        println!("{count:>5}  {place}");
    }
    landed
}

fn in_flight(landed: &BTreeMap<Place, usize>) -> usize {
    landed.iter().filter(|(place, _)| **place != Place::Over).map(|(_, count)| count).sum()
}

/// Starts the job and kills it once; `false` if it came to its end.
fn strike(
    folder: &Folder,
    options: &[&str],
    batches: u64,
    rng: &mut Rng,
    landed: &mut BTreeMap<Place, usize>,
) -> bool {
    let before = Snapshot::of(folder.path());
    let partitions = format!("state.partitions={}", 1 + rng.below(4));
    let aim = Aim::random(rng);
    let started = folder.start(&[options, &["--set", &partitions]].concat());
    match aim.strike(started, folder.path()) {
        Ended::ByItself(code, errors) => {
            assert_eq!(code, 0, "{errors}");
            false
        }
        Ended::Killed => {
            let after = Snapshot::of(folder.path());
            let place = after.place(&before, batches);
            *landed.entry(place).or_default() += 1;
            if place != Place::Nowhere {
                check_shown(folder, place);
            }
            place != Place::Over
        }
    }
}

/// What is left is whole, and the program says what comes next.
fn check_shown(folder: &Folder, place: Place) {
    let mut show = folder.fluvial(&["checkpoint", "show", ".fluvial/checkpoints"]);
    let shown = printed(&show.output().unwrap());
    let again = shown.contains("is planned, not committed: it will run again");
    assert_eq!(again, place.is_between(), "{place}: {shown}");
}
