//! The same keys and values for every contestant: a windowed aggregation's, by group, time and id.

use arrow::array::BinaryArray;
use fluvial_core::KeyRange;

/// Windows: the keys of one are a hundredth of all.
const TIMES: u64 = 100;
const GROUPS: u64 = 128;
const VALUE_BYTES: usize = 64;

/// The keys that are loaded: ids from 0 up to this number.
#[derive(Debug, Clone, Copy)]
pub struct Keys(pub u64);

/// `[group][time][id]`: 18 bytes.
fn key(id: u64) -> [u8; 18] {
    let mut key = [0; 18];
    key[..2].copy_from_slice(&((id % GROUPS) as u16).to_be_bytes());
    key[2..10].copy_from_slice(&(id / GROUPS % TIMES).to_be_bytes());
    key[10..].copy_from_slice(&id.to_be_bytes());
    key
}

fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Values for so many keys: half of their bytes say which write they are of.
pub(crate) fn values(count: usize, write: u64) -> BinaryArray {
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

/// Bytes of a key and its value.
pub(crate) const ENTRY_BYTES: u64 = 18 + VALUE_BYTES as u64;

impl Keys {
    fn ids(self, count: usize, seed: u64) -> impl Iterator<Item = u64> {
        (0..count as u64).map(move |i| mix(seed.wrapping_mul(1 << 32) ^ i) % self.0)
    }

    /// `count` of them, in no order; other ones for each `seed`.
    pub(crate) fn random(self, count: usize, seed: u64) -> BinaryArray {
        BinaryArray::from_iter_values(self.ids(count, seed).map(key))
    }

    /// `count` keys that were never loaded, between those that were.
    pub(crate) fn absent(self, count: usize, seed: u64) -> BinaryArray {
        BinaryArray::from_iter_values(self.ids(count, seed).map(|id| {
            let mut key = key(id).to_vec();
            key.push(1);
            key
        }))
    }

    /// All of them in batches, in the order of their ids.
    pub(crate) fn all(self, batch: usize) -> impl Iterator<Item = BinaryArray> {
        (0..self.0).step_by(batch).map(move |first| {
            BinaryArray::from_iter_values((first..self.0.min(first + batch as u64)).map(key))
        })
    }

    /// The keys of one window, and its range in each key group.
    pub(crate) fn window(self, number: u64) -> (BinaryArray, Vec<KeyRange>) {
        let time = number % TIMES;
        let cycle = GROUPS * TIMES;
        let firsts = (time * GROUPS..self.0).step_by(cycle as usize);
        let ids = firsts.flat_map(|first| first..self.0.min(first + GROUPS));
        let ids: Vec<u64> = ids.collect();
        let ranges = (0..GROUPS as u16).map(|group| {
            KeyRange::prefix(&[&group.to_be_bytes()[..], &time.to_be_bytes()].concat())
        });
        (BinaryArray::from_iter_values(ids.into_iter().map(key)), ranges.collect())
    }

    /// `count` keys of the newest windows.
    pub(crate) fn recent(self, count: usize, seed: u64) -> BinaryArray {
        let (last, _) = self.window(TIMES - 1);
        let of = |i: u64| last.value((mix(seed << 32 ^ i) % last.len_u64()) as usize);
        BinaryArray::from_iter_values((0..count as u64).map(of))
    }

    /// The keys of one key group.
    pub(crate) fn group(self, number: u64) -> (u64, KeyRange) {
        let group = number % GROUPS;
        let count = (self.0 + GROUPS - 1 - group) / GROUPS;
        (count, KeyRange::prefix(&(group as u16).to_be_bytes()))
    }
}

trait Length {
    fn len_u64(&self) -> u64;
}

impl Length for BinaryArray {
    fn len_u64(&self) -> u64 {
        arrow::array::Array::len(self) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Array;

    #[test]
    fn windows_have_a_hundredth_of_the_keys() {
        let keys = Keys(1_000_000);
        let all: Vec<BinaryArray> = keys.all(10_000).collect();
        assert_eq!(all.iter().map(|keys| keys.len()).sum::<usize>(), 1_000_000);
        let (own, ranges) = keys.window(7);
        let inside = |key: &[u8]| ranges[usize::from(key[1])].contains(key);
        assert!(own.iter().flatten().all(inside));
        let count = all.iter().flat_map(|keys| keys.iter().flatten()).filter(|k| inside(k)).count();
        assert_eq!(count, own.len());
        assert!((9_000..11_000).contains(&count), "{count}");
    }

    #[test]
    fn absent_keys_are_absent() {
        let (some, none) = (Keys(1000).random(50, 1), Keys(1000).absent(50, 1));
        assert!(!some.iter().flatten().any(|key| none.iter().flatten().any(|other| other == key)));
    }
}
