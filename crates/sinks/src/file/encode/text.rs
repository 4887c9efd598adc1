//! Rows as text: JSON, CSV and lines.

use super::cast_rows;
use super::compress::Compressor;
use crate::file::csv::{CsvForm, CsvRows};
use crate::file::json::SparkForms;
use crate::file::options::TextCompression;
use crate::file::times::TextTimes;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::json::LineDelimitedWriter;
use arrow::json::writer::WriterBuilder;
use fluvial_core::{Error, Result};
use std::io::Write;
use std::sync::Arc;

/// One file of text.
pub(crate) struct TextEncoder {
    form: Form,
    bytes: Compressor,
    started: bool,
}

/// What a row of text looks like.
enum Form {
    Json { explicit_nulls: bool, times: Arc<TextTimes> },
    Csv(Box<CsvRows>),
    Lines,
}

impl TextEncoder {
    /// JSON objects, one a line.
    pub(crate) fn json(
        ignore_nulls: bool,
        times: &Arc<TextTimes>,
        compression: TextCompression,
    ) -> Result<Self> {
        let form = Form::Json { explicit_nulls: !ignore_nulls, times: Arc::clone(times) };
        Self::new(form, compression)
    }

    /// Separated values of columns of `schema`.
    ///
    /// # Errors
    ///
    /// `Invalid` if CSV has no place for a type.
    pub(crate) fn csv(
        schema: &Schema,
        form: CsvForm,
        times: &Arc<TextTimes>,
        compression: TextCompression,
    ) -> Result<Self> {
        refuse_nested(schema)?;
        let rows = CsvRows::new(form, Arc::clone(times));
        Self::new(Form::Csv(Box::new(rows)), compression)
    }

    /// The values of the one column of `schema`, one a line.
    ///
    /// # Errors
    ///
    /// `Invalid` if that is no text, or not the only one.
    pub(crate) fn lines(schema: &Schema, compression: TextCompression) -> Result<Self> {
        refuse_all_but_one_text(schema)?;
        Self::new(Form::Lines, compression)
    }

    fn new(form: Form, compression: TextCompression) -> Result<Self> {
        Ok(Self { form, bytes: Compressor::new(compression)?, started: false })
    }

    /// Encodes rows.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        match &mut self.form {
            Form::Json { explicit_nulls, times } => {
                let mut writer: LineDelimitedWriter<_> = WriterBuilder::new()
                    .with_explicit_nulls(*explicit_nulls)
                    .with_encoder_factory(Arc::new(SparkForms(Arc::clone(times))))
                    .build(&mut self.bytes);
                writer.write(rows)?;
            }
            Form::Csv(csv) => {
                let mut lines = Vec::new();
                if !self.started {
                    csv.header(rows.schema_ref(), &mut lines);
                }
                csv.rows(rows, &mut lines)?;
                let unwritten = |e| Error::invalid(format!("the rows cannot be written: {e}"));
                self.bytes.write_all(&lines).map_err(unwritten)?;
            }
            Form::Lines => lines(rows, &mut self.bytes)?,
        }
        self.started = true;
        Ok(())
    }

    /// Takes out the bytes that are ready.
    pub(crate) fn take_ready(&mut self) -> Vec<u8> {
        self.bytes.take_ready()
    }

    /// The rest of the file.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        self.bytes.finish()
    }
}

fn lines(rows: &RecordBatch, out: &mut Compressor) -> Result<()> {
    let name = rows.schema_ref().field(0).name();
    let texts = Schema::new(vec![Field::new(name, DataType::Utf8, true)]);
    let rows = cast_rows(rows, Arc::new(texts))?;
    let texts = rows.column(0).as_string::<i32>();
    let mut bytes = Vec::with_capacity(texts.value_data().len() + texts.len());
    for text in texts {
        bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
        bytes.push(b'\n');
    }
    out.write_all(&bytes).map_err(|e| Error::invalid(format!("the lines cannot be written: {e}")))
}

fn refuse_nested(schema: &Schema) -> Result<()> {
    match schema.fields().iter().find(|f| f.data_type().is_nested() || f.data_type().is_binary()) {
        None => Ok(()),
        Some(field) => Err(Error::invalid(format!(
            "CSV has no place for column {:?} of type {}: cast it to text, or write JSON or \
             Parquet",
            field.name(),
            field.data_type()
        ))
        .with_condition("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE")),
    }
}

fn refuse_all_but_one_text(schema: &Schema) -> Result<()> {
    let is_text = |field: &Field| {
        matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    let error = match schema.fields().as_ref() {
        [field] if is_text(field) => return Ok(()),
        [field] => format!(
            "a text file has no place for column {:?} of type {}: cast it to STRING",
            field.name(),
            field.data_type()
        ),
        fields => format!(
            "a text file has one column, and there are {}: select one, put others into folders \
             with partitionBy, or use json",
            fields.len()
        ),
    };
    Err(Error::invalid(error).with_condition("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"))
}
