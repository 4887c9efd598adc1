//! What the laws share: keys, writes, versions, and how to look at them.

use super::model::Contents;
use arrow::array::{Array, BinaryArray};
use fluvial_core::{
    KeyGroup, KeyGroupRange, KeyRange, OperatorId, Prefetch, Result, SealedStore, Snapshot,
    StateBackend, StateStore, StateVersion, StoreId, StoreName,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// All key groups of the kit's query.
pub(super) const ALL: KeyGroupRange = KeyGroupRange { start: 0, end: 8 };

/// One of its stores.
pub(super) fn store_id(store: &str) -> StoreId {
    StoreId {
        operator: OperatorId::new("count").expect("a name"),
        store: StoreName::new(store).expect("a name"),
    }
}

/// Checks a law against many inputs; a failure is shrunk. The same inputs in every run.
pub(super) fn for_all<S: Strategy>(cases: u32, inputs: S, law: impl Fn(S::Value))
where
    S::Value: std::fmt::Debug,
{
    let shrinks = 200;
    let config =
        Config { cases, max_shrink_iters: shrinks, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let checked = TestRunner::new_with_rng(config, rng).run(&inputs, |input| {
        law(input);
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
}

/// A change of state.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Put(Vec<(Vec<u8>, Vec<u8>)>),
    Delete(Vec<Vec<u8>>),
    DeleteRange(KeyRange),
    /// These may overlap.
    DeleteRanges(Vec<KeyRange>),
}

/// One value under one key of group 1.
pub(super) fn put(key: u8, value: u8) -> Vec<Write> {
    vec![Write::Put(vec![(vec![0, 1, key], vec![value])])]
}

/// Keys: few, so that they meet; short ones, and long ones that differ at their end.
pub(super) fn keys() -> impl Strategy<Value = Vec<u8>> {
    let tail = prop_oneof![
        vec(0u8..3, 0..3),
        (0u8..2, 0u8..3).prop_map(|(time, key)| vec![1, 0, 0, 0, 0, 0, 0, 0, time, 7, key]),
        Just(vec![0xFF; 3]),
    ];
    (ALL.start..ALL.end, tail).prop_map(|(group, tail)| [&group.to_be_bytes()[..], &tail].concat())
}

/// Ranges: of any two keys, of a group, from a key on, empty ones.
pub(super) fn ranges() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        (keys(), keys()).prop_map(|(start, end)| KeyRange { start, end }),
        (ALL.start..ALL.end).prop_map(|group| KeyRange::prefix(&group.to_be_bytes())),
        keys().prop_map(|start| KeyRange { start, end: Vec::new() }),
        Just(KeyRange::all()),
    ]
}

/// A few writes.
pub(super) fn writes() -> impl Strategy<Value = Vec<Write>> {
    let value = || vec(any::<u8>(), 0..4);
    let write = prop_oneof![
        4 => vec((keys(), value()), 0..6).prop_map(Write::Put),
        2 => vec(keys(), 0..4).prop_map(Write::Delete),
        1 => ranges().prop_map(Write::DeleteRange),
        1 => vec(ranges(), 0..4).prop_map(Write::DeleteRanges),
    ];
    vec(write, 0..4)
}

/// A version and what it must show.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) number: StateVersion,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) contents: Contents,
}

impl Version {
    /// The empty version.
    pub(super) fn genesis() -> Self {
        let (snapshots, contents) = (Vec::new(), Contents::new());
        Self { number: StateVersion(0), snapshots, contents }
    }
}

/// The group of a key of the kit.
fn group_of(key: &[u8]) -> KeyGroup {
    KeyGroup(u16::from_be_bytes(*key.first_chunk().expect("keys of the kit have a group")))
}

/// The ranges between cuts.
pub(super) fn partitions(cuts: &[u16]) -> Vec<KeyGroupRange> {
    let mut bounds = [&[ALL.start, ALL.end], cuts].concat();
    bounds.sort_unstable();
    bounds.windows(2).map(|w| KeyGroupRange { start: w[0], end: w[1] }).collect()
}

pub(super) fn column<'a>(values: impl IntoIterator<Item = &'a Vec<u8>>) -> BinaryArray {
    values.into_iter().map(|value| Some(value.as_slice())).collect()
}

/// Opens a part of a version and brings all of it close.
pub(super) async fn open(
    backend: &dyn StateBackend,
    groups: KeyGroupRange,
    version: &Version,
) -> Result<Box<dyn StateStore>> {
    let (id, number) = (store_id("default"), version.number);
    let mut store = backend.open(&id, groups, number, &version.snapshots).await?;
    assert_eq!((store.base(), store.groups()), (number, groups), "another store was opened");
    store.prefetch(&Prefetch::Ranges(vec![KeyRange::all()])).await?;
    Ok(store)
}

