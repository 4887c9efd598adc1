//! File formats: bytes into record batches.
//!
//! A format knows nothing of offsets, batches and folders; it reads the file it is given.

#[cfg(feature = "avro")]
mod avro;
pub(crate) mod columns;
mod compression;
mod csv;
#[cfg(any(feature = "avro", feature = "orc"))]
mod damage;
mod encoding;
mod infer;
pub(crate) mod json;
mod lines;
mod mode;
#[cfg(feature = "orc")]
mod orc;
mod parquet;
mod separated;
mod stream;
mod text;
pub(crate) mod unknown;

use crate::file::{Grain, PlannedFile};
use crate::text::pattern::{Times, UTC_TIMES};
use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Fields};
use bytes::Bytes;
use columns::{Columns, Container};
use compression::Compression;
use csv::{CSV_OPTIONS, CsvLines, CsvOptions, Records};
use encoding::{ENCODING_OPTIONS, Encoding};
use fluvial_core::options::nearest;
use fluvial_core::{Error, NameCase, Options, Result, RowStream};
use futures::stream::BoxStream;
use json::{JSON_OPTIONS, JsonLines, JsonOptions};
use lines::{DecodeLine, Lines};
use separated::Separated;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use text::{TEXT_OPTIONS, TextLines, TextOptions};
use unknown::Unknown;

/// Batches that are ready.
pub(crate) type Batches = VecDeque<RecordBatch>;

/// Makes batches of the bytes of one file.
pub(crate) trait Decode: Send {
    /// Takes the next bytes.
    fn feed(&mut self, chunk: &[u8], out: &mut Batches) -> Result<()>;

    /// Takes the end of the file.
    fn end(&mut self, out: &mut Batches) -> Result<()>;

    /// Gives the rows of all whole records so far: no more bytes can be had.
    fn interrupt(&mut self, out: &mut Batches) -> Result<()>;
}

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// One JSON value a line.
    Json,
    /// Separated values.
    Csv,
    /// Columns in row groups.
    Parquet,
    /// Lines.
    Text,
    /// Records in blocks.
    #[cfg(feature = "avro")]
    Avro,
    /// Columns in stripes.
    #[cfg(feature = "orc")]
    Orc,
}

/// All formats that are built in.
const FORMATS: &[FileFormat] = &[
    FileFormat::Json,
    FileFormat::Csv,
    FileFormat::Parquet,
    FileFormat::Text,
    #[cfg(feature = "avro")]
    FileFormat::Avro,
    #[cfg(feature = "orc")]
    FileFormat::Orc,
];

/// Formats that are a feature of this crate.
const FEATURES: [&str; 2] = ["avro", "orc"];

impl FileFormat {
    /// Its name: `json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Text => "text",
            #[cfg(feature = "avro")]
            Self::Avro => "avro",
            #[cfg(feature = "orc")]
            Self::Orc => "orc",
        }
    }

    /// Whether its files say what their columns are, with types.
    fn container(self) -> Option<Container> {
        match self {
            Self::Json | Self::Csv | Self::Text => None,
            Self::Parquet => Some(Container::Parquet),
            #[cfg(feature = "avro")]
            Self::Avro => Some(Container::Avro),
            #[cfg(feature = "orc")]
            Self::Orc => Some(Container::Orc),
        }
    }
}

impl FromStr for FileFormat {
    type Err = Error;

