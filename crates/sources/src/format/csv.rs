//! CSV: one record a line, or with quoted line ends if asked for.
//!
//! Quotes are those of RFC 4180: a doubled quote inside of quotes is one. Spark's escape
//! character works too. What does not fit its column is null there and makes the record
//! malformed, as do fields too many or too few.

mod dialect;
mod options;
mod record;

use super::json::{push_member, rescued_text};
use super::lines::DecodeLine;
use super::mode::{Mode, malformed};
use super::unknown::unknown_columns;
use crate::column::{self, Bytes, Column};
use crate::text;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
pub(crate) use dialect::Quotes;
use fluvial_core::{Error, NameCase, Result};
use options::Header;
pub(crate) use options::{CSV_OPTIONS, CsvOptions};
pub(crate) use record::Records;
use record::{Cells, cells};
use std::collections::BTreeSet;
use std::sync::Arc;

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
    /// What no column took, if it is asked for.
    rescued: Option<Bytes>,
    /// Of this record, as the members of an object.
    members: String,
    /// Cells that no column takes, with their names.
    extra: Vec<(usize, String)>,
    /// Where each column of the result comes from.
    result: Vec<Origin>,
    schema: SchemaRef,
    cells: Cells,
}

/// Where a column of the result comes from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Column(usize),
    Corrupt,
    Rescued,
}

/// The cell of a column that a file has not.
const NO_CELL: usize = usize::MAX;

impl CsvLines {
    /// A reader of the columns `projection` of `fields`; `place` names the file in messages.
    pub(crate) fn new(
        options: &CsvOptions,
        fields: &[FieldRef],
        projection: &[usize],
        place: String,
    ) -> Result<Self> {
        let is_corrupt = |field: &FieldRef| *field.name() == options.corrupt;
        let is_rescued = |field: &FieldRef| options.unknown.is_column(field.name());
        let marked = projection.iter().any(|i| is_corrupt(&fields[*i]));
        let rescues = projection.iter().any(|i| is_rescued(&fields[*i]));
        let all = marked || rescues || options.mode != Mode::Permissive;
        let other = |i: &usize| {
            if is_rescued(&fields[*i]) { Origin::Rescued } else { Origin::Corrupt }
        };
        let mut result: Vec<Origin> = projection.iter().map(other).collect();
        let (mut names, mut columns) = (Vec::new(), Vec::new());
        let in_files = |field: &FieldRef| !is_corrupt(field) && !is_rescued(field);
        for (i, field) in fields.iter().enumerate().filter(|(_, field)| in_files(field)) {
            if all || projection.contains(&i) {
                for (at, _) in projection.iter().enumerate().filter(|(_, p)| **p == i) {
                    result[at] = Origin::Column(columns.len());
                }
                columns.push((names.len(), column::new_for(field, &options.times)?));
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
            rescued: rescues.then(Bytes::new),
            members: String::new(),
            extra: Vec::new(),
            result,
            schema: Arc::new(Schema::new(asked)),
            cells: Cells::default(),
        })
    }

