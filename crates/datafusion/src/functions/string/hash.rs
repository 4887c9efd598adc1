//! `hash`: Murmur3 as Spark computes it, over columns of any type.

use crate::functions::error::spark;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use datafusion::common::Result;
use fluvial_core::ddl::ddl_name;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    vec![Spec::new(&["hash"], &[Kind::Any], Gives::Int, hash).and_more(Kind::Any).never_null()]
}

const SEED: u32 = 42;

fn hash(call: &Call<'_>) -> Result<ArrayRef> {
    let one = |row: usize| -> Result<i32> {
        let mut hash = SEED;
        for column in &call.args {
            hash = value(column, row, hash)?;
        }
        Ok(hash as i32)
    };
    let hashes = (0..call.rows).map(one).collect::<Result<Vec<i32>>>()?;
    Ok(Arc::new(Int32Array::from(hashes)))
}

/// The hash of a value on top of another; nulls leave it as it is.
fn value(column: &ArrayRef, row: usize, seed: u32) -> Result<u32> {
    if column.is_null(row) || *column.data_type() == DataType::Null {
        return Ok(seed);
    }
    Ok(match column.data_type() {
        DataType::Boolean => int(u32::from(column.as_boolean().value(row)), seed),
        DataType::Int8 => int(i32::from(column.as_primitive::<Int8Type>().value(row)) as u32, seed),
        DataType::Int16 => {
            int(i32::from(column.as_primitive::<Int16Type>().value(row)) as u32, seed)
        }
        DataType::Int32 => int(column.as_primitive::<Int32Type>().value(row) as u32, seed),
        DataType::Date32 => int(column.as_primitive::<Date32Type>().value(row) as u32, seed),
        DataType::Int64 => long(column.as_primitive::<Int64Type>().value(row) as u64, seed),
        DataType::Timestamp(..) => {
            long(column.as_primitive::<TimestampMicrosecondType>().value(row) as u64, seed)
        }
        DataType::Float32 => {
            // The two zeros are one value.
            let v = column.as_primitive::<Float32Type>().value(row) + 0.0;
            int(if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }, seed)
        }
        DataType::Float64 => {
            let v = column.as_primitive::<Float64Type>().value(row) + 0.0;
            long(if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() }, seed)
        }
        DataType::Decimal128(precision, _) => {
            let v = column.as_primitive::<Decimal128Type>().value(row);
            if *precision <= 18 {
                long(v as i64 as u64, seed)
            } else {
                bytes(minimal(&v.to_be_bytes()), seed)
            }
        }
        DataType::Utf8 => bytes(column.as_string::<i32>().value(row).as_bytes(), seed),
        DataType::Binary => bytes(column.as_binary::<i32>().value(row), seed),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            (0..items.len()).try_fold(seed, |hash, i| value(&items, i, hash))?
        }
        DataType::Struct(_) => {
            let fields = column.as_struct().columns();
            fields.iter().try_fold(seed, |hash, field| value(field, row, hash))?
        }
        other => {
            return Err(spark(
                "DATATYPE_MISMATCH.HASH_MAP_TYPE",
                format!("`hash` does not take {}", ddl_name(other)),
            ));
        }
    })
}

/// Two's complement without bytes that only repeat the sign.
fn minimal(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, second, ..] = rest
        && ((*first == 0 && *second < 0x80) || (*first == 0xff && *second >= 0x80))
    {
        rest = &rest[1..];
    }
    rest
}

fn mix_key(key: u32) -> u32 {
    key.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

fn mix_hash(hash: u32, key: u32) -> u32 {
    (hash ^ key).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

fn finish(hash: u32, length: u32) -> u32 {
    let mut hash = hash ^ length;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

fn int(value: u32, seed: u32) -> u32 {
    finish(mix_hash(seed, mix_key(value)), 4)
}

fn long(value: u64, seed: u32) -> u32 {
    let hash = mix_hash(seed, mix_key(value as u32));
    finish(mix_hash(hash, mix_key((value >> 32) as u32)), 8)
}

/// Words of four bytes, then, unlike Murmur3 elsewhere, single bytes with their sign.
fn bytes(bytes: &[u8], seed: u32) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let hash =
        words.iter().fold(seed, |hash, word| mix_hash(hash, mix_key(u32::from_le_bytes(*word))));
    let hash = rest.iter().fold(hash, |hash, byte| mix_hash(hash, mix_key(*byte as i8 as u32)));
    finish(hash, bytes.len() as u32)
}
