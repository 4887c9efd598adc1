//! What is written, and how: as users say it.

use fluvial_core::options::Options;
use fluvial_core::{Error, Result};
use std::num::NonZeroU64;

/// The format of data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Parquet.
    Parquet(ParquetCompression),
    /// One JSON object per line; timestamps in ISO form, UTC.
    Json {
        /// Whether fields that are null are left out.
        ignore_nulls: bool,
    },
    /// Comma-separated values.
    Csv {
        /// Whether each file begins with the names of the columns.
        header: bool,
        /// Between two values.
        delimiter: u8,
    },
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
        }
    }

    /// How names of data files end.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Parquet(ParquetCompression::None) => ".parquet",
            Self::Parquet(ParquetCompression::Snappy) => ".snappy.parquet",
            Self::Parquet(ParquetCompression::Zstd) => ".zstd.parquet",
            Self::Parquet(ParquetCompression::Lz4) => ".lz4.parquet",
            Self::Json { .. } => ".json",
            Self::Csv { .. } => ".csv",
        }
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
}

impl FileOptions {
    /// Default options of a format.
    pub fn new(format: FileFormat) -> Self {
        let manifests_kept = NonZeroU64::new(100).expect("100 is not zero");
        Self { format, partition_by: Vec::new(), manifests_kept }
    }

    /// Parses the options of a sink in `format` (`parquet`, `json` or `csv`). `path` must have
    /// been taken already.
    ///
    /// # Errors
    ///
    /// `Invalid` for a format, a name or a value that is wrong, or not supported yet.
    pub fn parse(format: &str, mut options: Options, partition_by: Vec<String>) -> Result<Self> {
        let (format, known): (_, &[_]) = match format.to_lowercase().as_str() {
            "parquet" => (parquet(&mut options)?, &["compression", "path"]),
            "json" => (json(&mut options)?, &["compression", "ignoreNullFields", "path"]),
            "csv" => (csv(&mut options)?, &["compression", "delimiter", "header", "path", "sep"]),
            other => {
                return Err(Error::invalid(format!(
                    "files cannot be written as {other:?}: use parquet, json or csv"
                ))
                .with_condition("DATA_SOURCE_NOT_FOUND"));
            }
        };
        options.refuse(&["retention", "maxRecordsPerFile"])?;
        options.finish(known)?;
        Ok(Self { partition_by, ..Self::new(format) })
    }
}

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
    no_compression(options)?;
    options.refuse(&[
        "dateFormat",
        "timestampFormat",
        "timestampNTZFormat",
        "encoding",
        "lineSep",
    ])?;
    let ignore_nulls = options.take_bool("ignoreNullFields")?.unwrap_or(true);
    Ok(FileFormat::Json { ignore_nulls })
}

fn csv(options: &mut Options) -> Result<FileFormat> {
    no_compression(options)?;
    options.refuse(&[
        "quote",
        "escape",
        "quoteAll",
        "nullValue",
        "emptyValue",
        "dateFormat",
        "timestampFormat",
        "timestampNTZFormat",
        "encoding",
        "lineSep",
    ])?;
    let header = options.take_bool("header")?.unwrap_or(false);
    let one = |text: &str| match text.as_bytes() {
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Some(*byte),
        _ => None,
    };
    let sep = options.take_with("sep", "one character", one)?;
    let delimiter = options.take_with("delimiter", "one character", one)?;
    Ok(FileFormat::Csv { header, delimiter: sep.or(delimiter).unwrap_or(b',') })
}

fn no_compression(options: &mut Options) -> Result<()> {
    let parse = |text: &str| match text.to_lowercase().as_str() {
        "none" | "uncompressed" => Some(()),
        _ => None,
    };
    options.take_with("compression", "none: text is not compressed yet", parse).map(|_| ())
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
        let json = FileFormat::Json { ignore_nulls: false };
        assert_eq!(parse("json", &[("ignoreNullFields", "false")]).unwrap(), json);
        let csv = FileFormat::Csv { header: true, delimiter: b';' };
        assert_eq!(parse("csv", &[("header", "true"), ("sep", ";")]).unwrap(), csv);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (format, pairs, text) in [
            ("orc", &[] as &[_], "orc"),
            ("parquet", &[("compresion", "zstd")], "compression"),
            ("parquet", &[("compression", "brotli")], "brotli"),
            ("json", &[("compression", "gzip")], "gzip"),
            ("csv", &[("quoteAll", "true")], "quoteAll"),
            ("csv", &[("sep", "ab")], "one character"),
        ] {
            let error = parse(format, pairs).unwrap_err();
            assert!(error.message().contains(text), "{error}");
        }
    }
}
