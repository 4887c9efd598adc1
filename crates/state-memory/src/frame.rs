//! Frames: bodies with a header, and how they are compressed.
//!
//! ```text
//! frame   = format kind compression body
//! ```
//!
//! A compressed body is one or more frames of zstd, one after the other. The checksum of a frame
//! is in the token that names it, so that every byte counts, these included.

use fluvial_core::{Error, Result};
use std::borrow::Cow;
use std::io::Read;

/// Version of the bytes of frames.
const FORMAT: u8 = 3;
/// The oldest version that can be read.
const OLDEST_FORMAT: u8 = 1;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// Frames smaller than this are not worth compressing.
const COMPRESS_MIN: usize = 4 << 10;
/// Bytes of a body that are compressed together.
const PIECE: usize = 256 << 10;
/// How many times larger a body may be than its frame: more is a bomb, not state.
const RATIO_MAX: usize = 1000;
/// Fast: a batch waits for it, and keys have much in common with their neighbours anyway.
const LEVEL: i32 = -5;

/// Whether frames are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Never.
    None,
    /// With zstd, where it makes a frame smaller by an eighth at least.
    #[default]
    Zstd,
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything.
    Full,
    /// What changed.
    Delta,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Full => b'f',
            Self::Delta => b'd',
        }
    }
}

/// A frame that was written.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of its body before compression.
    pub(crate) plain: u64,
}

/// A frame whose body `write` writes; it may be called again.
pub(crate) fn frame(
    kind: Kind,
    compression: Compression,
    write: impl Fn(&mut FrameWriter),
) -> Frame {
    let with = |compression| {
        let mut out = FrameWriter::new(kind, compression);
        write(&mut out);
        out.finish()
    };
    let frame = with(compression);
    // A reader would take it for a bomb.
    let is_bomb = frame.plain / RATIO_MAX as u64 > frame.bytes.len() as u64;
    if is_bomb { with(Compression::None) } else { frame }
}

/// A frame on its way: its body is compressed a piece at a time, so that it is never held whole.
pub(crate) struct FrameWriter {
    out: Vec<u8>,
    /// What was written last.
    piece: Vec<u8>,
    /// The same compressed: kept for its memory.
    packed: Vec<u8>,
    plain: u64,
    packing: Packing,
}

/// Whether pieces are compressed.
enum Packing {
    No,
    /// The first piece will show.
    Maybe,
    Yes(zstd::bulk::Compressor<'static>),
}

impl FrameWriter {
    fn new(kind: Kind, compression: Compression) -> Self {
        let packing = match compression {
            Compression::None => Packing::No,
            Compression::Zstd => Packing::Maybe,
        };
        let out = vec![FORMAT, kind.byte(), PLAIN];
        Self { out, piece: Vec::new(), packed: Vec::new(), plain: 0, packing }
    }

    /// The bytes so far that are not compressed yet; what is written is appended.
    pub(crate) fn open(&mut self) -> &mut Vec<u8> {
        &mut self.piece
    }

    /// Ends an entry: what follows may go to another piece.
    pub(crate) fn end_entry(&mut self) {
        if self.piece.len() >= PIECE {
            self.end_piece();
        }
    }

    fn end_piece(&mut self) {
        self.plain += self.piece.len() as u64;
        if matches!(self.packing, Packing::Maybe) {
            self.packing = self.begin();
        }
        match &mut self.packing {
            Packing::Yes(compressor) => {
                self.packed.clear();
                self.packed.reserve(zstd::zstd_safe::compress_bound(self.piece.len()));
                let packed = compressor.compress_to_buffer(&self.piece, &mut self.packed);
                packed.expect("the bound holds for every piece");
                self.out.extend_from_slice(&self.packed);
            }
            Packing::No | Packing::Maybe => self.out.extend_from_slice(&self.piece),
        }
        self.piece.clear();
    }

    /// Looks at the first piece: compression must take an eighth of it away.
    fn begin(&mut self) -> Packing {
        if self.piece.len() < COMPRESS_MIN {
            return Packing::No;
        }
        let Ok(mut compressor) = zstd::bulk::Compressor::new(LEVEL) else { return Packing::No };
        match compressor.compress(&self.piece) {
            Ok(packed) if packed.len() < self.piece.len() / 8 * 7 => {
                self.out[2] = ZSTD;
                Packing::Yes(compressor)
            }
            _ => Packing::No,
        }
    }

