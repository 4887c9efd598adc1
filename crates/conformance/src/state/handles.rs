//! Laws of one open store.

use super::Make;
use super::world::{
    ALL, Version, Write, column, contents, for_all, keys, open, pages, play, put, ranges, show,
    step, writes,
};
use arrow::array::Array;
use fluvial_core::{KeyGroupRange, KeyRange, Prefetch};
use fluvial_sim::{Disk, block_on};
use proptest::collection::vec;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Law 1 of the store: reads see every write, the last one wins, also within one call; values
/// come in the order of the keys asked for.
///
/// # Panics
///
/// If the law does not hold.
pub fn reads_its_writes(make: Make<'_>) {
    for_all(48, (writes(), vec(writes(), 1..4), vec(keys(), 0..8)), |(before, rounds, asked)| {
        block_on(async {
            let backend = make(Disk::new().process().store());
            let base = step(backend.as_ref(), &Version::genesis(), &[], &before).await;
            let base = base.expect("a first version");
            let mut store = open(backend.as_ref(), ALL, &base).await.expect("a store");
            let mut model = base.contents.clone();
            for writes in &rounds {
                play(store.as_mut(), &mut model, writes).expect("writing");
                let wanted = column(asked.iter().chain(model.keys()));
                store.prefetch(&Prefetch::Keys(wanted.clone())).await.expect("keys");
                let found = store.get_many(&wanted).expect("reading");
                assert_eq!(found.len(), wanted.len(), "one value for each key");
                for (key, value) in wanted.iter().flatten().zip(&found) {
                    assert_eq!(value, model.get(key).map(Vec::as_slice), "of {key:?}");
                }
            }
        });
    });
    let twice = Write::Put(vec![(vec![0, 1], vec![1]), (vec![0, 1], vec![2])]);
    let backend = make(Disk::new().process().store());
    let version = block_on(step(backend.as_ref(), &Version::genesis(), &[], &[twice]));
    let version = version.expect("a version");
    assert_eq!(version.contents[&vec![0, 1]], [2], "the last write of a call wins");
}

/// Law 2 of the store: a scan yields the keys of its range in order, each once, never more than
/// its limit, and less only at the end, also over several ranges; a scan from the end yields the
/// last ones.
///
/// # Panics
///
/// If the law does not hold.
pub fn scans_in_order(make: Make<'_>) {
    for_all(
        48,
        (writes(), writes(), vec((ranges(), 1usize..5), 1..5)),
        |(first, second, asked)| {
            block_on(async {
                let backend = make(Disk::new().process().store());
                let base = step(backend.as_ref(), &Version::genesis(), &[], &first).await;
                let base = base.expect("a first version");
                let mut store = open(backend.as_ref(), ALL, &base).await.expect("a store");
                let mut model = base.contents.clone();
                play(store.as_mut(), &mut model, &second).expect("writing");
                for (range, page) in &asked {
                    let found = pages(store.as_ref(), range, *page).expect("scanning");
                    let inside =
                        model.iter().filter(|(k, _)| !range.is_empty() && range.contains(k));
                    let expected: Vec<_> = inside.map(|(k, v)| (k.clone(), v.clone())).collect();
                    assert_eq!(found, expected, "of {range:?} in pages of {page}");
                    let cut = cut(range, expected.get(expected.len() / 2).map(|(key, _)| key));
                    let found = store.scan_ranges(&cut, *page).expect("scanning ranges");
                    let found = found.keys.iter().flatten().zip(found.values.iter().flatten());
                    let found: Vec<_> = found.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
                    let first: Vec<_> = expected.iter().take(*page).cloned().collect();
                    assert_eq!(found, first, "the first {page} of {cut:?}");
                    let back = store.scan_back(range, *page).expect("scanning from the end");
                    let back = back.keys.iter().flatten().zip(back.values.iter().flatten());
                    let back: Vec<_> = back.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
                    let last: Vec<_> = expected.iter().rev().take(*page).cloned().collect();
                    assert_eq!(back, last, "the last {page} of {range:?}");
                    assert_eq!(
                        store.scan(range, 0).expect("scanning").keys.len(),
                        0,
                        "a limit of 0"
                    );
                }
            });
        },
    );
}

/// A range in two parts.
fn cut(range: &KeyRange, at: Option<&Vec<u8>>) -> Vec<KeyRange> {
    let Some(at) = at else { return vec![range.clone()] };
    let first = KeyRange { start: range.start.clone(), end: at.clone() };
    vec![first, KeyRange { start: at.clone(), end: range.end.clone() }]
}

