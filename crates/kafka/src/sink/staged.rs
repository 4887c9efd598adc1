//! What a writer staged: records, in memory, one behind the other.
//!
//! ```text
//! record  topic: text  partition: i32, -1 is none  key: bytes  value: bytes
//!         headers: u32 count, then (name: text, value: bytes) each
//! text    u32 length, UTF-8
//! bytes   i32 length, -1 is none, then the bytes
//! ```
//!
//! It never leaves the process, but is checked all the same: whoever takes a batch apart here has
//! been handed it by somebody else.

use super::columns::Row;
use crate::broker::Outgoing;
use bytes::{Buf, Bytes};
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// Appends a record.
pub(crate) fn encode(row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
    text(row.topic, out)?;
    out.extend_from_slice(&row.partition.unwrap_or(-1).to_le_bytes());
    bytes(row.key, out)?;
    bytes(row.value, out)?;
    out.extend_from_slice(&length(row.headers.len())?.to_le_bytes());
    for (name, value) in &row.headers {
        text(name, out)?;
        bytes(*value, out)?;
    }
    Ok(())
}

fn length(length: usize) -> Result<i32> {
    i32::try_from(length)
        .map_err(|_| Error::invalid("a record has more than 2 GiB: no broker takes it"))
}

fn text(text: &str, out: &mut Vec<u8>) -> Result<()> {
    bytes(Some(text.as_bytes()), out)
}

fn bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) -> Result<()> {
    match bytes {
        None => out.extend_from_slice(&(-1i32).to_le_bytes()),
        Some(bytes) => {
            out.extend_from_slice(&length(bytes.len())?.to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
    Ok(())
}

/// Takes staged bytes apart; payloads are not copied.
///
/// # Errors
///
/// `Corrupt` if they are not what [`encode`] makes.
pub(crate) fn decode(mut staged: Bytes) -> Result<Vec<Outgoing>> {
    let mut records = Vec::new();
    let mut last: Arc<str> = "".into();
    while !staged.is_empty() {
        let topic = take_text(&mut staged)?;
        if *last != topic {
            last = topic.into();
        }
        let partition = take_number(&mut staged)?;
        let key = take_bytes(&mut staged)?;
        let value = take_bytes(&mut staged)?;
        let count = take_number(&mut staged)?;
        let mut headers = Vec::new();
        for _ in 0..count {
            headers.push((take_text(&mut staged)?, take_bytes(&mut staged)?));
        }
        let (topic, partition) = (Arc::clone(&last), (partition >= 0).then_some(partition));
        records.push(Outgoing { topic, partition, key, value, headers });
    }
    Ok(records)
}

fn cut() -> Error {
    Error::corrupt("what was staged for a Kafka sink is cut off")
}

fn take_number(from: &mut Bytes) -> Result<i32> {
    from.try_get_i32_le().map_err(|_| cut())
}

fn take_bytes(from: &mut Bytes) -> Result<Option<Bytes>> {
    let length = take_number(from)?;
    match usize::try_from(length) {
        Err(_) => Ok(None),
        Ok(length) if length <= from.len() => Ok(Some(from.split_to(length))),
        Ok(_) => Err(cut()),
    }
}

fn take_text(from: &mut Bytes) -> Result<String> {
    let bytes = take_bytes(from)?.ok_or_else(cut)?;
    String::from_utf8(bytes.into()).map_err(|_| cut())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded() -> Vec<u8> {
        let mut out = Vec::new();
        let headers = vec![("h", Some(&b"1"[..])), ("h", None), ("", Some(&b""[..]))];
        let row = Row { topic: "t", partition: Some(2), key: None, value: Some(b""), headers };
        encode(&row, &mut out).unwrap();
        let (key, headers) = (Some(&b"k"[..]), Vec::new());
        let row = Row { topic: "t", partition: None, key, value: None, headers };
        encode(&row, &mut out).unwrap();
        out
    }

    #[test]
    fn null_and_empty_are_different() {
        let records = decode(encoded().into()).unwrap();
        let [first, second] = &records[..] else { panic!("two records") };
        assert_eq!((first.partition, &first.key), (Some(2), &None));
        assert_eq!(first.value.as_deref(), Some(&b""[..]));
        let names: Vec<&str> = first.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["h", "h", ""]);
        assert_eq!(first.headers[1].1, None);
        assert_eq!((second.partition, second.value.as_deref()), (None, None));
    }

    /// Trap J5: no prefix and no length makes it do more than fail.
    #[test]
    fn a_cut_is_noticed() {
        let whole = encoded();
        let first = whole.len() - 22;
        for end in (1..whole.len()).filter(|end| *end != first) {
            let found = decode(Bytes::copy_from_slice(&whole[..end]));
            assert!(found.is_err() || found.unwrap().len() < 2, "{end}");
        }
        let mut long = whole;
        long[..4].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(decode(long.into()).is_err());
    }
}
