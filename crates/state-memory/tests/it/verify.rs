//! Verification of what lies on the object store.

use crate::{backend, id};
use arrow::array::BinaryArray;
use fluvial_core::{Damage, KeyGroupRange, StateBackend, StateVersion, Verification};
use fluvial_sim::{Disk, block_on};
use fluvial_state_memory::Settings;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is damaged is named with its object and its place; the rest is checked all the same.
#[test]
fn verification_names_the_bytes() {
    let disk = Disk::new();
    let backend = backend(disk.process().store(), Settings::default());
    let id = id("default");
    let halves = [KeyGroupRange { start: 0, end: 1 }, KeyGroupRange { start: 1, end: 2 }];
    let snapshots = block_on(async {
        let mut sealed = Vec::new();
        for range in halves {
            let mut store = backend.open(&id, range, StateVersion(0), &[]).await.unwrap();
            let key = BinaryArray::from_iter_values([[0, range.start as u8, 7]]);
            store.put_many(&key, &BinaryArray::from_iter_values([b"value"])).unwrap();
            sealed.push(store.seal().unwrap());
        }
        backend.commit(sealed).await.unwrap()
    });
    let paths = disk.paths();
    let [path] = paths.as_slice() else { panic!("{paths:?}") };
    let length = disk.read(path).unwrap().len() as u64;
    disk.damage(path, |bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    });
    let told = Told::default();
    block_on(backend.verify(&snapshots, &told)).unwrap();
    let damage = told.damage.lock().unwrap();
    let [only] = damage.as_slice() else { panic!("{damage:?}") };
    assert_eq!(&only.object, path);
    let bytes = only.bytes.clone().unwrap();
    assert!(bytes.start > 0 && bytes.end == length, "{bytes:?} of {length}");
    assert_eq!(told.bytes.load(Ordering::Relaxed), bytes.start);
}

#[derive(Default)]
struct Told {
    bytes: AtomicU64,
    damage: Mutex<Vec<Damage>>,
}

impl Verification for Told {
    fn checked(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn damaged(&self, damage: Damage) {
        self.damage.lock().unwrap().push(damage);
    }
}
