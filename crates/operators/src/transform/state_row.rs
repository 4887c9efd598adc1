//! What a state variable can hold, and what a processor can emit: rows of cells.

use super::cell::{Cell, WriteCell};
use super::column::ColumnWriter;
use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Fields};
use datafusion_common::ScalarValue;
use fluvial_core::{Error, Result};

/// The value of a state variable: one cell, a tuple of cells, or a [`Record`].
pub trait StateRow: Clone + Send + Sync + 'static {
    /// Its columns. `declared` is what the variable was declared with, if anything.
    ///
    /// # Errors
    ///
    /// `Invalid` if columns must be declared and were not, or the other way round.
    fn fields(declared: Option<&Fields>) -> Result<Fields>;

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns have other types.
    fn read(columns: &[ArrayRef], row: usize) -> Result<Self>;

    /// Appends a value.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns have other types.
    fn write(&self, columns: &mut [ColumnWriter]) -> Result<()>;
}

/// A row that a processor emits: a tuple of cells, or a [`Record`].
pub trait OutputRow {
    /// Appends the row.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not fit the output's columns.
    fn write(&self, columns: &mut [ColumnWriter]) -> Result<()>;
}

/// Values of any types, for processors that learn their columns at run time.
#[derive(Debug, Clone, PartialEq)]
pub struct Record(pub Vec<ScalarValue>);

fn same_count(have: usize, columns: &[ColumnWriter]) -> Result<()> {
    if have == columns.len() {
        return Ok(());
    }
    let names: Vec<&str> = columns.iter().map(|c| c.field().name().as_str()).collect();
    Err(Error::invalid(format!("a row of {have} values for the columns [{}]", names.join(", ")))
        .with_condition("DATATYPE_MISMATCH"))
}

/// The columns of a type that says itself what they are.
fn derived(
    types: &[(&str, arrow::datatypes::DataType)],
    declared: Option<&Fields>,
) -> Result<Fields> {
    let fields: Fields =
        types.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect();
    let Some(declared) = declared else { return Ok(fields) };
    let same =
        |(a, b): (&std::sync::Arc<Field>, &std::sync::Arc<Field>)| a.data_type() == b.data_type();
    if declared.len() == fields.len() && declared.iter().zip(&fields).all(same) {
        return Ok(declared.clone());
    }
    Err(Error::invalid(format!(
        "the variable is declared with the columns {declared:?}, and its Rust type has {fields:?}"
    )))
}

impl<T: Cell> StateRow for T {
    fn fields(declared: Option<&Fields>) -> Result<Fields> {
        derived(&[("value", T::data_type())], declared)
    }

    fn read(columns: &[ArrayRef], row: usize) -> Result<Self> {
        T::read(columns[0].as_ref(), row)
    }

    fn write(&self, columns: &mut [ColumnWriter]) -> Result<()> {
        same_count(1, columns)?;
        WriteCell::write(self, &mut columns[0])
    }
}

impl StateRow for Record {
    fn fields(declared: Option<&Fields>) -> Result<Fields> {
        declared.cloned().ok_or_else(|| {
            Error::invalid("a variable of records is declared with its columns: Variable::fields")
        })
    }

    fn read(columns: &[ArrayRef], row: usize) -> Result<Self> {
        let value = |column: &ArrayRef| ScalarValue::try_from_array(column, row);
        let values = columns.iter().map(value).collect::<Result<_, _>>();
        values.map(Self).map_err(crate::error::from_datafusion)
    }

    fn write(&self, columns: &mut [ColumnWriter]) -> Result<()> {
        OutputRow::write(self, columns)
    }
}

impl OutputRow for Record {
    fn write(&self, columns: &mut [ColumnWriter]) -> Result<()> {
        same_count(self.0.len(), columns)?;
        self.0.iter().zip(columns).try_for_each(|(value, column)| value.write(column))
    }
}

macro_rules! tuples {
    ($(($($name:ident $text:literal $at:tt),*))*) => {
        $(
            impl<$($name: Cell),*> StateRow for ($($name,)*) {
                fn fields(declared: Option<&Fields>) -> Result<Fields> {
                    derived(&[$(($text, $name::data_type())),*], declared)
                }

                fn read(columns: &[ArrayRef], row: usize) -> Result<Self> {
                    Ok(($($name::read(columns[$at].as_ref(), row)?,)*))
                }

                fn write(&self, columns: &mut [ColumnWriter]) -> Result<()> {
                    OutputRow::write(self, columns)
                }
            }

            impl<$($name: WriteCell),*> OutputRow for ($($name,)*) {
                fn write(&self, columns: &mut [ColumnWriter]) -> Result<()> {
                    const COUNT: usize = [$($at),*].len();
                    same_count(COUNT, columns)?;
                    $(WriteCell::write(&self.$at, &mut columns[$at])?;)*
                    Ok(())
                }
            }
        )*
    };
}

tuples! {
    (A "_1" 0)
    (A "_1" 0, B "_2" 1)
    (A "_1" 0, B "_2" 1, C "_3" 2)
    (A "_1" 0, B "_2" 1, C "_3" 2, D "_4" 3)
    (A "_1" 0, B "_2" 1, C "_3" 2, D "_4" 3, E "_5" 4)
    (A "_1" 0, B "_2" 1, C "_3" 2, D "_4" 3, E "_5" 4, F "_6" 5)
    (A "_1" 0, B "_2" 1, C "_3" 2, D "_4" 3, E "_5" 4, F "_6" 5, G "_7" 6)
    (A "_1" 0, B "_2" 1, C "_3" 2, D "_4" 3, E "_5" 4, F "_6" 5, G "_7" 6, H "_8" 7)
}
