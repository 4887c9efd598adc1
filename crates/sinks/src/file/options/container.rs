//! Formats that carry their schema, and how users say it.

use fluvial_core::Result;
use fluvial_core::options::Options;

/// A format of files that carry their schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerFormat {
    /// Avro object container files.
    #[cfg(feature = "avro")]
    Avro(BlockCompression),
    /// ORC.
    #[cfg(feature = "orc")]
    Orc(BlockCompression),
}

/// How blocks of Avro and ORC are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockCompression {
    /// Not at all.
    None,
    /// Fast, moderate.
    Snappy,
    /// Smaller, slower.
    Zstd,
    /// `deflate` in Avro, `zlib` in ORC.
    Deflate,
}

impl ContainerFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "avro")]
            Self::Avro(_) => "avro",
            #[cfg(feature = "orc")]
            Self::Orc(_) => "orc",
        }
    }

    pub(super) fn extension(self) -> String {
        match self {
            #[cfg(feature = "avro")]
            Self::Avro(_) => ".avro".into(),
            #[cfg(feature = "orc")]
            Self::Orc(compression) => match compression {
                BlockCompression::None => ".orc".into(),
                BlockCompression::Snappy => ".snappy.orc".into(),
                BlockCompression::Zstd => ".zstd.orc".into(),
                BlockCompression::Deflate => ".zlib.orc".into(),
            },
        }
    }
}

impl BlockCompression {
    #[cfg(feature = "avro")]
    pub(crate) fn codec(self) -> Option<arrow_avro::compression::CompressionCodec> {
        use arrow_avro::compression::CompressionCodec;
        match self {
            Self::None => None,
            Self::Snappy => Some(CompressionCodec::Snappy),
            Self::Zstd => Some(CompressionCodec::ZStandard),
            Self::Deflate => Some(CompressionCodec::Deflate),
        }
    }

    #[cfg(feature = "orc")]
    pub(crate) fn kind(self) -> Option<orc_rust::compression::CompressionType> {
        use orc_rust::compression::CompressionType;
        match self {
            Self::None => None,
            Self::Snappy => Some(CompressionType::Snappy),
            Self::Zstd => Some(CompressionType::Zstd),
            Self::Deflate => Some(CompressionType::Zlib),
        }
    }

    fn take(options: &mut Options, default: Self) -> Result<Self> {
        let parse = |text: &str| match text.to_lowercase().as_str() {
            "none" | "uncompressed" => Some(Self::None),
            "snappy" => Some(Self::Snappy),
            "zstd" | "zstandard" => Some(Self::Zstd),
            "deflate" | "zlib" => Some(Self::Deflate),
            _ => None,
        };
        let found = options.take_with("compression", "none, snappy, zstd or deflate", parse)?;
        Ok(found.unwrap_or(default))
    }
}

#[cfg(feature = "avro")]
pub(super) fn avro(options: &mut Options) -> Result<ContainerFormat> {
    options.refuse(&["avroSchema", "recordName", "recordNamespace", "positionalFieldMatching"])?;
    let compression = BlockCompression::take(options, BlockCompression::Snappy)?;
    Ok(ContainerFormat::Avro(compression))
}

#[cfg(feature = "orc")]
pub(super) fn orc(options: &mut Options) -> Result<ContainerFormat> {
    let compression = BlockCompression::take(options, BlockCompression::Zstd)?;
    Ok(ContainerFormat::Orc(compression))
}
