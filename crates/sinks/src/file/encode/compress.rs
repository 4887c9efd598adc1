//! Text that is compressed as it is written.

use crate::file::options::TextCompression;
use flate2::write::{GzEncoder, ZlibEncoder};
use fluvial_core::{Error, Result};
use std::io::{self, Write};

/// A file of text, compressed as a whole. What is ready is taken out again and again.
pub(crate) enum Compressor {
    None(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl Compressor {
    /// An empty file.
    pub(crate) fn new(compression: TextCompression) -> Result<Self> {
        let level = flate2::Compression::default();
        Ok(match compression {
            TextCompression::None => Self::None(Vec::new()),
            TextCompression::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), level)),
            TextCompression::Deflate => Self::Deflate(ZlibEncoder::new(Vec::new(), level)),
            TextCompression::Zstd => {
                let encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL);
                Self::Zstd(encoder.map_err(failed)?)
            }
        })
    }

    /// Takes out the bytes that are ready.
    pub(crate) fn take_ready(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::None(bytes) => bytes,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Deflate(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        })
    }

    /// The rest of the file.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        match self {
            Self::None(bytes) => Ok(bytes),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Deflate(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
        .map_err(failed)
    }
}

impl Write for Compressor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::None(out) => out.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Deflate(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    /// Nothing: a flush in the middle would cost compression, and nobody waits for these bytes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed(error: io::Error) -> Error {
    Error::invalid(format!("the rows cannot be compressed: {error}")).with_source(error)
}
