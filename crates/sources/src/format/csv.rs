//! CSV: one record a line, or with quoted line ends if asked for.
//!
//! Quotes are those of RFC 4180: a doubled quote inside of quotes is one. Spark's escape
//! character works too. What does not fit its column is null there and makes the record
//! malformed, as do fields too many or too few.

mod dialect;
mod record;

use super::lines::DecodeLine;
use super::mode::{CORRUPT_RECORD, Mode, malformed};
use crate::column::{self, Bytes, Column};
use crate::text;
use crate::text::zone::Zone;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use dialect::Dialect;
pub(crate) use dialect::Quotes;
use fluvial_core::{Error, NameCase, Options, Result, ddl};
pub(crate) use record::Records;
use record::{Cells, cells};
use std::sync::Arc;

/// How CSV is read.
#[derive(Debug, Clone)]
pub(crate) struct CsvOptions {
    dialect: Dialect,
    mode: Mode,
    corrupt: String,
    header: Header,
    null: String,
    /// What a quoted nothing means.
    empty: String,
    /// Whether records may have line ends in quotes.
    pub(crate) multi_line: bool,
    zone: Zone,
    case: NameCase,
}

/// What the first line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    /// It is data.
    None,
    /// It is skipped: columns come in the order of the schema.
    Skipped,
    /// Columns come in its order, if it has the names of the schema; else in the schema's.
    ByNameIfSame,
    /// Columns come in its order, and its names must be those of the schema.
    ByName,
}

/// The names of the options.
pub(crate) const CSV_OPTIONS: &[&str] = &[
    "sep",
    "delimiter",
    "quote",
    "escape",
    "comment",
    "header",
    "enforceSchema",
    "nullValue",
    "emptyValue",
    "ignoreLeadingWhiteSpace",
    "ignoreTrailingWhiteSpace",
    "multiLine",
    "mode",
    "columnNameOfCorruptRecord",
    "timeZone",
];

const REFUSED: &[&str] = &[
    "inferSchema",
    "samplingRatio",
    "nanValue",
    "positiveInf",
    "negativeInf",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "enableDateTimeParsingFallback",
    "maxColumns",
    "maxCharsPerColumn",
    "charToEscapeQuoteEscaping",
    "unescapedQuoteHandling",
    "lineSep",
    "locale",
];

impl CsvOptions {
    pub(crate) fn take(options: &mut Options, case: NameCase) -> Result<Self> {
        options.refuse(REFUSED)?;
        let header = options.take_bool("header")?.unwrap_or(false);
        let enforce = options.take_bool("enforceSchema")?;
        let corrupt = options.take("columnNameOfCorruptRecord");
        Ok(Self {
            dialect: Dialect::take(options)?,
            mode: Mode::take(options)?,
            corrupt: corrupt.unwrap_or_else(|| CORRUPT_RECORD.into()),
            header: match (header, enforce) {
                (false, _) => Header::None,
                (true, None) => Header::ByNameIfSame,
                (true, Some(true)) => Header::Skipped,
                (true, Some(false)) => Header::ByName,
            },
            null: options.take("nullValue").unwrap_or_default(),
            empty: options.take("emptyValue").unwrap_or_default(),
            multi_line: options.take_bool("multiLine")?.unwrap_or(false),
            zone: Zone::take(options)?,
            case,
        })
    }

    /// Whether the first line has names.
    pub(crate) fn has_header(&self) -> bool {
        self.header != Header::None
    }

    pub(crate) fn quotes(&self) -> Quotes {
        self.dialect.quotes()
    }

    /// The zone of times that name none.
    pub(crate) fn zone(&self) -> Zone {
        self.zone
    }

    /// The cells of a line, for inferring a schema from a header.
    pub(crate) fn names(&self, line: &str) -> Vec<String> {
        let mut found = Cells::default();
        cells(line, &self.dialect, &mut found);
        (0..found.len()).map(|i| found.get(line, i).0.to_owned()).collect()
    }