/// Law 3 of the store: dropping it has no effect that anyone can see.
///
/// # Panics
///
/// If the law does not hold.
pub fn drop_aborts(make: Make<'_>) {
    let disk = Disk::new();
    block_on(async {
        let backend = make(disk.process().store());
        let one = step(backend.as_ref(), &Version::genesis(), &[4], &put(1, 1)).await;
        let one = one.expect("a first version");
        let before = disk.contents();
        let mut doomed = open(backend.as_ref(), ALL, &one).await.expect("a store");
        let mut lost = one.contents.clone();
        play(doomed.as_mut(), &mut lost, &put(1, 2)).expect("writing");
        play(doomed.as_mut(), &mut lost, &put(2, 2)).expect("writing");
        drop(doomed);
        assert_eq!(disk.contents(), before, "a dropped store left something behind");
        for backend in [backend, make(disk.process().store())] {
            let shown = show(backend.as_ref(), &one).await.expect("the version");
            assert_eq!(shown, one.contents, "a dropped store left its writes");
            let two = step(backend.as_ref(), &one, &[4], &put(3, 3)).await.expect("a version");
            let shown = show(backend.as_ref(), &two).await.expect("the next version");
            assert_eq!(shown, two.contents, "a dropped store left its writes to the next");
        }
    });
}

/// Law 4 of the store: a store never sees another's writes, before or after their commit.
///
/// # Panics
///
/// If the law does not hold.
pub fn handles_are_isolated(make: Make<'_>) {
    block_on(async {
        let backend = make(Disk::new().process().store());
        let one = step(backend.as_ref(), &Version::genesis(), &[], &put(1, 1)).await;
        let one = one.expect("a first version");
        let reader = open(backend.as_ref(), ALL, &one).await.expect("a reader");
        let mut writer = open(backend.as_ref(), ALL, &one).await.expect("a writer");
        let mut other = one.contents.clone();
        play(writer.as_mut(), &mut other, &put(1, 9)).expect("writing");
        play(writer.as_mut(), &mut other, &put(7, 9)).expect("writing");
        let seen =
            |why| assert_eq!(contents(reader.as_ref()).expect("reading"), one.contents, "{why}");
        seen("another store's writes were seen");
        let two = step(backend.as_ref(), &one, &[], &put(1, 2)).await.expect("a second version");
        seen("another store's commit was seen");
        let shown = show(backend.as_ref(), &two).await.expect("the second version");
        assert_eq!(shown, two.contents, "an uncommitted write was seen by the next version");
        let three = step(backend.as_ref(), &two, &[], &put(2, 2)).await.expect("a third version");
        seen("a later version was seen");
        assert_eq!(contents(writer.as_ref()).expect("reading"), other, "the writer lost its view");
        let shown = show(backend.as_ref(), &three).await.expect("the third version");
        assert_eq!(shown, three.contents);
    });
}

/// Law 5 of the store: no key outside its groups is returned; writing one panics.
///
/// # Panics
///
/// If the law does not hold.
pub fn has_its_groups_only(make: Make<'_>) {
    block_on(async {
        let backend = make(Disk::new().process().store());
        let key = |group: u8| vec![0, group, 5];
        let all: Vec<_> = (0..8).map(|group| (key(group), vec![group])).collect();
        let one = step(backend.as_ref(), &Version::genesis(), &[], &[Write::Put(all)]).await;
        let one = one.expect("a first version");
        let groups = KeyGroupRange { start: 2, end: 5 };
        let asked: Vec<_> = (0..8).map(key).collect();
        let mut store = open(backend.as_ref(), groups, &one).await.expect("a part of it");
        store.prefetch(&Prefetch::Keys(column(&asked))).await.expect("keys");
        let found = store.get_many(&column(&asked)).expect("reading");
        let given: Vec<_> = (0..8).filter(|i| found.is_valid(*i)).collect();
        assert_eq!(given, [2, 3, 4], "keys of other groups were returned");
        let shown = contents(store.as_ref()).expect("scanning");
        assert!(shown.into_keys().eq([2, 3, 4].map(key)), "a scan went outside of its groups");
        assert_eq!(store.delete_range(&KeyRange::all()).expect("deleting"), 3);
        for outside in [1, 5] {
            let mut store = open(backend.as_ref(), groups, &one).await.expect("a part of it");
            let (keys, values) = (column([&key(outside)]), column([&vec![1]]));
            let written = catch_unwind(AssertUnwindSafe(|| store.put_many(&keys, &values)));
            assert!(written.is_err(), "a key of group {outside} was written to groups {groups}");
        }
    });
}

