use super::*;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn shown(table: &Segment, range: &KeyRange) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let _ = table.scan(range, |id| {
        let value = table.value(id).unwrap_or_default();
        found.push((table.key(id).to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    found
}

fn assert_is(table: &Segment, model: &Model) {
    assert_eq!(table.len(), model.len());
    for (key, value) in model {
        let id = table.find(Hash::of(key), key).expect("a key is lost");
        assert_eq!(table.value(id), Some(value.as_slice()));
    }
    let all: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(shown(table, &KeyRange::all()), all);
}

/// Time after time half of the keys are replaced, in each of the ways to remove one.
#[test]
fn a_table_stays_small_and_right_over_a_long_life() {
    let key = |time: u32, key: u32| {
        let group = [0, (key % 3) as u8];
        [&group[..], &[1], &u64::from(time).to_be_bytes(), &key.to_be_bytes()].concat()
    };
    let (mut table, mut model) = (Segment::default(), Model::new());
    let mut most = 0;
    for time in 0..40u32 {
        for i in 0..1500 {
            let (key, value) = (key(time, i), vec![time as u8; (i % 50) as usize]);
            table.put(Hash::of(&key), &key, &value);
            model.insert(key, value);
        }
        for i in (0..1500).step_by(3) {
            // Longer than before: the record moves.
            let (key, value) = (key(time, i), vec![7; 60 + (i % 50) as usize]);
            table.put(Hash::of(&key), &key, &value);
            model.insert(key, value);
        }
        if let Some(old) = time.checked_sub(2) {
            for group in 0..3u8 {
                let old = [&[0, group, 1][..], &u64::from(old).to_be_bytes()].concat();
                let range = KeyRange::prefix(&old);
                let inside = model.keys().filter(|key| range.contains(key)).count() as u64;
                assert_eq!(table.count(&range), inside);
                if time % 2 == 0 {
                    assert_eq!(table.remove_range(&range).records as u64, inside);
                } else {
                    for (key, _) in shown(&table, &range) {
                        let id = table.find(Hash::of(&key), &key).unwrap();
                        table.remove(id);
                    }
                }
                model.retain(|key, _| !range.contains(key));
                assert_eq!(table.count(&range), 0);
            }
        }
        if time % 5 == 0 {
            assert_is(&table, &model);
        }
        if time == 10 {
            most = table.held();
        }
    }
    assert_is(&table, &model);
    assert!(table.held() < most * 2, "{} after {most}", table.held());
    let copy = table.clone();
    table.remove_range(&KeyRange::all());
    assert!(table.is_empty() && shown(&table, &KeyRange::all()).is_empty());
    assert_is(&copy, &model);
}

#[test]
fn a_bounded_scan_begins_and_ends_inside_a_bucket() {
    let mut table = Segment::default();
    let key = |i: u8| [&[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[i][..]].concat();
    for i in (0..100).rev() {
        table.put(Hash::of(&key(i)), &key(i), &[i]);
    }
    let gone = table.find(Hash::of(&key(50)), &key(50)).unwrap();
    assert_eq!(shown(&table, &KeyRange::all()).len(), 100);
    table.remove(gone);
    let range = KeyRange { start: key(40), end: key(60) };
    let found: Vec<u8> = shown(&table, &range).into_iter().map(|(_, v)| v[0]).collect();
    assert!(found.into_iter().eq((40..50).chain(51..60)));
}

/// Batches of changes, small ones and large ones: new keys, other values, longer values, removals.
#[test]
fn changes_become_part_of_it_copied_or_whole() {
    for keys in [3u32, 400] {
        let (mut table, mut model) = (Segment::default(), Model::new());
        for batch in 0..30u32 {
            let mut changes = Segment::default();
            for i in 0..keys {
                let key = [&[0, 0, 0x10][..], &(i * 7 % keys + batch * keys / 3).to_be_bytes()];
                let key = key.concat();
                let hash = Hash::of(&key);
                let mark = if model.contains_key(&key) { Mark::Hides } else { Mark::Plain };
                let value = vec![batch as u8; ((i + batch) % 9) as usize];
                match i % 3 {
                    0 if mark == Mark::Hides => {
                        changes.insert(hash, &key, None, mark);
                        model.remove(&key);
                    }
                    _ => {
                        changes.insert(hash, &key, Some(&value), mark);
                        model.insert(key, value);
                    }
                }
            }
            assert!(changes.records.live() < WHOLE_MIN || keys > 3);
            if batch % 4 == 0 {
                // Some records are in an order before others come.
                assert_eq!(shown(&table, &KeyRange::all()).len(), table.len());
            }
            table.absorb(changes);
            assert_is(&table, &model);
            assert!(table.iter().all(|id| table.mark(id) == Mark::Plain));
        }
        assert_eq!((table.tombstones, table.marked), (0, 0));
        table.compact();
        assert_is(&table, &model);
    }
}
