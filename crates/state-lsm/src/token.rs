//! What a snapshot's token says: where its manifest lies.
//!
//! ```text
//! empty
//! 3-0-run7@4096+512:89abcdef
//! ```
//!
//! `object@offset+length:crc32`; an object is `version-attempt-run` in the backend's folder.

use crate::codec::{Reader, put_bytes, put_number};
use fluvial_core::{Error, Result, RunId, StateVersion};
use std::fmt;
use std::str::FromStr;

/// The token of a snapshot without keys: it needs no object.
const EMPTY: &str = "empty";

/// Where the manifest of a snapshot lies; `None` if it has no keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Token(pub(crate) Option<Place>);

/// Where some bytes lie, and their checksum.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) object: ObjectName,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) crc32: u32,
}

/// The name of an object: unique, because no two runs have the same id and no run makes an
/// attempt twice. The version is the newest that it is written for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectName {
    pub(crate) version: StateVersion,
    pub(crate) attempt: u64,
    pub(crate) run: RunId,
}

impl ObjectName {
    /// Appends its bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.version.0);
        put_number(out, self.attempt);
        put_bytes(out, self.run.as_str().as_bytes());
    }

    /// Reads its bytes.
    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self> {
        let (version, attempt) = (StateVersion(reader.number()?), reader.number()?);
        let run = std::str::from_utf8(reader.bytes()?).ok().and_then(|run| RunId::new(run).ok());
        let run = run.ok_or_else(|| Error::corrupt("the name of an object in it is damaged"))?;
        Ok(Self { version, attempt, run })
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.version, self.attempt, self.run)
    }
}

impl FromStr for ObjectName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_object(text).ok_or_else(|| damaged(text))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str(EMPTY),
            Some(Place { object, offset, length, crc32 }) => {
                write!(f, "{object}@{offset}+{length}:{crc32:08x}")
            }
        }
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == EMPTY {
            return Ok(Self(None));
        }
        parse_place(text).map(|place| Self(Some(place))).ok_or_else(|| damaged(text))
    }
}

fn damaged(text: &str) -> Error {
    Error::corrupt(format!("{text:?} names no state in lsm format"))
}

fn parse_place(text: &str) -> Option<Place> {
    let (object, place) = text.rsplit_once('@')?;
    let (place, crc32) = place.split_once(':')?;
    let (offset, length) = place.split_once('+')?;
    let object = parse_object(object)?;
    let (offset, length) = (number(offset)?, number(length)?);
    offset.checked_add(length)?;
    let crc32 = u32::from_str_radix(crc32, 16).ok().filter(|n| format!("{n:08x}") == crc32)?;
    Some(Place { object, offset, length, crc32 })
}

fn parse_object(text: &str) -> Option<ObjectName> {
    let mut parts = text.splitn(3, '-');
    let (version, attempt) = (number(parts.next()?)?, number(parts.next()?)?);
    let run = RunId::new(parts.next()?).ok()?;
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
        for text in ["empty", "3-0-run-7@0+512:89abcdef"] {
            assert_eq!(text.parse::<Token>().unwrap().to_string(), text);
        }
        assert_eq!("4-2-run-7".parse::<ObjectName>().unwrap().run.as_str(), "run-7");
    }

    #[test]
    fn other_texts_are_damage() {
        for bad in [
            "",
            "3-0@0+1:00000000",
            "3-0-r@0+1:0",
            "03-0-r@0+1:00000000",
            "3-0-../x@0+1:00000000",
            "3-0-r@-1+1:00000000",
            "3-0-r@18446744073709551615+1:00000000",
            "3-0-r@0+1",
            "3-0-r@0+1:0000000G",
            "EMPTY",
        ] {
            assert_eq!(bad.parse::<Token>().unwrap_err().kind(), ErrorKind::Corrupt, "{bad}");
        }
    }
}
