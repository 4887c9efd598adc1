//! JSON lines: one record a line, by the rules of Spark.
//!
//! A line is read straight into typed columns. A value that does not fit its column leaves a
//! null there and marks the line as malformed; a line that is not JSON is malformed as a whole.
//! Whether a line is malformed never depends on which columns a query needs, when that is
//! visible: then all of them are read.

mod object;
mod relax;
mod rescue;
mod scan;
mod skip;
mod unescape;
mod value;

use super::lines::DecodeLine;
use super::mode::{CORRUPT_RECORD, Mode, malformed};
use super::unknown::{Unknown, unknown_columns};
use crate::column::{self, Bytes, Column};
use crate::format::separated::take_separator;
use crate::text::locale;
use crate::text::pattern::Times;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use fluvial_core::{Error, Options, Result};
use object::{Names, Shape};
use relax::Relax;
use rescue::Rescued;
pub(crate) use rescue::{push_member, rescued_text};
use scan::{Cursor, Syntax};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How JSON is read.
#[derive(Debug, Clone)]
pub(crate) struct JsonOptions {
    mode: Mode,
    corrupt: String,
    times: Times,
    relax: Relax,
    /// A file is one record.
    pub(crate) multi_line: bool,
    /// What ends a record, if it is not the end of a line.
    pub(crate) separator: Option<String>,
    pub(crate) inference: Inference,
    unknown: Unknown,
    names: Names,
}

/// How a schema is found in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Inference {
    /// Everything that is no object and no list is a text.
    pub(crate) primitives_as_string: bool,
    /// Numbers with a fraction are decimals where they fit.
    pub(crate) prefers_decimal: bool,
    /// Columns without a value are left out.
    pub(crate) drop_null: bool,
}

/// Their names.
pub(crate) const JSON_OPTIONS: &[&str] = &[
    "mode",
    "columnNameOfCorruptRecord",
    "timeZone",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "multiLine",
    "lineSep",
    "primitivesAsString",
    "prefersDecimal",
    "dropFieldIfAllNull",
    "allowComments",
    "allowUnquotedFieldNames",
    "allowSingleQuotes",
    "allowNumericLeadingZeros",
    "allowBackslashEscapingAnyCharacter",
    "allowUnquotedControlChars",
    "allowNonNumericNumbers",
    "locale",
];

/// Spark's that we do not have yet.
pub(crate) const JSON_REFUSED: &[&str] =
    &["samplingRatio", "useUnsafeRow", "inferTimestamp", "enableDateTimeParsingFallback"];

