//! Rows as files that carry their schema: Avro and ORC.

#[cfg(feature = "avro")]
mod avro;
#[cfg(feature = "orc")]
mod orc;

use super::cast_rows;
use crate::file::options::ContainerFormat;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use fluvial_core::ddl::ddl_name;
use fluvial_core::{Error, Result};
use std::fmt::Display;
use std::sync::Arc;

/// One file on its way.
pub(crate) struct ContainerEncoder {
    schema: SchemaRef,
    form: Form,
}

enum Form {
    #[cfg(feature = "avro")]
    Avro(avro::AvroFile),
    #[cfg(feature = "orc")]
    Orc(orc::OrcFile),
}

impl ContainerEncoder {
    /// A file with columns of `schema`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the format has no place for a name or a type.
    pub(crate) fn new(format: ContainerFormat, schema: &Schema) -> Result<Self> {
        for field in schema.fields() {
            check(format, field)?;
        }
        let fields: Fields = schema.fields().iter().map(|field| stored(format, field)).collect();
        let schema = Arc::new(Schema::new(fields));
        let form = match format {
            #[cfg(feature = "avro")]
            ContainerFormat::Avro(compression) => {
                Form::Avro(avro::AvroFile::new(compression, &schema)?)
            }
            #[cfg(feature = "orc")]
            ContainerFormat::Orc(compression) => {
                Form::Orc(orc::OrcFile::new(compression, Arc::clone(&schema)))
            }
        };
        Ok(Self { schema, form })
    }

    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = cast_rows(rows, self.schema.clone())?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        match &mut self.form {
            #[cfg(feature = "avro")]
            Form::Avro(file) => file.write(&rows),
            #[cfg(feature = "orc")]
            Form::Orc(file) => {
                file.write(rows);
                Ok(())
            }
        }
    }

    /// Bytes of rows that become bytes of the file at its end only.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.form {
            #[cfg(feature = "avro")]
            Form::Avro(_) => 0,
            #[cfg(feature = "orc")]
            Form::Orc(file) => file.held_bytes(),
        }
    }

    pub(crate) fn take_ready(&mut self) -> Vec<u8> {
        match &self.form {
            #[cfg(feature = "avro")]
            Form::Avro(file) => file.take_ready(),
            #[cfg(feature = "orc")]
            Form::Orc(_) => Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        match self.form {
            #[cfg(feature = "avro")]
            Form::Avro(file) => file.finish(),
            #[cfg(feature = "orc")]
            Form::Orc(file) => file.finish(),
        }
    }
}

fn failed(format: &str, error: &dyn Display) -> Error {
    Error::invalid(format!("the rows cannot be written as {format}: {error}"))
}

/// How a column is stored: small integers as `int` in Avro, times in microseconds and in UTC.
fn stored(format: ContainerFormat, field: &FieldRef) -> FieldRef {
    let data_type = stored_type(format, field.data_type());
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

fn stored_type(format: ContainerFormat, data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::Int16 if format.name() == "avro" => DataType::Int32,
        DataType::Timestamp(_, Some(_)) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, None) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| stored(format, field)).collect())
        }
        DataType::List(item) => DataType::List(stored(format, item)),
        DataType::Map(entries, sorted) => DataType::Map(stored(format, entries), *sorted),
        other => other.clone(),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// What the libraries cannot write, and would not say.
fn check(format: ContainerFormat, field: &Field) -> Result<()> {
    use DataType::*;
    let takes = match field.data_type() {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Date32 => true,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Timestamp(..) => true,
        Decimal128(..) => format.name() == "avro",
        Struct(fields) if format.name() == "avro" => {
            return fields.iter().try_for_each(|field| check(format, field));
        }
        List(item) if format.name() == "avro" => return check(format, item),
        Map(entries, _) if format.name() == "avro" => match entries.data_type() {
            Struct(pair) if pair.len() == 2 && is_text(pair[0].data_type()) => {
                return check(format, &pair[1]);
            }
            _ => false,
        },
        _ => false,
    };
    if !takes {
        return Err(Error::invalid(format!(
            "column `{}` is {}, which cannot be written as {}: cast it, or write Parquet",
            field.name(),
            ddl_name(field.data_type()),
            format.name()
        ))
        .with_condition("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"));
    }
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let named = field.name().starts_with(letter)
        && field.name().chars().all(|c| letter(c) || c.is_ascii_digit());
    if format.name() == "avro" && !named {
        return Err(Error::invalid(format!(
            "column `{}` has a name that Avro does not take (letters, digits and _ in ASCII, no \
             digit first): give it another one",
            field.name()
        ))
        .with_condition("INVALID_COLUMN_NAME"));
    }
    Ok(())
}

#[cfg(all(test, feature = "avro", feature = "orc"))]
mod tests {
    use super::*;
    use crate::file::options::{FileFormat, FileOptions};
    use fluvial_core::ddl::parse_ddl;
    use fluvial_core::options::Options;

    fn format(name: &str) -> ContainerFormat {
        match FileOptions::parse(name, Options::default(), Vec::new()).unwrap().format {
            FileFormat::Container(format) => format,
            _ => panic!("{name}"),
        }
    }

    #[test]
    fn what_cannot_be_written_is_refused_by_name() {
        for (name, ddl, word) in [
            ("orc", "a INT, b ARRAY<INT>", "`b`"),
            ("orc", "d DECIMAL(10, 2)", "`d`"),
            ("avro", "m MAP<INT, INT>", "`m`"),
            ("avro", "`a b` INT", "`a b`"),
            ("avro", "s STRUCT<`1`: INT>", "`1`"),
        ] {
            let schema = parse_ddl(ddl).unwrap();
            let error = ContainerEncoder::new(format(name), &schema).err().unwrap();
            assert!(error.message().contains(word), "{error}");
            assert!(error.condition().is_some());
        }
        let all = "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DATE, \
                   i TIMESTAMP, j TIMESTAMP_NTZ, k STRING, l BINARY";
        for name in ["avro", "orc"] {
            let mut file = ContainerEncoder::new(format(name), &parse_ddl(all).unwrap()).unwrap();
            let rows = RecordBatch::new_empty(Arc::new(parse_ddl(all).unwrap()));
            file.write(&rows).unwrap();
            assert!(file.finish().unwrap().starts_with(if name == "orc" {
                b"ORC"
            } else {
                b"Obj"
            }));
        }
    }
}
