//! Files that are compressed as a whole, told by their names.

mod blocks;

use blocks::Blocks;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use fluvial_core::{Error, Result};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::collections::VecDeque;
use std::io::{self, Write};
use zstd::stream::raw::{InBuffer, Operation, OutBuffer};

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    /// With the header of zlib.
    Deflate,
    /// As `lz4` writes it, or in the blocks of Hadoop.
    Lz4,
    /// In the frames of snappy, or in the blocks of Hadoop.
    Snappy,
}

/// So much is decompressed at once: a piece may grow a thousandfold.
const PIECE: usize = 1 << 16;

impl Compression {
    /// Of a file with this name.
    ///
    /// # Errors
    ///
    /// `Invalid` (`UNSUPPORTED_COMPRESSION`) if it cannot be read.
    pub(crate) fn of(name: &str) -> Result<Self> {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension {
            "gz" => Ok(Self::Gzip),
            "zst" => Ok(Self::Zstd),
            "deflate" => Ok(Self::Deflate),
            "lz4" => Ok(Self::Lz4),
            "snappy" | "sz" => Ok(Self::Snappy),
            "bz2" | "xz" | "lzo" | "br" | "zip" => Err(Error::invalid(format!(
                "{name}: files compressed as .{extension} are not supported, only .gz, .zst, \
                     .deflate, .lz4 and .snappy"
            ))
            .with_condition("UNSUPPORTED_COMPRESSION")),
            _ => Ok(Self::None),
        }
    }

    /// The decompressed bytes of `chunks`; `place` names the file in messages.
    pub(crate) fn decompress(
        self,
        chunks: BoxStream<'static, Result<Bytes>>,
        place: String,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let decoder = match self {
            Self::None => return Ok(chunks),
            Self::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Self::Zstd => Decoder::zstd().map_err(|e| broken(&place, e))?,
            Self::Deflate => {
                Decoder::Deflate(Zlib { inflate: Decompress::new(true), ended: false })
            }
            Self::Lz4 => Decoder::Whole(Vec::new(), Blocks::Lz4),
            Self::Snappy => Decoder::Whole(Vec::new(), Blocks::Snappy),
        };
        let state =
            State { chunks, pieces: VecDeque::new(), decoder, place, empty: true, failure: None };
        Ok(futures::stream::try_unfold(Some(state), |state| async move {
            match state {
                None => Ok(None),
                Some(state) => state.next().await,
            }
        })
        .try_filter(|bytes| futures::future::ready(!bytes.is_empty()))
        .boxed())
    }
}

enum Decoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zstd(ZstdFrames),
    Deflate(Zlib),
    /// The file so far: it is decompressed at its end.
    Whole(Vec<u8>, Blocks),
}

struct State {
    chunks: BoxStream<'static, Result<Bytes>>,
    pieces: VecDeque<Bytes>,
    decoder: Decoder,
    place: String,
    empty: bool,
    /// What is wrong with the file: it comes after all that could be decompressed.
    failure: Option<Error>,
}

impl State {
    async fn next(mut self) -> Result<Option<(Bytes, Option<Self>)>> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.pieces.is_empty() {
            match self.chunks.next().await {
                Some(chunk) => {
                    let chunk = chunk?;
                    self.empty &= chunk.is_empty();
                    let piece = |at| chunk.slice(at..chunk.len().min(at + PIECE));
                    self.pieces.extend((0..chunk.len()).step_by(PIECE).map(piece));
                }
                // A file without a byte is a file without a row, whatever its name.
                None if self.empty => return Ok(None),
                None => {
                    return match self.decoder.finish() {
                        Ok(rest) => Ok(Some((rest, None))),
                        Err(error) => Ok(Some(self.fail(error))),
                    };
                }
            }
        }
        let bytes = match self.pieces.pop_front() {
            Some(piece) => match self.decoder.push(&piece) {
                Ok(bytes) => bytes,
                Err(error) => return Ok(Some(self.fail(error))),
            },
            None => Bytes::new(),
        };
        Ok(Some((bytes, Some(self))))
    }

    /// What is left to be given out before the error.
    fn fail(mut self, error: io::Error) -> (Bytes, Option<Self>) {
        self.failure = Some(broken(&self.place, error));
        (self.decoder.rest(), Some(self))
    }
}

impl Decoder {
    fn zstd() -> io::Result<Self> {
        let decoder = zstd::stream::raw::Decoder::new()?;
        Ok(Self::Zstd(ZstdFrames { decoder, inside: true }))
    }

    fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        match self {
            Self::Gzip(decoder) => {
                decoder.write_all(piece)?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
            Self::Zstd(frames) => frames.push(piece),
            Self::Deflate(zlib) => zlib.push(piece),
            Self::Whole(file, _) => {
                file.extend_from_slice(piece);
                Ok(Bytes::new())
            }
        }
    }

    /// What was decompressed and not given out yet.
    fn rest(&mut self) -> Bytes {
        match self {
            Self::Gzip(decoder) => std::mem::take(decoder.get_mut()).into(),
            _ => Bytes::new(),
        }
    }

