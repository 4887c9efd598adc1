use super::*;
use crate::testing::{Dice, column, types};
use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::*;
use fluvial_core::{ErrorKind, EventTime, KeyGroupCount, KeyRange};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::sync::Arc;

const GROUPS: KeyGroupCount = KeyGroupCount::DEFAULT;

fn codec(layout: KeyLayout, types: &[DataType]) -> KeyCodec {
    KeyCodec::new(layout, types.to_vec(), GROUPS).unwrap()
}

fn encode(columns: &[ArrayRef]) -> BinaryArray {
    let types: Vec<_> = columns.iter().map(|c| c.data_type().clone()).collect();
    codec(KeyLayout::Key, &types).encode(columns, None, columns[0].len()).unwrap().keys
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// If this fails, a dependency changed the encoding: state already written would not be found.
/// Trap H5.
#[test]
fn golden_bytes() {
    let page: ArrayRef = Arc::new(StringArray::from(vec![Some("/a"), None]));
    let number: ArrayRef = Arc::new(Int32Array::from(vec![-2, 3]));
    let float: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, f64::NAN]));
    let columns = [page, number, float];
    let types: Vec<_> = columns.iter().map(|c| c.data_type().clone()).collect();
    let times = TimestampMicrosecondArray::from(vec![Some(-1), None]);
    let first = "02 2f 61 00 00 00 00 00 00 02 01 7f ff ff fe 01 80 00 00 00 00 00 00 00";
    let second = "00 01 80 00 00 03 01 ff f8 00 00 00 00 00 00";
    let keys = encode(&columns);
    assert_eq!(hex(keys.value(0)), format!("00 0d {first}"));
    assert_eq!(hex(keys.value(1)), format!("00 57 {second}"));
    let (time, no_time) = ("01 7f ff ff ff ff ff ff ff", "02 00 00 00 00 00 00 00 00");
    let keys = codec(KeyLayout::TimeKey, &types).encode(&columns, Some(&times), 2).unwrap().keys;
    assert_eq!(hex(keys.value(0)), format!("00 0d {time} {first}"));
    assert_eq!(hex(keys.value(1)), format!("00 57 {no_time} {second}"));
    let keys = codec(KeyLayout::KeyTime, &types).encode(&columns, Some(&times), 2).unwrap().keys;
    assert_eq!(hex(keys.value(0)), format!("00 0d {first} {time}"));
    assert_eq!(hex(keys.value(1)), format!("00 57 {second} {no_time}"));
}

/// Every type at once, as one number.
#[test]
fn golden_hash_of_all_types() {
    let mut dice = Dice(1);
    let mut all = Vec::new();
    for data_type in types() {
        let keys = encode(&[column(&data_type, 40, &mut dice)]);
        keys.iter().flatten().for_each(|key| all.extend_from_slice(key));
    }
    assert_eq!(xxhash_rust::xxh3::xxh3_64(&all), 14_308_041_602_884_578_103);
}

/// Trap C3.
#[test]
fn floats_that_are_equal_are_one_key() {
    let floats = vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(0x7FF0_0000_0000_0001)];
    let plain: ArrayRef = Arc::new(Float64Array::from(floats.clone()));
    let halves = cast(&plain, &DataType::Float16).unwrap();
    let singles = cast(&plain, &DataType::Float32).unwrap();
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(
        floats.iter().map(|f| Some(vec![Some(*f), None])),
    ));
    let field = Arc::new(Field::new("f", list.data_type().clone(), true));
    let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, Arc::clone(&list))]));
    for column in [plain, halves, singles, list, nested] {
        let keys = encode(&[column]);
        assert_eq!(keys.value(0), keys.value(1));
        assert_eq!(keys.value(2), keys.value(3));
        assert_eq!(keys.value(2), keys.value(4));
        assert_ne!(keys.value(0), keys.value(2));
    }
}

#[test]
fn a_dictionary_is_its_values() {
    let plain: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b"), Some("a")]));
    let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let dictionary = cast(&plain, &data_type).unwrap();
    assert_eq!(encode(std::slice::from_ref(&dictionary)), encode(&[plain]));
    let codec = codec(KeyLayout::Key, &[data_type]);
    let keys = codec.encode(std::slice::from_ref(&dictionary), None, 4).unwrap().keys;
    assert_eq!(&codec.decode(&keys).unwrap().columns[0], &dictionary);
}

