//! The examples, as the README has them run.

use crate::program::{Folder, printed, table_rows};
use std::fs;

/// Page, views and duration of each five minutes that were over after the first run.
const FIRST: [[&str; 5]; 8] = [
    ["2026-06-10 10:00:00", "2026-06-10 10:05:00", "/home", "1", "12.5"],
    ["2026-06-10 10:00:00", "2026-06-10 10:05:00", "/pricing", "2", "37.25"],
    ["2026-06-10 10:05:00", "2026-06-10 10:10:00", "/home", "1", "4.0"],
    ["2026-06-10 10:05:00", "2026-06-10 10:10:00", "/pricing", "1", "11.0"],
    ["2026-06-10 10:10:00", "2026-06-10 10:15:00", "/home", "2", "11.5"],
    ["2026-06-10 10:10:00", "2026-06-10 10:15:00", "/pricing", "1", "21.0"],
    ["2026-06-10 10:15:00", "2026-06-10 10:20:00", "/home", "1", "1.5"],
    ["2026-06-10 10:15:00", "2026-06-10 10:20:00", "/pricing", "1", "2.0"],
];

/// What the second file adds.
const SECOND: [[&str; 5]; 4] = [
    ["2026-06-10 10:20:00", "2026-06-10 10:25:00", "/home", "2", "16.0"],
    ["2026-06-10 10:20:00", "2026-06-10 10:25:00", "/pricing", "1", "9.0"],
    ["2026-06-10 10:25:00", "2026-06-10 10:30:00", "/home", "1", "2.5"],
    ["2026-06-10 10:25:00", "2026-06-10 10:30:00", "/pricing", "1", "5.0"],
];

#[test]
fn the_clickstream_job_goes_on_where_it_was() {
    let folder = Folder::with_example("clickstream");
    let first = printed(&folder.run(&[]));
    assert_eq!(table_rows(&first), FIRST);
    let batches =
        |printed: &str| printed.lines().filter(|line| line.starts_with("{\"id\"")).count();
    assert_eq!(batches(&first), 2, "one with data, one that closes windows\n{first}");

    let second = printed(&folder.run(&[]));
    assert!(second.contains("nothing new"), "{second}");
    assert_eq!(table_rows(&second), FIRST);

    let landing = folder.path().join("landing/clicks/part-0002.json");
    fs::copy(folder.path().join("later/part-0002.json"), landing).unwrap();
    let third = printed(&folder.run(&[]));
    assert_eq!(table_rows(&third), [&FIRST[..], &SECOND[..]].concat());
    assert!(third.contains("\"numRowsDroppedByWatermark\":1"), "{third}");

    let mut show = folder.fluvial(&["checkpoint", "show", ".fluvial/checkpoints"]);
    let shown = printed(&show.output().unwrap());
    assert!(shown.contains("checkpoint .fluvial/checkpoints/page_views_5m"), "{shown}");
    assert!(shown.ends_with("everything planned is committed: batch 4 comes next\n"), "{shown}");
    state_can_be_read_and_verified(&folder);
}

fn state_can_be_read_and_verified(folder: &Folder) {
    const CHECKPOINT: &str = ".fluvial/checkpoints/page_views_5m";
    let state = |args: &[&str]| folder.fluvial(&[&["state"], args].concat()).output().unwrap();
    let list = printed(&state(&["list", CHECKPOINT]));
    assert!(list.contains("stateStoreSave") && list.contains("|entries"), "{list}");
    let newest = printed(&state(&["read", CHECKPOINT]));
    assert!(newest.contains("|key.window ") && newest.contains("|key.page"), "{newest}");
    assert_eq!(newest.matches("|/home").count(), 2, "{newest}");
    let older = printed(&state(&["read", CHECKPOINT, "--batch", "0"]));
    assert_eq!(older.matches("|/").count(), 13, "{older}");

    let whole = printed(&state(&["verify", ".fluvial/checkpoints"]));
    assert!(whole.ends_with("everything is whole\n"), "{whole}");
    let operators = folder.path().join(CHECKPOINT).join("state");
    let operator = fs::read_dir(operators).unwrap().next().unwrap().unwrap().path();
    let object = fs::read_dir(operator.join("default")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&object).unwrap();
    bytes[9] ^= 1;
    fs::write(&object, bytes).unwrap();
    let damaged = state(&["verify", CHECKPOINT]);
    assert_eq!(damaged.status.code(), Some(1));
    let said = String::from_utf8(damaged.stdout).unwrap();
    let name = object.file_name().unwrap().to_str().unwrap();
    assert!(said.contains(name) && said.contains(", bytes 0 to "), "{said}");
}

#[test]
fn totals_in_memory_start_anew_each_time() {
    let folder = Folder::with_example("event_totals");
    for _ in 0..2 {
        let text = printed(&folder.run(&[]));
        assert_eq!(table_rows(&text), [["checkout", "7"], ["search", "7"], ["view", "8"]]);
    }
}

#[test]
fn a_checkpoint_that_has_no_use_is_said_to_have_none() {
    let folder = Folder::with_example("event_totals");
    let text = printed(&folder.run(&["--checkpoint", "cp"]));
    assert!(text.contains("--checkpoint is not used"), "{text}");
    assert!(!folder.path().join("cp").exists());
}

/// Trap E12.
#[test]
fn checkpoints_go_where_the_command_line_says() {
    let folder = Folder::with_example("clickstream");
    printed(&folder.run(&["--checkpoint", "cp"]));
    assert!(folder.path().join("cp/page_views_5m/metadata").is_file());
    assert!(!folder.path().join(".fluvial").exists());
    let again = printed(&folder.run(&["--checkpoint", "cp"]));
    assert!(again.contains("nothing new"), "{again}");
}