/// Reads a range in pages. Checks order and limits on the way.
pub(super) fn pages(
    store: &dyn StateStore,
    range: &KeyRange,
    page: usize,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut rest = range.clone();
    loop {
        let entries = store.scan(&rest, page)?;
        assert_eq!(entries.keys.len(), entries.values.len(), "each key has its value");
        assert!(entries.keys.len() <= page, "a scan gave more than its limit");
        for (key, value) in entries.keys.iter().zip(&entries.values) {
            let (key, value) = (key.expect("a key"), value.expect("a value"));
            let last = found.last().map(|(last, _)| last.as_slice());
            assert!(last.is_none_or(|last| last < key), "a scan is out of order");
            found.push((key.to_vec(), value.to_vec()));
        }
        match found.last() {
            Some((last, _)) if entries.keys.len() == page => rest = range.after(last),
            _ => return Ok(found),
        }
    }
}

/// Everything that a store shows.
pub(super) fn contents(store: &dyn StateStore) -> Result<Contents> {
    Ok(pages(store, &KeyRange::all(), 16)?.into_iter().collect())
}

/// Everything that a version shows, opened at once.
pub(super) async fn show(backend: &dyn StateBackend, version: &Version) -> Result<Contents> {
    contents(open(backend, ALL, version).await?.as_ref())
}

/// Writes to a store what belongs to it, and the same to a map.
pub(super) fn play(
    store: &mut dyn StateStore,
    model: &mut Contents,
    writes: &[Write],
) -> Result<()> {
    let groups = store.groups();
    let own = |key: &Vec<u8>| groups.contains(group_of(key));
    for write in writes {
        match write {
            Write::Put(entries) => {
                let own: Vec<_> = entries.iter().filter(|(key, _)| own(key)).collect();
                let values = column(own.iter().map(|(_, value)| value));
                store.put_many(&column(own.iter().map(|(key, _)| key)), &values)?;
                model.extend(own.into_iter().cloned());
            }
            Write::Delete(keys) => {
                store.delete_many(&column(keys.iter().filter(|key| own(key))))?;
                model.retain(|key, _| !own(key) || !keys.contains(key));
            }
            Write::DeleteRange(range) => {
                let before = model.len();
                model.retain(|key, _| !own(key) || range.is_empty() || !range.contains(key));
                let removed = store.delete_range(range)?;
                assert_eq!(removed, (before - model.len()) as u64, "the number of removed keys");
            }
            Write::DeleteRanges(ranges) => {
                let before = model.len();
                let is_doomed =
                    |key: &[u8]| ranges.iter().any(|r| !r.is_empty() && r.contains(key));
                model.retain(|key, _| !own(key) || !is_doomed(key));
                let removed = store.delete_ranges(ranges)?;
                assert_eq!(removed, (before - model.len()) as u64, "the number of removed keys");
            }
        }
    }
    Ok(())
}

/// Runs one batch over a version, in partitions between `cuts`, up to its commit.
pub(super) async fn seal(
    backend: &dyn StateBackend,
    base: &Version,
    cuts: &[u16],
    writes: &[Write],
) -> Result<(Vec<SealedStore>, Contents)> {
    let (mut sealed, mut after) = (Vec::new(), base.contents.clone());
    for groups in partitions(cuts) {
        let mut store = open(backend, groups, base).await?;
        play(store.as_mut(), &mut after, writes)?;
        let own = |(key, _): &(&Vec<u8>, _)| groups.contains(group_of(key));
        let own: Contents =
            after.iter().filter(own).map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(contents(store.as_ref())?, own, "groups {groups} with their own writes");
        assert_eq!(store.size().rows, own.len() as u64, "the number of keys");
        let store = store.seal()?;
        assert_eq!((store.groups, store.base, store.rows), (groups, base.number, own.len() as u64));
        sealed.push(store);
    }
    Ok((sealed, after))
}

/// Runs one batch over a version and commits it.
pub(super) async fn step(
    backend: &dyn StateBackend,
    base: &Version,
    cuts: &[u16],
    writes: &[Write],
) -> Result<Version> {
    let (sealed, contents) = seal(backend, base, cuts, writes).await?;
    let snapshots = backend.commit(sealed).await?;
    let number = StateVersion(base.number.0 + 1);
    let expected = partitions(cuts).into_iter().map(|groups| (store_id("default"), groups, number));
    let found = snapshots.iter().map(|s| (s.id.clone(), s.groups, s.version));
    assert!(found.eq(expected), "a commit names every store it was given, one version on");
    Ok(Version { number, snapshots, contents })
}
