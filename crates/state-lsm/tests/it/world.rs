//! A query's state in a backend, with a map beside it that says what it must be.

use arrow::array::{Array, BinaryArray};
use fluvial_core::{
    Entries, KeyGroup, KeyGroupRange, KeyRange, OperatorId, Prefetch, Result, Snapshot,
    StateBackend, StateStore, StateVersion, StoreId, StoreName,
};
use fluvial_sim::Rng;
use std::collections::BTreeMap;

pub(crate) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const ALL: KeyGroupRange = KeyGroupRange { start: 0, end: 4 };

pub(crate) fn id() -> StoreId {
    StoreId {
        operator: OperatorId::new("count").unwrap(),
        store: StoreName::new("default").unwrap(),
    }
}

pub(crate) fn column<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> BinaryArray {
    values.into_iter().map(Some).collect()
}

/// A version and what it must show.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    /// Tells versions of one number apart.
    pub(crate) attempt: u64,
    /// The attempt that it was made from.
    pub(crate) parent: u64,
    pub(crate) number: u64,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) contents: Contents,
}

impl Version {
    pub(crate) fn genesis() -> Self {
        Self { attempt: 0, parent: 0, number: 0, snapshots: Vec::new(), contents: Contents::new() }
    }
}

/// A random number below `end`.
pub(crate) fn below(rng: &mut Rng, end: usize) -> usize {
    rng.index(end)
}

/// A key: few, so that they meet; some long, some with a time in front.
pub(crate) fn key(rng: &mut Rng) -> Vec<u8> {
    let mut key = vec![0, below(rng, ALL.end.into()) as u8];
    match below(rng, 4) {
        0 => {}
        1 => key.extend_from_slice(&[b'k', below(rng, 6) as u8]),
        2 => {
            key.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, below(rng, 4) as u8]);
            key.push(below(rng, 3) as u8);
        }
        _ => {
            key.extend_from_slice(&[7; 40]);
            key.push(below(rng, 5) as u8);
        }
    }
    key
}

pub(crate) fn value(rng: &mut Rng) -> Vec<u8> {
    vec![below(rng, 250) as u8; below(rng, 6)]
}

pub(crate) fn range(rng: &mut Rng) -> KeyRange {
    match below(rng, 4) {
        0 => KeyRange::all(),
        1 => KeyRange::prefix(&[0, below(rng, 4) as u8]),
        2 => KeyRange { start: key(rng), end: key(rng) },
        _ => {
            let group = below(rng, 4) as u8;
            let until = below(rng, 5) as u8;
            KeyRange { start: vec![0, group], end: vec![0, group, 1, 0, 0, 0, 0, 0, 0, 0, until] }
        }
    }
}

fn inside<'c>(contents: &'c Contents, range: &KeyRange) -> Vec<(&'c Vec<u8>, &'c Vec<u8>)> {
    contents.iter().filter(|(key, _)| !range.is_empty() && range.contains(key)).collect()
}

/// Checks what a store shows in a range.
pub(crate) fn check_scan(store: &dyn StateStore, model: &Contents, range: &KeyRange, limit: usize) {
    let Entries { keys, values } = store.scan(range, limit).unwrap();
    let found: Vec<_> = keys.iter().flatten().zip(values.iter().flatten()).collect();
    let expected: Vec<_> = inside(model, range).into_iter().take(limit).collect();
    let expected: Vec<_> = expected.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
    assert_eq!(found, expected, "of {range:?}");
    let Entries { keys, values } = store.scan_back(range, limit).unwrap();
    let found: Vec<_> = keys.iter().flatten().zip(values.iter().flatten()).collect();
    let expected = inside(model, range).into_iter().rev().take(limit);
    let expected: Vec<_> = expected.map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
    assert_eq!(found, expected, "of {range:?} from the end");
}

pub(crate) fn check_get(store: &dyn StateStore, model: &Contents, asked: &[Vec<u8>]) {
    let found = store.get_many(&column(asked.iter().map(Vec::as_slice))).unwrap();
    for (key, value) in asked.iter().zip(&found) {
        assert_eq!(value, model.get(key).map(Vec::as_slice), "of {key:?}");
    }
}