    /// Finds the format of a name, whatever its case.
    fn from_str(name: &str) -> Result<Self> {
        let found = FORMATS.iter().find(|format| format.name().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| {
            if let Some(feature) = FEATURES.iter().find(|f| f.eq_ignore_ascii_case(name)) {
                return Error::invalid(format!(
                    "this build does not read {feature} files: build it with the feature \
                     `{feature}`"
                ))
                .with_condition("DATA_SOURCE_NOT_FOUND");
            }
            let names: Vec<_> = FORMATS.iter().map(|format| format.name()).collect();
            let hint = nearest(name, &names).map_or_else(
                || format!("the formats are {}", names.join(", ")),
                |near| format!("did you mean {near:?}?"),
            );
            Error::invalid(format!("no file format {name:?}: {hint}"))
                .with_condition("DATA_SOURCE_NOT_FOUND")
        })
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A format with its options.
#[derive(Debug, Clone)]
pub(crate) enum FileDecoder {
    Json(JsonOptions, Encoding),
    Csv(CsvOptions, Encoding),
    Columns(Columns),
    Text(TextOptions, Encoding),
}

impl FileDecoder {
    /// Takes the options of a format out.
    pub(crate) fn take(format: FileFormat, options: &mut Options, case: NameCase) -> Result<Self> {
        if let Some(container) = format.container() {
            options.refuse(&[
                "datetimeRebaseMode",
                "int96RebaseMode",
                "avroSchema",
                "avroSchemaUrl",
                "ignoreExtension",
                "positionalFieldMatching",
            ])?;
            return Ok(Self::Columns(Columns { container, case, stop: false, rescued: None }));
        }
        match format {
            FileFormat::Csv => {
                Ok(Self::Csv(CsvOptions::take(options, case)?, Encoding::take(options)?))
            }
            FileFormat::Text => {
                Ok(Self::Text(TextOptions::take(options)?, Encoding::take(options)?))
            }
            _ => Ok(Self::Json(JsonOptions::take(options)?, Encoding::take(options)?)),
        }
    }

    /// The names of the options of this format.
    pub(crate) fn option_names(&self) -> Vec<&'static str> {
        let own = match self {
            Self::Json(..) => JSON_OPTIONS,
            Self::Csv(..) => CSV_OPTIONS,
            Self::Text(..) => TEXT_OPTIONS,
            Self::Columns(_) => return Vec::new(),
        };
        [own, &ENCODING_OPTIONS].concat()
    }

    /// Says what becomes of what no column takes, and whether names have a case.
    ///
    /// # Errors
    ///
    /// `Invalid` if the format cannot do that.
    pub(crate) fn set_unknown(&mut self, unknown: &Unknown, insensitive: bool) -> Result<()> {
        match self {
            Self::Json(options, _) => options.set_unknown(unknown, insensitive),
            Self::Csv(options, _) => options.set_unknown(unknown, insensitive),
            Self::Columns(columns) => {
                columns.stop = unknown.stop;
                columns.rescued = unknown.column.clone();
            }
            Self::Text(..) if unknown.has_column() => {
                return Err(Error::invalid(
                    "text has one column that takes everything, and none of rescued data: remove \
                     rescuedDataColumn and schemaEvolutionMode",
                )
                .with_condition("OPTION_NOT_SUPPORTED"));
            }
            Self::Text(..) => {}
        }
        Ok(())
    }

    /// The column that takes what no other does.
    pub(crate) fn rescued_column(&self) -> Option<&str> {
        match self {
            Self::Json(options, _) => options.rescued_column(),
            Self::Csv(options, _) => options.rescued_column(),
            Self::Columns(columns) => columns.rescued.as_deref(),
            Self::Text(..) => None,
        }
    }

    /// Whether it can say which row of its file a row is.
    pub(crate) fn has_row_numbers(&self) -> bool {
        matches!(self, Self::Columns(Columns { container: Container::Parquet, .. }))
    }

    /// Gives malformed records to the column `name`, whatever their own one is.
    ///
    /// # Errors
    ///
    /// `Invalid` if the format has no malformed records, or they are wanted otherwise.
    pub(crate) fn set_bad_records(&mut self, name: &str) -> Result<()> {
        let set = match self {
            Self::Json(options, _) => options.set_corrupt_column(name),
            Self::Csv(options, _) => options.set_corrupt_column(name),
            Self::Columns(_) | Self::Text(..) => false,
        };
        if set {
            return Ok(());
        }
        Err(Error::invalid(
            "badRecordsPath is for JSON and CSV in mode PERMISSIVE: remove it, or the option mode",
        )
        .with_condition("OPTIONS_EXCLUDE_EACH_OTHER"))
    }

    /// Checks that columns of these types can be read.
    pub(crate) fn check(&self, fields: &Fields) -> Result<()> {
        match self {
            Self::Json(options, _) => options.check(fields),
            Self::Csv(options, _) => options.check(fields),
            Self::Columns(_) => Ok(()),
            Self::Text(..) => text::check(fields),
        }
    }

    /// How dates and times are written.
    pub(crate) fn times(&self) -> &Times {
        match self {
            Self::Json(options, _) => options.times(),
            Self::Csv(options, _) => options.times(),
            Self::Columns(_) | Self::Text(..) => &UTC_TIMES,
        }
    }

    /// Whether files can be read from anywhere.
    pub(crate) fn grain(&self) -> Grain {
        match self {
            Self::Columns(_) => Grain::Bytes,
            Self::Json(..) | Self::Csv(..) | Self::Text(..) => Grain::File,
        }
    }

    /// Reads what begins in `range` of a file: the columns `projection` of `fields`, which are
    /// all that it has.
    pub(crate) fn open(
        &self,
        file: PlannedFile,
        range: Range<u64>,
        fields: &[FieldRef],
        projection: &[usize],
    ) -> Result<RowStream> {
        let place = file.place().to_owned();
        let decoder: Box<dyn Decode> = match self {
            Self::Columns(columns) => {
                return Ok(columns.open(file, range, fields, projection));
            }
            Self::Json(options, _) => {
                let decoder = JsonLines::new(options, fields, projection, place.clone())?;
                let cut = Cut::new(options.multi_line, options.separator.as_deref());
                cut.decoder(decoder, place.clone())
            }
            Self::Csv(options, _) => {
                let decoder = CsvLines::new(options, fields, projection, place.clone())?;
                options.cut(decoder, place.clone())
            }
            Self::Text(options, _) => {
                let decoder = TextLines::new(fields, projection);
                let cut = Cut::new(options.whole, options.separator.as_deref());
                cut.decoder(decoder, place.clone())
            }
        };
        Ok(stream::decode(self.text(&file)?, decoder))
    }

    /// The bytes of a file of text, decompressed and in UTF-8.
    fn text(&self, file: &PlannedFile) -> Result<BoxStream<'static, Result<Bytes>>> {
        let place = file.place().to_owned();
        let encoding = match self {
            Self::Json(_, encoding) | Self::Csv(_, encoding) | Self::Text(_, encoding) => *encoding,
            Self::Columns(_) => Encoding::Utf8,
        };
        let bytes = Compression::of(&place)?.decompress(file.stream(), place)?;
        Ok(encoding.decode(bytes))
    }
}

/// Where a file of text is cut into records.
#[derive(Debug, Clone, Copy)]
enum Cut<'a> {
    Lines,
    After(&'a str),
    Nowhere,
}

impl<'a> Cut<'a> {
    fn new(whole: bool, separator: Option<&'a str>) -> Self {
        match separator {
            _ if whole => Self::Nowhere,
            Some(separator) => Self::After(separator),
            None => Self::Lines,
        }
    }

    fn decoder<D: DecodeLine + 'static>(self, rows: D, place: String) -> Box<dyn Decode> {
        match self {
            Self::Lines => Box::new(Lines::new(rows, place)),
            Self::After(separator) => Box::new(Separated::new(rows, separator, place)),
            Self::Nowhere => Box::new(Separated::whole(rows, place)),
        }
    }
}

impl CsvOptions {
    fn cut<D: DecodeLine + 'static>(&self, rows: D, place: String) -> Box<dyn Decode> {
        match &self.separator {
            Some(separator) => Cut::After(separator).decoder(rows, place),
            None if self.multi_line => Box::new(Records::new(rows, self.quotes(), place)),
            None => Cut::Lines.decoder(rows, place),
        }
    }
}
