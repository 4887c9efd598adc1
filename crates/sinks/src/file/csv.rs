//! Rows as separated values. Arrow's own writer does not escape the escape character, and calls
//! infinity what no reader of CSV does.

use super::times::TextTimes;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial_core::{Error, Result};
use std::fmt::Write;
use std::sync::Arc;

/// The signs of CSV, and where they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvForm {
    /// Whether each file begins with the names of the columns.
    pub header: bool,
    /// Between two values.
    pub delimiter: u8,
    /// Around a value that needs it.
    pub quote: u8,
    /// Before a quote inside of quotes, and before itself; the quote doubles quotes.
    pub escape: u8,
    /// Whether every value has quotes, not only those that need them.
    pub quote_all: bool,
}

impl Default for CsvForm {
    /// That of RFC 4180, without a header.
    fn default() -> Self {
        Self { header: false, delimiter: b',', quote: b'"', escape: b'"', quote_all: false }
    }
}

/// Writes rows.
pub(crate) struct CsvRows {
    form: CsvForm,
    times: Arc<TextTimes>,
    /// Of each byte: whether a value that has it needs quotes.
    special: [bool; 256],
    text: String,
}

impl CsvRows {
    pub(crate) fn new(form: CsvForm, times: Arc<TextTimes>) -> Self {
        let mut special = [false; 256];
        for sign in [form.delimiter, form.quote, b'\r', b'\n'] {
            special[usize::from(sign)] = true;
        }
        Self { form, times, special, text: String::new() }
    }

    /// Writes the names of the columns, if they are wanted.
    pub(crate) fn header(&self, schema: &Schema, out: &mut Vec<u8>) {
        if !self.form.header {
            return;
        }
        for (n, field) in schema.fields().iter().enumerate() {
            self.separate(n, out);
            self.cell(Some(field.name()), false, out);
        }
        out.push(b'\n');
    }

    /// Writes rows, a line each.
    pub(crate) fn rows(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let rows = self.times.text_rows(rows)?;
        let texts = rows.columns().iter().map(as_text).collect::<Result<Vec<_>>>()?;
        let columns = texts.iter().map(Cells::of).collect::<Result<Vec<_>>>()?;
        let mut text = std::mem::take(&mut self.text);
        for row in 0..rows.num_rows() {
            let start = out.len();
            self.record(&columns, row, false, &mut text, out)?;
            if is_blank(&out[start..]) {
                // A reader would take it for no record.
                out.truncate(start);
                self.record(&columns, row, true, &mut text, out)?;
            }
            out.push(b'\n');
        }
        self.text = text;
        Ok(())
    }

    /// Writes a row; `quoted` says that its first value has quotes whatever it is.
    fn record(
        &self,
        columns: &[Cells<'_>],
        row: usize,
        quoted: bool,
        text: &mut String,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (n, column) in columns.iter().enumerate() {
            self.separate(n, out);
            self.cell(column.get(row, text)?, quoted && n == 0, out);
        }
        Ok(())
    }

    fn separate(&self, n: usize, out: &mut Vec<u8>) {
        if n > 0 {
            out.push(self.form.delimiter);
        }
    }

    /// Writes a value: null is nothing at all, an empty text has quotes.
    fn cell(&self, value: Option<&str>, quoted: bool, out: &mut Vec<u8>) {
        let text = value.unwrap_or_default().as_bytes();
        let needed = value.is_some_and(str::is_empty)
            || text.iter().any(|byte| self.special[usize::from(*byte)]);
        if !(needed || quoted || self.form.quote_all) {
            out.extend_from_slice(text);
            return;
        }
        out.push(self.form.quote);
        for byte in text {
            if *byte == self.form.quote || *byte == self.form.escape {
                out.push(self.form.escape);
            }
            out.push(*byte);
        }
        out.push(self.form.quote);
    }
}

/// Whether nothing but blanks is in a line: only where it begins with one that is looked at.
fn is_blank(line: &[u8]) -> bool {
    let maybe = line.first().is_none_or(|byte| byte.is_ascii_whitespace() || !byte.is_ascii());
    maybe && std::str::from_utf8(line).is_ok_and(|line| line.trim().is_empty())
}

/// The values of a column as texts, one at a time.
enum Cells<'a> {
    Texts(&'a StringArray),
    Shown(ArrayFormatter<'a>, &'a ArrayRef),
}

/// Texts of any layout in one, other columns as they are.
fn as_text(column: &ArrayRef) -> Result<ArrayRef> {
    let is_text = match column.data_type() {
        DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => {
            matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        }
        _ => false,
    };
    Ok(if is_text { cast(column, &DataType::Utf8)? } else { Arc::clone(column) })
}

impl<'a> Cells<'a> {
    fn of(column: &'a ArrayRef) -> Result<Self> {
        Ok(match column.as_string_opt::<i32>() {
            Some(texts) => Self::Texts(texts),
            None => {
                let options = FormatOptions::default().with_display_error(false);
                Self::Shown(ArrayFormatter::try_new(column, &options)?, column)
            }
        })
    }

