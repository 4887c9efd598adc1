//! Laws about bytes that are not what was written.

use super::Make;
use super::world::{Version, Write, put, show, step};
use fluvial_core::{Damage, ErrorKind, Result, Verification};
use fluvial_sim::{Disk, block_on};
use std::sync::{Mutex, PoisonError};

/// The most places of a large object that are tried.
const PLACES: usize = 64;
/// An object up to this size is tried everywhere.
const SMALL: usize = 512;

/// A disk with versions one after the other; the last one.
fn world(make: Make<'_>, batches: &[Vec<Write>]) -> (Disk, Version) {
    let disk = Disk::new();
    let version = block_on(async {
        let backend = make(disk.process().store());
        let mut version = Version::genesis();
        for writes in batches {
            version = step(backend.as_ref(), &version, &[4], writes).await.expect("a version");
        }
        version
    });
    (disk, version)
}

/// One batch with entries in both partitions.
fn one_batch() -> Vec<Vec<Write>> {
    vec![vec![Write::Put((0..8u8).map(|group| (vec![0, group, 1], vec![group, 7])).collect())]]
}

/// A batch large enough to be treated in another way, should a backend do that, and small ones
/// after it.
fn many_batches() -> Vec<Vec<Write>> {
    let many = (0..200u8).map(|i| (vec![0, i % 8, 9, i / 8], vec![7; 40]));
    vec![put(1, 1), vec![Write::Put(many.collect())], put(3, 3), put(1, 4)]
}

/// What a new process finds.
fn found(make: Make<'_>, disk: &Disk, version: &Version) -> Result<super::Contents> {
    block_on(show(make(disk.process().store()).as_ref(), version))
}

/// The objects without which the version cannot be opened.
fn needed(make: Make<'_>, disk: &Disk, version: &Version) -> Vec<String> {
    let gone = |path: &String| {
        let disk = disk.fork();
        disk.remove(path);
        found(make, &disk, version).is_err()
    };
    disk.paths().into_iter().filter(gone).collect()
}

/// Law 6 of the backend: any cut or flipped byte of any object is found by whoever needs that
/// byte, and never gives other contents. After one batch every byte is needed.
///
/// # Panics
///
/// If the law does not hold.
pub fn damage_is_found(make: Make<'_>) {
    let (disk, version) = world(make, &one_batch());
    for path in needed(make, &disk, &version) {
        let places = places(&disk, &path);
        let seen = places.iter().map(|at| damage(make, &disk, &version, &path, *at));
        assert_eq!(seen.sum::<usize>(), 2 * places.len(), "damage to {path} was not seen");
    }
    let (disk, version) = world(make, &many_batches());
    for path in disk.paths() {
        places(&disk, &path).into_iter().for_each(|at| {
            damage(make, &disk, &version, &path, at);
        });
    }
}

/// The places of an object to try: all, if they are few.
fn places(disk: &Disk, path: &str) -> Vec<usize> {
    let length = disk.read(path).map_or(0, |bytes| bytes.len());
    let last = length.checked_sub(1);
    let step = if length <= SMALL { 1 } else { length.div_ceil(PLACES) };
    (0..length).step_by(step).chain(last).collect()
}

/// Flips a bit at a place, and cuts there; how often it was found.
fn damage(make: Make<'_>, disk: &Disk, version: &Version, path: &str, at: usize) -> usize {
    let mut seen = 0;
    for how in ["flipped", "cut"] {
        let disk = disk.fork();
        disk.damage(path, |bytes| match how {
            "cut" => bytes.truncate(at),
            _ => bytes[at] ^= 1 << (at % 8),
        });
        match found(make, &disk, version) {
            Ok(shown) => assert_eq!(shown, version.contents, "{path} {how} at {at}"),
            Err(error) => {
                let kind = error.kind();
                assert_eq!(kind, ErrorKind::Corrupt, "{path} {how} at {at}: {error}");
                seen += 1;
            }
        }
    }
    seen
}

/// Law 7 of the backend: a version whose objects are gone is `NotFound`.
///
/// # Panics
///
/// If the law does not hold.
pub fn gone_is_said(make: Make<'_>) {
    for batches in [one_batch(), many_batches()] {
        let (disk, version) = world(make, &batches);
        let needed = needed(make, &disk, &version);
        assert!(!needed.is_empty(), "the version needs none of {:?}", disk.paths());
        for path in needed {
            let disk = disk.fork();
            disk.remove(&path);
            let error = found(make, &disk, &version).expect_err("its object is gone");
            assert_eq!(error.kind(), ErrorKind::NotFound, "without {path}: {error}");
        }
    }
}

/// Keeps what it is told.
#[derive(Default)]
struct Told(Mutex<Vec<Damage>>);

impl Verification for Told {
    fn checked(&self, _: u64) {}

    fn damaged(&self, damage: Damage) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(damage);
    }
}

/// What a verification of the version by a new process tells.
fn verified(make: Make<'_>, disk: &Disk, version: &Version) -> Vec<Damage> {
    let told = Told::default();
    let backend = make(disk.process().store());
    block_on(backend.verify(&version.snapshots, &told)).expect("damage is no failure");
    told.0.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Law 8 of the backend: verification tells of what opening and reading would find.
///
/// # Panics
///
/// If the law does not hold.
pub fn verified_is_readable(make: Make<'_>) {
    for batches in [one_batch(), many_batches()] {
        let (disk, version) = world(make, &batches);
        let told = verified(make, &disk, &version);
        assert!(told.is_empty(), "nothing is damaged: {told:?}");
        for path in disk.paths() {
            let without = disk.fork();
            without.remove(&path);
            agrees(make, &without, &version, &format!("without {path}"));
            for at in places(&disk, &path).into_iter().step_by(7) {
                let damaged = disk.fork();
                damaged.damage(&path, |bytes| bytes[at] ^= 1 << (at % 8));
                agrees(make, &damaged, &version, &format!("{path} flipped at {at}"));
            }
        }
    }
}

fn agrees(make: Make<'_>, disk: &Disk, version: &Version, how: &str) {
    if found(make, disk, version).is_err() {
        assert!(!verified(make, disk, version).is_empty(), "{how}: damage is not told");
    }
}
