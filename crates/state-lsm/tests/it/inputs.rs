//! Bad input and traps. Of groups E and H of the list of traps, those that a store can fall into:
//!
//! - E5, E18, H7, H10, H11: tests of their names in `promises.rs`.
//! - E9: runs shared by versions live as long as one of them does; no counter is kept, what is needed
//!   is found anew from manifests each time: `retention_keeps`, and the histories.
//! - E14: any number of partitions opens any other: `is_exact_under_rescaling`, and the histories.
//! - E17: a version is what its commit's token names, and nothing that was written later:
//!   `is_replayable`, and the histories, which go back to old versions.
//! - H6, H12: below.
//! - H8: there is no log that could grow; a commit waits for nothing.
//! - H13: merging gets an immutable version and publishes nothing; a commit joins its result.
//! - H14: a scan gives columns, not an iterator over what may change.
//!
//! Not of a store: E1 to E4, E12, E13 are the checkpoint's and the engine's; H2 and H3 the operators';
//! H5 the key codec's.

use crate::world::{ALL, Version, check_scan, column, id, show};
use crate::{backend, tiny};
use fluvial_core::{KeyRange, Prefetch, StateBackend, StateVersion};
use fluvial_sim::{Disk, block_on};
use fluvial_state_lsm::{Compression, Lsm, Settings};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

async fn write(backend: &Lsm, base: &Version, entries: Entries) -> Version {
    let number = StateVersion(base.number);
    let mut store = backend.open(&id(), ALL, number, &base.snapshots).await.unwrap();
    store.prefetch(&Prefetch::Ranges(vec![KeyRange::all()])).await.unwrap();
    let values = column(entries.iter().map(|(_, value)| value.as_slice()));
    store.put_many(&column(entries.iter().map(|(key, _)| key.as_slice())), &values).unwrap();
    let mut contents = base.contents.clone();
    contents.extend(entries);
    assert_eq!(store.size().rows, contents.len() as u64);
    let snapshots = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
    Version { number: base.number + 1, snapshots, contents, ..Version::genesis() }
}

/// Writes batches, and reads all of it in this process and in a later one.
fn check(settings: &Settings, batches: impl IntoIterator<Item = Entries>) {
    let disk = Disk::new();
    let lsm = backend(disk.process().store(), settings.clone());
    block_on(async {
        let mut last = Version::genesis();
        for batch in batches {
            last = write(&lsm, &last, batch).await;
        }
        assert_eq!(show(&lsm, &last).await, last.contents);
        let later = backend(disk.process().store(), settings.clone());
        assert_eq!(show(&later, &last).await, last.contents);
    });
}

#[test]
fn a_group_alone_is_a_key_and_nothing_is_a_value() {
    let entries = |value: &[u8]| (0..4).map(|group| (vec![0, group], value.to_vec())).collect();
    for settings in [Settings::default(), tiny()] {
        check(&settings, [entries(b""), entries(b"x"), entries(b"")]);
    }
}

#[test]
fn a_value_of_64_mebibytes() {
    let mut value = vec![0; 64 << 20];
    value.iter_mut().step_by(997).enumerate().for_each(|(i, byte)| *byte = i as u8);
    let settings = Settings { compression: Compression::None, ..Settings::default() };
    check(&settings, [vec![(vec![0, 1], value), (vec![0, 2], b"small".to_vec())]]);
}

#[test]
fn many_tiny_keys() {
    let keys = (0..60_000u16).map(|i| [&[0, (i % 4) as u8][..], &i.to_be_bytes()].concat());
    check(&Settings::default(), [keys.map(|key| (key, Vec::new())).collect()]);
}

#[test]
fn one_hot_key() {
    let batches = (0..200u8).map(|i| vec![(vec![0, 1, b'k'], vec![i; 50])]);
    check(&Settings { fanout: 4, ..Settings::default() }, batches);
}

#[test]
fn keys_that_share_ten_kilobytes() {
    let key = |i: u8| [&[0, i % 4][..], &[b'p'; 10_000], &[i]].concat();
    let batch = |value: u8| (0..100).map(|i| (key(i), vec![value])).collect::<Entries>();
    let disk = Disk::new();
    let lsm = backend(disk.process().store(), Settings::default());
    block_on(async {
        let one = write(&lsm, &Version::genesis(), batch(1)).await;
        let two = write(&lsm, &one, batch(2)).await;
        assert_eq!(show(&lsm, &two).await, two.contents);
        let bytes: usize = disk.contents().iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < 20_000, "{bytes} bytes for 200 keys of one beginning");
    });
}

