//! Parsers of what lies on a store, against bytes that are nearly right: a plain loop beside the
//! fuzz targets, with their seeds, for every build.

use crate::world::below;
use fluvial_sim::Rng;
use fluvial_state_lsm::{
    inspect_block, inspect_index, inspect_manifest, inspect_packed, inspect_token,
};
use std::path::Path;

/// Inputs of each parser; `FLUVIAL_MUTATIONS` tries more.
fn mutations() -> u64 {
    std::env::var("FLUVIAL_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

/// The seeds of a fuzz target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// One small change: a bit, a byte that is an edge of something, bytes taken out, put in or moved.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return bytes.push(below(rng, 256) as u8);
    }
    let at = below(rng, bytes.len());
    let length = 1 + below(rng, 8.min(bytes.len() - at));
    match below(rng, 7) {
        0 => bytes[at] ^= 1 << below(rng, 8),
        1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF, 2, 16][below(rng, 7)],
        2 => bytes[at] = below(rng, 256) as u8,
        3 => drop(bytes.drain(at..at + length)),
        4 => drop(bytes.splice(at..at, [0xFF; 9][..below(rng, 10)].iter().copied())),
        5 => {
            let piece = bytes[at..at + length].to_vec();
            let to = below(rng, bytes.len());
            bytes.splice(to..to, piece);
        }
        _ => bytes.truncate(at),
    }
}

fn play(target: &str, parse: impl Fn(&mut Rng, &[u8])) {
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "no seeds for {target}");
    let mut rng = Rng::new(7);
    for round in 0..mutations() {
        let mut bytes = seeds[below(&mut rng, seeds.len())].clone();
        for _ in 0..1 + below(&mut rng, 4) {
            mutate(&mut rng, &mut bytes);
        }
        let parsed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            parse(&mut rng, &bytes);
        }));
        assert!(parsed.is_ok(), "{target}, round {round}: {bytes:?}");
    }
}

#[test]
fn nearly_right_blocks_are_read_or_refused() {
    play("lsm_block", |_, bytes| drop(inspect_block(bytes)));
}

#[test]
fn nearly_right_indexes_are_read_or_refused() {
    play("lsm_index", |rng, bytes| {
        // Two bytes in front say how large the blocks are.
        let Some((data, index)) = bytes.split_first_chunk() else { return };
        let data =
            if rng.chance(90) { u16::from_le_bytes(*data) } else { below(rng, 65_536) as u16 };
        drop(inspect_index(index, u64::from(data)));
    });
}

#[test]
fn nearly_right_manifests_are_read_or_refused() {
    play("lsm_manifest", |_, bytes| drop(inspect_manifest(bytes)));
}

/// With a checksum that fits, or nothing would come past it.
#[test]
fn nearly_right_packed_blocks_are_read_or_refused() {
    play("lsm_packed", |rng, bytes| {
        let Some((_, packed)) = bytes.split_first_chunk::<8>() else { return };
        let mut packed = packed.to_vec();
        if let Some(how) = packed.first_mut()
            && rng.chance(50)
        {
            *how = below(rng, 4) as u8;
        }
        packed.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
        let plain = [below(rng, 300), usize::MAX, packed.len() * below(rng, 300)][below(rng, 3)];
        drop(inspect_packed(&packed, plain));
    });
}

#[test]
fn nearly_right_tokens_are_read_or_refused() {
    play("lsm_token", |_, bytes| drop(inspect_token(&String::from_utf8_lossy(bytes))));
}
