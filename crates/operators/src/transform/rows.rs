//! What a processor is given: the key of a group and its rows.

use super::cell::ReadCell;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Fields;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial_core::{Error, Result};
use std::fmt;

fn position(fields: &Fields, name: &str) -> Result<usize> {
    if let Some((at, _)) = fields.find(name) {
        return Ok(at);
    }
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    Err(Error::invalid(format!("there is no column {name}: there are [{}]", names.join(", ")))
        .with_condition("UNRESOLVED_COLUMN"))
}

fn cell<'a, T: ReadCell<'a>>(
    columns: &'a [ArrayRef],
    fields: &Fields,
    at: usize,
    row: usize,
) -> Result<T> {
    let column = columns.get(at).ok_or_else(|| {
        Error::invalid(format!("there is no column {at}: there are {}", columns.len()))
    })?;
    T::read(column.as_ref(), row)
        .map_err(|error| error.at(format_args!("column {}", fields[at].name())))
}

/// The grouping columns of one group.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    pub(super) columns: &'a [ArrayRef],
    pub(super) fields: &'a Fields,
    pub(super) row: usize,
}

impl<'a> Key<'a> {
    /// The value of a grouping column, by name.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column, or it has another type.
    pub fn get<T: ReadCell<'a>>(&self, name: &str) -> Result<T> {
        self.at(position(self.fields, name)?)
    }

    /// The value of the grouping column at this position.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column, or it has another type.
    pub fn at<T: ReadCell<'a>>(&self, position: usize) -> Result<T> {
        cell(self.columns, self.fields, position, self.row)
    }
}

impl fmt::Display for Key<'_> {
    /// `k=a, u=null`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = FormatOptions::default().with_null("null");
        for (at, (column, field)) in self.columns.iter().zip(self.fields).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let value = ArrayFormatter::try_new(column.as_ref(), &options);
            let value = value.map_err(|_| fmt::Error)?;
            write!(f, "{comma}{}={}", field.name(), value.value(self.row))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct InputRow<'a> {
    pub(super) batch: &'a RecordBatch,
    pub(super) row: usize,
}

impl<'a> InputRow<'a> {
    /// The value of a column, by name.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column, it has another type, or the value is null and `T` is
    /// no [`Option`].
    pub fn get<T: ReadCell<'a>>(&self, name: &str) -> Result<T> {
        self.at(position(self.batch.schema_ref().fields(), name)?)
    }

    /// The value of the column at this position.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub fn at<T: ReadCell<'a>>(&self, position: usize) -> Result<T> {
        cell(self.batch.columns(), self.batch.schema_ref().fields(), position, self.row)
    }
}

/// All rows of one group in one batch, in the order in which they came.
///
/// They lie side by side in record batches, so they can be read as columns too.
#[derive(Debug, Clone, Copy)]
pub struct InputRows<'a> {
    /// Several only if one group alone has more rows than a piece.
    pub(super) pieces: &'a [RecordBatch],
    /// The rows of the first piece; all rows of the others count.
    pub(super) start: usize,
    /// One past the last row, counted over all pieces.
    pub(super) end: usize,
}

impl<'a> InputRows<'a> {
    /// No rows: what a timed-out group has.
    pub(super) const NONE: Self = Self { pieces: &[], start: 0, end: 0 };

    /// How many there are.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = InputRow<'a>> + use<'a> {
        self.ranges()
            .flat_map(|(batch, start, end)| (start..end).map(move |row| InputRow { batch, row }))
    }

    /// As columns: mostly one batch, several if one group has very many rows.
    pub fn batches(&self) -> impl Iterator<Item = RecordBatch> + use<'a> {
        self.ranges().map(|(batch, start, end)| batch.slice(start, end - start))
    }

    fn ranges(&self) -> impl Iterator<Item = (&'a RecordBatch, usize, usize)> + use<'a> {
        let (start, end) = (self.start, self.end);
        let mut before = 0;
        self.pieces.iter().map(move |batch| {
            let first = before;
            before += batch.num_rows();
            (batch, start.saturating_sub(first), end.min(before) - first)
        })
    }
}

impl<'a> IntoIterator for InputRows<'a> {
    type Item = InputRow<'a>;
    type IntoIter = Box<dyn Iterator<Item = InputRow<'a>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}
