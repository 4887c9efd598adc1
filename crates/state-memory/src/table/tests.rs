use super::*;
use std::collections::BTreeMap as Model;

fn key(group: u8, time: u32, key: u32) -> Vec<u8> {
    [&[0, group, 1][..], &u64::from(time).to_be_bytes(), &key.to_be_bytes()].concat()
}

fn put(table: &mut Table, key: &[u8], value: &[u8]) {
    table.put(Hash::of(key), key, value);
}

fn shown(table: &Table) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let _ = table.scan(&KeyRange::all(), |part, record| {
        keys.push(part.key(record).to_vec());
        ControlFlow::Continue(())
    });
    keys
}

#[test]
fn what_shares_a_time_is_dropped_as_a_whole() {
    let mut table = Table::default();
    for i in 0..100 {
        put(&mut table, &key(0, i % 4, i), b"v");
        put(&mut table, &key(1, i % 4, i), b"v");
    }
    assert_eq!(table.parts().count(), 8);
    let until = KeyRange { start: vec![0, 0], end: key(0, 2, 0) };
    assert_eq!(table.count(&until), 50);
    assert_eq!(table.remove_range(&until).records, 50);
    assert_eq!((table.len(), table.parts().count()), (150, 6));
    put(&mut table, &key(0, 0, 1), b"again");
    assert_eq!(table.find(Hash::of(&key(0, 0, 0)), &key(0, 0, 0)), None);
    assert!(shown(&table).is_sorted() && shown(&table).len() == 151);
}

/// Keys without a common time would each have a segment of their own.
#[test]
fn keys_without_a_time_in_front_lie_together_by_group() {
    let mut table = Table::default();
    let keys: Vec<_> = (0..5000u32).map(|i| key((i % 7) as u8, i, i)).collect();
    for key in &keys {
        put(&mut table, key, b"v");
    }
    assert_eq!((table.len(), table.parts().count()), (5000, 7));
    assert!(keys.iter().all(|key| table.find(Hash::of(key), key).is_some()));
    let shown = shown(&table);
    assert!(shown.is_sorted() && shown.len() == 5000);
}

/// Changes are cut as they are when they are made, and their table may be cut anew meanwhile.
#[test]
fn tables_that_are_cut_differently_absorb_each_other() {
    let fine = |keys: std::ops::Range<u32>| {
        let mut table = Table::default();
        keys.for_each(|i| put(&mut table, &key(0, 0, i), b"f"));
        table
    };
    let coarse = |keys: std::ops::Range<u32>| {
        let mut table = Table::default();
        keys.for_each(|i| put(&mut table, &key(0, i, 9), b"c"));
        assert_eq!(table.parts().count(), 1, "it should have been cut by group");
        table
    };
    for [mut base, changes] in [[fine(0..50), coarse(10..3000)], [coarse(10..3000), fine(0..50)]] {
        let model: Model<Vec<u8>, ()> =
            shown(&base).into_iter().chain(shown(&changes)).map(|key| (key, ())).collect();
        base.absorb(changes);
        assert_eq!(shown(&base), model.into_keys().collect::<Vec<_>>());
        assert_eq!(base.len(), 3040);
    }
}
