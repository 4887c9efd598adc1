//! Schemas from the contents of files, as far as Spark infers them without being asked for more:
//! JSON's types, the names of a CSV header (all STRING), Parquet's own schema.

use super::compression::Compression;
use super::csv::CsvOptions;
use super::lines::{DecodeLine, Lines};
use super::{Batches, Decode, FileDecoder, parquet};
use crate::file::PlannedFile;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use fluvial_core::{Error, Result, ddl};
use futures::StreamExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

impl FileDecoder {
    /// A schema for these files, the oldest first.
    ///
    /// # Errors
    ///
    /// `Invalid` if a file cannot be read.
    pub(crate) async fn infer(&self, files: &[PlannedFile]) -> Result<Schema> {
        match (self, files) {
            (Self::Json(options), _) => {
                let mut found = Kind::Null;
                let mut malformed = false;
                for file in files {
                    let lines = JsonKinds { kind: found, malformed };
                    JsonKinds { kind: found, malformed } = each_line(file, lines).await?;
                }
                Ok(json_schema(found, malformed.then_some(options.corrupt_column())))
            }
            (Self::Csv(options), [first, ..]) => {
                Ok(csv_schema(options, &each_line(first, FirstLine::default()).await?.0))
            }
            (Self::Parquet(_), [.., last]) => {
                let schema = parquet::schema(last.clone()).await?;
                Ok(Schema::new(schema.fields().clone()))
            }
            _ => Ok(Schema::new(vec![Field::new("value", DataType::Utf8, true)])),
        }
    }
}

/// Looks at lines and makes no rows of them.
trait Look: DecodeLine {
    /// Whether it has seen enough.
    fn satisfied(&self) -> bool;
}

impl Look for FirstLine {
    fn satisfied(&self) -> bool {
        !self.0.is_empty()
    }
}

impl Look for JsonKinds {
    fn satisfied(&self) -> bool {
        false
    }
}

/// Shows the lines of a file to `decoder`.
async fn each_line<D: Look>(file: &PlannedFile, decoder: D) -> Result<D> {
    let place = file.place().to_owned();
    let mut chunks = Compression::of(&place)?.decompress(file.stream(), place.clone())?;
    let (mut lines, mut none) = (Lines::new(decoder, place), Batches::new());
    while let Some(chunk) = chunks.next().await {
        lines.feed(&chunk?, &mut none)?;
        if lines.decoder().satisfied() {
            return Ok(lines.into_decoder());
        }
    }
    lines.end(&mut none)?;
    Ok(lines.into_decoder())
}

/// Takes the first line that is not blank.
#[derive(Debug, Default)]
struct FirstLine(String);

impl DecodeLine for FirstLine {
    fn line(&mut self, line: &str, _number: u64) -> Result<()> {
        if self.0.is_empty() && !line.trim().is_empty() {
            self.0 = line.to_owned();
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        0
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        Err(Error::invalid("looking for a schema makes no rows"))
    }
}

fn csv_schema(options: &CsvOptions, first: &str) -> Schema {
    let cells = options.names(first);
    let name = |(i, cell): (usize, &String)| {
        let named = options.has_header() && !cell.is_empty();
        Field::new(if named { cell.clone() } else { format!("_c{i}") }, DataType::Utf8, true)
    };
    Schema::new(cells.iter().enumerate().map(name).collect::<Vec<_>>())
}

/// What JSON values of one place have in common.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Null,
    Boolean,
    Long,
    /// A whole number beyond 64 bits.
    Wide,
    Double,
    Text,
    Array(Box<Kind>),
    /// Sorted by name, as in Spark.
    Object(BTreeMap<String, Kind>),
}

#[derive(Debug)]
struct JsonKinds {
    kind: Kind,
    malformed: bool,
}

impl DecodeLine for JsonKinds {
    fn line(&mut self, line: &str, _number: u64) -> Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        // Only the first value of a line counts.
        let mut values = serde_json::Deserializer::from_str(line).into_iter::<Value>();
        let objects = match values.next() {
            Some(Ok(Value::Array(items))) if items.iter().all(Value::is_object) => items,
            Some(Ok(object @ Value::Object(_))) => vec![object],
            _ => {
                self.malformed = true;
                return Ok(());
            }
        };
        for object in objects {
            let before = std::mem::replace(&mut self.kind, Kind::Null);
            self.kind = common(before, kind(object));
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        0
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        Err(Error::invalid("looking for a schema makes no rows"))
    }
}

