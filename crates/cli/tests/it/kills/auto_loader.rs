//! An Auto Loader that is killed again and again: each row once, whatever comes in mid-stream.
//!
//! New columns come, and values of other types, and it goes on by itself.

use crate::program::{Folder, printed};
use fluvial_sim::Rng;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

const SEED: u64 = 7;
/// How many kills a plain run of the tests waits for.
const KILLS: usize = 6;
/// From so many on, a fifth has to land between a plan and its commit.
const ENOUGH: usize = 50;
const KILLS_PER_FOLDER: usize = 20;
const FILES: u64 = 120;
const ROWS: u64 = 5;

const SCRIPT: &str = "SET batches.retained = 3;
CREATE STREAMING TABLE bronze USING json LOCATION 'out' AS
SELECT * FROM STREAM read_files('landing', format => 'json', schemaLocation => 'schema',
  inferColumnTypes => true, schemaHints => 'n BIGINT', maxFilesPerTrigger => 3)";

/// A folder with the job and the first half of its input.
fn folder() -> Folder {
    let folder = Folder::with(SCRIPT);
    fs::create_dir_all(folder.path().join("landing")).unwrap();
    (0..FILES / 2).for_each(|file| put(folder.path(), file));
    folder
}

/// A file of rows: every row has an `id`, later files have more columns, and some values are none
/// of their column's type.
fn put(folder: &Path, file: u64) {
    let mut lines = String::new();
    for id in file * ROWS..(file + 1) * ROWS {
        let more = match file / (FILES / 4) {
            0 => String::new(),
            1 => format!(",\"city\":\"c{}\"", id % 7),
            2 => format!(",\"city\":\"c{}\",\"s\":{{\"x\":{id}}}", id % 7),
            _ => format!(",\"s\":{{\"x\":{id},\"y\":\"new\"}}"),
        };
        let n = if id % 50 == 49 { "\"none\"".to_owned() } else { id.to_string() };
        writeln!(lines, "{{\"id\":{id},\"n\":{n}{more}}}").unwrap();
    }
    let landing = folder.join("landing");
    let hidden = landing.join(format!(".part-{file}"));
    fs::write(&hidden, lines).unwrap();
    fs::rename(&hidden, landing.join(format!("part-{file:04}.json"))).unwrap();
}

/// How often each row is in the output.
fn rows(folder: &Path) -> BTreeMap<u64, (u64, String)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder.join("out")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !path.is_file() || name.starts_with(['_', '.']) {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let id = row["id"].as_u64().unwrap();
            let entry: &mut (u64, String) = found.entry(id).or_default();
            entry.0 += 1;
            entry.1 = line.to_owned();
        }
    }
    found
}

fn count(folder: &Path, log: &str) -> usize {
    let log = folder.join(".fluvial/checkpoints/bronze").join(log);
    let entries = fs::read_dir(log).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u64>().is_ok()).count()
}

/// Starts the job and kills it a moment after it has planned some batches; `false` if it came to
/// its end.
fn strike(folder: &Folder, rng: &mut Rng) -> bool {
    let before = count(folder.path(), "offsets");
    let wanted = before + rng.index(4);
    let mut started = folder.start(&["--evolve"]);
    while count(folder.path(), "offsets") <= wanted {
        if started.child.try_wait().unwrap().is_some() {
            let (code, _, errors) = started.end();
            assert_eq!(code, 0, "{errors}");
            return false;
        }
        thread::sleep(Duration::from_micros(300));
    }
    thread::sleep(Duration::from_micros(rng.below(30_000)));
    started.child.kill().unwrap();
    match started.end() {
        (-1, _, _) => true,
        (code, _, errors) => {
            assert_eq!(code, 0, "{errors}");
            false
        }
    }
}

#[test]
fn a_loader_that_is_killed_again_and_again_reads_each_row_once() {
    let kills = std::env::var("FLUVIAL_KILLS").map_or(KILLS, |n| n.parse().unwrap());
    let mut rng = Rng::new(SEED);
    let (mut landed, mut between, mut folders) = (0, 0, 0);
    while landed < kills {
        let folder = folder();
        let mut arrived = FILES / 2;
        for _ in 0..KILLS_PER_FOLDER {
            if landed == kills || !strike(&folder, &mut rng) {
                break;
            }
            landed += 1;
            between +=
                usize::from(count(folder.path(), "offsets") > count(folder.path(), "commits"));
            // More comes while nobody reads.
            for _ in 0..rng.below(8).min(FILES - arrived) {
                put(folder.path(), arrived);
                arrived += 1;
            }
        }
        (arrived..FILES).for_each(|file| put(folder.path(), file));
        printed(&folder.run(&["--evolve"]));
        check(&folder, folders);
        folders += 1;
    }
    println!("auto loader: {folders} folders of {FILES} files, each row once");
    println!("{landed} kills in flight, {between} between plan and commit");
    // Where a few of them land is luck.
    let enough = landed < ENOUGH || between * 100 >= landed * 20;
    assert!(enough, "too few between plan and commit");
}

fn check(folder: &Folder, number: usize) {
    let found = rows(folder.path());
    let ids: Vec<u64> = found.keys().copied().collect();
    assert_eq!(ids, Vec::from_iter(0..FILES * ROWS), "folder {number}: rows are missing");
    for (id, (times, row)) in &found {
        assert_eq!(*times, 1, "folder {number}: row {id} is there {times} times: {row}");
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let file = id / ROWS;
        let quarter = file / (FILES / 4);
        assert_eq!(row.get("city").is_some(), quarter == 1 || quarter == 2, "{row}");
        assert_eq!(row["s"].get("y").is_some(), quarter == 3, "{row}");
        let rescued = row["_rescued_data"].as_str().is_some_and(|text| text.contains("none"));
        assert_eq!(rescued, id % 50 == 49, "{row}");
    }
}