    fn header(&mut self, line: &str, number: u64) -> Result<()> {
        if self.options.header == Header::Skipped {
            return Ok(());
        }
        let header = self.options.header_names(line);
        if self.options.header == Header::Matched {
            return self.matched(&header, &self.options.names(line), number);
        }
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

    /// Finds the columns of the schema in a header, whatever else it has; `written` is how it has
    /// them.
    fn matched(&mut self, header: &[String], written: &[String], number: u64) -> Result<()> {
        let key = |name: &str| match self.options.case {
            NameCase::Insensitive => name.trim().to_lowercase(),
            NameCase::Sensitive => name.trim().to_owned(),
        };
        // Of names that differ in case only one has the column; the others may be rescued.
        let rescues = self.options.unknown.has_column();
        let own = |name: &str| if rescues { name.trim().to_owned() } else { key(name) };
        // Of two columns of one name nobody knows which is the schema's.
        let mut distinct = BTreeSet::new();
        let is_known = |name: &str| self.names.iter().any(|known| own(known) == own(name));
        let twice = written.iter().find(|name| !distinct.insert(own(name)) && is_known(name));
        let mut distinct = BTreeSet::new();
        let twice = twice.or_else(|| header.iter().find(|name| !distinct.insert(own(name))));
        if let Some(twice) = twice {
            return Err(Error::invalid(format!(
                "{}: the header has the column {twice} twice: write the file anew under another \
                 name, with two names for them, remove this one, and set ignoreMissingFiles",
                self.place
            ))
            .with_condition("CSV_HEADER_MISMATCH"));
        }
        let place = |name: &String| {
            let exact = header.iter().position(|h| own(h) == own(name));
            exact.or_else(|| header.iter().position(|h| key(h) == key(name)))
        };
        self.cell_of = self.names.iter().map(|name| place(name).unwrap_or(NO_CELL)).collect();
        self.width = header.len();
        let extra = header.iter().enumerate().filter(|(cell, _)| !self.cell_of.contains(cell));
        self.extra = extra.map(|(cell, name)| (cell, name.trim().to_owned())).collect();
        if self.options.unknown.stops() {
            let lower: BTreeSet<String> = self.names.iter().map(|n| n.to_lowercase()).collect();
            let rest = |name: &str| self.options.unknown.is_column(name);
            let is_new =
                |name: &&String| !(rest(name) || rescues && lower.contains(&name.to_lowercase()));
            let names: BTreeSet<String> =
                self.extra.iter().map(|(_, name)| name).filter(is_new).cloned().collect();
            if !names.is_empty() {
                return Err(unknown_columns(&self.place, number, &names));
            }
        }
        Ok(())
    }

    /// Keeps what no column took of the record.
    fn rescue(&mut self, line: &str) {
        let Some(rescued) = &mut self.rescued else { return };
        let cells = self.cells.len();
        let beyond = (self.width..cells).map(|cell| (cell, format!("_c{cell}")));
        for (cell, name) in self.extra.iter().cloned().chain(beyond).filter(|(c, _)| *c < cells) {
            let (text, quoted) = self.cells.get(line, cell);
            if *text != self.options.null || quoted {
                push_member(&mut self.members, &name, &serde_json::Value::from(text).to_string());
            }
        }
        if self.members.is_empty() {
            rescued.push_null();
        } else {
            let members = std::mem::take(&mut self.members);
            rescued.push(rescued_text(members, &self.place).as_bytes());
        }
    }

    /// Reads a record into the columns; `false` if it is malformed.
    fn record(&mut self, line: &str) -> bool {
        cells(line, &self.options.dialect, &mut self.cells);
        let rescues = self.options.unknown.has_column();
        let mut good = self.cells.len() == self.width || (rescues && self.cells.len() > self.width);
        for (number, column) in &mut self.columns {
            let cell = self.cell_of[*number];
            let value = (cell < self.cells.len()).then(|| self.cells.get(line, cell));
            // Quoted nothing has a meaning of its own; both are null unless told otherwise.
            let value = value.map(|(text, quoted)| {
                if quoted && text.is_empty() { self.options.empty.as_str() } else { text }
            });
            let value = value.filter(|text| *text != self.options.null);
            let value = match column {
                Column::Float32(_) | Column::Float64(_) => {
                    value.map(|text| self.options.floats.name(text))
                }
                _ => value,
            };
            match value {
                Some(text) if text::push(column, text) => {}
                Some(text) => {
                    column.push_null();
                    good &= rescues;
                    if self.rescued.is_some() {
                        let text = serde_json::Value::from(text).to_string();
                        push_member(&mut self.members, &self.names[*number], &text);
                    }
                }
                None => column.push_null(),
            }
        }
        good
    }

    #[cold]
    fn too_wide(&self, number: u64) -> Error {
        Error::invalid(format!(
            "{}, line {number}: {} columns, and maxColumns is {}: correct the file or its \
             separator, or allow more",
            self.place,
            self.cells.len(),
            self.options.max_columns
        ))
        .with_condition("TOO_MANY_COLUMNS")
    }

    fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|(_, column)| column.truncate(rows));
        if let Some(rescued) = &mut self.rescued {
            rescued.truncate(rows);
        }
        self.rows = rows;
    }
}

impl DecodeLine for CsvLines {
    fn line(&mut self, line: &str, number: u64) -> Result<()> {
        if self.options.is_no_record(line) {
            return Ok(());
        }
        if !self.header_read {
            self.header_read = true;
            return self.header(line, number);
        }
        let good = self.record(line);
        if self.cells.len() > self.options.max_columns {
            return Err(self.too_wide(number));
        }
        self.rescue(line);
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
