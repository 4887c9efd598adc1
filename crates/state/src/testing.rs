//! Random columns of every type that state can hold, for the tests of both codecs.

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
use std::sync::Arc;

/// A small generator: the same seed, the same column.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn nulls(&mut self, rows: usize) -> Option<NullBuffer> {
        match self.below(2) {
            0 => None,
            _ => Some((0..rows).map(|_| self.below(4) > 0).collect()),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = [0, 1, 7, 8, 9, 31, 32, 33, 70][self.below(9)];
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn text(&mut self) -> String {
        let length = [0, 1, 3, 8, 11, 12, 13, 40][self.below(8)];
        (0..length).map(|_| ['a', 'b', '\0', 'é', '語', '😀'][self.below(6)]).collect()
    }

    fn float(&mut self) -> f64 {
        match self.below(9) {
            0 => 0.0,
            1 => -0.0,
            2 => f64::NAN,
            3 => f64::from_bits(0xFFF8_0000_0000_0001),
            4 => f64::INFINITY,
            5 => f64::NEG_INFINITY,
            6 => f64::MIN_POSITIVE / 2.0,
            7 => self.below(3) as f64,
            _ => f64::from_bits(self.next()),
        }
    }
}

fn item(data_type: DataType, nullable: Nullable) -> FieldRef {
    Arc::new(Field::new("item", data_type, nullable == Nullable::Yes))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nullable {
    Yes,
    No,
}

/// Every type, nested ones two deep.
pub(crate) fn types() -> Vec<DataType> {
    use DataType::*;
    let pair = Struct(Fields::from(vec![
        Field::new("x", Int64, false),
        Field::new("y", List(item(Float64, Nullable::Yes)), true),
    ]));
    let entries = Struct(Fields::from(vec![
        Field::new("key", Utf8, false),
        Field::new("value", Float32, true),
    ]));
    let map = Map(Arc::new(Field::new("entries", entries, false)), false);
    vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Decimal128(20, 3),
        Decimal256(50, 3),
        Date32,
        Date64,
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
        Duration(TimeUnit::Second),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(5),
        List(item(Int32, Nullable::No)),
        LargeList(item(Utf8View, Nullable::Yes)),
        List(item(Null, Nullable::Yes)),
        FixedSizeList(item(Float64, Nullable::Yes), 3),
        List(item(List(item(Float64, Nullable::Yes)), Nullable::Yes)),
        pair.clone(),
        List(item(pair.clone(), Nullable::Yes)),
        Struct(Fields::from(vec![Field::new("p", pair, true), Field::new("m", map.clone(), true)])),
        map.clone(),
        List(item(map, Nullable::Yes)),
        Dictionary(Box::new(Int32), Box::new(Utf8)),
        Dictionary(Box::new(Int8), Box::new(Float64)),
        Struct(Fields::from(vec![Field::new(
            "d",
            Dictionary(Box::new(Int32), Box::new(LargeUtf8)),
            true,
        )])),
        Struct(Fields::empty()),
    ]
}

/// A random column of this type.
pub(crate) fn column(data_type: &DataType, rows: usize, dice: &mut Dice) -> ArrayRef {
    let nulls = dice.nulls(rows);
    column_with(data_type, rows, nulls, dice)
}

fn fixed(
    data_type: &DataType,
    width: usize,
    nulls: Option<NullBuffer>,
    values: Vec<u8>,
) -> ArrayRef {
    let mut buffer = arrow::buffer::MutableBuffer::new(values.len());
    buffer.extend_from_slice(&values);
    let rows = values.len() / width;
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(buffer.into());
    make_array(data.nulls(nulls).build().unwrap())
}

