//! Text: one row a line, in one column.

use super::lines::DecodeLine;
use super::separated::take_separator;
use crate::column::Bytes;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use fluvial_core::{Error, Options, Result};
use std::sync::Arc;

/// How text is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextOptions {
    /// A file is one row.
    pub(crate) whole: bool,
    /// What ends a row, if it is not the end of a line.
    pub(crate) separator: Option<String>,
}

/// Their names.
pub(crate) const TEXT_OPTIONS: &[&str] = &["wholetext", "lineSep"];

impl TextOptions {
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        let whole = options.take_bool("wholetext")?.unwrap_or(false);
        Ok(Self { whole, separator: take_separator(options)? })
    }
}

/// Checks that there is one column of text.
///
/// # Errors
///
/// `Invalid` otherwise.
pub(crate) fn check(fields: &Fields) -> Result<()> {
    if fields.len() != 1 {
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        return Err(Error::invalid(format!(
            "the text format has a single column of type STRING, and the schema has {}: {}",
            fields.len(),
            names.join(", ")
        ))
        .with_condition("TEXT_SINGLE_COLUMN"));
    }
    if *fields[0].data_type() != DataType::Utf8 {
        return Err(Error::invalid(format!(
            "the text format has a column of type STRING, and `{}` is {}",
            fields[0].name(),
            fluvial_core::ddl::ddl_name(fields[0].data_type())
        ))
        .with_condition("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"));
    }
    Ok(())
}

/// Makes rows of lines.
#[derive(Debug)]
pub(crate) struct TextLines {
    lines: Bytes,
    rows: usize,
    /// How often the column is asked for.
    columns: usize,
    schema: SchemaRef,
}

impl TextLines {
    /// A reader of the columns `projection` of `fields`.
    pub(crate) fn new(fields: &[FieldRef], projection: &[usize]) -> Self {
        let asked: Fields = projection.iter().map(|i| fields[*i].clone()).collect();
        let schema = Arc::new(Schema::new(asked));
        Self { lines: Bytes::new(), rows: 0, columns: projection.len(), schema }
    }
}

impl DecodeLine for TextLines {
    fn line(&mut self, line: &str, _number: u64) -> Result<()> {
        self.rows += 1;
        if self.columns > 0 {
            self.lines.push(line.as_bytes());
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let lines: ArrayRef = Arc::new(self.lines.finish_text()?);
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        let columns = vec![lines; self.columns];
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}