/// One random call on a store and on the model.
pub(crate) fn call(rng: &mut Rng, store: &mut dyn StateStore, model: &mut Contents) {
    let groups = store.groups();
    let own = |key: &Vec<u8>| KeyGroup::of(key).is_some_and(|group| groups.contains(group));
    let mut keys: Vec<Vec<u8>> = (0..below(rng, 6)).map(|_| key(rng)).collect();
    keys.retain(own);
    let asked = column(keys.iter().map(Vec::as_slice));
    let values: Vec<Vec<u8>> = keys.iter().map(|_| value(rng)).collect();
    let column = column(values.iter().map(Vec::as_slice));
    match below(rng, 13) {
        0..=3 => {
            store.put_many(&asked, &column).unwrap();
            model.extend(keys.into_iter().zip(values));
        }
        4 => {
            // Read, then written: what is known from reading must not go stale.
            check_get(store, model, &keys);
            store.put_many(&asked, &column).unwrap();
            model.extend(keys.into_iter().zip(values));
        }
        5 => {
            let written = store.put_absent(&asked, &column).unwrap();
            for (at, (key, value)) in keys.into_iter().zip(values).enumerate() {
                assert_eq!(written.value(at), !model.contains_key(&key), "of {key:?}");
                model.entry(key).or_insert(value);
            }
        }
        6..=7 => {
            store.delete_many(&asked).unwrap();
            keys.iter().for_each(|key| drop(model.remove(key)));
        }
        8 => {
            let range = range(rng);
            let doomed: Vec<_> =
                inside(model, &range).into_iter().map(|(k, _)| k.clone()).collect();
            assert_eq!(store.delete_range(&range).unwrap(), doomed.len() as u64, "of {range:?}");
            doomed.iter().for_each(|key| drop(model.remove(key)));
        }
        9 => {
            let ranges: Vec<KeyRange> = match below(rng, 2) {
                0 => (0..below(rng, 4)).map(|_| range(rng)).collect(),
                // A window of every group.
                _ => {
                    let time = below(rng, 4) as u8;
                    let of =
                        |group: u8| KeyRange::prefix(&[0, group, 1, 0, 0, 0, 0, 0, 0, 0, time]);
                    (0..ALL.end as u8).map(of).collect()
                }
            };
            let is_doomed = |key: &[u8]| ranges.iter().any(|r| !r.is_empty() && r.contains(key));
            let before = model.len();
            model.retain(|key, _| !is_doomed(key));
            let removed = (before - model.len()) as u64;
            assert_eq!(store.delete_ranges(&ranges).unwrap(), removed, "of {ranges:?}");
        }
        10..=11 => check_scan(store, model, &range(rng), 1 + below(rng, 5)),
        _ => check_get(store, model, &keys),
    }
    assert_eq!(store.size().rows, model.len() as u64, "the number of keys");
}

pub(crate) async fn open(
    backend: &dyn StateBackend,
    groups: KeyGroupRange,
    base: &Version,
) -> Result<Box<dyn StateStore>> {
    let version = StateVersion(base.number);
    let mut store = backend.open(&id(), groups, version, &base.snapshots).await?;
    store.prefetch(&Prefetch::Ranges(vec![KeyRange::all()])).await?;
    Ok(store)
}

/// One batch of random calls, in partitions between `cuts`.
pub(crate) async fn batch(
    rng: &mut Rng,
    backend: &dyn StateBackend,
    base: &Version,
    calls: usize,
) -> Version {
    let mut bounds = vec![ALL.start, ALL.end];
    if rng.chance(30) {
        bounds.push(below(rng, 5) as u16);
        bounds.sort_unstable();
    }
    let (mut sealed, mut contents) = (Vec::new(), Contents::new());
    for bounds in bounds.windows(2) {
        let groups = KeyGroupRange { start: bounds[0], end: bounds[1] };
        let mut store = open(backend, groups, base).await.unwrap();
        let own = |key: &[u8]| KeyGroup::of(key).is_some_and(|group| groups.contains(group));
        let mut model = base.contents.clone();
        model.retain(|key, _| own(key));
        for _ in 0..below(rng, calls + 1) {
            call(rng, store.as_mut(), &mut model);
        }
        sealed.push(store.seal().unwrap());
        contents.extend(model);
    }
    let snapshots = backend.commit(sealed).await.unwrap();
    let rows: u64 = snapshots.iter().map(|snapshot| snapshot.rows).sum();
    assert_eq!(rows, contents.len() as u64, "rows of the snapshots");
    let (attempt, parent) = (rng.next_u64(), base.attempt);
    Version { attempt, parent, number: base.number + 1, snapshots, contents }
}

/// Everything that a version shows.
pub(crate) async fn show(backend: &dyn StateBackend, version: &Version) -> Contents {
    let store = open(backend, ALL, version).await.unwrap();
    let Entries { keys, values } = store.scan(&KeyRange::all(), 100_000).unwrap();
    assert_eq!(store.size().rows, keys.len() as u64);
    let entries = keys.iter().flatten().zip(values.iter().flatten());
    entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}