/// A filter that answers "maybe" to everything, as one made for it to fail would.
#[test]
fn filters_that_know_nothing_cost_reads_and_no_answers() {
    let key = |i: u16| [&[0, (i % 4) as u8][..], &i.to_be_bytes()].concat();
    for filter_bits in [0, 1] {
        let settings = Settings { filter_bits, ..tiny() };
        let disk = Disk::new();
        let lsm = backend(disk.process().store(), settings);
        block_on(async {
            let entries: Entries = (0..500).map(|i| (key(i * 2), vec![1])).collect();
            let base = write(&lsm, &Version::genesis(), entries).await;
            let number = StateVersion(base.number);
            let mut store = lsm.open(&id(), ALL, number, &base.snapshots).await.unwrap();
            let keys: Vec<_> = (0..500).map(|i| key(i * 2 + 1)).collect();
            let asked = column(keys.iter().map(Vec::as_slice));
            store.prefetch(&Prefetch::Keys(asked.clone())).await.unwrap();
            assert_eq!(arrow::array::Array::null_count(&store.get_many(&asked).unwrap()), 500);
        });
    }
}

/// Trap H6: ends of ranges are not computed from keys, and 0xFF has no successor.
#[test]
fn prefixes_at_the_end_of_everything() {
    let disk = Disk::new();
    let lsm = backend(disk.process().store(), tiny());
    block_on(async {
        let tails = [&b""[..], b"\xFF", b"\xFF\xFF", b"\xFF\xFF\xFF", b"a", b"b\0", b"b\xFF"];
        let keys = (0..4u8).flat_map(|group| tails.map(|tail| [&[0, group][..], tail].concat()));
        let entries: Entries = keys.map(|key| (key, vec![1])).collect();
        let base = write(&lsm, &Version::genesis(), entries).await;
        let number = StateVersion(base.number);
        let mut store = lsm.open(&id(), ALL, number, &base.snapshots).await.unwrap();
        store.prefetch(&Prefetch::Ranges(vec![KeyRange::all()])).await.unwrap();
        let mut model = base.contents.clone();
        for tail in tails {
            let prefix = KeyRange::prefix(&[&[0, 3][..], tail].concat());
            check_scan(store.as_ref(), &model, &prefix, 100);
        }
        let doomed = KeyRange::prefix(b"\0\x02b");
        assert_eq!(store.delete_range(&doomed).unwrap(), 2);
        model.retain(|key, _| !doomed.contains(key));
        check_scan(store.as_ref(), &model, &KeyRange::prefix(b"\0\x02a"), 100);
        check_scan(store.as_ref(), &model, &KeyRange::prefix(b"\0\x02"), 100);
    });
}

/// Trap H12: everything goes, and comes again; each step is read by a later process.
#[test]
fn clearing_leaves_nothing_behind() {
    for settings in [Settings::default(), tiny()] {
        let disk = Disk::new();
        block_on(async {
            let mut last = Version::genesis();
            for round in 0..6u8 {
                let lsm = backend(disk.process().store(), settings.clone());
                let entries = (0..30u8).map(|i| (vec![0, i % 4, i], vec![round; 4096])).collect();
                last = write(&lsm, &last, entries).await;
                assert_eq!(show(&lsm, &last).await, last.contents);
                let lsm = backend(disk.process().store(), settings.clone());
                let number = StateVersion(last.number);
                let mut store = lsm.open(&id(), ALL, number, &last.snapshots).await.unwrap();
                store.prefetch(&Prefetch::Ranges(vec![KeyRange::all()])).await.unwrap();
                assert_eq!(store.delete_range(&KeyRange::all()).unwrap(), 30);
                last.snapshots = lsm.commit(vec![store.seal().unwrap()]).await.unwrap();
                last.number += 1;
                last.contents.clear();
                assert_eq!(show(&lsm, &last).await, last.contents);
            }
        });
    }
}
