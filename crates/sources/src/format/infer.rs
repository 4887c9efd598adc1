//! Schemas from the contents of files, as far as Spark infers them without being asked for more:
//! JSON's types, the names of a CSV header (all STRING, unless types are asked for), the schema
//! that a file of columns has.

mod cell;
mod kind;

use super::csv::CsvOptions;
use super::json::JsonOptions;
use super::lines::DecodeLine;
use super::{Batches, Cut, Decode, FileDecoder};
use crate::file::PlannedFile;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use cell::Cell;
use fluvial_core::{Error, Result};
use futures::StreamExt;
use kind::Kind;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

impl FileDecoder {
    /// A schema for these files, the oldest first.
    ///
    /// # Errors
    ///
    /// `Invalid` if a file cannot be read.
    pub(crate) async fn infer(&self, files: &[PlannedFile]) -> Result<Schema> {
        match (self, files) {
            (Self::Json(options, _), _) => {
                let seen = Seen::<Records>::default();
                for file in files {
                    let look =
                        JsonLook { seen: seen.clone(), options: options.clone(), room: Vec::new() };
                    let place = file.place().to_owned();
                    let cut = Cut::new(options.multi_line, options.separator.as_deref());
                    self.each(file, cut.decoder(look, place), || false).await?;
                }
                Ok(seen.take().schema(options))
            }
            (Self::Csv(options, _), [first, .., last])
                if options.merges() && !options.looks_for_columns() =>
            {
                // Columns come to be, or end, with time.
                self.infer_csv(options, &[first.clone(), last.clone()]).await
            }
            (Self::Csv(options, _), _) if options.looks_for_columns() => {
                self.infer_csv(options, files).await
            }
            (Self::Csv(options, _), [first, ..]) => {
                self.infer_csv(options, std::slice::from_ref(first)).await
            }
            (Self::Columns(columns), [.., last]) => {
                let schema = columns.schema(last.clone()).await?;
                Ok(Schema::new(schema.fields().clone()))
            }
            _ => Ok(Schema::new(vec![Field::new("value", DataType::Utf8, true)])),
        }
    }

    async fn infer_csv(&self, options: &CsvOptions, files: &[PlannedFile]) -> Result<Schema> {
        let seen = Seen::<Table>::default();
        for (before, file) in files.iter().enumerate() {
            let look = CsvLook { seen: seen.clone(), options: options.clone(), places: None };
            let enough = || !options.infer_types && seen.look(|table| table.files > before);
            let decoder = options.cut(look, file.place().to_owned());
            self.each(file, decoder, enough).await?;
        }
        Ok(seen.take().schema())
    }

    /// Shows the records of a file to `decoder`, until it has seen enough.
    async fn each(
        &self,
        file: &PlannedFile,
        mut decoder: Box<dyn Decode>,
        enough: impl Fn() -> bool,
    ) -> Result<()> {
        let (mut chunks, mut none) = (self.text(file)?, Batches::new());
        while let Some(chunk) = chunks.next().await {
            decoder.feed(&chunk?, &mut none)?;
            if enough() {
                return Ok(());
            }
        }
        decoder.end(&mut none)
    }
}

/// What was seen so far: decoders are consumed, this stays.
#[derive(Debug, Default)]
struct Seen<T>(Arc<Mutex<T>>);

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Default> Seen<T> {
    fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self) -> T {
        self.look(std::mem::take)
    }
}

fn no_rows() -> Error {
    Error::invalid("looking for a schema makes no rows")
}

/// What JSON records have in common.
#[derive(Debug)]
struct Records {
    kind: Kind,
    malformed: bool,
}

impl Default for Records {
    fn default() -> Self {
        Self { kind: Kind::Null, malformed: false }
    }
}

impl Records {
    fn schema(self, options: &JsonOptions) -> Schema {
        let corrupt = self.malformed.then_some(options.corrupt_column());
        kind::schema(self.kind, corrupt, options.inference)
    }
}

struct JsonLook {
    seen: Seen<Records>,
    options: JsonOptions,
    room: Vec<u8>,
}

