//! What is written, and how: as users say it.

#[cfg(any(feature = "avro", feature = "orc"))]
mod container;

use super::csv::CsvForm;
use super::times::{TIME_OPTIONS, TextTimes};
#[cfg(any(feature = "avro", feature = "orc"))]
pub use container::{BlockCompression, ContainerFormat};
use fluvial_core::options::Options;
use fluvial_core::{Error, Result};
use std::num::NonZeroU64;
use std::sync::Arc;

/// The format of data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Parquet.
    Parquet(ParquetCompression),
    /// One JSON object per line; timestamps in ISO form, UTC.
    Json {
        /// Whether fields that are null are left out.
        ignore_nulls: bool,
        /// How files are compressed.
        compression: TextCompression,
    },
    /// Separated values.
    Csv {
        /// Their signs.
        form: CsvForm,
        /// How files are compressed.
        compression: TextCompression,
    },
    /// The lines of one text column; null is an empty one.
    Text {
        /// How files are compressed.
        compression: TextCompression,
    },
    /// Avro or ORC.
    #[cfg(any(feature = "avro", feature = "orc"))]
    Container(ContainerFormat),
}

/// How a file of text is compressed, as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextCompression {
    /// Not at all.
    #[default]
    None,
    /// `.gz`.
    Gzip,
    /// `.deflate`: the form of zlib.
    Deflate,
    /// `.zst`.
    Zstd,
}

/// How Parquet pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParquetCompression {
    /// Not at all.
    None,
    /// Fast, moderate.
    #[default]
    Snappy,
    /// Smaller, slower.
    Zstd,
    /// Fast.
    Lz4,
}

impl FileFormat {
    /// The name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet(_) => "parquet",
            Self::Json { .. } => "json",
            Self::Csv { .. } => "csv",
            Self::Text { .. } => "text",
            #[cfg(any(feature = "avro", feature = "orc"))]
            Self::Container(format) => format.name(),
        }
    }

    /// How names of data files end.
    pub(crate) fn extension(self) -> String {
        let (name, compression) = match self {
            Self::Parquet(compression) => return format!("{}.parquet", compression.extension()),
            Self::Json { compression, .. } => (".json", compression),
            Self::Csv { compression, .. } => (".csv", compression),
            Self::Text { compression } => (".txt", compression),
            #[cfg(any(feature = "avro", feature = "orc"))]
            Self::Container(format) => return format.extension(),
        };
        format!("{name}{}", compression.extension())
    }
}

impl ParquetCompression {
    fn extension(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Snappy => ".snappy",
            Self::Zstd => ".zstd",
            Self::Lz4 => ".lz4",
        }
    }
}

impl TextCompression {
    fn extension(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Deflate => ".deflate",
            Self::Zstd => ".zst",
        }
    }

    fn take(options: &mut Options) -> Result<Self> {
        let parse = |text: &str| match text.to_lowercase().as_str() {
            "none" | "uncompressed" => Some(Self::None),
            "gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "zstd" => Some(Self::Zstd),
            _ => None,
        };
        let found = options.take_with("compression", "none, gzip, deflate or zstd", parse)?;
        Ok(found.unwrap_or_default())
    }
}

/// How a [`crate::FileSink`] writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// The format of data files.
    pub format: FileFormat,
    /// Columns that become folders, `name=value`, in this order. They are not in the files.
    pub partition_by: Vec<String>,
    /// Manifests of so many of the newest batches are kept at least. Fixed when the output is new.
    pub manifests_kept: NonZeroU64,
    /// After so many rows a file ends and the next begins.
    pub rows_per_file_max: Option<NonZeroU64>,
    /// A file ends with the record batch that brings it to so many bytes, as they are encoded.
    /// Without a target, a partition of a batch is one file for each folder.
    pub file_bytes_target: Option<NonZeroU64>,
    /// How dates and times are written in JSON and CSV, and in which zone in names of folders.
    pub times: Arc<TextTimes>,
}

impl FileOptions {
    /// Default options of a format.
    pub fn new(format: FileFormat) -> Self {
        let manifests_kept = NonZeroU64::new(100).expect("100 is not zero");
        Self {
            format,
            partition_by: Vec::new(),
            manifests_kept,
            rows_per_file_max: None,
            file_bytes_target: None,
            times: Arc::default(),
        }
    }