    /// The text of a value; `room` is for making it.
    fn get<'b>(&'b self, row: usize, room: &'b mut String) -> Result<Option<&'b str>> {
        match self {
            Self::Texts(texts) => Ok(texts.is_valid(row).then(|| texts.value(row))),
            Self::Shown(_, column) if column.is_null(row) => Ok(None),
            Self::Shown(shown, column) => {
                room.clear();
                write!(room, "{}", shown.value(row)).map_err(|_| {
                    Error::invalid(format!(
                        "a value of type {} has no form in CSV",
                        column.data_type()
                    ))
                })?;
                Ok(Some(match room.as_str() {
                    // Nothing but a number is called so here: texts are above.
                    "inf" => "Infinity",
                    "-inf" => "-Infinity",
                    text => text,
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Float32Array, Float64Array, Int8Array, StringViewArray};

    fn csv(form: CsvForm, columns: Vec<ArrayRef>) -> String {
        let names = ["a", "b,", "c"];
        let rows = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
        let (mut out, mut csv) = (Vec::new(), CsvRows::new(form, Arc::default()));
        csv.header(&rows.schema(), &mut out);
        csv.rows(&rows, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn texts(texts: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    const RFC: CsvForm =
        CsvForm { header: false, delimiter: b',', quote: b'"', escape: b'"', quote_all: false };

    #[test]
    fn quotes_are_doubled_or_escaped() {
        let values = ["a\\b", "a\"b", "a\nb", "#c", "a\\\"b,", " z "].map(Some);
        let doubled = "a\\b\n\"a\"\"b\"\n\"a\nb\"\n#c\n\"a\\\"\"b,\"\n z \n";
        assert_eq!(csv(RFC, vec![texts(&values)]), doubled);
        // As Spark writes them.
        let escaped = "a\\b\n\"a\\\"b\"\n\"a\nb\"\n#c\n\"a\\\\\\\"b,\"\n z \n";
        assert_eq!(csv(CsvForm { escape: b'\\', ..RFC }, vec![texts(&values)]), escaped);
        let form = CsvForm { delimiter: b';', quote: b'\'', escape: b'\'', ..RFC };
        let values = ["it's", "a;b", "\"q\"", "a,b"].map(Some);
        assert_eq!(csv(form, vec![texts(&values)]), "'it''s'\n'a;b'\n\"q\"\na,b\n");
    }

    #[test]
    fn null_is_nothing_an_empty_text_is_quoted_and_no_line_is_blank() {
        let values = [None, Some(""), Some("x"), None];
        let two = csv(RFC, vec![texts(&values), texts(&values)]);
        assert_eq!(two, ",\n\"\",\"\"\nx,x\n,\n");
        let one = csv(RFC, vec![texts(&[None, Some(""), Some(" \u{a0}"), Some(" x")])]);
        assert_eq!(one, "\"\"\n\"\"\n\" \u{a0}\"\n x\n");
        let tabs = CsvForm { delimiter: b'\t', ..RFC };
        assert_eq!(csv(tabs, vec![texts(&[None]), texts(&[None])]), "\"\"\t\n");
        let all = CsvForm { quote_all: true, header: true, ..RFC };
        assert_eq!(
            csv(all, vec![texts(&[None]), texts(&[Some("x")])]),
            "\"a\",\"b,\"\n\"\",\"x\"\n"
        );
    }

    #[test]
    fn other_types_have_the_names_that_readers_know() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Float64Array::from(vec![f64::INFINITY, f64::NAN, -0.0, 1e300])),
            Arc::new(Float32Array::from(vec![f32::NEG_INFINITY, 1.5, 0.1, 3.0])),
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None])),
        ];
        let expected = "Infinity,-Infinity,true\nNaN,1.5,\n-0.0,0.1,false\n1e300,3.0,\n";
        assert_eq!(csv(RFC, columns), expected);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from(vec![-128, 5])),
            Arc::new(StringViewArray::from(vec![Some("inf"), None])),
        ];
        assert_eq!(csv(RFC, columns), "-128,inf\n5,\n");
    }
}
