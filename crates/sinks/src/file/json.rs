//! Values in JSON as Spark writes them, where the library's own form differs.

use super::times::{TextTimes, Values};
use arrow::array::{Array, ArrayRef, AsArray, MapArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use std::io::Write;
use std::sync::Arc;

/// Timestamps as `2026-01-01T00:00:01.500Z` or as the user describes them, bytes in base64, `NaN` and infinities as text; nulls
/// in maps always: an entry without its value is not none.
#[derive(Debug)]
pub(crate) struct SparkForms(pub(crate) Arc<TextTimes>);

impl EncoderFactory for SparkForms {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        if let Some(values) = Values::of(array, &self.0)? {
            return Ok(Some(NullableEncoder::new(Box::new(Times(values)), array.nulls().cloned())));
        }
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Float32 => Box::new(Floats { array, wide: cast(array, &DataType::Float64)? }),
            DataType::Float64 => Box::new(Floats { array, wide: cast(array, &DataType::Float64)? }),
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Box::new(Bytes(cast(array, &DataType::Binary)?)),
            DataType::Map(entries, _) if is_text(entries) => {
                Box::new(Maps::new(field, array.as_map(), options)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

struct Times(Values);

impl Encoder for Times {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        for byte in self.0.text(row).bytes() {
            // What stands between the fields is the user's.
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
}

struct Floats<'a> {
    array: &'a dyn Array,
    wide: ArrayRef,
}

impl Encoder for Floats<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value = self.wide.as_primitive::<Float64Type>().value(row);
        if value.is_nan() {
            put(out, format_args!("\"NaN\""));
        } else if value.is_infinite() {
            put(out, format_args!("\"{}Infinity\"", if value < 0.0 { "-" } else { "" }));
        } else if let Some(narrow) =
            self.array.as_any().downcast_ref::<arrow::array::Float32Array>()
        {
            put(out, format_args!("{:?}", narrow.value(row)));
        } else {
            put(out, format_args!("{value:?}"));
        }
    }
}

struct Bytes(ArrayRef);

impl Encoder for Bytes {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        push_base64(self.0.as_binary::<i32>().value(row), out);
        out.push(b'"');
    }
}

/// Whether keys are texts; the library refuses others.
fn is_text(entries: &FieldRef) -> bool {
    let DataType::Struct(pair) = entries.data_type() else { return false };
    let keys = pair.first().map(|key| key.data_type());
    matches!(keys, Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View))
}

struct Maps<'a> {
    offsets: OffsetBuffer<i32>,
    keys: NullableEncoder<'a>,
    values: NullableEncoder<'a>,
}

impl<'a> Maps<'a> {
    fn new(
        field: &'a FieldRef,
        maps: &'a MapArray,
        options: &'a EncoderOptions,
    ) -> Result<Self, ArrowError> {
        let keys = make_encoder(field, maps.keys(), options)?;
        let values = make_encoder(field, maps.values(), options)?;
        Ok(Self { offsets: maps.offsets().clone(), keys, values })
    }
}

impl Encoder for Maps<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        let (start, end) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        for entry in start..end {
            if entry > start {
                out.push(b',');
            }
            self.keys.encode(entry, out);
            out.push(b':');
            if self.values.is_null(entry) {
                out.extend_from_slice(b"null");
            } else {
                self.values.encode(entry, out);
            }
        }
        out.push(b'}');
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes all");
}

/// RFC 4648, with padding.
fn push_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            if digit <= chunk.len() {
                out.push(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]);
            } else {
                out.push(b'=');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            let mut out = Vec::new();
            push_base64(bytes.as_bytes(), &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
