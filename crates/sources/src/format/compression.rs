//! Files that are compressed as a whole, told by their names.

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
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
            "bz2" | "lz4" | "snappy" | "deflate" | "xz" | "lzo" | "br" | "zip" => {
                Err(Error::invalid(format!(
                    "{name}: files compressed as .{extension} are not supported, only .gz and .zst"
                ))
                .with_condition("UNSUPPORTED_COMPRESSION"))
            }
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
        };
        let state = State { chunks, pieces: VecDeque::new(), decoder, place, empty: true };
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
}

struct State {
    chunks: BoxStream<'static, Result<Bytes>>,
    pieces: VecDeque<Bytes>,
    decoder: Decoder,
    place: String,
    empty: bool,
}

impl State {
    async fn next(mut self) -> Result<Option<(Bytes, Option<Self>)>> {
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
                    let rest = self.decoder.finish().map_err(|e| broken(&self.place, e))?;
                    return Ok(Some((rest, None)));
                }
            }
        }
        let bytes = match self.pieces.pop_front() {
            Some(piece) => self.decoder.push(&piece).map_err(|e| broken(&self.place, e))?,
            None => Bytes::new(),
        };
        Ok(Some((bytes, Some(self))))
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
        }
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
    Error::invalid(format!("{place} is cut off or damaged: it cannot be decompressed"))
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
        assert!(Compression::of("a.json.bz2").is_err());
    }
}
