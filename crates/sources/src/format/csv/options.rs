//! What a user may say about CSV.

use super::Quotes;
use super::dialect::Dialect;
use super::record::{Cells, cells};
use crate::column;
use crate::format::mode::{CORRUPT_RECORD, Mode};
use crate::format::separated::take_separator;
use crate::format::unknown::Unknown;
use crate::text::locale;
use crate::text::pattern::Times;
use arrow::datatypes::{DataType, Fields};
use fluvial_core::{Error, NameCase, Options, Result, ddl};
use std::num::NonZeroU32;

/// How CSV is read.
#[derive(Debug, Clone)]
pub(crate) struct CsvOptions {
    pub(super) dialect: Dialect,
    pub(super) mode: Mode,
    pub(super) corrupt: String,
    pub(super) header: Header,
    pub(super) null: String,
    /// What a quoted nothing means.
    pub(super) empty: String,
    /// Whether records may have line ends in quotes.
    pub(crate) multi_line: bool,
    /// What ends a record, if it is not the end of a line.
    pub(crate) separator: Option<String>,
    /// Whether types are taken from what the cells hold, where no schema is given.
    pub(crate) infer_types: bool,
    pub(super) times: Times,
    pub(super) floats: Floats,
    pub(super) max_columns: usize,
    pub(super) case: NameCase,
    pub(super) unknown: Unknown,
    /// Whether files may have columns that others lack.
    merges: bool,
}

/// What numbers that are none are called, beside Java's own names.
#[derive(Debug, Clone)]
pub(super) struct Floats {
    nan: String,
    positive: String,
    negative: String,
}

impl Floats {
    fn take(options: &mut Options) -> Self {
        let mut name = |option, usual: &str| options.take(option).unwrap_or_else(|| usual.into());
        Self {
            nan: name("nanValue", "NaN"),
            positive: name("positiveInf", "Inf"),
            negative: name("negativeInf", "-Inf"),
        }
    }

    /// The name that the reader of numbers knows.
    pub(super) fn name<'a>(&self, text: &'a str) -> &'a str {
        match text {
            _ if self.nan == text => "NaN",
            _ if self.positive == text => "Infinity",
            _ if self.negative == text => "-Infinity",
            _ => text,
        }
    }
}

/// What the first line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// It is data.
    None,
    /// It is skipped: columns come in the order of the schema.
    Skipped,
    /// Columns come in its order, if it has the names of the schema; else in the schema's.
    ByNameIfSame,
    /// Columns come in its order, and its names must be those of the schema.
    ByName,
    /// Columns come in its order; those it lacks are null, those it has besides are unknown.
    Matched,
}

/// The names of the options.
pub(crate) const CSV_OPTIONS: &[&str] = &[
    "sep",
    "delimiter",
    "quote",
    "escape",
    "comment",
    "header",
    "enforceSchema",
    "nullValue",
    "emptyValue",
    "ignoreLeadingWhiteSpace",
    "ignoreTrailingWhiteSpace",
    "multiLine",
    "mode",
    "columnNameOfCorruptRecord",
    "timeZone",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "nanValue",
    "positiveInf",
    "negativeInf",
    "lineSep",
    "maxColumns",
    "inferSchema",
    "locale",
    "mergeSchema",
];

const REFUSED: &[&str] = &[
    "samplingRatio",
    "enableDateTimeParsingFallback",
    "maxCharsPerColumn",
    "charToEscapeQuoteEscaping",
    "unescapedQuoteHandling",
    "preferDate",
];

/// Records of more columns are refused unless more are allowed: as in Spark.
const MAX_COLUMNS: u32 = 20_480;

impl CsvOptions {
    pub(crate) fn take(options: &mut Options, case: NameCase) -> Result<Self> {
        options.refuse(REFUSED)?;
        locale::take(options)?;
        let header = options.take_bool("header")?.unwrap_or(false);
        let enforce = options.take_bool("enforceSchema")?;
        let merges = options.take_bool("mergeSchema")?.unwrap_or(false);
        let corrupt = options.take("columnNameOfCorruptRecord");
        Ok(Self {
            dialect: Dialect::take(options)?,
            mode: Mode::take(options)?,
            corrupt: corrupt.unwrap_or_else(|| CORRUPT_RECORD.into()),
            header: match (header, enforce) {
                (false, _) => Header::None,
                (true, None) if merges => Header::Matched,
                (true, None) => Header::ByNameIfSame,
                (true, Some(true)) => Header::Skipped,
                (true, Some(false)) => Header::ByName,
            },
            null: options.take("nullValue").unwrap_or_default(),
            empty: options.take("emptyValue").unwrap_or_default(),
            multi_line: options.take_bool("multiLine")?.unwrap_or(false),
            separator: take_separator(options)?,
            infer_types: options.take_bool("inferSchema")?.unwrap_or(false),
            times: Times::take(options)?,
            floats: Floats::take(options),
            max_columns: {
                let most = options.take_parsed::<NonZeroU32>("maxColumns", "a positive integer")?;
                most.map_or(MAX_COLUMNS, NonZeroU32::get) as usize
            },
            case,
            unknown: Unknown::default(),
            merges,
        })
    }

