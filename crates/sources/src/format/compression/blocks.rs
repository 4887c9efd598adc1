//! Formats made of blocks, each with its length: LZ4 and Snappy, in their own frames and in
//! Hadoop's.
//!
//! Such a file is held in memory as a whole; writers of large files use gzip or zstd.

use bytes::Bytes;
use std::io::{self, Read};

/// More than this is refused, compressed or not.
const MAX_BYTES: u64 = 1 << 30;

/// A block format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocks {
    Lz4,
    Snappy,
}

impl Blocks {
    /// What a whole file holds.
    pub(super) fn decompress(self, file: &[u8]) -> io::Result<Bytes> {
        if self == Self::Lz4 && file.starts_with(&LZ4_FRAME) && !has_end_mark(file) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let framed: Option<Box<dyn Read + '_>> = match self {
            Self::Lz4 if file.starts_with(&LZ4_FRAME) => {
                Some(Box::new(lz4_flex::frame::FrameDecoder::new(file)))
            }
            Self::Snappy if file.starts_with(b"\xff\x06\0\0sNaPpY") => {
                Some(Box::new(snap::read::FrameDecoder::new(file)))
            }
            _ => None,
        };
        let Some(framed) = framed else { return self.hadoop(file).map(Bytes::from) };
        let mut out = Vec::new();
        framed.take(MAX_BYTES + 1).read_to_end(&mut out)?;
        check(out.len() as u64)?;
        Ok(out.into())
    }

    /// Records of `length, (compressed length, block)*` until `length` bytes came out; lengths
    /// have four bytes, the big end first.
    fn hadoop(self, mut file: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while !file.is_empty() {
            let end = out.len() + length(&mut file)?;
            check(end as u64)?;
            while out.len() < end {
                let size = length(&mut file)?;
                let (block, rest) =
                    file.split_at_checked(size).ok_or(io::ErrorKind::UnexpectedEof)?;
                file = rest;
                let room = end - out.len();
                out.extend(self.block(block, room)?);
                if out.len() > end {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
        Ok(out)
    }

    fn block(self, block: &[u8], room: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Lz4 => lz4_flex::block::decompress(block, room).map_err(io::Error::other),
            Self::Snappy => {
                snap::raw::Decoder::new().decompress_vec(block).map_err(io::Error::other)
            }
        }
    }
}

const LZ4_FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Whether the last frame is whole. The library takes a file that is cut off between two blocks
/// for one that ends there.
fn has_end_mark(file: &[u8]) -> bool {
    const MARK: [u8; 4] = [0; 4];
    const CHECKSUM: usize = 4;
    let checksum = file.get(4).is_some_and(|flags| flags & 0b100 != 0);
    let end = file.len() - if checksum { CHECKSUM } else { 0 };
    file.get(..end).is_some_and(|file| file.ends_with(&MARK))
}

fn length(file: &mut &[u8]) -> io::Result<usize> {
    let (length, rest) = file.split_first_chunk::<4>().ok_or(io::ErrorKind::UnexpectedEof)?;
    *file = rest;
    Ok(u32::from_be_bytes(*length) as usize)
}

fn check(bytes: u64) -> io::Result<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes: use .gz or .zst")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn hadoop(block: impl Fn(&[u8]) -> Vec<u8>, records: &[&[&[u8]]]) -> Vec<u8> {
        let mut file = Vec::new();
        for record in records {
            let length: usize = record.iter().map(|block| block.len()).sum();
            file.extend((length as u32).to_be_bytes());
            for part in *record {
                let compressed = block(part);
                file.extend((compressed.len() as u32).to_be_bytes());
                file.extend(compressed);
            }
        }
        file
    }

    #[test]
    fn frames_and_blocks_of_hadoop_are_told_apart() {
        let text = "line\n".repeat(50_000).into_bytes();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&text).unwrap();
        let mut snappy = snap::write::FrameEncoder::new(Vec::new());
        snappy.write_all(&text).unwrap();
        let halves: [&[u8]; 2] = [&text[..9], &text[9..]];
        let snap_block = |block: &[u8]| snap::raw::Encoder::new().compress_vec(block).unwrap();
        for (blocks, file) in [
            (Blocks::Lz4, lz4.finish().unwrap()),
            (Blocks::Snappy, snappy.into_inner().unwrap()),
            (Blocks::Lz4, hadoop(lz4_flex::block::compress, &[&halves])),
            (Blocks::Snappy, hadoop(snap_block, &[&halves[..1], &halves[1..]])),
        ] {
            assert_eq!(blocks.decompress(&file).unwrap(), text, "{blocks:?}");
            assert!(blocks.decompress(&file[..file.len() - 3]).is_err(), "{blocks:?}");
        }
        assert!(Blocks::Lz4.decompress(b"nothing").is_err());
        assert!(Blocks::Lz4.decompress(b"").unwrap().is_empty());
    }

    #[test]
    fn a_length_is_not_believed() {
        assert!(Blocks::Snappy.decompress(&[0xff; 12]).is_err());
        assert!(Blocks::Lz4.decompress(&[0, 0, 0, 9, 0, 0, 0, 0]).is_err());
    }
}
