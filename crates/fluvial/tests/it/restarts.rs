//! Event time over restarts: what a checkpoint has to remember of it.

use crate::clock::ManualClock;
use crate::evolution::run;
use fluvial::sql::parse_script;
use fluvial::{Executed, ScriptOptions, Session, StreamingQuery, Trigger};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A file with one event so many seconds after ten o'clock.
fn event(folder: &Path, file: &str, seconds: u32) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (minute, second) = (seconds / 60, seconds % 60);
    let row = format!(r#"{{"page":"/a","at":"2026-06-10T10:{minute:02}:{second:02}Z"}}"#);
    fs::write(path, format!("{row}\n")).unwrap();
}

fn query(select: &str) -> String {
    format!(
        "CREATE STREAMING TABLE t USING noop \
         TBLPROPERTIES ('checkpointLocation' = 'cp', 'outputMode' = 'update') AS {select}"
    )
}

fn stream(folder: &str, delay_s: u32) -> String {
    format!(
        "STREAM read_files('{folder}', format => 'json', maxFilesPerTrigger => 1, \
         schema => 'page string, at timestamp') WATERMARK at DELAY OF INTERVAL {delay_s} SECONDS"
    )
}

fn dropped(query: &StreamingQuery) -> u64 {
    let batches = query.recent_progress();
    batches.iter().flat_map(|b| &b.state_operators).map(|o| o.num_rows_dropped_by_watermark).sum()
}

/// Trap C4. Also over a restart, which is trap A18: the late filter knows the watermark of the
/// batch before.
#[tokio::test]
async fn what_is_selected_does_not_change_what_is_late() {
    for select in ["count(*) AS n", "window(at, '10 seconds') AS w, page, count(*) AS n", "page"] {
        let folder = TempDir::new().unwrap();
        let stream = stream("in", 10);
        let text = query(&format!(
            "SELECT {select} FROM {stream} GROUP BY window(at, '10 seconds'), page"
        ));
        event(folder.path(), "in/0.json", 100);
        let first = run(folder.path(), &text, &[]).await.unwrap();
        assert_eq!(dropped(&first), 0);
        event(folder.path(), "in/1.json", 50);
        event(folder.path(), "in/2.json", 99);
        let second = run(folder.path(), &text, &[]).await.unwrap();
        assert_eq!(dropped(&second), 1, "{select}");
    }
}

/// Traps A4, A5 and A6: each input keeps its own watermark, by name, also when it is silent and
/// when runs are one batch long.
#[tokio::test]
async fn each_input_keeps_its_watermark_over_restarts() {
    let folder = TempDir::new().unwrap();
    let text = query(&format!(
        "SELECT window(at, '10 seconds') AS w, count(*) AS n FROM \
         (SELECT at FROM {} UNION ALL SELECT at FROM {}) GROUP BY 1",
        stream("a", 0),
        stream("b", 0)
    ));
    fs::create_dir_all(folder.path().join("b")).unwrap();
    // Until the second input has an event there is no watermark.
    let events = [
        ("a/0.json", 100, None),
        ("b/0.json", 10, Some("10:00:10")),
        ("a/1.json", 101, Some("10:00:10")),
        ("b/1.json", 30, Some("10:00:30")),
        ("b/2.json", 200, Some("10:01:41")),
    ];
    for (file, seconds, watermark) in events {
        event(folder.path(), file, seconds);
        let ended = run(folder.path(), &text, &[]).await.unwrap();
        assert_eq!(dropped(&ended), 0, "{file}");
        let last = ended.last_progress().unwrap();
        let found = last.event_time.get("watermark").map(String::as_str).unwrap_or_default();
        match watermark {
            Some(time) => assert!(found.contains(time), "{file}: {found}"),
            None => assert!(!found.contains("10:0"), "{file}: {found}"),
        }
    }
}

/// An input that is silent for long enough is not waited for, and what its query says of it.
#[tokio::test]
async fn an_idle_input_does_not_hold_the_watermark() {
    let folder = TempDir::new().unwrap();
    let idle = |name: &str| format!("{} IDLE AFTER INTERVAL 1 MINUTE", stream(name, 0));
    let text = query(&format!(
        "SELECT window(at, '10 seconds') AS w, count(*) AS n FROM \
         (SELECT at FROM {} UNION ALL SELECT at FROM {}) GROUP BY 1",
        idle("a"),
        idle("b")
    ));
    event(folder.path(), "a/0.json", 100);
    event(folder.path(), "b/0.json", 10);
    let steps = [
        (0, None, "10:00:10", Some("watermark-1")),
        (59, Some(("a/1.json", 110)), "10:00:10", Some("watermark-1")),
        (60, Some(("a/2.json", 200)), "10:03:20", None),
        (61, Some(("b/1.json", 300)), "10:03:20", None),
    ];
    for (second, arrives, watermark, held) in steps {
        if let Some((file, seconds)) = arrives {
            event(folder.path(), file, seconds);
        }
        let clock = Arc::new(ManualClock::at(1_800_000_000_000 + second * 1000));
        let session = Session::builder().base_dir(folder.path()).clock(clock).build().unwrap();
        let options = ScriptOptions { trigger: Some(Trigger::AvailableNow), ..Default::default() };
        let statement = parse_script(&text).unwrap().pop().unwrap();
        let Executed::Query(_, query) = session.execute(&statement, &options).await.unwrap() else {
            panic!("not a streaming query");
        };
        query.await_termination().await.unwrap();
        let last = query.last_progress().unwrap();
        let found = &last.event_time["watermark"];
        assert!(found.contains(watermark), "second {second}: {found}");
        assert_eq!(last.event_time.get("heldBy").map(String::as_str), held, "second {second}");
        let explained = query.explain();
        assert_eq!(explained.contains("the watermark is held at"), held.is_some(), "{explained}");
    }
}

/// Trap A17: windows are aligned to the epoch, not to the start of a run.
#[tokio::test]
async fn windows_are_aligned_the_same_in_every_run() {
    let folder = TempDir::new().unwrap();
    let text = query(&format!(
        "SELECT window(at, '1 minute') AS w, count(*) AS n FROM {} GROUP BY 1",
        stream("in", 600)
    ));
    for (file, seconds) in [("in/0.json", 20), ("in/1.json", 50), ("in/2.json", 0)] {
        event(folder.path(), file, seconds);
        let ended = run(folder.path(), &text, &[]).await.unwrap();
        let state = &ended.last_progress().unwrap().state_operators[0];
        assert_eq!(state.num_rows_total, 1, "{file}: one window");
    }
}
