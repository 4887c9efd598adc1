//! Blocks, indexes and runs against a sorted map; and bytes that must never change.

use crate::block::{Block, BlockBuilder, BlockCursor, Compression, Kind, put_packed, unpack};
use crate::builder::{Built, RunBuilder};
use crate::gone::Gone;
use crate::index::RunIndex;
use crate::lookup::hash;
use crate::settings::Settings;
use fluvial_core::{ErrorKind, KeyRange};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, (Kind, Vec<u8>)>;

/// Keys of group 0 and 1 with long common beginnings.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let tail = prop_oneof![
        vec(0u8..3, 0..5),
        vec(0u8..2, 0..3).prop_map(|end| [&[9; 30][..], &end].concat()),
        vec(any::<u8>(), 0..3),
    ];
    (0u8..2, tail).prop_map(|(group, tail)| [&[0, group][..], &tail].concat())
}

fn entry() -> impl Strategy<Value = (Kind, Vec<u8>)> {
    prop_oneof![
        (prop_oneof![Just(Kind::Insert), Just(Kind::Update)], vec(any::<u8>(), 0..4)),
        Just((Kind::Delete, Vec::new())),
    ]
}

fn map() -> impl Strategy<Value = Map> {
    btree_map(key(), entry(), 1..80)
}

fn block(map: &Map) -> Block {
    let mut builder = BlockBuilder::default();
    map.iter().for_each(|(key, (kind, value))| builder.add(key, *kind, value));
    builder.finish()
}

fn run(map: &Map, block_bytes: usize) -> Built {
    let mut builder = RunBuilder::new(&Settings { block_bytes, ..Settings::default() }, map.len());
    map.iter().for_each(|(key, (kind, value))| builder.add(key, hash(key), *kind, value));
    builder.finish(Gone::default()).unwrap()
}

proptest! {
    #[test]
    fn a_block_is_a_sorted_map(map in map(), asked in vec(key(), 0..40), start in key()) {
        let made = block(&map);
        let read = Block::open(made.bytes().to_vec()).unwrap();
        for block in [&made, &read] {
            for key in asked.iter().chain(map.keys()) {
                let found = block.find(key).map(|f| (f.kind, block.value(&f.value).to_vec()));
                prop_assert_eq!(found.as_ref(), map.get(key), "{:?}", key);
            }
            let mut at = BlockCursor::default();
            at.seek(block, &start);
            let mut found = Map::new();
            while let Some(f) = at.found.clone() {
                found.insert(at.key.clone(), (f.kind, block.value(&f.value).to_vec()));
                at.advance(block);
            }
            let expected: Map = map.range(start.clone()..).map(|(k, v)| (k.clone(), v.clone())).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn damaged_blocks_are_refused_or_read(map in map(), at: prop::sample::Index, flip in 1u8.., asked in key()) {
        let mut bytes = block(&map).bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(block) = Block::open(bytes) {
            block.find(&asked);
            block.count(&asked, &[], &mut Vec::new());
        }
    }

    #[test]
    fn packed_bytes_come_back_and_damage_is_found(plain in vec(0u8..3, 0..300), at: prop::sample::Index, flip in 1u8..) {
        for how in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let mut packed = Vec::new();
            put_packed(&mut packed, &plain, how);
            prop_assert_eq!(&*unpack(&packed, plain.len()).unwrap(), plain.as_slice());
            let at = at.index(packed.len());
            packed[at] ^= flip;
            prop_assert!(unpack(&packed, plain.len()).is_err());
            prop_assert!(unpack(&packed[..at], plain.len()).is_err());
        }
    }

    #[test]
    fn an_index_finds_the_blocks(map in map(), asked in vec(key(), 1..40), ends in (key(), key())) {
        let built = run(&map, 20);
        let index = &built.tail.index;
        let mut sorted = asked;
        sorted.sort();
        let mut until = 0;
        for key in &sorted {
            prop_assert_eq!(index.blocks_until(key, until), index.blocks_until(key, 0));
            until = index.blocks_until(key, until);
        }
        for key in map.keys() {
            let block = index.blocks_until(key, 0) - 1;
            prop_assert!(built.blocks[block as usize].find(key).is_some(), "{:?}", key);
        }
        let range = KeyRange { start: ends.0, end: ends.1 };
        let blocks = index.blocks_in(&range);
        for key in map.keys().filter(|key| !range.is_empty() && range.contains(key)) {
            prop_assert!(blocks.contains(&(index.blocks_until(key, 0) - 1)), "{:?}", key);
        }
    }

    #[test]
    fn indexes_come_back(map in map(), gone in vec((key(), key()), 0..4)) {
        let mut ranges = Gone::default();
        gone.into_iter().for_each(|(start, end)| ranges.insert(&KeyRange { start, end }));
        let Built { mut tail, meta, .. } = run(&map, 30);
        tail.gone = ranges;
        let bytes = tail.encode();
        prop_assert_eq!(&RunIndex::decode(&bytes, meta.data).unwrap(), &tail);
        for cut in 0..bytes.len() {
            prop_assert!(RunIndex::decode(&bytes[..cut], meta.data).is_err());
        }
    }

    #[test]
    fn any_bytes_are_an_index_or_refused(bytes: Vec<u8>, data in 0u64..100) {
        let _ = RunIndex::decode(&bytes, data);
        let _ = Block::open(bytes);
    }
}

#[test]
fn the_bytes_of_a_run_never_change() {
    let map: Map = (0..40u8)
        .map(|i| {
            let kind = if i % 5 == 0 { Kind::Delete } else { Kind::Insert };
            (vec![0, 1, b'k', i], (kind, if kind.is_live() { vec![i; 3] } else { Vec::new() }))
        })
        .collect();
    let built = run(&map, 100);
    assert_eq!((built.bytes.len(), crc32fast::hash(&built.bytes)), GOLDEN);
}

const GOLDEN: (usize, u32) = (413, 4_117_852_624);

#[test]
fn newer_runs_are_told_from_damage() {
    let tail = RunIndex::default();
    let mut bytes = tail.encode();
    bytes[0] += 1;
    assert_eq!(RunIndex::decode(&bytes, 0).unwrap_err().kind(), ErrorKind::Invalid);
}