fn kind(value: Value) -> Kind {
    match value {
        Value::Null => Kind::Null,
        Value::Bool(_) => Kind::Boolean,
        Value::Number(number) if number.is_i64() => Kind::Long,
        Value::Number(number) if number.is_u64() => Kind::Wide,
        Value::Number(_) => Kind::Double,
        Value::String(_) => Kind::Text,
        Value::Array(items) => {
            Kind::Array(Box::new(items.into_iter().map(kind).fold(Kind::Null, common)))
        }
        Value::Object(fields) => {
            Kind::Object(fields.into_iter().map(|(name, value)| (name, kind(value))).collect())
        }
    }
}

fn common(a: Kind, b: Kind) -> Kind {
    match (a, b) {
        (Kind::Null, other) | (other, Kind::Null) => other,
        (Kind::Long, Kind::Wide) | (Kind::Wide, Kind::Long) => Kind::Wide,
        (Kind::Double, Kind::Long | Kind::Wide) | (Kind::Long | Kind::Wide, Kind::Double) => {
            Kind::Double
        }
        (Kind::Array(a), Kind::Array(b)) => Kind::Array(Box::new(common(*a, *b))),
        (Kind::Object(mut a), Kind::Object(b)) => {
            for (name, kind) in b {
                let before = a.remove(&name).unwrap_or(Kind::Null);
                a.insert(name, common(before, kind));
            }
            Kind::Object(a)
        }
        (a, b) if a == b => a,
        _ => Kind::Text,
    }
}

/// The type of a kind; `None` for an object without fields, which no column can have.
fn data_type(kind: Kind) -> Option<DataType> {
    Some(match kind {
        Kind::Null | Kind::Text => DataType::Utf8,
        Kind::Boolean => DataType::Boolean,
        Kind::Long => DataType::Int64,
        Kind::Wide => DataType::Decimal128(20, 0),
        Kind::Double => DataType::Float64,
        Kind::Array(item) => ddl::array_of(data_type(*item)?),
        Kind::Object(fields) => {
            let fields = fields_of(fields);
            if fields.is_empty() {
                return None;
            }
            DataType::Struct(fields)
        }
    })
}

fn fields_of(fields: BTreeMap<String, Kind>) -> Fields {
    let field = |(name, kind)| Some(Arc::new(Field::new(name, data_type(kind)?, true)));
    fields.into_iter().filter_map(field).collect()
}

fn json_schema(found: Kind, corrupt: Option<&str>) -> Schema {
    let mut fields = match found {
        Kind::Object(fields) => fields,
        _ => BTreeMap::new(),
    };
    if let Some(corrupt) = corrupt {
        fields.insert(corrupt.to_owned(), Kind::Text);
    }
    Schema::new(fields_of(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(lines: &[&str]) -> String {
        let mut kinds = JsonKinds { kind: Kind::Null, malformed: false };
        lines.iter().for_each(|line| kinds.line(line, 1).unwrap());
        let schema = json_schema(kinds.kind, kinds.malformed.then_some("_corrupt_record"));
        let fields = schema.fields().iter();
        fields
            .map(|f| format!("{} {}", f.name(), ddl::ddl_name(f.data_type())))
            .collect::<Vec<_>>()
            .join(", ")
    }

    #[test]
    fn types_are_sparks() {
        assert_eq!(
            inferred(&[
                r#"{"z":1,"a":"x","b":true,"n":null,"e":{},"l":[],"m":[1,2.5]}"#,
                r#"{"z":2.5,"st":{"y":1,"x":[{"k":1},{"j":"t"}]},"b":1,"l":[null]}"#,
            ]),
            "a STRING, b STRING, l ARRAY<STRING>, m ARRAY<DOUBLE>, n STRING, \
             st STRUCT<x: ARRAY<STRUCT<j: STRING, k: BIGINT>>, y: BIGINT>, z DOUBLE"
        );
        assert_eq!(inferred(&["{\"a\":9223372036854775808}"]), "a DECIMAL(20,0)");
        assert_eq!(inferred(&["[{\"a\":1},{\"b\":2}]", ""]), "a BIGINT, b BIGINT");
        assert_eq!(inferred(&["{\"a\":1}", "broken"]), "_corrupt_record STRING, a BIGINT");
    }
}
