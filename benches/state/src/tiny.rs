//! Millions of keys of six bytes without values: what an entry costs beside its bytes.

use crate::measure::Figure;
use crate::ours::Ours;
use crate::process::{cpu, files, peak};
use crate::{Contestant, Keys};
use arrow::array::{Array, BinaryArray};
use fluvial_core::KeyRange;

/// Keys of a commit.
const BATCH: u32 = 500_000;
const GROUPS: u32 = 128;

fn keys(ids: impl Iterator<Item = u32>) -> BinaryArray {
    let key = |id: u32| {
        let [a, b, c, d] = (id / GROUPS).to_be_bytes();
        [0, (id % GROUPS) as u8, a, b, c, d]
    };
    BinaryArray::from_iter_values(ids.map(key))
}

/// Writes, reads and counts so many of them within so many bytes of memory.
pub fn tiny(Keys(count): Keys, memory: u64) -> Vec<Figure> {
    let count = u32::try_from(count).expect("fewer than 2^32");
    let (empty, start) = (peak(), cpu());
    let mut store = Ours::lsm(memory);
    for first in (0..count).step_by(BATCH as usize) {
        let keys = keys(first..count.min(first + BATCH));
        let values = BinaryArray::from_iter_values((0..keys.len()).map(|_| b""));
        store.put(&keys, &values);
        store.commit();
    }
    store.settle();
    let seconds = (cpu() - start).as_secs_f64();
    store.reopen();
    let asked = keys((0..10_000).map(|i| i * 7919 % count));
    assert_eq!(store.get(&asked), 10_000);
    let groups = (0..GROUPS as u16).map(|group| KeyRange::prefix(&group.to_be_bytes()));
    let found: usize = groups.map(|group| store.scan(&group)).sum();
    assert_eq!(found, count as usize);
    let figure =
        |what: &str, unit: &str, value| Figure { what: what.into(), unit: unit.into(), value };
    let disk = store.folder().map_or(0, files);
    vec![
        figure("tiny keys written", "k keys per CPU second", f64::from(count) / 1000.0 / seconds),
        figure("bytes on disk for each key", "", disk as f64 / f64::from(count)),
        figure("peak memory", "MB", (peak() - empty) as f64 / 1e6),
    ]
}
