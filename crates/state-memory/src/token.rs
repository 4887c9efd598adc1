//! What a snapshot's token says: the frames that make it, in the order to apply them.
//!
//! ```text
//! empty
//! 3-0-run7@0+512:89abcdef;4-2@1024+96:01234567
//! ```
//!
//! The first frame is a full one, the others are deltas on it. A frame is
//! `object@offset+length:crc32`, an object is `version-attempt-run` in the folder of its store;
//! the run is left out where it is that of the frame before. Everything that a snapshot needs is
//! in its token, so its frames are read at once, and retention reads none.

use fluvial_core::{Error, Result, RunId, StateVersion};
use std::fmt;
use std::str::FromStr;

/// The token of a snapshot without keys: it needs no object.
const EMPTY: &str = "empty";

/// The frames of a snapshot, a full one and the deltas on it; none if it has no keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Token(pub(crate) Vec<FrameRef>);

/// Where a frame lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrameRef {
    pub(crate) object: ObjectName,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) crc32: u32,
}

/// The name of an object: unique, because no two runs have the same id and no run makes an
/// attempt twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectName {
    pub(crate) version: StateVersion,
    pub(crate) attempt: u64,
    pub(crate) run: RunId,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.version, self.attempt, self.run)
    }
}

impl FromStr for ObjectName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_object(text, None).ok_or_else(|| damaged(text))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(EMPTY);
        }
        let mut run = None;
        for (i, FrameRef { object, offset, length, crc32 }) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(";")?;
            }
            write!(f, "{}-{}", object.version, object.attempt)?;
            if run != Some(&object.run) {
                write!(f, "-{}", object.run)?;
            }
            run = Some(&object.run);
            write!(f, "@{offset}+{length}:{crc32:08x}")?;
        }
        Ok(())
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == EMPTY {
            return Ok(Self::default());
        }
        let mut frames: Vec<FrameRef> = Vec::new();
        for part in text.split(';') {
            let run = frames.last().map(|frame| &frame.object.run);
            frames.push(parse_frame(part, run).ok_or_else(|| damaged(text))?);
        }
        Ok(Self(frames))
    }
}

fn damaged(text: &str) -> Error {
    Error::corrupt(format!("{text:?} names no state in memory format"))
}

fn parse_frame(text: &str, run: Option<&RunId>) -> Option<FrameRef> {
    let (object, place) = text.rsplit_once('@')?;
    let (place, crc32) = place.split_once(':')?;
    let (offset, length) = place.split_once('+')?;
    let object = parse_object(object, run)?;
    let (offset, length) = (number(offset)?, number(length)?);
    offset.checked_add(length)?;
    let crc32 = u32::from_str_radix(crc32, 16).ok().filter(|n| format!("{n:08x}") == crc32)?;
    Some(FrameRef { object, offset, length, crc32 })
}

fn parse_object(text: &str, run: Option<&RunId>) -> Option<ObjectName> {
    let mut parts = text.splitn(3, '-');
    let (version, attempt) = (number(parts.next()?)?, number(parts.next()?)?);
    let run = match parts.next() {
        Some(run) => RunId::new(run).ok()?,
        None => run?.clone(),
    };
    Some(ObjectName { version: StateVersion(version), attempt, run })
}

/// A decimal number in its one spelling.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n: &u64| n.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::ErrorKind;

    #[test]
    fn tokens_come_back() {
        let full = "3-0-run-7@0+512:89abcdef";
        for text in
            ["empty", full, "3-0-run-7@0+512:89abcdef;4-2@8+9:00000001;5-0-b.c@0+1:00000000"]
        {
            let token: Token = text.parse().unwrap();
            assert_eq!(token.to_string(), text);
        }
        let token: Token = "3-0-run-7@0+512:89abcdef;4-2@8+9:00000001".parse().unwrap();
        assert_eq!(token.0[1].object.run.as_str(), "run-7");
        assert_eq!(token.0[1].object.to_string(), "4-2-run-7");
        assert_eq!("4-2-run-7".parse::<ObjectName>().unwrap(), token.0[1].object);
    }

    #[test]
    fn other_texts_are_damage() {
        for bad in [
            "",
            ";",
            "3-0@0+1:00000000",
            "3-0-r@0+1:0",
            "03-0-r@0+1:00000000",
            "3-0-../x@0+1:00000000",
            "3-0-r@-1+1:00000000",
            "3-0-r@18446744073709551615+1:00000000",
            "3-0-r@0+1",
            "3-0-r@0+1:0000000G",
            "3-0-r@0+1:00000000;",
            "EMPTY",
        ] {
            assert_eq!(bad.parse::<Token>().unwrap_err().kind(), ErrorKind::Corrupt, "{bad}");
        }
    }
}
