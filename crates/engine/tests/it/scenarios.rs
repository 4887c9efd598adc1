//! Three queries and their oracles, which fold over the whole input and know nothing of batches,
//! state or the engine.

use crate::explore::Scenario;
use crate::parts::query::{Parts, What};
use crate::parts::source::Script;
use object_store::ObjectStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const WINDOW: i64 = 10;

/// Repeating keys and rising time; then a row that closes every window, and one whose own window
/// stays open.
fn input() -> Vec<(i64, i64)> {
    let mut rows: Vec<_> = (0..20).map(|i| (i * 7 % 3, i * 2)).collect();
    rows.push((99, 10_000));
    rows.push((98, 20_000));
    rows
}

/// Row limit, partitions and run differ per incarnation: correctness must come from the plan.
fn parts(store: Arc<dyn ObjectStore>, incarnation: u64, what: What, rows: &[(i64, i64)]) -> Parts {
    let source = Script::new(rows).limited(3 + incarnation % 3);
    let mut parts = Parts::on(store, &format!("run-{incarnation}"), &source);
    parts.what = what;
    parts.settings.partitions = 1 + (incarnation as u32) % 3;
    parts
}

pub(crate) fn build_dedup(store: Arc<dyn ObjectStore>, incarnation: u64) -> Parts {
    parts(store, incarnation, What::Dedup, &input())
}

pub(crate) fn build_windows(store: Arc<dyn ObjectStore>, incarnation: u64) -> Parts {
    parts(store, incarnation, What::Windows(WINDOW), &input())
}

/// Two inputs with watermarks of their own, the second one slower and then silent.
pub(crate) fn build_union(store: Arc<dyn ObjectStore>, incarnation: u64) -> Parts {
    let mut parts = parts(store, incarnation, What::Windows(WINDOW), &input());
    let slow: Vec<_> = (0..8).map(|i| (50 + i % 2, i * 3)).chain([(97, 15_000)]).collect();
    parts.sources.push(("slow", Arc::new(Script::new(&slow).limited(2 + incarnation % 2))));
    parts
}

pub(crate) fn expect_dedup() -> Vec<Vec<i64>> {
    let mut seen = BTreeSet::new();
    let mut rows: Vec<_> = input()
        .into_iter()
        .filter(|row| seen.insert(row.0))
        .map(|(key, time)| vec![key, time])
        .collect();
    rows.sort();
    rows
}

fn windows(rows: impl IntoIterator<Item = (i64, i64)>, watermark: i64) -> Vec<Vec<i64>> {
    let mut counts = BTreeMap::new();
    for (key, time) in rows {
        let end = (time.div_euclid(WINDOW) + 1) * WINDOW;
        *counts.entry((end, key)).or_insert(0) += 1;
    }
    let closed = counts.into_iter().filter(|((end, _), _)| *end <= watermark);
    closed.map(|((end, key), n)| vec![end, key, n]).collect()
}

/// Windows closed by the final watermark, the time of the last row.
pub(crate) fn expect_windows() -> Vec<Vec<i64>> {
    windows(input(), 20_000)
}

/// The final watermark is the slower input's.
pub(crate) fn expect_union() -> Vec<Vec<i64>> {
    let slow = (0..8).map(|i| (50 + i % 2, i * 3)).chain([(97, 15_000)]);
    windows(input().into_iter().chain(slow), 15_000)
}

pub(crate) fn dedup() -> Scenario<'static> {
    Scenario { build: &build_dedup, expected: expect_dedup() }
}

pub(crate) fn windowed() -> Scenario<'static> {
    Scenario { build: &build_windows, expected: expect_windows() }
}

pub(crate) fn union() -> Scenario<'static> {
    Scenario { build: &build_union, expected: expect_union() }
}
