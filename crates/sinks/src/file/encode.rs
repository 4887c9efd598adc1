//! Rows as the bytes of one data file.

mod compress;
#[cfg(any(feature = "avro", feature = "orc"))]
mod container;
mod text;

use crate::file::dictionary::unique_columns;
use crate::file::options::{FileFormat, ParquetCompression};
use crate::file::times::TextTimes;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef, TimeUnit};
use fluvial_core::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use std::sync::Arc;
use text::TextEncoder;

/// A Parquet file on its way. It begins with the first rows: they show which columns repeat.
pub(crate) struct ParquetFile {
    schema: SchemaRef,
    compression: ParquetCompression,
    writer: Option<Box<ArrowWriter<Vec<u8>>>>,
}

impl ParquetFile {
    /// A writer that makes no dictionary of the columns `unique`.
    fn begin(&self, unique: &[ColumnPath]) -> Result<Box<ArrowWriter<Vec<u8>>>> {
        let properties = properties(self.compression, unique);
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&self.schema), Some(properties));
        Ok(Box::new(writer.map_err(parquet_error)?))
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin(&unique_columns(rows)?)?,
        };
        self.writer.insert(writer).write(rows).map_err(parquet_error)
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin(&[])?,
        };
        writer.into_inner().map_err(parquet_error)
    }
}

/// An encoder of one file. Bytes that are ready are taken out again and again.
pub(crate) enum Encoder {
    Parquet(ParquetFile),
    Text(Box<TextEncoder>),
    #[cfg(any(feature = "avro", feature = "orc"))]
    Container(Box<container::ContainerEncoder>),
}

impl Encoder {
    /// An encoder for rows of `schema`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the format has no place for a type; for Parquet, the first rows show it.
    pub(crate) fn new(
        format: FileFormat,
        times: &Arc<TextTimes>,
        schema: &SchemaRef,
    ) -> Result<Self> {
        let text = match format {
            FileFormat::Parquet(compression) => {
                let schema = Arc::new(parquet_schema(schema));
                return Ok(Self::Parquet(ParquetFile { schema, compression, writer: None }));
            }
            FileFormat::Json { ignore_nulls, compression } => {
                TextEncoder::json(ignore_nulls, times, compression)?
            }
            FileFormat::Csv { form, compression } => {
                TextEncoder::csv(schema, form, times, compression)?
            }
            FileFormat::Text { compression } => TextEncoder::lines(schema, compression)?,
            #[cfg(any(feature = "avro", feature = "orc"))]
            FileFormat::Container(format) => {
                let file = container::ContainerEncoder::new(format, schema)?;
                return Ok(Self::Container(Box::new(file)));
            }
        };
        Ok(Self::Text(Box::new(text)))
    }

    /// Encodes rows.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        match self {
            Self::Parquet(file) => file.write(&parquet_rows(rows)?)?,
            Self::Text(text) => text.write(rows)?,
            #[cfg(any(feature = "avro", feature = "orc"))]
            Self::Container(file) => file.write(rows)?,
        }
        Ok(())
    }

    /// Bytes of rows that are encoded but not ready.
    pub(crate) fn pending_bytes(&self) -> usize {
        match self {
            Self::Parquet(file) => file.writer.as_ref().map_or(0, |w| w.in_progress_size()),
            Self::Text(_) => 0,
            #[cfg(any(feature = "avro", feature = "orc"))]
            Self::Container(file) => file.held_bytes(),
        }
    }

    /// Makes everything written so far ready, at the price of a smaller row group. Nothing is ready
    /// then if the file is made at its end only.
    pub(crate) fn flush(&mut self) -> Result<()> {
        match self {
            Self::Parquet(ParquetFile { writer: Some(writer), .. }) => {
                writer.flush().map_err(parquet_error)
            }
            _ => Ok(()),
        }
    }

    /// Takes out the bytes that are ready.
    pub(crate) fn take_ready(&mut self) -> Vec<u8> {
        match self {
            Self::Parquet(file) => {
                file.writer.as_mut().map_or_else(Vec::new, |w| std::mem::take(w.inner_mut()))
            }
            Self::Text(text) => text.take_ready(),
            #[cfg(any(feature = "avro", feature = "orc"))]
            Self::Container(file) => file.take_ready(),
        }
    }

    /// The rest of the file.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        match self {
            Self::Parquet(file) => file.finish(),
            Self::Text(text) => text.finish(),
            #[cfg(any(feature = "avro", feature = "orc"))]
            Self::Container(file) => file.finish(),
        }
    }
}

