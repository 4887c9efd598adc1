//! What Spark refuses and accepts (`errors.json`, recorded from real runs), and what we do.
//!
//! Every entry of the recorded file is either tried here, by topic, or set aside by name with the
//! reason. One that is in neither list fails the test.

mod actions;
mod aggregates;
mod aside;
mod entry;
mod files;
mod functions;
mod joins;
mod judge;
mod keyed;
mod modes;
mod restarts;
mod restarts_damage;
mod shapes;
mod watermarks;
mod world;

use entry::Entry;
use futures::StreamExt;
use judge::{Record, judge};
use std::collections::{BTreeMap, BTreeSet};
use world::World;

/// Entries that are tried side by side.
const TOGETHER: usize = 4;

fn records() -> BTreeMap<String, Record> {
    let all: Vec<Record> = serde_json::from_str(include_str!("errors.json")).unwrap();
    all.into_iter().map(|record| (record.name.clone(), record)).collect()
}

fn entries() -> Vec<Entry> {
    [
        actions::entries(),
        aggregates::entries(),
        files::entries(),
        joins::entries(),
        keyed::entries(),
        functions::entries(),
        modes::entries(),
        restarts::entries(),
        restarts_damage::entries(),
        shapes::entries(),
        watermarks::entries(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn every_recorded_entry_is_tried_or_set_aside() {
    let recorded: BTreeSet<String> = records().into_keys().collect();
    let mut seen = BTreeSet::new();
    let tried = entries().into_iter().map(|entry| entry.name);
    for name in tried.chain(aside::ASIDE.iter().flat_map(|(_, names)| *names).copied()) {
        assert!(seen.insert(name.to_owned()), "{name} comes twice");
    }
    let missing: Vec<_> = recorded.difference(&seen).collect();
    assert!(missing.is_empty(), "neither tried nor set aside: {missing:#?}");
    let invented: Vec<_> = seen.difference(&recorded).collect();
    assert!(invented.is_empty(), "not recorded: {invented:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_agree() {
    let records = records();
    let wanted = std::env::var("REFUSAL").ok();
    let chosen = entries().into_iter().filter(|e| wanted.as_deref().is_none_or(|w| e.name == w));
    let found: Vec<String> = futures::stream::iter(chosen)
        .map(|entry| {
            let record = &records[entry.name];
            async move {
                let Entry { name, expected, names, act } = entry;
                let result = act(World::new().await.unwrap()).await;
                judge(record, &expected, names, &result).map(|what| format!("{name}: {what}"))
            }
        })
        .buffer_unordered(TOGETHER)
        .filter_map(|found| async { found })
        .collect()
        .await;
    assert!(found.is_empty(), "{} differ:\n{}", found.len(), found.join("\n"));
}
