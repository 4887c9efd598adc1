//! JSON lines: one record a line, by the rules of Spark.
//!
//! A line is read straight into typed columns. A value that does not fit its column leaves a
//! null there and marks the line as malformed; a line that is not JSON is malformed as a whole.
//! Whether a line is malformed never depends on which columns a query needs, when that is
//! visible: then all of them are read.

mod object;
mod scan;
mod skip;
mod unescape;
mod value;

use super::lines::DecodeLine;
use super::mode::{CORRUPT_RECORD, Mode, malformed};
use crate::column::{self, Bytes, Column};
use crate::text::zone::Zone;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use fluvial_core::{Error, Options, Result};
use object::Shape;
use scan::{Cursor, Syntax};
use std::sync::Arc;

/// How JSON is read.
#[derive(Debug, Clone)]
pub(crate) struct JsonOptions {
    mode: Mode,
    corrupt: String,
    zone: Zone,
}

/// Their names.
pub(crate) const JSON_OPTIONS: &[&str] = &["mode", "columnNameOfCorruptRecord", "timeZone"];

/// Spark's that we do not have yet.
pub(crate) const JSON_REFUSED: &[&str] = &[
    "primitivesAsString",
    "prefersDecimal",
    "allowComments",
    "allowUnquotedFieldNames",
    "allowSingleQuotes",
    "allowNumericLeadingZeros",
    "allowBackslashEscapingAnyCharacter",
    "allowUnquotedControlChars",
    "allowNonNumericNumbers",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "multiLine",
    "lineSep",
    "locale",
    "dropFieldIfAllNull",
    "samplingRatio",
    "useUnsafeRow",
];

impl JsonOptions {
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        options.refuse(JSON_REFUSED)?;
        let corrupt = options.take("columnNameOfCorruptRecord");
        let corrupt = corrupt.unwrap_or_else(|| CORRUPT_RECORD.into());
        Ok(Self { mode: Mode::take(options)?, corrupt, zone: Zone::take(options)? })
    }

    /// The column that takes malformed records.
    pub(crate) fn corrupt_column(&self) -> &str {
        &self.corrupt
    }

    /// The zone of times that name none.
    pub(crate) fn zone(&self) -> Zone {
        self.zone
    }

    /// Checks that columns of these types can be read.
    ///
    /// # Errors
    ///
    /// `Invalid`, naming the column.
    pub(crate) fn check(&self, fields: &Fields) -> Result<()> {
        for field in fields {
            column::new_for(field, self.zone)?;
            if *field.name() == self.corrupt && *field.data_type() != DataType::Utf8 {
                return Err(Error::invalid(format!(
                    "the column `{}` takes malformed records: it must be a STRING",
                    field.name()
                ))
                .with_condition("INVALID_CORRUPT_RECORD_TYPE"));
            }
        }
        Ok(())
    }
}

/// Makes rows of JSON lines.
#[derive(Debug)]
pub(crate) struct JsonLines {
    mode: Mode,
    place: String,
    shape: Shape,
    columns: Vec<Column>,
    rows: usize,
    /// The malformed records, if they are asked for.
    corrupt: Option<Bytes>,
    /// Where each column of the result comes from; `None` is `corrupt`.
    result: Vec<Option<usize>>,
    schema: SchemaRef,
    scratch: Vec<u8>,
}

impl JsonLines {
    /// A reader of the columns `projection` of `fields`; `place` names the file in messages.
    pub(crate) fn new(
        options: &JsonOptions,
        fields: &[FieldRef],
        projection: &[usize],
        place: String,
    ) -> Result<Self> {
        let is_corrupt = |field: &FieldRef| *field.name() == options.corrupt;
        let marked = projection.iter().any(|i| is_corrupt(&fields[*i]));
        // Where malformed lines can be told from others, all columns take part in the judgement.
        let all = marked || options.mode != Mode::Permissive;
        let read: Vec<usize> = (0..fields.len())
            .filter(|i| !is_corrupt(&fields[*i]) && (all || projection.contains(i)))
            .collect();
        let read_fields: Fields = read.iter().map(|i| fields[*i].clone()).collect();
        let schema = Schema::new(projection.iter().map(|i| fields[*i].clone()).collect::<Fields>());
        Ok(Self {
            mode: options.mode,
            place,
            shape: Shape::new(&read_fields),
            columns: column::columns(&read_fields, options.zone)?,
            rows: 0,
            corrupt: marked.then(Bytes::new),
            result: projection.iter().map(|i| read.iter().position(|r| r == i)).collect(),
            schema: Arc::new(schema),
            scratch: Vec::new(),
        })
    }

    /// Reads one row per object; `false` if some value was bad.
    fn record(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Syntax> {
        if cursor.peek() != b'[' {
            return self.object(cursor);
        }
        cursor.at += 1;
        cursor.blanks();
        let (mut good, mut more) = (true, !cursor.eat(b']'));
        while more {
            good &= self.object(cursor)?;
            more = cursor.more(b']')?;
        }
        Ok(good)
    }

    #[inline]
    fn object(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Syntax> {
        let good = self.shape.read(cursor, &mut self.columns, &mut self.scratch)?;
        self.rows += 1;
        Ok(good)
    }

    fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        self.rows = rows;
    }

    /// Handles a malformed line; rows from `start` on are what could be read of it, if anything.
    #[cold]
    fn malformed(&mut self, line: &str, number: u64, start: usize) -> Result<()> {
        match self.mode {
            Mode::Permissive => {
                if self.rows == start {
                    self.columns.iter_mut().for_each(Column::push_null);
                    self.rows += 1;
                }
                if let Some(corrupt) = &mut self.corrupt {
                    (start..self.rows).for_each(|_| corrupt.push(line.as_bytes()));
                }
            }
            Mode::DropMalformed => self.truncate(start),
            Mode::FailFast => return Err(malformed(&self.place, number, line)),
        }
        Ok(())
    }
}

impl DecodeLine for JsonLines {
    #[inline]
    fn line(&mut self, line: &str, number: u64) -> Result<()> {
        let mut cursor = Cursor::new(line.as_bytes());
        cursor.blanks();
        if cursor.done() {
            return Ok(());
        }
        let start = self.rows;
        match self.record(&mut cursor) {
            Ok(true) => {
                if let Some(corrupt) = &mut self.corrupt {
                    (start..self.rows).for_each(|_| corrupt.push_null());
                }
                Ok(())
            }
            Ok(false) => self.malformed(line, number, start),
            Err(Syntax) => {
                self.truncate(start);
                self.malformed(line, number, start)
            }
        }
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let mut read = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            read.push(column.finish()?);
        }
        let corrupt: Option<ArrayRef> = match &mut self.corrupt {
            Some(bytes) => Some(Arc::new(bytes.finish_text()?)),
            None => None,
        };
        let result = self.result.iter().filter_map(|from| match from {
            Some(column) => Some(read[*column].clone()),
            None => corrupt.clone(),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        let result = result.collect();
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), result, &options)?)
    }
}

#[cfg(test)]
mod tests;