    /// Gives malformed records to another column; `false` if they are not wanted in any.
    pub(crate) fn set_corrupt_column(&mut self, name: &str) -> bool {
        self.corrupt = name.to_owned();
        self.mode == Mode::Permissive
    }

    /// Says what becomes of columns that the schema has not, and whether names have a case.
    pub(crate) fn set_unknown(&mut self, unknown: &Unknown, insensitive: bool) {
        if self.header == Header::ByNameIfSame {
            self.header = Header::Matched;
        }
        self.case = if insensitive { NameCase::Insensitive } else { NameCase::Sensitive };
        self.unknown = unknown.clone();
    }

    /// Whether the first line has names.
    pub(crate) fn has_header(&self) -> bool {
        self.header != Header::None
    }

    pub(crate) fn quotes(&self) -> Quotes {
        self.dialect.quotes()
    }

    /// How dates and times are written.
    pub(crate) fn times(&self) -> &Times {
        &self.times
    }

    /// Whether a text is a null.
    pub(crate) fn is_null(&self, text: &str) -> bool {
        text == self.null
    }

    /// Whether a line holds no record.
    pub(crate) fn is_no_record(&self, line: &str) -> bool {
        line.trim().is_empty() || self.dialect.is_comment(line)
    }

    /// The column that takes what no other does.
    pub(crate) fn rescued_column(&self) -> Option<&str> {
        self.unknown.column.as_deref()
    }

    /// Whether files may have columns that others lack.
    pub(crate) fn merges(&self) -> bool {
        self.merges
    }

    /// Whether all files have to be looked at for columns.
    pub(crate) fn looks_for_columns(&self) -> bool {
        self.infer_types || self.unknown.is_looked_for()
    }

    /// Whether two names are those of one column.
    pub(crate) fn is_same(&self, a: &str, b: &str) -> bool {
        self.case.same(a, b)
    }

    /// The names of a header, as Spark makes them: those that are nothing, or come twice, have the
    /// number of the column.
    pub(crate) fn header_names(&self, line: &str) -> Vec<String> {
        let names = self.names(line);
        let case = if self.unknown.has_column() { NameCase::Sensitive } else { self.case };
        let name = |(i, name): (usize, &String)| {
            let count = names.iter().filter(|other| case.same(other, name)).count();
            match name.as_str() {
                "" => format!("_c{i}"),
                name if name == self.null => format!("_c{i}"),
                name if count > 1 => format!("{name}{i}"),
                name => name.to_owned(),
            }
        };
        names.iter().enumerate().map(name).collect()
    }

    /// The cells of a line.
    pub(crate) fn names(&self, line: &str) -> Vec<String> {
        let mut found = Cells::default();
        cells(line, &self.dialect, &mut found);
        (0..found.len()).map(|i| found.get(line, i).0.to_owned()).collect()
    }

    /// Checks that columns of these types can be read.
    ///
    /// # Errors
    ///
    /// `Invalid`, naming the column.
    pub(crate) fn check(&self, fields: &Fields) -> Result<()> {
        for field in fields {
            if field.data_type().is_nested() || column::new_for(field, &self.times).is_err() {
                return Err(Error::invalid(format!(
                    "the CSV format has no column `{}` of type {}",
                    field.name(),
                    ddl::ddl_name(field.data_type())
                ))
                .with_condition("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"));
            }
            if *field.name() == self.corrupt && *field.data_type() != DataType::Utf8 {
                return Err(Error::invalid(format!(
                    "the column `{}` takes malformed records: it must be a STRING",
                    field.name()
                ))
                .with_condition("INVALID_CORRUPT_RECORD_TYPE"));
            }
        }
        Ok(())
    }
}