fn properties(compression: ParquetCompression, unique: &[ColumnPath]) -> WriterProperties {
    let compression = match compression {
        ParquetCompression::None => Compression::UNCOMPRESSED,
        ParquetCompression::Snappy => Compression::SNAPPY,
        ParquetCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
        ParquetCompression::Lz4 => Compression::LZ4_RAW,
    };
    let writer = concat!("fluvial ", env!("CARGO_PKG_VERSION"));
    let properties =
        WriterProperties::builder().set_compression(compression).set_created_by(writer.to_owned());
    let plain = unique.iter().cloned();
    plain.fold(properties, |all, path| all.set_column_dictionary_enabled(path, false)).build()
}

fn parquet_error(error: ParquetError) -> Error {
    Error::invalid(format!("the rows cannot be written as Parquet: {error}")).with_source(error)
}

/// Times in nanoseconds are written in microseconds: many readers know nothing finer.
fn parquet_schema(schema: &Schema) -> Schema {
    let field = |field: &Arc<arrow::datatypes::Field>| match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            Arc::new(field.as_ref().clone().with_data_type(micros))
        }
        _ => field.clone(),
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
}

fn parquet_rows(rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = Arc::new(parquet_schema(&rows.schema()));
    cast_rows(rows, schema)
}

fn cast_rows(rows: &RecordBatch, schema: SchemaRef) -> Result<RecordBatch> {
    let columns = rows.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        if column.data_type() == field.data_type() {
            Ok(column.clone())
        } else {
            arrow::compute::cast(column, field.data_type())
        }
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(schema, columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::csv::CsvForm;
    use crate::file::options::TextCompression;
    use arrow::array::{
        ArrayRef, BinaryArray, Float64Array, Int64Array, Int64Builder, ListArray, MapBuilder,
        StringArray, StringBuilder, TimestampMicrosecondArray, TimestampNanosecondArray,
    };
    use arrow::datatypes::{Field, Int64Type};
    use std::io::Read;

    fn encode(format: FileFormat, columns: Vec<(&str, ArrayRef)>) -> String {
        String::from_utf8(encode_bytes(format, columns)).unwrap()
    }

    /// All rows, what is ready taken out, and the first row once more.
    fn encode_bytes(format: FileFormat, columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut encoder = Encoder::new(format, &Arc::default(), &rows.schema()).unwrap();
        encoder.write(&rows).unwrap();
        let mut bytes = encoder.take_ready();
        encoder.write(&rows.slice(0, 1)).unwrap();
        bytes.extend(encoder.finish().unwrap());
        bytes
    }

    fn json(ignore_nulls: bool) -> FileFormat {
        FileFormat::Json { ignore_nulls, compression: TextCompression::None }
    }

    fn csv(header: bool, quote_all: bool) -> FileFormat {
        let form = CsvForm { header, quote_all, ..CsvForm::default() };
        FileFormat::Csv { form, compression: TextCompression::None }
    }

    #[test]
    fn compressed_text_is_one_stream() {
        let texts =
            || Arc::new(StringArray::from(vec![Some("a\u{e9}"), None, Some("")])) as ArrayRef;
        let write =
            |compression| encode_bytes(FileFormat::Text { compression }, vec![("value", texts())]);
        let expected = "a\u{e9}\n\n\na\u{e9}\n".as_bytes();
        assert_eq!(write(TextCompression::None), expected);
        let mut gzip = Vec::new();
        flate2::read::GzDecoder::new(&write(TextCompression::Gzip)[..])
            .read_to_end(&mut gzip)
            .unwrap();
        let mut deflate = Vec::new();
        flate2::read::ZlibDecoder::new(&write(TextCompression::Deflate)[..])
            .read_to_end(&mut deflate)
            .unwrap();
        let zstd = zstd::decode_all(&write(TextCompression::Zstd)[..]).unwrap();
        assert_eq!((&gzip[..], &deflate[..], &zstd[..]), (expected, expected, expected));
    }

    #[test]
    fn text_takes_one_column_of_text() {
        let column = |name: &str, data_type| Field::new(name, data_type, true);
        let text = FileFormat::Text { compression: TextCompression::None };
        for fields in [
            vec![column("n", DataType::Int64)],
            vec![column("a", DataType::Utf8), column("b", DataType::Utf8)],
        ] {
            let error =
                Encoder::new(text, &Arc::default(), &Arc::new(Schema::new(fields))).err().unwrap();
            assert_eq!(error.condition(), Some("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"));
        }
    }

    fn times() -> ArrayRef {
        let times = vec![Some(1_500_000), None, Some(1), Some(-1_000_000)];
        Arc::new(TimestampMicrosecondArray::from(times).with_timezone("Europe/Berlin"))
    }

    #[test]
    fn json_looks_like_spark_s() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
            Some(vec![Some(2)]),
        ]);
        let bytes: Vec<Option<&[u8]>> = vec![Some(b"hi"), None, Some(b""), Some(b"\xff")];
        let json = encode(
            json(true),
            vec![
                ("ts", times()),
                ("f", Arc::new(Float64Array::from(vec![1.0, f64::NAN, -f64::INFINITY, 1e300]))),
                ("l", Arc::new(list)),
                ("b", Arc::new(BinaryArray::from(bytes))),
            ],
        );
        let expected = r#"{"ts":"1970-01-01T00:00:01.500Z","f":1.0,"l":[1,null],"b":"aGk="}
{"f":"NaN"}
{"ts":"1970-01-01T00:00:00.000001Z","f":"-Infinity","l":[],"b":""}
{"ts":"1969-12-31T23:59:59.000Z","f":1e300,"l":[2],"b":"/w=="}
{"ts":"1970-01-01T00:00:01.500Z","f":1.0,"l":[1,null],"b":"aGk="}
"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn json_of_maps_keeps_entries_without_a_value() {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        for (keys, valid) in [(vec![("a", None), ("b", Some(1))], true), (vec![], false)] {
            for (key, value) in keys {
                maps.keys().append_value(key);
                maps.values().append_option(value);
            }
            maps.append(valid).unwrap();
        }
        let json = encode(json(true), vec![("m", Arc::new(maps.finish()))]);
        assert_eq!(json, "{\"m\":{\"a\":null,\"b\":1}}\n{}\n{\"m\":{\"a\":null,\"b\":1}}\n");
    }

    #[test]
    fn json_may_keep_nulls() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let json = encode(json(false), vec![("k", column)]);
        assert_eq!(json, "{\"k\":\"a\"}\n{\"k\":null}\n{\"k\":\"a\"}\n");
    }

    #[test]
    fn csv_has_one_header_and_quotes_what_it_must() {
        let csv = encode(
            csv(true, false),
            vec![
                ("a", Arc::new(StringArray::from(vec![Some("say \"x\", y"), None]))),
                ("b", Arc::new(Int64Array::from(vec![3, 1]))),
                ("t", times().slice(0, 2)),
            ],
        );
        let line = "\"say \"\"x\"\", y\",3,1970-01-01T00:00:01.500Z\n";
        assert_eq!(csv, format!("a,b,t\n{line},1,\n{line}"));
    }

    #[test]
    fn csv_may_quote_everything() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![3]));
        let text = encode(csv(true, true), vec![("a", numbers)]);
        assert_eq!(text, "\"a\"\n\"3\"\n\"3\"\n");
    }

    #[test]
    fn csv_refuses_what_it_cannot_hold() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)])]);
        let rows = RecordBatch::try_from_iter([("l", Arc::new(list) as ArrayRef)]).unwrap();
        let csv = csv(false, false);
        let error = Encoder::new(csv, &Arc::default(), &rows.schema()).err().unwrap();
        assert_eq!(error.condition(), Some("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"));
    }

    #[test]
    fn parquet_pieces_are_one_file_with_micros() {
        let nanos = TimestampNanosecondArray::from(vec![1_234_567_890]);
        let rows = RecordBatch::try_from_iter([("t", Arc::new(nanos) as ArrayRef)]).unwrap();
        let format = FileFormat::Parquet(ParquetCompression::Snappy);
        let mut encoder = Encoder::new(format, &Arc::default(), &rows.schema()).unwrap();
        let mut bytes = Vec::new();
        for _ in 0..3 {
            encoder.write(&rows).unwrap();
            encoder.flush().unwrap();
            bytes.extend(encoder.take_ready());
        }
        bytes.extend(encoder.finish().unwrap());
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(
            bytes::Bytes::from(bytes),
        )
        .unwrap();
        let field = reader.schema().field(0).clone();
        assert_eq!(field.data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
        let rows: usize = reader.build().unwrap().map(|rows| rows.unwrap().num_rows()).sum();
        assert_eq!(rows, 3);
    }
}