    /// Parses the options of a sink in `format` (`parquet`, `json`, `csv`, `text`; `avro` and `orc`
    /// if they are built in). `path` must have been taken already.
    ///
    /// # Errors
    ///
    /// `Invalid` for a format, a name or a value that is wrong, or not supported yet.
    pub fn parse(format: &str, mut options: Options, partition_by: Vec<String>) -> Result<Self> {
        let (times, time_names): (_, &[_]) = match format.to_lowercase().as_str() {
            "json" | "csv" => (TextTimes::take(&mut options)?, &TIME_OPTIONS),
            _ => (TextTimes::in_zone(&mut options)?, &["timeZone"]),
        };
        let (format, own): (_, &[_]) = match format.to_lowercase().as_str() {
            "parquet" => (parquet(&mut options)?, &[]),
            "json" => (json(&mut options)?, &["ignoreNullFields"]),
            "csv" => {
                (csv(&mut options)?, &["delimiter", "escape", "header", "quote", "quoteAll", "sep"])
            }
            "text" => (text(&mut options)?, &[]),
            #[cfg(feature = "avro")]
            "avro" => (FileFormat::Container(container::avro(&mut options)?), &[]),
            #[cfg(feature = "orc")]
            "orc" => (FileFormat::Container(container::orc(&mut options)?), &[]),
            #[allow(unreachable_patterns)]
            "avro" | "orc" => {
                return Err(Error::invalid(format!(
                    "this build does not write {format} files: build it with the feature \
                     `{}`",
                    format.to_lowercase()
                ))
                .with_condition("DATA_SOURCE_NOT_FOUND"));
            }
            other => {
                return Err(Error::invalid(format!(
                    "files cannot be written as {other:?}: use parquet, json, csv, text, avro or orc"
                ))
                .with_condition("DATA_SOURCE_NOT_FOUND"));
            }
        };
        let rows_per_file_max = options.take_positive("maxRecordsPerFile")?;
        let file_bytes_target = options.take_bytes("targetFileSize")?;
        options.refuse(&["retention"])?;
        options.finish(&[own, time_names, &ALL_OPTIONS].concat())?;
        let times = Arc::new(times);
        Ok(Self { partition_by, rows_per_file_max, file_bytes_target, times, ..Self::new(format) })
    }
}

/// The options of every format.
const ALL_OPTIONS: [&str; 4] = ["compression", "maxRecordsPerFile", "path", "targetFileSize"];

fn parquet(options: &mut Options) -> Result<FileFormat> {
    let expected = "none, snappy, zstd or lz4";
    let parse = |text: &str| match text.to_lowercase().as_str() {
        "none" | "uncompressed" => Some(ParquetCompression::None),
        "snappy" => Some(ParquetCompression::Snappy),
        "zstd" => Some(ParquetCompression::Zstd),
        "lz4" | "lz4_raw" => Some(ParquetCompression::Lz4),
        _ => None,
    };
    let compression = options.take_with("compression", expected, parse)?;
    options.refuse(&["mergeSchema", "datetimeRebaseMode", "int96RebaseMode"])?;
    Ok(FileFormat::Parquet(compression.unwrap_or_default()))
}

fn json(options: &mut Options) -> Result<FileFormat> {
    let compression = TextCompression::take(options)?;
    options.refuse(&["encoding", "lineSep"])?;
    let ignore_nulls = options.take_bool("ignoreNullFields")?.unwrap_or(true);
    Ok(FileFormat::Json { ignore_nulls, compression })
}

