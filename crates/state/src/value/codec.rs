//! The value codec.

use super::reader::{self, Reader};
use super::shape::Shape;
use super::writer::{self, Writer};
use crate::plain::{Purpose, from_plain, plain_type, to_plain};
use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use fluvial_core::{Error, Result};

/// Version of the bytes of values: the first byte of each.
pub const VALUE_FORMAT: u8 = 1;

/// Turns columns into state values and back, whole columns at a time. Every bit comes back: the
/// sign of a zero, the payload of a NaN, the order of a map.
///
/// A value is `[format][one bit per column][the columns that are there]`: numbers as they are,
/// little-endian, texts and lists with a length in front. Values have no order.
#[derive(Debug)]
pub struct ValueCodec {
    declared: Vec<DataType>,
    plain: Vec<DataType>,
    shapes: Vec<Shape>,
}

impl ValueCodec {
    /// A codec for columns of these types.
    ///
    /// # Errors
    ///
    /// `Invalid` for a type that state cannot hold.
    pub fn new(types: Vec<DataType>) -> Result<Self> {
        let plain: Vec<DataType> = types.iter().map(plain_type).collect::<Result<_>>()?;
        let shapes = plain.iter().map(Shape::of).collect();
        Ok(Self { declared: types, plain, shapes })
    }

    /// The declared types of the columns.
    pub fn types(&self) -> &[DataType] {
        &self.declared
    }

    /// Encodes `rows` rows. There may be no columns: then a value says only that it is there.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns are not those of this codec, or if the values take more than
    /// 2 GiB together.
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<BinaryArray> {
        if columns.len() != self.plain.len() {
            return Err(Error::invalid(format!(
                "state values have {} columns, not {}",
                self.plain.len(),
                columns.len()
            )));
        }
        let mut writers = Vec::with_capacity(columns.len());
        for (i, (column, plain)) in columns.iter().zip(&self.plain).enumerate() {
            let bad = |what: String| Error::invalid(format!("value column {i} {what}"));
            if column.len() != rows {
                return Err(bad(format!("has {} rows, not {rows}", column.len())));
            }
            let column = to_plain(column, Purpose::Value)?;
            if !column.data_type().equals_datatype(plain) {
                return Err(bad(format!("is {}, not {plain}", column.data_type())));
            }
            writers.push(Writer::new(&column)?);
        }
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let mut bytes = Vec::with_capacity(rows * (2 + 9 * columns.len()));
        for i in 0..rows {
            bytes.push(VALUE_FORMAT);
            writer::write_row(&writers, i, &mut bytes);
            offsets.push(i32::try_from(bytes.len()).map_err(|_| {
                Error::invalid(format!("the values of {rows} rows take over 2 GiB: write fewer"))
            })?);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(BinaryArray::new(offsets, bytes.into(), None))
    }

    /// Decodes values that this codec made. Where there is no value, all columns are null.
    ///
    /// # Errors
    ///
    /// `Corrupt` for bytes that no encoder wrote, `Invalid` for a newer format; never a panic.
    pub fn decode(&self, values: &BinaryArray) -> Result<Vec<ArrayRef>> {
        let values = (0..values.len()).map(|i| values.is_valid(i).then(|| values.value(i)));
        self.decode_all(values)
    }

    /// As [`Self::decode`], of values that do not lie in one column.
    ///
    /// # Errors
    ///
    /// As [`Self::decode`].
    pub fn decode_each<'v>(
        &self,
        values: impl IntoIterator<Item = &'v [u8]>,
    ) -> Result<Vec<ArrayRef>> {
        self.decode_all(values.into_iter().map(Some))
    }

    fn decode_all<'v>(
        &self,
        values: impl Iterator<Item = Option<&'v [u8]>>,
    ) -> Result<Vec<ArrayRef>> {
        let mut readers: Vec<Reader> = self.shapes.iter().map(Reader::new).collect();
        for (i, value) in values.enumerate() {
            match value {
                None => readers.iter_mut().for_each(Reader::push_null),
                Some(value) => decode_row(&mut readers, value)
                    .map_err(|error| error.at(format_args!("state value {i} of a read")))?,
            }
        }
        let columns = readers.into_iter().zip(&self.plain).zip(&self.declared);
        columns
            .map(|((reader, plain), declared)| {
                let column = reader.finish(plain).map_err(|error| {
                    Error::corrupt(format!("stored bytes are not a {plain}")).with_source(error)
                })?;
                from_plain(&column, declared)
            })
            .collect()
    }
}

fn decode_row(readers: &mut [Reader], value: &[u8]) -> Result<()> {
    let (format, mut rest) =
        value.split_first().ok_or_else(|| Error::corrupt("it has no bytes"))?;
    if *format > VALUE_FORMAT {
        return Err(Error::invalid(format!(
            "it has format {format}, newer than {VALUE_FORMAT}: use the version of Fluvial that \
             wrote it, or a later one"
        ))
        .with_condition("CHECKPOINT_FORMAT_TOO_NEW"));
    }
    if *format == 0 {
        return Err(Error::corrupt("its format is damaged"));
    }
    reader::read_row(readers, &mut rest).map_err(Error::corrupt)?;
    if !rest.is_empty() {
        return Err(Error::corrupt("there are bytes after the last column"));
    }
    Ok(())
}