    fn finish(&mut self) -> io::Result<Bytes> {
        match self {
            Self::Gzip(decoder) => {
                if decoder.header().is_none() {
                    // Cut off in the header, which the library does not mind.
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
            Self::Zstd(frames) => frames.finish(),
            Self::Deflate(zlib) if zlib.ended => Ok(Bytes::new()),
            Self::Deflate(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Self::Whole(file, blocks) => blocks.decompress(file),
        }
    }
}

/// One stream with zlib's header; what follows it is ignored.
struct Zlib {
    inflate: Decompress,
    ended: bool,
}

impl Zlib {
    fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        let (start, mut out) = (self.inflate.total_in(), Vec::with_capacity(PIECE));
        while !self.ended {
            let taken = (self.inflate.total_in() - start) as usize;
            let rest = &piece[taken..];
            let status = self.inflate.decompress_vec(rest, &mut out, FlushDecompress::None)?;
            self.ended = status == Status::StreamEnd;
            if out.len() < out.capacity() {
                break;
            }
            out.reserve(PIECE);
        }
        Ok(out.into())
    }
}

/// Frames one after another.
struct ZstdFrames {
    decoder: zstd::stream::raw::Decoder<'static>,
    /// Whether a frame has begun and not ended.
    inside: bool,
}

impl ZstdFrames {
    fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        let mut input = InBuffer::around(piece);
        let mut out = Vec::with_capacity(4 * PIECE);
        loop {
            if out.len() == out.capacity() {
                out.reserve(out.len());
            }
            let full = out.capacity();
            let written = out.len();
            let hint = {
                let mut output = OutBuffer::around_pos(&mut out, written);
                self.decoder.run(&mut input, &mut output)?
            };
            self.inside = hint != 0;
            if !self.inside {
                self.decoder.reinit()?;
            }
            // With room left over, everything that can be written is.
            if input.pos() == piece.len() && out.len() < full {
                return Ok(out.into());
            }
        }
    }

    fn finish(&mut self) -> io::Result<Bytes> {
        if self.inside { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Bytes::new()) }
    }
}

fn broken(place: &str, error: io::Error) -> Error {
    Error::invalid(format!(
        "{place} is cut off or damaged: it cannot be decompressed; set ignoreCorruptFiles to true \
         to read what comes before the damage, or remove it with ignoreMissingFiles set to true, \
         and put a whole one there under a new name"
    ))
    .with_condition("FAILED_READ_FILE.COMPRESSION")
    .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use fluvial_sim::block_on;

    fn decompress(how: Compression, file: &[u8], chunk: usize) -> Result<Vec<u8>> {
        let chunks: Vec<_> = file.chunks(chunk).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let stream = how.decompress(futures::stream::iter(chunks).boxed(), "f".into())?;
        Ok(block_on(stream.try_collect::<Vec<Bytes>>())?.concat())
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 1).unwrap()
    }

    #[test]
    fn several_members_are_one_file_however_they_are_cut() {
        let text = "line\n".repeat(50_000).into_bytes();
        for (how, file) in [
            (Compression::Gzip, [gzip(&text), gzip(b""), gzip(b"end")].concat()),
            (Compression::Zstd, [zstd(&text), zstd(b""), zstd(b"end")].concat()),
        ] {
            for chunk in [1, 7, 1000, 1 << 20] {
                let found = decompress(how, &file, chunk).unwrap();
                assert_eq!(found, [text.as_slice(), b"end"].concat(), "{how:?} {chunk}");
            }
        }
    }

    #[test]
    fn deflated_files_have_the_header_of_zlib() {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"line\n").unwrap();
        let file = encoder.finish().unwrap();
        assert_eq!(decompress(Compression::Deflate, &file, 1).unwrap(), b"line\n");
        assert!(decompress(Compression::Deflate, &file[..file.len() - 5], 1).is_err());
    }

    #[test]
    fn a_file_cut_off_or_damaged_is_an_error() {
        let text: Vec<u8> = (0..20_000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        for (how, file) in [(Compression::Gzip, gzip(&text)), (Compression::Zstd, zstd(&text))] {
            for cut in [1, 5, file.len() / 2, file.len() - 1] {
                let error = decompress(how, &file[..cut], 1000).unwrap_err();
                assert_eq!(
                    error.condition(),
                    Some("FAILED_READ_FILE.COMPRESSION"),
                    "{how:?} {cut}"
                );
                // A planned file may not be rewritten, so its name must be another one.
                assert!(error.to_string().contains("ignoreCorruptFiles"), "{error}");
                assert!(error.to_string().contains("under a new name"), "{error}");
            }
        }
        assert!(decompress(Compression::Gzip, b"not gzip at all", 4).is_err());
        assert!(decompress(Compression::Gzip, b"", 4).unwrap().is_empty());
        assert!(decompress(Compression::Zstd, b"", 4).unwrap().is_empty());
    }

    #[test]
    fn the_name_tells() {
        assert_eq!(Compression::of("a.json.gz").unwrap(), Compression::Gzip);
        assert_eq!(Compression::of("a.gz.json").unwrap(), Compression::None);
        assert_eq!(Compression::of("a").unwrap(), Compression::None);
        assert_eq!(Compression::of("a.json.lz4").unwrap(), Compression::Lz4);
        assert!(Compression::of("a.json.bz2").is_err());
    }
}