/// Law 6 of the store: what was not written costs nothing, however often.
///
/// # Panics
///
/// If the law does not hold.
pub fn unchanged_is_free(make: Make<'_>) {
    let disk = Disk::new();
    block_on(async {
        let backend = make(disk.process().store());
        let (cuts, genesis) = ([4], Version::genesis());
        let one = step(backend.as_ref(), &genesis, &cuts, &put(1, 1)).await.expect("a version");
        let before = disk.contents();
        let mut last = one;
        for _ in 0..30 {
            last = step(backend.as_ref(), &last, &cuts, &[]).await.expect("an unchanged version");
        }
        assert_eq!(disk.contents(), before, "new bytes for nothing new");
        for backend in [backend, make(disk.process().store())] {
            let shown = show(backend.as_ref(), &last).await.expect("the unchanged version");
            assert_eq!(shown, last.contents);
            let next = step(backend.as_ref(), &last, &cuts, &put(2, 2)).await.expect("a change");
            let shown = show(backend.as_ref(), &next).await.expect("the change");
            assert_eq!(shown, next.contents);
        }
    });
}

/// Law 7 of the store: `put_absent` writes the first value of each key that has none, and says so.
///
/// # Panics
///
/// If the law does not hold.
pub fn the_first_stays(make: Make<'_>) {
    let offered = vec((keys(), vec(0u8..3, 0..2)), 0..12);
    for_all(48, (writes(), writes(), offered), |(first, second, offered)| {
        block_on(async {
            let backend = make(Disk::new().process().store());
            let base = step(backend.as_ref(), &Version::genesis(), &[], &first).await;
            let base = base.expect("a first version");
            let mut store = open(backend.as_ref(), ALL, &base).await.expect("a store");
            let mut model = base.contents.clone();
            play(store.as_mut(), &mut model, &second).expect("writing");
            let keys = column(offered.iter().map(|(key, _)| key));
            let values = column(offered.iter().map(|(_, value)| value));
            store.prefetch(&Prefetch::Keys(keys.clone())).await.expect("keys");
            let written = store.put_absent(&keys, &values).expect("writing");
            for (i, (key, value)) in offered.iter().enumerate() {
                assert_eq!(written.value(i), !model.contains_key(key), "of {key:?}");
                model.entry(key.clone()).or_insert_with(|| value.clone());
            }
            assert_eq!(contents(store.as_ref()).expect("reading"), model);
            assert_eq!(store.size().rows, model.len() as u64, "rows after writing");
        });
    });
}

/// Law 9 of the store: `get_new_many` returns the values of keys that the opened version has not.
///
/// # Panics
///
/// If the law does not hold.
pub fn new_is_new(make: Make<'_>) {
    for_all(48, (writes(), writes(), vec(keys(), 0..8)), |(first, second, asked)| {
        block_on(async {
            let backend = make(Disk::new().process().store());
            let base = step(backend.as_ref(), &Version::genesis(), &[], &first).await;
            let base = base.expect("a first version");
            let mut store = open(backend.as_ref(), ALL, &base).await.expect("a store");
            let mut model = base.contents.clone();
            play(store.as_mut(), &mut model, &second).expect("writing");
            let asked = column(asked.iter().chain(base.contents.keys()).chain(model.keys()));
            store.prefetch(&Prefetch::Keys(asked.clone())).await.expect("keys");
            let Some(found) = store.get_new_many(&asked).expect("looking") else { return };
            for (key, value) in asked.iter().flatten().zip(&found) {
                let is_new = !base.contents.contains_key(key);
                let expected = model.get(key).filter(|_| is_new);
                assert_eq!(value, expected.map(Vec::as_slice), "of {key:?}");
            }
        });
    });
}

/// Law 8 of the store: `take_many` returns what was there, and removes it.
///
/// # Panics
///
/// If the law does not hold.
pub fn what_is_taken_is_gone(make: Make<'_>) {
    let asked = proptest::collection::btree_set(keys(), 0..12);
    for_all(48, (writes(), writes(), asked), |(first, second, asked)| {
        block_on(async {
            let backend = make(Disk::new().process().store());
            let base = step(backend.as_ref(), &Version::genesis(), &[], &first).await;
            let base = base.expect("a first version");
            let mut store = open(backend.as_ref(), ALL, &base).await.expect("a store");
            let mut model = base.contents.clone();
            play(store.as_mut(), &mut model, &second).expect("writing");
            let keys = column(asked.iter());
            store.prefetch(&Prefetch::Keys(keys.clone())).await.expect("keys");
            let taken = store.take_many(&keys).expect("taking");
            for (found, key) in taken.iter().zip(&asked) {
                assert_eq!(found, model.remove(key).as_deref(), "of {key:?}");
            }
            assert_eq!(contents(store.as_ref()).expect("reading"), model);
            assert_eq!(store.size().rows, model.len() as u64, "rows after taking");
        });
    });
}