impl JsonOptions {
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        options.refuse(JSON_REFUSED)?;
        locale::take(options)?;
        let corrupt = options.take("columnNameOfCorruptRecord");
        let corrupt = corrupt.unwrap_or_else(|| CORRUPT_RECORD.into());
        let mut is = |name| options.take_bool(name).map(|found| found.unwrap_or(false));
        let inference = Inference {
            primitives_as_string: is("primitivesAsString")?,
            prefers_decimal: is("prefersDecimal")?,
            drop_null: is("dropFieldIfAllNull")?,
        };
        Ok(Self {
            multi_line: is("multiLine")?,
            mode: Mode::take(options)?,
            corrupt,
            times: Times::take(options)?,
            relax: Relax::take(options)?,
            separator: take_separator(options)?,
            inference,
            names: Names::default(),
            unknown: Unknown::default(),
        })
    }

    /// Says what becomes of what no column takes, and whether names have a case.
    /// The column that takes what no other does.
    pub(crate) fn rescued_column(&self) -> Option<&str> {
        self.unknown.column.as_deref()
    }

    pub(crate) fn set_unknown(&mut self, unknown: &Unknown, insensitive: bool) {
        self.names = Names { insensitive, strict: unknown.is_looked_for() };
        self.unknown = unknown.clone();
    }

    /// Gives malformed records to another column; `false` if they are not wanted in any.
    pub(crate) fn set_corrupt_column(&mut self, name: &str) -> bool {
        self.corrupt = name.to_owned();
        self.mode == Mode::Permissive
    }

    /// The column that takes malformed records.
    pub(crate) fn corrupt_column(&self) -> &str {
        &self.corrupt
    }

    /// How dates and times are written.
    pub(crate) fn times(&self) -> &Times {
        &self.times
    }

    /// A record in plain JSON; `None` if it is none.
    pub(crate) fn plain<'a>(&self, record: &'a str, room: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let record = unmarked(record);
        if self.relax.is_plain() {
            return Some(record.as_bytes());
        }
        self.relax.rewrite(record, room).ok()?;
        Some(room)
    }

    /// Checks that columns of these types can be read.
    ///
    /// # Errors
    ///
    /// `Invalid`, naming the column.
    pub(crate) fn check(&self, fields: &Fields) -> Result<()> {
        for field in fields {
            column::new_for(field, &self.times)?;
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

/// A record without the mark that says it is UTF-8: files that were put together have it within.
fn unmarked(record: &str) -> &str {
    record.strip_prefix('\u{feff}').unwrap_or(record)
}

/// Where a column of the result comes from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Column(usize),
    Corrupt,
    Rescued,
}

/// Makes rows of JSON lines.
#[derive(Debug)]
pub(crate) struct JsonLines {
    mode: Mode,
    relax: Relax,
    /// The record in plain JSON, where it was not.
    plain: Vec<u8>,
    place: String,
    shape: Shape,
    columns: Vec<Column>,
    rows: usize,
    /// The malformed records, if they are asked for.
    corrupt: Option<Bytes>,
    /// What no column took, if it is asked for.
    rescued: Option<Bytes>,
    unknown: Unknown,
    names: Names,
    times: Times,
    /// All columns that are read.
    fields: Fields,
    result: Vec<Origin>,
    schema: SchemaRef,
    scratch: Vec<u8>,
    /// Columns that the schema has not.
    found: BTreeSet<String>,
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
        let unknown = &options.unknown;
        let is_rescued = |field: &FieldRef| unknown.is_column(field.name());
        let rescues = projection.iter().any(|i| is_rescued(&fields[*i]));
        let all = marked || options.mode != Mode::Permissive || unknown.is_looked_for();
        let is_read = |i: &usize| !is_corrupt(&fields[*i]) && !is_rescued(&fields[*i]);
        let read: Vec<usize> =
            (0..fields.len()).filter(|i| is_read(i) && (all || projection.contains(i))).collect();
        let origin = |i: &usize| match read.iter().position(|r| r == i) {
            Some(column) => Origin::Column(column),
            None if is_rescued(&fields[*i]) => Origin::Rescued,
            None => Origin::Corrupt,
        };
        let read_fields: Fields = read.iter().map(|i| fields[*i].clone()).collect();
        let schema = Schema::new(projection.iter().map(|i| fields[*i].clone()).collect::<Fields>());
        Ok(Self {
            mode: options.mode,
            relax: options.relax,
            plain: Vec::new(),
            place,
            shape: Shape::new(&read_fields, options.names),
            columns: column::columns(&read_fields, &options.times)?,
            rows: 0,
            corrupt: marked.then(Bytes::new),
            rescued: rescues.then(Bytes::new),
            unknown: unknown.clone(),
            names: options.names,
            times: options.times.clone(),
            result: projection.iter().map(origin).collect(),
            fields: read_fields,
            schema: Arc::new(schema),
            scratch: Vec::new(),
            found: BTreeSet::new(),
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
        let start = cursor.at;
        let good = self.shape.read(cursor, &mut self.columns, &mut self.scratch)?;
        self.rows += 1;
        if self.names.strict {
            return self.rescue(good, &cursor.text[start..cursor.at]);
        }
        Ok(good)
    }

    /// Looks at an object again that no column took all of. Such a record is not malformed.
    fn rescue(&mut self, good: bool, object: &[u8]) -> Result<bool, Syntax> {
        if good {
            if let Some(rescued) = &mut self.rescued {
                rescued.push_null();
            }
            return Ok(true);
        }
        let found = Rescued::of(object, &self.fields, self.names, &self.times)?;
        if self.unknown.stops() {
            let own = |name: &String| self.unknown.is_column(name);
            self.found.extend(found.unknown.into_iter().filter(|name| !own(name)));
            if !self.unknown.has_column() {
                self.found.extend(found.cased);
            }
        }
        if let Some(rescued) = &mut self.rescued {
            if found.members.is_empty() {
                rescued.push_null();
            } else {
                rescued.push(rescued_text(found.members, &self.place).as_bytes());
            }
        }
        // Without a column for it, what does not fit makes a record malformed as it always does.
        Ok(self.unknown.has_column() || found.misfits == 0)
    }

    fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        if let Some(rescued) = &mut self.rescued {
            rescued.truncate(rows);
        }
        self.rows = rows;
    }

    /// Takes the record `plain`, which is written as `line`.
    #[inline]
    fn plain_line(&mut self, plain: &[u8], line: &str, number: u64) -> Result<()> {
        let mut cursor = Cursor::new(plain);
        cursor.blanks();
        if cursor.done() {
            return Ok(());
        }
        let start = self.rows;
        let record = self.record(&mut cursor);
        if !self.found.is_empty() {
            return Err(unknown_columns(&self.place, number, &self.found));
        }
        match record {
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

    /// Handles a malformed line; rows from `start` on are what could be read of it, if anything.
    #[cold]
    fn malformed(&mut self, line: &str, number: u64, start: usize) -> Result<()> {
        match self.mode {
            Mode::Permissive => {
                if self.rows == start {
                    self.columns.iter_mut().for_each(Column::push_null);
                    if let Some(rescued) = &mut self.rescued {
                        rescued.push_null();
                    }
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
        let text = unmarked(line);
        if self.relax.is_plain() {
            return self.plain_line(text.as_bytes(), line, number);
        }
        let mut plain = std::mem::take(&mut self.plain);
        let done = match self.relax.rewrite(text, &mut plain) {
            Ok(()) => self.plain_line(&plain, line, number),
            Err(Syntax) => self.malformed(line, number, self.rows),
        };
        self.plain = plain;
        done
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let mut read = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            read.push(column.finish()?);
        }
        let text = |bytes: &mut Option<Bytes>| -> Result<ArrayRef> {
            Ok(match bytes {
                Some(bytes) => Arc::new(bytes.finish_text()?),
                None => Arc::new(StringArray::new_null(self.rows)),
            })
        };
        let (corrupt, rescued) = (text(&mut self.corrupt)?, text(&mut self.rescued)?);
        let result = self.result.iter().map(|from| match from {
            Origin::Column(column) => read[*column].clone(),
            Origin::Corrupt => corrupt.clone(),
            Origin::Rescued => rescued.clone(),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        let result = result.collect();
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), result, &options)?)
    }
}

#[cfg(test)]
mod tests;