fn maps(maps: &[&[(&str, f64)]]) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    for map in maps {
        for (key, value) in *map {
            builder.keys().append_value(key);
            builder.values().append_value(*value);
        }
        builder.append(true).unwrap();
    }
    builder.append(false).unwrap();
    Arc::new(builder.finish())
}

#[test]
fn a_map_has_no_order() {
    let column = maps(&[&[("a", 1.0), ("b", -0.0)], &[("b", 0.0), ("a", 1.0)], &[("a", 1.0)], &[]]);
    let keys = encode(&[Arc::clone(&column)]);
    assert_eq!(keys.value(0), keys.value(1));
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), 4, "two equal ones, a shorter one, an empty one, a null");
    let codec = codec(KeyLayout::Key, &[column.data_type().clone()]);
    let decoded = &codec.decode(&keys).unwrap().columns[0];
    assert_eq!(
        decoded,
        &maps(&[&[("a", 1.0), ("b", 0.0)], &[("a", 1.0), ("b", 0.0)], &[("a", 1.0)], &[]])
    );
}

#[test]
fn a_null_struct_is_not_a_struct_of_nulls() {
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![None, None]));
    let fields = Fields::from(vec![Field::new("x", DataType::Int32, true)]);
    let nulls = Some(vec![true, false].into());
    let column: ArrayRef = Arc::new(StructArray::new(fields, vec![inner], nulls));
    let keys = encode(&[Arc::clone(&column)]);
    assert_ne!(keys.value(0), keys.value(1));
    let codec = codec(KeyLayout::Key, &[column.data_type().clone()]);
    assert_eq!(&codec.decode(&keys).unwrap().columns[0], &column);
}

#[test]
fn no_columns_are_one_key() {
    let codec = codec(KeyLayout::Key, &[]);
    let encoded = codec.encode(&[], None, 3).unwrap();
    let group = KeyCodec::group_of_nothing(GROUPS);
    assert_eq!(encoded.groups, vec![group; 3]);
    assert_eq!(encoded.keys.value(2), group.prefix());
    assert!(codec.decode(&encoded.keys).unwrap().columns.is_empty());
    assert_eq!(codec.partitions(&[], 2, 4).unwrap(), vec![GROUPS.partition_of(group, 4); 2]);
}

#[test]
fn other_columns_are_refused() {
    let codec = codec(KeyLayout::TimeKey, &[DataType::Utf8]);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let time = TimestampMicrosecondArray::from(vec![1]);
    for (columns, times, rows) in [
        (vec![Arc::clone(&text)], None, 1),
        (vec![Arc::clone(&text)], Some(&time), 2),
        (vec![number], Some(&time), 1),
        (vec![], Some(&time), 1),
    ] {
        let error = codec.encode(&columns, times, rows).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert!(codec.encode(&[text], Some(&time), 1).is_ok());
}

#[test]
fn nested_nullability_and_names_do_not_matter() {
    let column = |name: &str, nullable| -> ArrayRef {
        let field = Arc::new(Field::new(name, DataType::Int32, nullable));
        Arc::new(StructArray::from(vec![(field, Arc::new(Int32Array::from(vec![7])) as ArrayRef)]))
    };
    let (a, b) = (column("a", true), column("b", false));
    let codec = codec(KeyLayout::Key, &[a.data_type().clone()]);
    let keys = codec.encode(&[Arc::clone(&a)], None, 1).unwrap().keys;
    assert_eq!(codec.encode(&[b], None, 1).unwrap().keys, keys);
    assert_eq!(&codec.decode(&keys).unwrap().columns[0], &a);
}

#[test]
fn expiry_is_one_range_per_group() {
    let codec = codec(KeyLayout::TimeKey, &[DataType::Int32]);
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 1, 1, 1]));
    let times = TimestampMicrosecondArray::from(vec![Some(-5), Some(10), Some(11), None]);
    let encoded = codec.encode(&[column], Some(&times), 4).unwrap();
    let group = encoded.groups[0];
    let within = |range: KeyRange| -> Vec<bool> {
        encoded.keys.iter().flatten().map(|key| range.contains(key)).collect()
    };
    assert_eq!(within(codec.expired(group, EventTime(10))), [true, true, false, false]);
    assert_eq!(within(codec.expired(group, EventTime(i64::MAX))), [true, true, true, false]);
    let between = codec.between(group, EventTime(-4), EventTime(11));
    assert_eq!(within(between), [false, true, true, false]);
    assert_eq!(within(codec.group(group)), [true; 4]);
}

