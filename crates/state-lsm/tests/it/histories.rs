//! Random histories: batches, restarts, other numbers of partitions, old versions, retention.

use crate::world::{Version, batch, below, show};
use crate::{backend, tiny};
use fluvial_core::{RunId, StateBackend};
use fluvial_sim::{Disk, Rng, block_on};
use fluvial_state_lsm::Settings;
use fluvial_state_memory::MemoryBackend;
use object_store::path::Path;

/// `FLUVIAL_HISTORIES` plays more of them.
fn histories() -> u64 {
    std::env::var("FLUVIAL_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

/// Settings as different as can be, so that each history takes another way.
fn settings(rng: &mut Rng) -> Settings {
    match below(rng, 3) {
        0 => tiny(),
        1 => Settings { fanout: 3, block_bytes: 64, ..tiny() },
        _ => Settings { fanout: 2, ..Settings::default() },
    }
}

#[test]
fn ten_thousand_histories_are_as_a_map_says() {
    for seed in 0..histories() {
        let mut rng = Rng::new(seed);
        let settings = settings(&mut rng);
        let disk = Disk::new();
        let mut lsm = backend(disk.process().store(), settings.clone());
        let mut versions = vec![Version::genesis()];
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            block_on(async {
                for _ in 0..1 + below(&mut rng, 4) {
                    if rng.chance(20) {
                        lsm = backend(disk.process().store(), settings.clone());
                    }
                    // Mostly the newest; at times the same batch again, or an old version.
                    let back = if rng.chance(15) { below(&mut rng, versions.len()) } else { 0 };
                    let base = versions[versions.len() - 1 - back].clone();
                    versions.push(batch(&mut rng, &lsm, &base, 3).await);
                    if rng.chance(10) {
                        retain(&mut rng, &lsm, &mut versions).await;
                    }
                }
                let at = below(&mut rng, versions.len());
                assert_eq!(show(&lsm, &versions[at]).await, versions[at].contents);
                let later = backend(disk.process().store(), settings);
                let at = below(&mut rng, versions.len());
                for version in [&versions[at], &versions[versions.len() - 1]] {
                    assert_eq!(show(&later, version).await, version.contents);
                }
            });
        }));
        assert!(played.is_ok(), "seed {seed}");
    }
}

/// The newest version and another one stay.
async fn retain(rng: &mut Rng, backend: &dyn StateBackend, versions: &mut Vec<Version>) {
    let kept = [versions.len() - 1, below(rng, versions.len())];
    let live: Vec<_> = kept.iter().flat_map(|at| versions[*at].snapshots.clone()).collect();
    let Some(oldest) = live.iter().map(|snapshot| snapshot.version.0).min() else { return };
    backend.retain(&live).await.unwrap();
    // Attempts newer than the oldest live one may be in flight, over what is still there.
    let mut there = vec![0];
    let mut at = 0;
    versions.retain(|version| {
        at += 1;
        let in_flight = version.number >= oldest && there.contains(&version.parent);
        let stays = kept.contains(&(at - 1)) || in_flight || version.number == 0;
        if stays {
            there.push(version.attempt);
        }
        stays
    });
}

/// Long lives, beside the memory backend: reopened, merged, read at old versions.
#[test]
fn it_and_the_memory_backend_agree_over_long_lives() {
    for seed in 0..12 {
        let mut rng = Rng::new(1_000_000 + seed);
        let settings = settings(&mut rng);
        let (disk, other) = (Disk::new(), Disk::new());
        let mut lsm = backend(disk.process().store(), settings.clone());
        let run = RunId::new("run-1").unwrap();
        let memory = MemoryBackend::new(
            other.process().store(),
            Path::from("m"),
            run,
            fluvial_state_memory::Settings::default(),
        );
        let (mut ours, mut theirs) = (vec![Version::genesis()], vec![Version::genesis()]);
        block_on(async {
            for round in 0..60 {
                // One sequence of calls for both.
                let calls = Rng::new(seed * 1000 + round);
                let (last, theirs_last) =
                    (ours[ours.len() - 1].clone(), theirs[theirs.len() - 1].clone());
                ours.push(batch(&mut calls.clone(), &lsm, &last, 12).await);
                theirs.push(batch(&mut calls.clone(), &memory, &theirs_last, 12).await);
                if rng.chance(20) {
                    lsm = backend(disk.process().store(), settings.clone());
                }
                let at = below(&mut rng, ours.len());
                assert_eq!(show(&lsm, &ours[at]).await, show(&memory, &theirs[at]).await);
            }
        });
    }
}