    /// Checks that columns of these types can be read.
    ///
    /// # Errors
    ///
    /// `Invalid`, naming the column.
    pub(crate) fn check(&self, fields: &Fields) -> Result<()> {
        for field in fields {
            if field.data_type().is_nested() || column::new_for(field, self.zone).is_err() {
                return Err(Error::invalid(format!(
                    "the CSV format has no column `{}` of type {}",
                    field.name(),
                    ddl::ddl_name(field.data_type())
                ))
                .with_condition("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"));
            }
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

/// Makes rows of CSV records.
#[derive(Debug)]
pub(crate) struct CsvLines {
    options: CsvOptions,
    place: String,
    /// The columns that records have, in their order in the schema.
    names: Vec<String>,
    /// Where the value of each is; the same as its number without a header.
    cell_of: Vec<usize>,
    /// How many cells a record has.
    width: usize,
    header_read: bool,
    /// The columns that are read: number, and what was read of it.
    columns: Vec<(usize, Column)>,
    rows: usize,
    corrupt: Option<Bytes>,
    /// Where each column of the result comes from; `None` is `corrupt`.
    result: Vec<Option<usize>>,
    schema: SchemaRef,
    cells: Cells,
}

impl CsvLines {
    /// A reader of the columns `projection` of `fields`; `place` names the file in messages.
    pub(crate) fn new(
        options: &CsvOptions,
        fields: &[FieldRef],
        projection: &[usize],
        place: String,
    ) -> Result<Self> {
        let is_corrupt = |field: &FieldRef| *field.name() == options.corrupt;
        let marked = projection.iter().any(|i| is_corrupt(&fields[*i]));
        let all = marked || options.mode != Mode::Permissive;
        let (mut names, mut columns, mut result) =
            (Vec::new(), Vec::new(), vec![None; projection.len()]);
        for (i, field) in fields.iter().enumerate().filter(|(_, field)| !is_corrupt(field)) {
            if all || projection.contains(&i) {
                for (at, _) in projection.iter().enumerate().filter(|(_, p)| **p == i) {
                    result[at] = Some(columns.len());
                }
                columns.push((names.len(), column::new_for(field, options.zone)?));
            }
            names.push(field.name().clone());
        }
        let asked: Fields = projection.iter().map(|i| fields[*i].clone()).collect();
        Ok(Self {
            header_read: !options.has_header(),
            options: options.clone(),
            place,
            cell_of: (0..names.len()).collect(),
            width: names.len(),
            names,
            columns,
            rows: 0,
            corrupt: marked.then(Bytes::new),
            result,
            schema: Arc::new(Schema::new(asked)),
            cells: Cells::default(),
        })
    }

    fn header(&mut self, line: &str) -> Result<()> {
        if self.options.header == Header::Skipped {
            return Ok(());
        }
        let header = self.options.names(line);
        let case = self.options.case;
        let lower = |name: &String| match case {
            NameCase::Insensitive => name.trim().to_lowercase(),
            NameCase::Sensitive => name.trim().to_owned(),
        };
        let position = |name: &String| header.iter().position(|h| lower(h) == lower(name));
        let places: Option<Vec<usize>> = self.names.iter().map(position).collect();
        let mut unique: Vec<String> = header.iter().map(lower).collect();
        unique.sort_unstable();
        unique.dedup();
        let distinct = unique.len() == header.len();
        let same = distinct && header.len() == self.names.len();
        match places {
            Some(places) if same || (distinct && self.options.header == Header::ByName) => {
                self.cell_of = places;
                self.width = header.len();
                Ok(())
            }
            _ if self.options.header == Header::ByNameIfSame => Ok(()),
            _ => Err(Error::invalid(format!(
                "{}: the header has the columns {}, the schema has {}: correct one of them, or \
                 set enforceSchema to true to read by position",
                self.place,
                header.join(", "),
                self.names.join(", ")
            ))
            .with_condition("CSV_HEADER_MISMATCH")),
        }
    }

    /// Reads a record into the columns; `false` if it is malformed.
    fn record(&mut self, line: &str) -> bool {
        cells(line, &self.options.dialect, &mut self.cells);
        let mut good = self.cells.len() == self.width;
        for (number, column) in &mut self.columns {
            let cell = self.cell_of[*number];
            let value = (cell < self.cells.len()).then(|| self.cells.get(line, cell));
            // Quoted nothing has a meaning of its own; both are null unless told otherwise.
            let value = value.map(|(text, quoted)| {
                if quoted && text.is_empty() { self.options.empty.as_str() } else { text }
            });
            match value.filter(|text| *text != self.options.null) {
                Some(text) if text::push(column, text) => {}
                Some(_) => {
                    column.push_null();
                    good = false;
                }
                None => column.push_null(),
            }
        }
        good
    }

    fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|(_, column)| column.truncate(rows));
        self.rows = rows;
    }
}

impl DecodeLine for CsvLines {
    fn line(&mut self, line: &str, number: u64) -> Result<()> {
        if line.trim().is_empty() || self.options.dialect.is_comment(line) {
            return Ok(());
        }
        if !self.header_read {
            self.header_read = true;
            return self.header(line);
        }
        let good = self.record(line);
        self.rows += 1;
        match self.options.mode {
            Mode::DropMalformed if !good => self.truncate(self.rows - 1),
            Mode::FailFast if !good => return Err(malformed(&self.place, number, line)),
            _ => match &mut self.corrupt {
                Some(corrupt) if good => corrupt.push_null(),
                Some(corrupt) => corrupt.push(line.as_bytes()),
                None => {}
            },
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let mut read = Vec::with_capacity(self.columns.len());
        for (_, column) in &mut self.columns {
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
