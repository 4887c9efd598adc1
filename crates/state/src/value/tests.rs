use super::*;
use crate::testing::{Dice, column, types};
use arrow::array::{Array, ArrayRef, BinaryArray, Float64Array, Int64Array, StringArray};
use arrow::datatypes::DataType;
use fluvial_core::ErrorKind;
use proptest::prelude::*;
use std::sync::Arc;

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
}

#[test]
fn golden_bytes() {
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from(vec![Some(258), None])),
        Arc::new(StringArray::from(vec![Some("ab"), None])),
        Arc::new(Float64Array::from(vec![-0.0, 1.5])),
    ];
    let types = columns.iter().map(|c| c.data_type().clone()).collect();
    let values = ValueCodec::new(types).unwrap().encode(&columns, 2).unwrap();
    let full = "01 07 02 01 00 00 00 00 00 00 02 61 62 00 00 00 00 00 00 00 80";
    assert_eq!(values.value(0), bytes(full));
    assert_eq!(values.value(1), bytes("01 04 00 00 00 00 00 00 f8 3f"));
}

#[test]
fn golden_bytes_of_lists() {
    let list = arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Int16Type, _, _>([
        Some(vec![Some(1), Some(-1)]),
        Some(vec![Some(1), None]),
        Some(vec![]),
    ]);
    let codec = ValueCodec::new(vec![list.data_type().clone()]).unwrap();
    let values = codec.encode(&[Arc::new(list)], 3).unwrap();
    assert_eq!(values.value(0), bytes("01 01 04 01 00 ff ff"));
    assert_eq!(values.value(1), bytes("01 01 05 01 01 00"));
    assert_eq!(values.value(2), bytes("01 01 00"));
}

#[test]
fn values_without_columns_and_missing_values() {
    let codec = ValueCodec::new(vec![]).unwrap();
    let values = codec.encode(&[], 2).unwrap();
    assert_eq!((values.len(), values.value(1)), (2, &[VALUE_FORMAT][..]));
    assert!(codec.decode(&values).unwrap().is_empty());
    let codec = ValueCodec::new(vec![DataType::Int64]).unwrap();
    let decoded = codec.decode(&BinaryArray::from(vec![None, None])).unwrap();
    assert_eq!((decoded[0].len(), decoded[0].null_count()), (2, 2));
}

#[test]
fn newer_formats_and_other_columns_are_refused() {
    let codec = ValueCodec::new(vec![DataType::Int64]).unwrap();
    let newer = codec.decode(&BinaryArray::from(vec![&[2u8, 0][..]])).unwrap_err();
    assert_eq!(newer.kind(), ErrorKind::Invalid);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    assert_eq!(codec.encode(&[text], 1).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(codec.encode(&[], 1).unwrap_err().kind(), ErrorKind::Invalid);
    let union = DataType::Union(
        arrow::datatypes::UnionFields::empty(),
        arrow::datatypes::UnionMode::Sparse,
    );
    assert_eq!(ValueCodec::new(vec![union]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_false_length_allocates_nothing() {
    let list = types().into_iter().filter(|t| matches!(t, DataType::List(_) | DataType::Utf8));
    for data_type in list {
        let codec = ValueCodec::new(vec![data_type]).unwrap();
        for length in [[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], [0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]] {
            let value = [&[VALUE_FORMAT, 1][..], &length].concat();
            let error = codec.decode(&BinaryArray::from(vec![value.as_slice()])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }
}

proptest! {
    // Each case goes through every type.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Also from the middle of a longer column.
    #[test]
    fn every_bit_comes_back(seed: u64, rows in 0usize..20, skip in 0usize..3) {
        let mut dice = Dice(seed);
        for data_type in types() {
            let whole = column(&data_type, rows + skip, &mut dice);
            let other = column(&DataType::UInt8, rows, &mut dice);
            let columns = [whole.slice(skip, rows), other];
            let codec = ValueCodec::new(vec![data_type.clone(), DataType::UInt8]).unwrap();
            let values = codec.encode(&columns, rows).unwrap();
            let decoded = codec.decode(&values).unwrap();
            prop_assert_eq!(&decoded[0], &columns[0], "{}", &data_type);
            prop_assert_eq!(&decoded[1], &columns[1]);
            prop_assert_eq!(codec.encode(&decoded, rows).unwrap(), values);
        }
    }

    /// Damage gives an error or another value, never a panic.
    #[test]
    fn damaged_bytes_never_panic(seed: u64, at: usize, with: u8, keep: usize) {
        let mut dice = Dice(seed);
        for data_type in types() {
            let codec = ValueCodec::new(vec![data_type.clone(), data_type.clone()]).unwrap();
            let columns = [column(&data_type, 1, &mut dice), column(&data_type, 1, &mut dice)];
            let whole = codec.encode(&columns, 1).unwrap().value(0).to_vec();
            let mut flipped = whole.clone();
            let length = flipped.len();
            flipped[at % length] ^= with;
            let _ = codec.decode(&BinaryArray::from(vec![flipped.as_slice()]));
            let cut = &whole[..keep % length];
            prop_assert!(codec.decode(&BinaryArray::from(vec![cut])).is_err());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut value: Vec<u8>) {
        if let Some(format) = value.first_mut() {
            *format = VALUE_FORMAT;
        }
        for data_type in types() {
            let codec = ValueCodec::new(vec![data_type]).unwrap();
            let _ = codec.decode(&BinaryArray::from(vec![value.as_slice()]));
        }
    }
}