fn csv(options: &mut Options) -> Result<FileFormat> {
    let compression = TextCompression::take(options)?;
    options.refuse(&["nullValue", "emptyValue", "encoding", "lineSep", "escapeQuotes"])?;
    options.refuse(&["charToEscapeQuoteEscaping"])?;
    // Not trimmed: a blank is a sign too.
    let mut sign = |name| match options.take(name) {
        None => Ok(None),
        Some(text) => match text.as_bytes() {
            b"\\t" => Ok(Some(b'\t')),
            [byte] if byte.is_ascii() && !b"\r\n\0".contains(byte) => Ok(Some(*byte)),
            _ => Err(Options::invalid_value(name, &text, "one ASCII character")),
        },
    };
    let usual = CsvForm::default();
    let (sep, delimiter) = (sign("sep")?, sign("delimiter")?);
    let quote = sign("quote")?.unwrap_or(usual.quote);
    let form = CsvForm {
        delimiter: sep.or(delimiter).unwrap_or(usual.delimiter),
        quote,
        escape: sign("escape")?.unwrap_or(quote),
        header: options.take_bool("header")?.unwrap_or(usual.header),
        quote_all: options.take_bool("quoteAll")?.unwrap_or(usual.quote_all),
    };
    if [form.quote, form.escape].contains(&form.delimiter) {
        let delimiter = char::from(form.delimiter).to_string();
        return Err(Options::invalid_value("sep", &delimiter, "neither the quote nor its escape"));
    }
    Ok(FileFormat::Csv { form, compression })
}

fn text(options: &mut Options) -> Result<FileFormat> {
    options.refuse(&["encoding", "lineSep"])?;
    Ok(FileFormat::Text { compression: TextCompression::take(options)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(format: &str, pairs: &[(&str, &str)]) -> Result<FileFormat> {
        let options = Options::new(pairs.iter().copied());
        Ok(FileOptions::parse(format, options, Vec::new())?.format)
    }

    #[test]
    fn options_of_each_format() {
        let zstd = FileFormat::Parquet(ParquetCompression::Zstd);
        assert_eq!(parse("Parquet", &[("COMPRESSION", "zstd")]).unwrap(), zstd);
        let (none, gzip) = (TextCompression::None, TextCompression::Gzip);
        let json = FileFormat::Json { ignore_nulls: false, compression: none };
        assert_eq!(parse("json", &[("ignoreNullFields", "false")]).unwrap(), json);
        let form = CsvForm { header: true, delimiter: b';', quote_all: true, ..CsvForm::default() };
        let csv = FileFormat::Csv { form, compression: TextCompression::Zstd };
        let pairs =
            [("header", "true"), ("sep", ";"), ("quoteAll", "true"), ("compression", "zstd")];
        assert_eq!(parse("csv", &pairs).unwrap(), csv);
        for (pairs, signs) in [
            ([("sep", "\\t"), ("quote", "'")], (b'\t', b'\'', b'\'')),
            ([("delimiter", "|"), ("escape", "\\")], (b'|', b'"', b'\\')),
        ] {
            let (delimiter, quote, escape) = signs;
            let form = CsvForm { delimiter, quote, escape, ..CsvForm::default() };
            assert_eq!(parse("csv", &pairs).unwrap(), FileFormat::Csv { form, compression: none });
        }
        let text = parse("text", &[("compression", "GZIP")]).unwrap();
        assert_eq!(text, FileFormat::Text { compression: gzip });
        assert_eq!(text.extension(), ".txt.gz");
        assert_eq!(csv.extension(), ".csv.zst");
        assert_eq!(zstd.extension(), ".zstd.parquet");
    }

    #[test]
    fn files_end_where_they_are_told() {
        let pairs = [("maxRecordsPerFile", "10"), ("targetFileSize", "1m")];
        let options = FileOptions::parse("json", Options::new(pairs), Vec::new()).unwrap();
        assert_eq!(options.rows_per_file_max.unwrap().get(), 10);
        assert_eq!(options.file_bytes_target.unwrap().get(), 1 << 20);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (format, pairs, text) in [
            ("xml", &[] as &[_], "xml"),
            ("parquet", &[("compresion", "zstd")], "compression"),
            ("parquet", &[("compression", "brotli")], "brotli"),
            ("json", &[("compression", "lzo")], "lzo"),
            ("text", &[("maxRecordsPerFile", "0")], "maxRecordsPerFile"),
            ("csv", &[("quote", "ab")], "quote"),
            ("csv", &[("sep", "'"), ("quote", "'")], "sep"),
            ("csv", &[("nullValue", "-")], "nullValue"),
            ("csv", &[("sep", "ab")], "one ASCII character"),
        ] {
            let error = parse(format, pairs).unwrap_err();
            assert!(error.message().contains(text), "{error}");
        }
    }
}
