//! The log on a real disk.

use crate::world::{assert_whole, plan, run_batches};
use fluvial_checkpoint::{ObjectLog, probe};
use fluvial_core::{BatchLog, QueryId, RunId};
use fluvial_local_store::{Durability, DurableLocal};
use fluvial_sim::block_on;
use object_store::path::Path;
use std::sync::Arc;

fn on(store: &DurableLocal) -> ObjectLog {
    ObjectLog::new(Arc::new(store.clone()), Path::from("q"))
}

#[test]
fn a_query_goes_on_after_each_restart() {
    for durability in [Durability::Synced, Durability::Relaxed] {
        let folder = tempfile::tempdir().unwrap();
        let store = DurableLocal::open(folder.path(), durability).unwrap();
        block_on(async {
            probe(&store, &Path::from("q"), &RunId::new("r").unwrap()).await.unwrap();
            for until in 1..=10 {
                run_batches(&on(&store), "r", until).await.unwrap();
            }
            assert_whole(&on(&store), 10, "local").await;
            let id = on(&store).query_id(&QueryId::new("x").unwrap()).await.unwrap();
            assert_eq!(id.as_str(), "r");
        });
        let names = |kind: &str| {
            let mut names: Vec<_> = std::fs::read_dir(folder.path().join("q").join(kind))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("commits"), ["6", "7", "8", "9"]);
        assert_eq!(names("offsets"), ["6", "7", "8", "9"]);
    }
}

#[test]
fn a_torn_plan_is_elected_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = DurableLocal::open(folder.path(), Durability::Relaxed).unwrap();
    block_on(run_batches(&on(&store), "r", 3)).unwrap();
    block_on(on(&store).put_plan(&plan(3, "r"))).unwrap();
    let file = folder.path().join("q/offsets/3");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    block_on(run_batches(&on(&store), "again", 5)).unwrap();
    block_on(assert_whole(&on(&store), 5, "torn"));
}

#[test]
fn the_first_line_of_an_entry_tells_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = DurableLocal::open(folder.path(), Durability::Synced).unwrap();
    block_on(run_batches(&on(&store), "r", 1)).unwrap();
    let text = std::fs::read_to_string(folder.path().join("q/offsets/0")).unwrap();
    assert!(text.starts_with("fluvial plan v1 "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}
