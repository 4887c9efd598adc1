//! The frame around everything small that we write: kind, format version, checksum.
//!
//! ```text
//! fluvial plan v1 8d5a91c4\n
//! {"batch":7,...}
//! ```
//!
//! The first line is text so that `head -1` tells what a file is. The checksum (CRC-32 of the
//! words before it and of the body) finds any flipped or missing byte.

use crate::error::{Error, Result};
use bytes::Bytes;

/// Frames `body`. `kind` is one lower-case word.
pub fn seal(kind: &str, version: u32, body: &[u8]) -> Bytes {
    let head = format!("fluvial {kind} v{version} ");
    let sum = checksum(head.as_bytes(), body);
    let mut out = Vec::with_capacity(head.len() + 9 + body.len());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(format!("{sum:08x}\n").as_bytes());
    out.extend_from_slice(body);
    out.into()
}

/// Takes the body out of a frame and checks it.
///
/// # Errors
///
/// `Corrupt` if it is damaged or something else; `Invalid` if it is whole but written in a
/// newer format than `version`.
pub fn open<'a>(kind: &str, version: u32, bytes: &'a [u8]) -> Result<&'a [u8]> {
    let bad = |what: &str| {
        Error::corrupt(format!("not a whole {kind}: {what}; restore it from a backup"))
            .with_condition("CHECKPOINT_ENTRY_CORRUPT")
    };
    let line = bytes.iter().take(96).position(|b| *b == b'\n').ok_or_else(|| bad("no header"))?;
    let (head, body) = (&bytes[..line], &bytes[line + 1..]);
    let (words, sum) = head.split_at(head.len().saturating_sub(8));
    if sum != format!("{:08x}", checksum(words, body)).as_bytes() {
        return Err(bad("the checksum does not match"));
    }
    let words = std::str::from_utf8(words).map_err(|_| bad("the header is not text"))?;
    let found = words
        .strip_prefix("fluvial ")
        .and_then(|rest| rest.strip_prefix(kind))
        .and_then(|rest| rest.strip_prefix(" v"))
        .and_then(|rest| rest.trim_end().parse::<u32>().ok())
        .ok_or_else(|| bad("the header names something else"))?;
    if found > version {
        return Err(Error::invalid(format!(
            "this {kind} has format {found}, newer than {version}: use the version of Fluvial \
             that wrote it, or a later one"
        ))
        .with_condition("CHECKPOINT_FORMAT_TOO_NEW"));
    }
    Ok(body)
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn every_bit_and_every_length_counts() {
        let whole = seal("plan", 1, b"{\"batch\":7}");
        assert_eq!(open("plan", 1, &whole).unwrap(), b"{\"batch\":7}");
        for i in 0..whole.len() {
            let cut = open("plan", 1, &whole[..i]).unwrap_err();
            assert_eq!(cut.kind(), ErrorKind::Corrupt);
            for bit in 0..8 {
                let mut flipped = whole.to_vec();
                flipped[i] ^= 1 << bit;
                let error = open("plan", 1, &flipped).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {i} bit {bit}");
            }
        }
    }

    #[test]
    fn other_kinds_and_newer_formats_are_told_apart() {
        let whole = seal("commit", 2, b"x");
        assert_eq!(open("plan", 2, &whole).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(open("commit", 1, &whole).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(open("commit", 3, &whole).is_ok());
    }
}
