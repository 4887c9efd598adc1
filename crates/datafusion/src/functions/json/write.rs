//! `to_json`.

use super::value::write_text;
use crate::functions::cast::{decimal_text, double_text, write_value};
use crate::functions::datetime::Pattern;
use crate::functions::error::unexpected_type;
use crate::functions::function::{Call, Gives, Kind, Spec};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, TimestampMicrosecondType,
};
use datafusion::common::Result;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    vec![Spec::new(&["to_json"], &[Kind::Any], Gives::Text, to_json).may_be_null()]
}

struct Writer {
    zone: Zone,
    timestamps: Pattern,
    local_timestamps: Pattern,
}

fn to_json(call: &Call<'_>) -> Result<ArrayRef> {
    let column = &call.args[0];
    match column.data_type() {
        DataType::Struct(_) | DataType::List(_) | DataType::Map(..) => {}
        other => return Err(unexpected_type("to_json", "a struct, an array or a map", other)),
    }
    let writer = Writer::in_zone(call.zone)?;
    let one = |row: usize| -> Result<Option<String>> {
        if column.is_null(row) {
            return Ok(None);
        }
        let mut out = String::new();
        writer.write(column, row, &mut out)?;
        Ok(Some(out))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<StringArray>>()?))
}

/// Rows, given as structs, as `to_json` writes them; times in UTC.
pub(crate) fn json_of_rows(rows: &ArrayRef) -> Result<StringArray> {
    let writer = Writer::in_zone(Zone::UTC)?;
    let one = |row: usize| -> Result<String> {
        let mut out = String::new();
        writer.write(rows, row, &mut out)?;
        Ok(out)
    };
    Ok(StringArray::from_iter_values((0..rows.len()).map(one).collect::<Result<Vec<_>>>()?))
}

/// Whether there is no value: a column of type VOID has none.
fn is_absent(column: &dyn Array, row: usize) -> bool {
    column.is_null(row) || *column.data_type() == DataType::Null
}

impl Writer {
    fn in_zone(zone: Zone) -> Result<Self> {
        Ok(Self {
            zone,
            timestamps: Pattern::parse("yyyy-MM-dd'T'HH:mm:ss.SSSXXX")?,
            local_timestamps: Pattern::parse("yyyy-MM-dd'T'HH:mm:ss.SSS")?,
        })
    }

    fn write(&self, column: &dyn Array, row: usize, out: &mut String) -> Result<()> {
        if is_absent(column, row) {
            out.push_str("null");
            return Ok(());
        }
        match column.data_type() {
            DataType::Struct(fields) => {
                out.push('{');
                let mut first = true;
                for (field, values) in fields.iter().zip(column.as_struct().columns()) {
                    // Fields without a value are left out.
                    if is_absent(values, row) {
                        continue;
                    }
                    out.push_str(if first { "" } else { "," });
                    first = false;
                    write_text(field.name(), out);
                    out.push(':');
                    self.write(values, row, out)?;
                }
                out.push('}');
            }
            DataType::List(_) => {
                let items = column.as_list::<i32>().value(row);
                out.push('[');
                for i in 0..items.len() {
                    out.push_str(if i == 0 { "" } else { "," });
                    self.write(&items, i, out)?;
                }
                out.push(']');
            }
            DataType::Map(..) => {
                let entries = column.as_map().value(row);
                let (keys, values) = (entries.column(0), entries.column(1));
                out.push('{');
                for i in 0..entries.len() {
                    out.push_str(if i == 0 { "" } else { "," });
                    let mut key = String::new();
                    write_value(keys, i, self.zone, &mut key)?;
                    write_text(&key, out);
                    out.push(':');
                    self.write(values, i, out)?;
                }
                out.push('}');
            }
            DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64 => write_value(column, row, self.zone, out)?,
            DataType::Decimal128(_, scale) => {
                let value = column.as_primitive::<Decimal128Type>().value(row);
                out.push_str(&decimal_text(value, *scale));
            }
            DataType::Float32 if column.as_primitive::<Float32Type>().value(row).is_finite() => {
                write_value(column, row, self.zone, out)?;
            }
            DataType::Float64 => {
                let value = column.as_primitive::<Float64Type>().value(row);
                if value.is_finite() {
                    out.push_str(&double_text(value));
                } else {
                    write_text(&double_text(value), out);
                }
            }
            DataType::Timestamp(_, has_zone) => {
                let value = column.as_primitive::<TimestampMicrosecondType>().value(row);
                out.push('"');
                match has_zone {
                    Some(_) => self.timestamps.write(value, self.zone, out),
                    None => self.local_timestamps.write(value, Zone::UTC, out),
                }
                out.push('"');
            }
            DataType::Binary => {
                write_text(&base64(column.as_binary::<i32>().value(row)), out);
            }
            _ => {
                let mut text = String::new();
                write_value(column, row, self.zone, &mut text)?;
                write_text(&text, out);
            }
        }
        Ok(())
    }
}

/// Bytes in base 64, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |v, b| v << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = (group >> (18 - 6 * i) & 63) as usize;
            out.push(if i <= chunk.len() { char::from(DIGITS[digit]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_base_64() {
        for (bytes, text) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
