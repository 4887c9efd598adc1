//! The medallion example: what it gives, and that killing it changes nothing of that.
//!
//! `FLUVIAL_KILLS` says how many kills have to land: `cargo xtask kills` asks for a hundred. Where
//! they land depends on the machine, what is right does not.

use crate::golden::text;
use crate::medallion_example as example;
use crate::processes::{again_with, runtime};
use fluvial::prelude::*;
use fluvial_sim::Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs, thread};
use tempfile::TempDir;

const SEED: u64 = 7;
/// How many kills a plain run of the tests waits for.
const KILLS: usize = 6;
/// Where the process that is killed runs the example.
const FOLDER: &str = "FLUVIAL_MEDALLION";

/// The landing of the example, with what lands later if asked for.
fn folder(later: bool) -> TempDir {
    let folder = TempDir::new().unwrap();
    let landing = folder.path().join("landing");
    fs::create_dir(&landing).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/medallion");
    for number in 1..=7 {
        let name = format!("part-{number:04}.json");
        let from = if number == 7 { "later" } else { "landing" };
        if number < 7 || later {
            fs::copy(example.join(from).join(&name), landing.join(name)).unwrap();
        }
    }
    folder
}

async fn rows(session: &Session, query: &str) -> Vec<Vec<String>> {
    text(&session.sql(query).await.unwrap().collect().await.unwrap())
}

const USERS: &str = "SELECT user_id, status FROM silver.users ORDER BY 1";
const VIEWS: &str = "SELECT date_format(w.start, 'HH:mm') AS start, page, views, seconds
    FROM gold.page_views ORDER BY 1, 2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lands_goes_through_all_tables_once() {
    let folder = folder(false);
    let session = example::run(folder.path()).await.unwrap();
    let count = "SELECT count(*), count(country), count(device) FROM bronze.events";
    assert_eq!(rows(&session, count).await, [["22", "13", "5"]]);
    let count = "SELECT count(*), count(DISTINCT event_id), count(country) FROM silver.events";
    assert_eq!(rows(&session, count).await, [["18", "18", "11"]]);
    let users = [
        ["ada", "customer"],
        ["bob", "customer"],
        ["cyd", "trial"],
        ["dee", "visitor"],
        ["eve", "trial"],
        ["fay", "visitor"],
    ];
    assert_eq!(rows(&session, USERS).await, users);
    let views = [
        ["10:00", "/docs", "1", "12.0"],
        ["10:00", "/home", "2", "6.5"],
        ["10:00", "/pricing", "2", "39.0"],
        ["10:05", "/home", "2", "4.5"],
        ["10:05", "/pricing", "1", "9.0"],
        ["10:05", "/signup", "1", "44.5"],
        ["10:10", "/docs", "1", "20.0"],
        ["10:10", "/pricing", "1", "17.0"],
        ["10:10", "/signup", "2", "89.0"],
        ["10:15", "/billing", "1", "64.0"],
        ["10:15", "/docs", "1", "7.0"],
        ["10:15", "/signup", "1", "29.0"],
        ["10:20", "/billing", "1", "72.5"],
    ];
    assert_eq!(rows(&session, VIEWS).await, views);
    let taken = "SELECT query, sum(rows_in) FROM ops.metrics GROUP BY query ORDER BY query";
    let expected = [["bronze.events", "22"], ["gold.page_views", "18"], ["silver", "22"]];
    assert_eq!(rows(&session, taken).await, expected);
    session.stop().await.unwrap();

    // Again, with nothing new, and with more.
    let session = example::run(folder.path()).await.unwrap();
    assert_eq!(rows(&session, taken).await, expected);
    let more = self::folder(true);
    let name = "landing/part-0007.json";
    fs::copy(more.path().join(name), folder.path().join(name)).unwrap();
    let session = example::run(folder.path()).await.unwrap();
    assert_eq!(rows(&session, "SELECT count(*) FROM silver.events").await, [["20"]]);
    let views = rows(&session, VIEWS).await;
    assert_eq!(views[13..], [["10:40", "/home", "1", "2.0"], ["10:40", "/pricing", "1", "14.0"]]);
    let users = rows(&session, USERS).await;
    assert_eq!(users[2], ["cyd", "customer"]);
}