    fn finish(mut self) -> Frame {
        if !self.piece.is_empty() {
            self.end_piece();
        }
        Frame { bytes: self.out, plain: self.plain }
    }
}

/// What a frame holds, decompressed.
#[derive(Debug)]
pub(crate) struct Body<'f> {
    pub(crate) format: u8,
    pub(crate) bytes: Cow<'f, [u8]>,
}

/// Takes the body out of a frame.
pub(crate) fn open_frame(kind: Kind, frame: &[u8]) -> Result<Body<'_>> {
    let ([format, found, compression], body) =
        frame.split_first_chunk().ok_or_else(|| Error::corrupt("it is cut"))?;
    if *format > FORMAT {
        return Err(Error::invalid(format!(
            "it has format {format}, newer than {FORMAT}: use the version of Fluvial that wrote \
             it, or a later one"
        ))
        .with_condition("CHECKPOINT_FORMAT_TOO_NEW"));
    }
    if *format < OLDEST_FORMAT || *found != kind.byte() {
        return Err(Error::corrupt("it holds something else"));
    }
    let bytes = match *compression {
        PLAIN => body.into(),
        ZSTD => {
            let bad = |e| Error::corrupt("it cannot be decompressed").with_source(e);
            let max = body.len().saturating_mul(RATIO_MAX);
            // Grows with what is really there: a false length inside allocates nothing.
            let mut plain = Vec::new();
            let decoder = zstd::stream::Decoder::new(body).map_err(bad)?;
            decoder.take(max as u64 + 1).read_to_end(&mut plain).map_err(bad)?;
            if plain.len() > max {
                return Err(Error::corrupt("it is a bomb: it grows without end"));
            }
            plain.into()
        }
        _ => return Err(Error::corrupt("its compression is unknown")),
    };
    Ok(Body { format: *format, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::ErrorKind;

    fn framed(kind: Kind, body: &[u8]) -> Vec<u8> {
        let write = |out: &mut FrameWriter| {
            for piece in body.chunks(1000) {
                out.open().extend_from_slice(piece);
                out.end_entry();
            }
        };
        let frame = frame(kind, Compression::Zstd, write);
        assert_eq!(frame.plain, body.len() as u64);
        frame.bytes
    }

    #[test]
    fn bodies_of_many_pieces_come_back() {
        let text: Vec<u8> = (0..1_000_000u32).flat_map(|i| (i % 1000).to_le_bytes()).collect();
        let mut number = 1u64;
        let noise = std::iter::repeat_with(|| {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            number as u8
        });
        let noise: Vec<u8> = noise.take(1_000_000).collect();
        for (body, packing) in [(text, ZSTD), (noise, PLAIN)] {
            let written = framed(Kind::Full, &body);
            assert_eq!(written[2], packing);
            assert_eq!(open_frame(Kind::Full, &written).unwrap().bytes.as_ref(), body);
        }
    }

    #[test]
    fn what_would_grow_too_large_is_neither_written_nor_read() {
        let zeros = vec![0; 10 << 20];
        let written = framed(Kind::Full, &zeros);
        assert_eq!(
            (written[2], open_frame(Kind::Full, &written).unwrap().bytes.len()),
            (PLAIN, 10 << 20)
        );
        let packed = zstd::bulk::compress(&zeros, LEVEL).unwrap();
        let bomb = [&[FORMAT, b'f', ZSTD], packed.as_slice()].concat();
        assert_eq!(open_frame(Kind::Full, &bomb).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn newer_formats_are_told_from_damage() {
        let mut whole = framed(Kind::Delta, b"body");
        assert_eq!(open_frame(Kind::Delta, &whole).unwrap().bytes.as_ref(), b"body");
        assert_eq!(open_frame(Kind::Full, &whole).unwrap_err().kind(), ErrorKind::Corrupt);
        whole[0] = FORMAT + 1;
        assert_eq!(open_frame(Kind::Delta, &whole).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(open_frame(Kind::Delta, b"\x01d").unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
