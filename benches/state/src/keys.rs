//! The same keys and values for every contestant: a windowed aggregation's, by group, time and id.

use arrow::array::BinaryArray;
use fluvial_core::KeyRange;

/// Keys that are loaded.
pub const KEYS: u64 = 1_000_000;
/// Keys of a commit.
pub const BATCH: usize = 10_000;
/// Windows: the keys of one are a hundredth of all.
pub const TIMES: u64 = 100;
const GROUPS: u64 = 128;
const VALUE_BYTES: usize = 64;

/// `[group][time][id]`: 18 bytes.
fn key(id: u64) -> [u8; 18] {
    let mut key = [0; 18];
    key[..2].copy_from_slice(&((id % GROUPS) as u16).to_be_bytes());
    key[2..10].copy_from_slice(&(id / GROUPS % TIMES).to_be_bytes());
    key[10..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The keys of ids.
pub fn keys(ids: impl IntoIterator<Item = u64>) -> BinaryArray {
    BinaryArray::from_iter_values(ids.into_iter().map(key))
}

/// Values for so many keys: half of their bytes say which write they are of.
pub fn values(count: usize, write: u64) -> BinaryArray {
    BinaryArray::from_iter_values((0..count as u64).map(|i| {
        let mut value = [0; VALUE_BYTES];
        let mut state = write.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ i;
        for word in value[..VALUE_BYTES / 2].chunks_exact_mut(8) {
            state = mix(state);
            word.copy_from_slice(&state.to_le_bytes());
        }
        value
    }))
}

fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// `count` of the loaded keys, in no order; other ones for each `seed`.
pub fn random(count: usize, seed: u64) -> BinaryArray {
    keys((0..count as u64).map(|i| mix(seed.wrapping_mul(1 << 32) ^ i) % KEYS))
}

/// `count` keys that were never loaded, between those that were.
pub fn absent(count: usize, seed: u64) -> BinaryArray {
    let ids = (0..count as u64).map(|i| mix(seed.wrapping_mul(1 << 32) ^ i) % KEYS);
    BinaryArray::from_iter_values(ids.map(|id| {
        let mut key = key(id).to_vec();
        key.push(1);
        key
    }))
}

/// All loaded keys in batches, in the order of their ids.
pub fn all() -> impl Iterator<Item = BinaryArray> {
    (0..KEYS).step_by(BATCH).map(|first| keys(first..first + BATCH as u64))
}

/// The keys of one window: a range for each key group.
pub fn window(time: u64) -> Vec<KeyRange> {
    (0..GROUPS as u16)
        .map(|group| KeyRange::prefix(&[&group.to_be_bytes()[..], &time.to_be_bytes()].concat()))
        .collect()
}

/// The keys of one key group.
pub fn group(group: u16) -> KeyRange {
    KeyRange::prefix(&group.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Array;

    #[test]
    fn windows_have_a_hundredth_of_the_keys() {
        let all: Vec<BinaryArray> = all().collect();
        assert_eq!(all.iter().map(|keys| keys.len() as u64).sum::<u64>(), KEYS);
        let ranges = window(7);
        let own = all.iter().flat_map(|keys| keys.iter().flatten());
        let own = own.filter(|key| ranges[usize::from(key[1])].contains(key)).count();
        assert!((9_000..11_000).contains(&own), "{own}");
        assert!(
            !random(10, 1)
                .iter()
                .flatten()
                .any(|key| absent(10, 1).iter().flatten().any(|a| a == key))
        );
    }
}
