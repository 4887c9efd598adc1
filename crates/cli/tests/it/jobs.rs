//! The three golden jobs through the program: its lines of JSON against Spark's reports, and what
//! it wrote against Spark's rows, batch by batch.

use crate::golden::{self, CLICKSTREAM, CLICKSTREAM_ROWS};
use crate::program::{Folder, printed, table_rows};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// The lines of JSON that are reports of batches.
fn reports(printed: &str) -> Vec<Value> {
    let lines = printed.lines().filter(|line| line.starts_with("{\"id\""));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn clickstream_batch_by_batch_as_spark() {
    let folder = Folder::with_example("clickstream");
    let rows = golden::recorded("clickstream_5m", "expected.json");
    let progress = golden::recorded("clickstream_5m", "progress.json");
    let expected = |run: &str| golden::batches(progress[run].as_array().unwrap());

    let first = reports(&printed(&folder.run(&[])));
    assert_eq!(golden::batches(&first), expected("run1"));
    let landing = folder.path().join("landing/clicks/part-0002.json");
    fs::copy(folder.path().join("later/part-0002.json"), landing).unwrap();
    let second = reports(&printed(&folder.run(&[])));
    assert_eq!(golden::batches(&second), expected("run2"));
    let id = |reports: &[Value]| reports[0]["id"].clone();
    assert_eq!(id(&first), id(&second), "the query is the same one");
    assert_ne!(first[0]["runId"], second[0]["runId"]);

    let published =
        golden::delta_batches(&folder.path().join("out/page_views_5m"), CLICKSTREAM_ROWS).await;
    let batches: Vec<_> = published.into_values().collect();
    let expected = |rows| golden::rows(rows, &CLICKSTREAM);
    let closed = [expected(&rows["run1_rows"]), expected(&rows["run2_new_rows"])];
    assert_eq!(batches, [vec![], closed[0].clone(), vec![], closed[1].clone()]);
}

#[test]
fn event_totals_batch_by_batch_as_spark() {
    let folder = Folder::with_example("event_totals");
    let progress = golden::recorded("event_totals", "progress.json");
    let text = printed(&folder.run(&[]));
    assert_eq!(golden::batches(&reports(&text)), golden::batches(progress.as_array().unwrap()));
    let after = &golden::recorded("event_totals", "expected.json")["after_batch_2"];
    let expected = after.as_object().unwrap().iter();
    let expected: Vec<_> =
        expected.map(|(event, total)| [event.clone(), total.to_string()]).collect();
    assert_eq!(table_rows(&text), expected);
}

/// Real time would take minutes: what the windows hold is tested in the library, under a clock
/// that the test moves. Here the program runs the file, stops on Ctrl-C, and goes on.
#[test]
fn rate_approx_runs_until_it_is_stopped_and_goes_on() {
    let folder = Folder::with_example("rate_approx");
    let mut created = Vec::new();
    for _ in 0..2 {
        let program = folder.start(&["--trigger", "500ms"]).with_a_batch();
        let kill = Command::new("kill").args(["-INT", &program.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let (code, _, errors) = program.end();
        assert_eq!(code, 0, "{errors}");
        let checkpoint = folder.path().join(".fluvial/checkpoints/viewers_per_minute");
        let plan = fs::read_to_string(checkpoint.join("offsets/0")).unwrap();
        let at = plan.find("created_ms").unwrap();
        created.push(plan[at..].chars().take(40).collect::<String>());
    }
    assert_eq!(created[0], created[1], "the second run goes on with the clock of the first");
    assert!(folder.path().join("out/viewers_per_minute/_delta_log").is_dir());
}
