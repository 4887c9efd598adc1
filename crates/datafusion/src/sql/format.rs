//! What `USING` names.

use std::fmt;

/// The kind of sink that a streaming table writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableFormat {
    /// A Delta table.
    Delta,
    /// Parquet files.
    Parquet,
    /// Files of JSON lines.
    Json,
    /// Files of separated values.
    Csv,
    /// Files of lines.
    Text,
    /// Avro files, where the program has them built in.
    Avro,
    /// ORC files, where the program has them built in.
    Orc,
    /// Topics of Kafka, where the program has them built in.
    Kafka,
    /// Rows in memory, for SELECTs of this session.
    Memory,
    /// Rows printed, batch by batch.
    Console,
    /// Rows counted and dropped.
    Noop,
}

impl TableFormat {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Delta,
        Self::Parquet,
        Self::Json,
        Self::Csv,
        Self::Text,
        Self::Avro,
        Self::Orc,
        Self::Kafka,
        Self::Memory,
        Self::Console,
        Self::Noop,
    ];

    /// The name as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Parquet => "parquet",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Text => "text",
            Self::Avro => "avro",
            Self::Orc => "orc",
            Self::Kafka => "kafka",
            Self::Memory => "memory",
            Self::Console => "console",
            Self::Noop => "noop",
        }
    }

    /// The format with a name, in any case.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str().eq_ignore_ascii_case(name))
    }

    /// Whether the rows lie somewhere that `LOCATION` can name.
    pub fn has_location(self) -> bool {
        self == Self::Delta || self.is_files()
    }

    /// Whether the rows are in files, and nothing else is there.
    fn is_files(self) -> bool {
        use TableFormat::{Avro, Csv, Json, Orc, Parquet, Text};
        matches!(self, Parquet | Json | Csv | Text | Avro | Orc)
    }

    /// Whether the rows outlive the program, so that the query needs a checkpoint that does too.
    pub fn outlives_the_program(self) -> bool {
        self.has_location() || self == Self::Kafka
    }

    /// What the options of its sink begin with that are handed on as they are.
    pub fn option_prefix(self) -> Option<&'static str> {
        match self {
            Self::Delta => Some("delta."),
            Self::Kafka => Some("kafka."),
            _ => None,
        }
    }

    /// The options of its sink that `TBLPROPERTIES` takes.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Self::Delta => &["mergeSchema"],
            Self::Csv => &[
                "compression",
                "header",
                "sep",
                "quote",
                "escape",
                "quoteAll",
                "maxRecordsPerFile",
                "targetFileSize",
                "dateFormat",
                "timestampFormat",
                "timestampNTZFormat",
                "timeZone",
            ],
            Self::Json => &[
                "compression",
                "ignoreNullFields",
                "maxRecordsPerFile",
                "targetFileSize",
                "dateFormat",
                "timestampFormat",
                "timestampNTZFormat",
                "timeZone",
            ],
            Self::Parquet | Self::Text | Self::Avro | Self::Orc => {
                &["compression", "maxRecordsPerFile", "targetFileSize"]
            }
            Self::Kafka => &[
                "topic",
                "deliveryGuarantee",
                "controlTopic",
                "transactionalIdPrefix",
                "includeHeaders",
            ],
            Self::Console => &["numRows", "truncate"],
            Self::Memory | Self::Noop => &[],
        }
    }
}

impl fmt::Display for TableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