fn column_with(
    data_type: &DataType,
    rows: usize,
    nulls: Option<NullBuffer>,
    dice: &mut Dice,
) -> ArrayRef {
    let offsets = |dice: &mut Dice| {
        OffsetBuffer::<i32>::from_lengths((0..rows).map(|_| dice.below(4)).collect::<Vec<_>>())
    };
    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        DataType::Boolean => {
            Arc::new(BooleanArray::new((0..rows).map(|_| dice.below(2) == 0).collect(), nulls))
        }
        DataType::Float16 => {
            let values = Float64Array::from_iter_values((0..rows).map(|_| dice.float()));
            let halves = cast(&values, data_type).unwrap();
            make_array(halves.to_data().into_builder().nulls(nulls).build().unwrap())
        }
        DataType::Float32 => {
            let values = (0..rows).flat_map(|_| (dice.float() as f32).to_le_bytes()).collect();
            fixed(data_type, 4, nulls, values)
        }
        DataType::Float64 => {
            let values = (0..rows).flat_map(|_| dice.float().to_le_bytes()).collect();
            fixed(data_type, 8, nulls, values)
        }
        DataType::Decimal128(..) => {
            let values =
                (0..rows).flat_map(|_| i128::from(dice.next() as i64).to_le_bytes()).collect();
            fixed(data_type, 16, nulls, values)
        }
        DataType::Decimal256(..) => {
            let values = (0..rows)
                .flat_map(|_| i256::from_i128(i128::from(dice.next() as i64)).to_le_bytes())
                .collect();
            fixed(data_type, 32, nulls, values)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let values = StringArray::from_iter_values((0..rows).map(|_| dice.text()));
            let (offsets, bytes, _) = values.into_parts();
            cast(&StringArray::new(offsets, bytes, nulls), data_type).unwrap()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let values = BinaryArray::from_iter_values((0..rows).map(|_| dice.bytes()));
            let (offsets, bytes, _) = values.into_parts();
            cast(&BinaryArray::new(offsets, bytes, nulls), data_type).unwrap()
        }
        DataType::FixedSizeBinary(size) => {
            let values = (0..rows * *size as usize).map(|_| dice.next() as u8).collect();
            fixed(data_type, *size as usize, nulls, values)
        }
        DataType::List(field) => {
            let offsets = offsets(dice);
            let length = offsets[rows] as usize;
            let nulls_of = if field.is_nullable() { dice.nulls(length) } else { None };
            let items = column_with(field.data_type(), length, nulls_of, dice);
            Arc::new(ListArray::new(field.clone(), offsets, items, nulls))
        }
        DataType::LargeList(field) => {
            let list = column_with(&DataType::List(field.clone()), rows, nulls, dice);
            cast(&list, data_type).unwrap()
        }
        DataType::FixedSizeList(field, size) => {
            let items = column(field.data_type(), rows * *size as usize, dice);
            Arc::new(FixedSizeListArray::new(field.clone(), *size, items, nulls))
        }
        DataType::Struct(fields) => {
            let columns = fields
                .iter()
                .map(|f| match f.is_nullable() {
                    true => column(f.data_type(), rows, dice),
                    false => column_with(f.data_type(), rows, None, dice),
                })
                .collect();
            let fields = fields.clone();
            Arc::new(StructArray::try_new_with_length(fields, columns, nulls, rows).unwrap())
        }
        DataType::Map(field, ordered) => {
            let offsets = offsets(dice);
            let entries = column_with(field.data_type(), offsets[rows] as usize, None, dice);
            let entries = entries.as_struct().clone();
            Arc::new(MapArray::new(field.clone(), offsets, entries, nulls, *ordered))
        }
        DataType::Dictionary(_, values) => {
            cast(&column_with(values, rows, nulls, dice), data_type).unwrap()
        }
        other => {
            let width = other.primitive_width().unwrap();
            let value = |dice: &mut Dice| match dice.below(4) {
                0 => 0,
                1 => u64::MAX,
                2 => dice.below(3) as u64,
                _ => dice.next(),
            };
            let values = (0..rows)
                .flat_map(|_| {
                    let (a, b) = (value(dice), value(dice));
                    [a.to_le_bytes(), b.to_le_bytes()].concat()[..width].to_vec()
                })
                .collect();
            fixed(other, width, nulls, values)
        }
    }
}