#[test]
fn the_times_of_a_key_lie_together() {
    let codec = codec(KeyLayout::KeyTime, &[DataType::Utf8]);
    let column: ArrayRef = Arc::new(StringArray::from(vec!["a", "a", "a\0", "a", ""]));
    let times = vec![Some(1), Some(5), Some(1), None, Some(1)];
    let times = TimestampMicrosecondArray::from(times);
    let encoded = codec.encode(&[Arc::clone(&column)], Some(&times), 5).unwrap();
    let prefixes = codec.encode_prefixes(&[column], 5).unwrap();
    assert_eq!(prefixes.groups, encoded.groups);
    assert_eq!(codec.with_times(&prefixes.keys, &times).unwrap(), encoded.keys);
    let within = |range: KeyRange| -> Vec<bool> {
        encoded.keys.iter().flatten().map(|key| range.contains(key)).collect()
    };
    let prefix = prefixes.keys.value(0);
    assert_eq!(within(KeyRange::prefix(prefix)), [true, true, false, true, false]);
    let some = codec.times_of(prefix, EventTime(2), EventTime(9));
    assert_eq!(within(some), [false, true, false, false, false]);
}

type Row = (Option<i16>, Option<String>, Option<i8>, Option<i64>);

/// Floats with both zeros and two NaNs from a small number.
fn float(small: i8) -> f32 {
    match small {
        0 => -0.0,
        1 => 0.0,
        2 => f32::NAN,
        3 => -f32::NAN,
        other => f32::from(other) / 2.0,
    }
}

fn normal(float: f32) -> f32 {
    if float == 0.0 {
        0.0
    } else if float.is_nan() {
        f32::NAN
    } else {
        float
    }
}

fn columns_of(rows: &[Row]) -> (Vec<ArrayRef>, TimestampMicrosecondArray) {
    let a = Int16Array::from_iter(rows.iter().map(|r| r.0));
    let b = StringArray::from_iter(rows.iter().map(|r| r.1.as_deref()));
    let c = Float32Array::from_iter(rows.iter().map(|r| r.2.map(float)));
    let times = TimestampMicrosecondArray::from_iter(rows.iter().map(|r| r.3));
    (vec![Arc::new(a), Arc::new(b), Arc::new(c)], times)
}