impl DecodeLine for JsonLook {
    fn line(&mut self, line: &str, _number: u64) -> Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let how = self.options.inference;
        // Only the first value of a record counts.
        let value = self.options.plain(line, &mut self.room).and_then(|plain| {
            let mut values = serde_json::Deserializer::from_slice(plain).into_iter::<Value>();
            values.next()?.ok()
        });
        let objects = match value {
            Some(Value::Array(items)) if items.iter().all(Value::is_object) => items,
            Some(object @ Value::Object(_)) => vec![object],
            _ => {
                self.seen.look(|records| records.malformed = true);
                return Ok(());
            }
        };
        self.seen.look(|records| {
            for object in objects {
                let before = std::mem::replace(&mut records.kind, Kind::Null);
                records.kind = kind::common(before, kind::kind(object, how));
            }
        });
        Ok(())
    }

    fn rows(&self) -> usize {
        0
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        Err(no_rows())
    }
}

/// What the records of CSV files have in common.
#[derive(Debug, Default)]
struct Table {
    /// Files of which a record was seen.
    files: usize,
    columns: Vec<(String, Cell)>,
}

impl Table {
    fn schema(self) -> Schema {
        let field = |(name, cell): (String, Cell)| Field::new(name, cell.data_type(), true);
        Schema::new(self.columns.into_iter().map(field).collect::<Vec<_>>())
    }

    /// Takes the names of a file; for each of its cells, the column.
    fn begin(&mut self, names: Vec<String>, options: &CsvOptions) -> Vec<usize> {
        self.files += 1;
        let grows = self.files == 1 || options.merges() || options.rescued_column().is_some();
        if self.files > 1 && !grows {
            return (0..self.columns.len()).collect();
        }
        let mut place = |name: String| {
            let mut known = self.columns.iter();
            if self.files > 1
                && let Some(at) = known.position(|(column, _)| options.is_same(column, &name))
            {
                return at;
            }
            self.columns.push((name, Cell::Null));
            self.columns.len() - 1
        };
        names.into_iter().map(&mut place).collect()
    }
}

struct CsvLook {
    seen: Seen<Table>,
    options: CsvOptions,
    /// The column of each cell, once a record of this file was seen.
    places: Option<Vec<usize>>,
}

impl DecodeLine for CsvLook {
    fn line(&mut self, line: &str, _number: u64) -> Result<()> {
        let options = &self.options;
        if options.is_no_record(line) {
            return Ok(());
        }
        let cells = options.names(line);
        let begins = self.places.is_none();
        if begins {
            let names = match options.has_header() {
                true => options.header_names(line),
                false => (0..cells.len()).map(|i| format!("_c{i}")).collect(),
            };
            self.places = Some(self.seen.look(|table| table.begin(names, options)));
        }
        if (begins && options.has_header()) || !options.infer_types {
            return Ok(());
        }
        let places = self.places.as_deref().unwrap_or_default();
        self.seen.look(|table| {
            for (place, text) in places.iter().zip(&cells) {
                if !text.is_empty() && !options.is_null(text) {
                    let known = &mut table.columns[*place].1;
                    *known = known.or(Cell::of(text, options.times()));
                }
            }
        });
        Ok(())
    }

    fn rows(&self) -> usize {
        0
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        Err(no_rows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::Options;
    use fluvial_core::ddl;

    fn inferred(lines: &[&str]) -> String {
        inferred_with(&[], lines)
    }

    fn inferred_with(options: &[&str], lines: &[&str]) -> String {
        let mut options = Options::new(options.iter().map(|name| (*name, "true")));
        let options = JsonOptions::take(&mut options).unwrap();
        let kinds = Seen::<Records>::default();
        let mut look = JsonLook { seen: kinds.clone(), options: options.clone(), room: vec![] };
        lines.iter().for_each(|line| look.line(line, 1).unwrap());
        let schema = kinds.take().schema(&options);
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

    #[test]
    fn options_say_how() {
        let line = r#"{"a":null,"b":[],"c":{},"d":1,"e":[null],"f":{"g":true,"h":null},"i":1.50}"#;
        assert_eq!(
            inferred_with(&["dropFieldIfAllNull"], &[line]),
            "d BIGINT, f STRUCT<g: BOOLEAN>, i DOUBLE"
        );
        assert_eq!(
            inferred_with(&["primitivesAsString", "dropFieldIfAllNull"], &[line]),
            "d STRING, f STRUCT<g: STRING>, i STRING"
        );
        assert_eq!(inferred_with(&["prefersDecimal"], &["{\"i\":1.5}"]), "i DECIMAL(2,1)");
        assert_eq!(
            inferred_with(&["prefersDecimal"], &["{\"i\":1.5}", "{\"i\":1}"]),
            "i DECIMAL(21,1)"
        );
        assert_eq!(inferred_with(&["allowComments"], &["{\"i\":1}//x"]), "i BIGINT");
    }
}
