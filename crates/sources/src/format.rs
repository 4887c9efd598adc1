//! File formats: bytes into record batches.
//!
//! A format knows nothing of offsets, batches and folders; it reads the file it is given.

mod compression;
mod csv;
mod infer;
pub(crate) mod json;
mod lines;
mod mode;
pub(crate) mod parquet;
mod stream;
mod text;

use crate::file::{Grain, PlannedFile};
use crate::text::zone::Zone;
use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Fields};
use compression::Compression;
use csv::{CSV_OPTIONS, CsvLines, CsvOptions, Records};
use fluvial_core::options::nearest;
use fluvial_core::{Error, NameCase, Options, Result, RowStream};
use json::{JSON_OPTIONS, JsonLines, JsonOptions};
use lines::Lines;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use text::TextLines;

/// Batches that are ready.
pub(crate) type Batches = VecDeque<RecordBatch>;

/// Makes batches of the bytes of one file.
pub(crate) trait Decode: Send {
    /// Takes the next bytes.
    fn feed(&mut self, chunk: &[u8], out: &mut Batches) -> Result<()>;

    /// Takes the end of the file.
    fn end(&mut self, out: &mut Batches) -> Result<()>;
}

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// One JSON value a line.
    Json,
    /// Separated values.
    Csv,
    /// Columns.
    Parquet,
    /// Lines.
    Text,
}

impl FileFormat {
    /// Its name: `json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Text => "text",
        }
    }
}

impl FromStr for FileFormat {
    type Err = Error;

    /// Finds the format of a name, whatever its case.
    fn from_str(name: &str) -> Result<Self> {
        let all = [Self::Json, Self::Csv, Self::Parquet, Self::Text];
        let found = all.into_iter().find(|format| format.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let names = all.map(Self::name);
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
    Json(JsonOptions),
    Csv(CsvOptions),
    Parquet(NameCase),
    Text,
}

impl FileDecoder {
    /// Takes the options of a format out.
    pub(crate) fn take(format: FileFormat, options: &mut Options, case: NameCase) -> Result<Self> {
        if format != FileFormat::Parquet {
            for name in ["encoding", "charset"] {
                options.take_with(name, "UTF-8", |text| {
                    matches!(text.to_uppercase().as_str(), "UTF-8" | "UTF8").then_some(())
                })?;
            }
        }
        match format {
            FileFormat::Json => JsonOptions::take(options).map(Self::Json),
            FileFormat::Csv => CsvOptions::take(options, case).map(Self::Csv),
            FileFormat::Parquet => {
                options.refuse(&["datetimeRebaseMode", "int96RebaseMode"])?;
                Ok(Self::Parquet(case))
            }
            FileFormat::Text => text::take(options).map(|()| Self::Text),
        }
    }

    /// The names of the options of this format.
    pub(crate) fn option_names(&self) -> &'static [&'static str] {
        match self {
            Self::Json(_) => JSON_OPTIONS,
            Self::Csv(_) => CSV_OPTIONS,
            Self::Parquet(_) | Self::Text => &[],
        }
    }

    /// Checks that columns of these types can be read.
    pub(crate) fn check(&self, fields: &Fields) -> Result<()> {
        match self {
            Self::Json(options) => options.check(fields),
            Self::Csv(options) => options.check(fields),
            Self::Parquet(_) => Ok(()),
            Self::Text => text::check(fields),
        }
    }

    /// The zone of times that name none.
    pub(crate) fn zone(&self) -> Zone {
        match self {
            Self::Json(options) => options.zone(),
            Self::Csv(options) => options.zone(),
            Self::Parquet(_) | Self::Text => Zone::UTC,
        }
    }

    /// Whether files can be read from anywhere.
    pub(crate) fn grain(&self) -> Grain {
        match self {
            Self::Parquet(_) => Grain::Bytes,
            Self::Json(_) | Self::Csv(_) | Self::Text => Grain::File,
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
            Self::Parquet(case) => {
                return Ok(parquet::open(file, range, fields, projection, *case));
            }
            Self::Json(options) => {
                let decoder = JsonLines::new(options, fields, projection, place.clone())?;
                Box::new(Lines::new(decoder, place.clone()))
            }
            Self::Csv(options) => {
                let decoder = CsvLines::new(options, fields, projection, place.clone())?;
                if options.multi_line {
                    Box::new(Records::new(decoder, options.quotes(), place.clone()))
                } else {
                    Box::new(Lines::new(decoder, place.clone()))
                }
            }
            Self::Text => Box::new(Lines::new(TextLines::new(fields, projection), place.clone())),
        };
        let chunks = Compression::of(&place)?.decompress(file.stream(), place)?;
        Ok(stream::decode(chunks, decoder))
    }
}