fn key_order(a: &Row, b: &Row) -> Ordering {
    let float = |small: Option<i8>| small.map(|s| normal(float(s)));
    let floats = match (float(a.2), float(b.2)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    a.0.cmp(&b.0).then_with(|| a.1.cmp(&b.1)).then(floats)
}

fn time_order(a: &Row, b: &Row) -> Ordering {
    (a.3.is_none(), a.3).cmp(&(b.3.is_none(), b.3))
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let text = proptest::option::of("[ab\0é]{0,10}");
    let time = proptest::option::of(prop_oneof![-3i64..3, any::<i64>()]);
    proptest::collection::vec(
        (proptest::option::of(-2i16..2), text, proptest::option::of(-4i8..8), time),
        2..20,
    )
}

proptest! {
    /// Trap H5.
    #[test]
    fn bytes_sort_as_the_columns_do(rows in rows()) {
        let (columns, times) = columns_of(&rows);
        let types: Vec<_> = columns.iter().map(|c| c.data_type().clone()).collect();
        let key_time = codec(KeyLayout::KeyTime, &types).encode(&columns, Some(&times), rows.len()).unwrap();
        let time_key = codec(KeyLayout::TimeKey, &types).encode(&columns, Some(&times), rows.len()).unwrap();
        let key = codec(KeyLayout::Key, &types).encode(&columns, None, rows.len()).unwrap();
        let groups = &key.groups;
        prop_assert_eq!(&key_time.groups, groups, "a time does not move a key");
        prop_assert_eq!(&time_key.groups, groups);
        for i in 0..rows.len() {
            for j in 0..rows.len() {
                let (a, b) = (&rows[i], &rows[j]);
                let (by_group, by_key, by_time) = (groups[i].cmp(&groups[j]), key_order(a, b), time_order(a, b));
                let bytes = |keys: &BinaryArray| keys.value(i).cmp(keys.value(j));
                prop_assert_eq!(bytes(&key.keys), by_group.then(by_key));
                prop_assert_eq!(bytes(&key_time.keys), by_group.then(by_key).then(by_time));
                prop_assert_eq!(bytes(&time_key.keys), by_group.then(by_time).then(by_key));
            }
        }
    }
}

proptest! {
    // Each case goes through every type.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Decoding gives the normal form, and that encodes to the same bytes: for every type.
    #[test]
    fn keys_come_back_in_normal_form(seed: u64, rows in 0usize..12, skip in 0usize..3) {
        let mut dice = Dice(seed);
        for data_type in types() {
            let whole = column(&data_type, rows + skip, &mut dice);
            let columns = [whole.slice(skip, rows), column(&DataType::Utf8, rows, &mut dice)];
            let times = column(&DataType::Timestamp(TimeUnit::Microsecond, None), rows, &mut dice);
            let times = times.as_primitive::<TimestampMicrosecondType>();
            for layout in [KeyLayout::TimeKey, KeyLayout::KeyTime] {
                let codec = codec(layout, &[data_type.clone(), DataType::Utf8]);
                let encoded = codec.encode(&columns, Some(times), rows).unwrap();
                let decoded = codec.decode(&encoded.keys).unwrap();
                prop_assert_eq!(decoded.times.as_ref(), Some(times));
                prop_assert_eq!(decoded.columns[0].data_type(), &data_type);
                prop_assert_eq!(decoded.columns[0].nulls(), columns[0].nulls().filter(|n| n.null_count() > 0));
                prop_assert_eq!(&decoded.columns[1], &columns[1]);
                let again = codec.encode(&decoded.columns, Some(times), rows).unwrap();
                prop_assert_eq!(again.keys, encoded.keys);
                prop_assert_eq!(again.groups, encoded.groups);
            }
        }
    }

    /// Trap B12.
    #[test]
    fn the_exchange_and_the_state_agree(seed: u64, partitions in 1u32..200) {
        let columns = [column(&DataType::Utf8, 30, &mut Dice(seed))];
        let codec = codec(KeyLayout::Key, &[DataType::Utf8]);
        let groups = codec.encode(&columns, None, 30).unwrap().groups;
        let owners = codec.partitions(&columns, 30, partitions).unwrap();
        for (group, owner) in groups.iter().zip(owners) {
            prop_assert!(GROUPS.range_of(owner, partitions).contains(*group));
        }
    }

    /// Damage gives an error or another key, never a panic; a key in the wrong group is found.
    #[test]
    fn damaged_bytes_never_panic(seed: u64, at: usize, with: u8, keep: usize) {
        let mut dice = Dice(seed);
        for data_type in types() {
            let codec = codec(KeyLayout::Key, &[data_type.clone(), DataType::Utf8]);
            let columns = [column(&data_type, 1, &mut dice), column(&DataType::Utf8, 1, &mut dice)];
            let whole = codec.encode(&columns, None, 1).unwrap().keys.value(0).to_vec();
            let length = whole.len();
            let mut flipped = whole[2..].to_vec();
            flipped[at % (length - 2)] ^= with;
            let group = GROUPS.group_of(xxhash_rust::xxh3::xxh3_64(&flipped));
            let flipped = [&group.prefix()[..], &flipped].concat();
            let _ = codec.decode(&BinaryArray::from(vec![flipped.as_slice()]));
            let cut = &whole[2..2 + keep % (length - 2)];
            let group = GROUPS.group_of(xxhash_rust::xxh3::xxh3_64(cut));
            let cut = [&group.prefix()[..], cut].concat();
            let error = codec.decode(&BinaryArray::from(vec![cut.as_slice()])).unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
            let mut moved = whole;
            moved[1] ^= 1;
            let error = codec.decode(&BinaryArray::from(vec![moved.as_slice()])).unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(key: Vec<u8>) {
        let group = GROUPS.group_of(xxhash_rust::xxh3::xxh3_64(&key));
        let key = [&group.prefix()[..], &key].concat();
        for data_type in types() {
            let codec = codec(KeyLayout::Key, &[data_type]);
            let _ = codec.decode(&BinaryArray::from(vec![key.as_slice()]));
        }
    }
}
