//! Arrow types to Spark's names.

use arrow::datatypes::{DataType, IntervalUnit};
use std::fmt::Write;

/// The name of a type in Spark's DDL: `BIGINT`, `ARRAY<STRING>`, `STRUCT<x: INT, y: STRING>`.
/// A type that Spark does not have is shown by Arrow's name.
pub fn ddl_name(data_type: &DataType) -> String {
    let mut name = String::new();
    write_name(data_type, &mut name);
    name
}

fn write_name(data_type: &DataType, out: &mut String) {
    let simple = match data_type {
        DataType::Null => "VOID",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 | DataType::UInt8 => "SMALLINT",
        DataType::Int32 | DataType::UInt16 => "INT",
        DataType::Int64 | DataType::UInt32 => "BIGINT",
        DataType::UInt64 => "DECIMAL(20,0)",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BINARY",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP",
        DataType::Timestamp(_, None) => "TIMESTAMP_NTZ",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Duration(_) => "INTERVAL DAY TO SECOND",
        DataType::Interval(IntervalUnit::YearMonth) => "INTERVAL YEAR TO MONTH",
        DataType::Interval(_) => "INTERVAL",
        other => return write_compound(other, out),
    };
    out.push_str(simple);
}

fn write_compound(data_type: &DataType, out: &mut String) {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "DECIMAL({precision},{scale})");
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => {
            out.push_str("ARRAY<");
            write_name(item.data_type(), out);
            out.push('>');
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                out.push_str("MAP<");
                write_name(fields[0].data_type(), out);
                out.push_str(", ");
                write_name(fields[1].data_type(), out);
                out.push('>');
            }
            other => out.push_str(&other.to_string()),
        },
        DataType::Struct(fields) => {
            out.push_str("STRUCT<");
            for (i, field) in fields.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_identifier(field.name(), out);
                out.push_str(": ");
                write_name(field.data_type(), out);
            }
            out.push('>');
        }
        DataType::Dictionary(_, value) => write_name(value, out),
        DataType::RunEndEncoded(_, value) => write_name(value.data_type(), out),
        other => out.push_str(&other.to_string()),
    }
}

/// A name as the parser reads it back: bare if it can be.
fn write_identifier(name: &str, out: &mut String) {
    let bare = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if bare {
        out.push_str(name);
    } else {
        out.push('`');
        out.push_str(&name.replace('`', "``"));
        out.push('`');
    }
}