/// All that must be the same, and the metrics.
#[derive(Debug, PartialEq)]
struct Tables {
    rows: BTreeMap<&'static str, Vec<Vec<String>>>,
    metrics: Vec<Vec<String>>,
}

/// What is there when nothing is left to do.
fn tables(folder: &Path) -> Tables {
    runtime().block_on(async {
        let session = example::run(folder).await.unwrap();
        let mut found = BTreeMap::new();
        for table in ["bronze.events", "silver.events", "silver.users", "gold.page_views"] {
            let mut rows = rows(&session, &format!("SELECT * FROM {table}")).await;
            rows.sort();
            found.insert(table, rows);
        }
        let metrics = rows(&session, "SELECT * FROM ops.metrics ORDER BY 1, 2").await;
        Tables { rows: found, metrics }
    })
}

/// How many files are below a folder.
fn files(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let count = |entry: std::io::Result<fs::DirEntry>| match entry {
        Ok(entry) if entry.file_type().is_ok_and(|t| t.is_dir()) => files(&entry.path()),
        Ok(_) => 1,
        // It went meanwhile.
        Err(_) => 0,
    };
    entries.map(count).sum()
}

#[test]
fn a_medallion_that_is_killed_anywhere_ends_as_an_undisturbed_one() {
    if let Ok(folder) = env::var(FOLDER) {
        // The process that is killed.
        runtime().block_on(example::run(Path::new(&folder))).unwrap();
        return;
    }
    let kills = env::var("FLUVIAL_KILLS").map_or(KILLS, |n| n.parse().unwrap());
    let undisturbed = folder(true);
    let expected = tables(undisturbed.path());
    let written = files(undisturbed.path());

    let mut rng = Rng::new(SEED);
    let (mut landed, mut folders) = (Vec::new(), 0);
    while landed.len() < kills {
        let folder = folder(true);
        while landed.len() < kills && strike(folder.path(), written, &mut rng, &mut landed) {}
        let found = tables(folder.path());
        assert_eq!(found.rows, expected.rows, "seed {SEED}, folder {folders}");
        // A kill between a commit and its report costs a row; none is there twice.
        let known = |row: &Vec<String>| expected.metrics.contains(row);
        let once = found.metrics.windows(2).all(|pair| pair[0] != pair[1]);
        assert!(once && found.metrics.iter().all(known), "{:?}", found.metrics);
        folders += 1;
    }
    let mut stages: BTreeMap<&str, usize> = BTreeMap::new();
    landed.iter().for_each(|stage| *stages.entry(stage).or_default() += 1);
    println!("{} kills in {folders} folders of {written} files: {stages:?}", landed.len());
}

/// Starts the example and kills it once some more files are there; `false` if it came to its end.
fn strike(folder: &Path, written: usize, rng: &mut Rng, landed: &mut Vec<&'static str>) -> bool {
    let before = files(folder);
    // Far enough to get on, near enough for many in one folder.
    let more = 1 + rng.below(written as u64 / 6) as usize;
    let delay = Duration::from_micros(rng.below(5000));
    let test = "medallion::a_medallion_that_is_killed_anywhere_ends_as_an_undisturbed_one";
    let mut child = again_with(test, FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while files(folder) < before + more {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return false;
        }
        thread::sleep(Duration::from_micros(500));
    }
    thread::sleep(delay);
    // SIGKILL. A process that has ended cannot be killed: it has a code then, and must be well.
    child.kill().unwrap();
    let status = child.wait().unwrap();
    if status.code().is_some() {
        assert!(status.success(), "{status}");
        return false;
    }
    let begun = |name: &str| folder.join("out/tables/_checkpoints").join(name).exists();
    landed.push(match (begun("gold"), begun("silver"), begun("bronze")) {
        (true, _, _) => "gold",
        (_, true, _) => "silver",
        (_, _, true) => "bronze",
        _ => "before",
    });
    true
}
