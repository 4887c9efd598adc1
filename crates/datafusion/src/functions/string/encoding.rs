//! Text as bytes and back.

use crate::functions::error::spark;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringArray};
use datafusion::common::{DataFusionError, Result};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Text, TextOrBinary};
    vec![
        Spec::new(&["encode"], &[Text, Text], Gives::Binary, encode),
        Spec::new(&["decode"], &[TextOrBinary, Text], Gives::Text, decode),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Charset {
    Ascii,
    Latin1,
    Utf8,
    Utf16,
    Utf16Be,
    Utf16Le,
}

fn charset(function: &str, name: &str) -> Result<Charset> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "US-ASCII" => Charset::Ascii,
        "ISO-8859-1" => Charset::Latin1,
        "UTF-8" => Charset::Utf8,
        "UTF-16" => Charset::Utf16,
        "UTF-16BE" => Charset::Utf16Be,
        "UTF-16LE" => Charset::Utf16Le,
        _ => {
            return Err(spark(
                "INVALID_PARAMETER_VALUE.CHARSET",
                format!(
                    "`{function}` knows UTF-8, UTF-16, UTF-16BE, UTF-16LE, ISO-8859-1 and \
                     US-ASCII, not {name}"
                ),
            ));
        }
    })
}

fn no_character(function: &str, name: &str) -> DataFusionError {
    spark(
        "MALFORMED_CHARACTER_CODING",
        format!("`{function}` met a character that {name} does not have"),
    )
}

fn encode(call: &Call<'_>) -> Result<ArrayRef> {
    let one = |(text, name): (Option<&str>, Option<&str>)| -> Result<Option<Vec<u8>>> {
        let Some((text, name)) = text.zip(name) else { return Ok(None) };
        let narrow = |limit: u32| {
            let byte = |c: char| u8::try_from(u32::from(c)).ok().filter(|b| u32::from(*b) < limit);
            text.chars().map(byte).collect::<Option<Vec<u8>>>()
        };
        let units = || text.encode_utf16();
        let bytes = match charset("encode", name)? {
            Charset::Utf8 => Some(text.as_bytes().to_vec()),
            Charset::Ascii => narrow(0x80),
            Charset::Latin1 => narrow(0x100),
            Charset::Utf16 => {
                Some([0xfe, 0xff].into_iter().chain(units().flat_map(u16::to_be_bytes)).collect())
            }
            Charset::Utf16Be => Some(units().flat_map(u16::to_be_bytes).collect()),
            Charset::Utf16Le => Some(units().flat_map(u16::to_le_bytes).collect()),
        };
        bytes.map(Some).ok_or_else(|| no_character("encode", name))
    };
    let rows = call.text(0).iter().zip(call.text(1)).map(one).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(BinaryArray::from_iter(rows)))
}

fn decode(call: &Call<'_>) -> Result<ArrayRef> {
    let input = arrow::compute::cast(&call.args[0], &arrow::datatypes::DataType::Binary)?;
    let input = input.as_binary::<i32>();
    let one = |row: usize| -> Result<Option<String>> {
        let names = call.text(1);
        if input.is_null(row) || names.is_null(row) {
            return Ok(None);
        }
        let (bytes, name) = (input.value(row), names.value(row));
        let units = |bytes: &[u8], of: fn([u8; 2]) -> u16| {
            let (pairs, rest) = bytes.as_chunks::<2>();
            let units: Vec<u16> = pairs.iter().map(|pair| of(*pair)).collect();
            String::from_utf16(&units).ok().filter(|_| rest.is_empty())
        };
        let text = match charset("decode", name)? {
            Charset::Utf8 => String::from_utf8(bytes.to_vec()).ok(),
            Charset::Ascii => bytes.is_ascii().then(|| String::from_utf8_lossy(bytes).into_owned()),
            Charset::Latin1 => Some(bytes.iter().map(|b| char::from(*b)).collect()),
            Charset::Utf16 => match bytes {
                [0xff, 0xfe, rest @ ..] => units(rest, u16::from_le_bytes),
                [0xfe, 0xff, rest @ ..] => units(rest, u16::from_be_bytes),
                rest => units(rest, u16::from_be_bytes),
            },
            Charset::Utf16Be => units(bytes, u16::from_be_bytes),
            Charset::Utf16Le => units(bytes, u16::from_le_bytes),
        };
        text.map(Some).ok_or_else(|| no_character("decode", name))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<StringArray>>()?))
}
