//! The bytes of plans, commits and the metadata record.
//!
//! Each is a [`frame`] around one line of JSON that ends with a line feed:
//! readable with `head`, and a cut can be told from a flipped bit. Reading never trusts a
//! length: everything is checked before anything is built. Fuzz targets call the `parse_*`
//! functions.

use bytes::Bytes;
use fluvial_core::{BatchId, Commit, Error, Plan, QueryId, Result, frame};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The format that this version writes. It reads this one and all before it.
pub const FORMAT: u32 = 1;

const PLAN: &str = "plan";
const COMMIT: &str = "commit";
pub(crate) const METADATA: &str = "metadata";
pub(crate) const LOW_WATER: &str = "lowwater";

#[derive(Debug, Serialize, Deserialize)]
struct Metadata {
    id: QueryId,
}

#[derive(Debug, Serialize, Deserialize)]
struct LowWater {
    batch: BatchId,
}

/// A plan as bytes.
///
/// # Errors
///
/// `Invalid` if a value in it has no JSON form.
pub fn plan_bytes(plan: &Plan) -> Result<Bytes> {
    write(PLAN, plan)
}

/// A plan from bytes.
///
/// # Errors
///
/// `Corrupt` unless they are exactly what [`plan_bytes`] wrote; `Invalid` if a later version of
/// Fluvial wrote them.
pub fn parse_plan(bytes: &[u8]) -> Result<Plan> {
    read(PLAN, bytes)
}

/// A commit as bytes.
///
/// # Errors
///
/// As [`plan_bytes`].
pub fn commit_bytes(commit: &Commit) -> Result<Bytes> {
    write(COMMIT, commit)
}

/// A commit from bytes.
///
/// # Errors
///
/// As [`parse_plan`].
pub fn parse_commit(bytes: &[u8]) -> Result<Commit> {
    read(COMMIT, bytes)
}

/// The metadata record as bytes.
///
/// # Errors
///
/// As [`plan_bytes`].
pub fn metadata_bytes(id: &QueryId) -> Result<Bytes> {
    write(METADATA, &Metadata { id: id.clone() })
}

/// The query's id from the bytes of the metadata record.
///
/// # Errors
///
/// As [`parse_plan`].
pub fn parse_metadata(bytes: &[u8]) -> Result<QueryId> {
    read(METADATA, bytes).map(|record: Metadata| record.id)
}

/// The low-water record as bytes.
///
/// # Errors
///
/// As [`plan_bytes`].
pub fn low_water_bytes(batch: BatchId) -> Result<Bytes> {
    write(LOW_WATER, &LowWater { batch })
}

/// The batch from the bytes of the low-water record.
///
/// # Errors
///
/// As [`parse_plan`].
pub fn parse_low_water(bytes: &[u8]) -> Result<BatchId> {
    read(LOW_WATER, bytes).map(|record: LowWater| record.batch)
}

fn write<T: Serialize>(kind: &str, value: &T) -> Result<Bytes> {
    let mut body = serde_json::to_vec(value)
        .map_err(|e| Error::invalid(format!("this {kind} has no JSON form")).with_source(e))?;
    body.push(b'\n');
    Ok(frame::seal(kind, FORMAT, &body))
}

fn read<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<T> {
    let body = frame::open(kind, FORMAT, bytes).map_err(|error| match of_spark(bytes) {
        true => spark_wrote(kind),
        false => error,
    })?;
    serde_json::from_slice(body).map_err(|e| {
        Error::corrupt(format!("not a whole {kind}: its text is not what Fluvial writes"))
            .with_source(e)
    })
}

/// Whether `bytes` are of a checkpoint of Apache Spark: a log entry of a version, or the metadata.
fn of_spark(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Metadata {
        #[serde(rename = "id")]
        _id: String,
    }
    let entry = [b"v1\n{", b"v2\n{"].iter().any(|start| bytes.starts_with(*start));
    entry || serde_json::from_slice::<Metadata>(bytes).is_ok()
}

fn spark_wrote(kind: &str) -> Error {
    Error::invalid(format!(
        "this {kind} was written by Apache Spark, whose checkpoints Fluvial cannot read: start with \
         a checkpoint location of its own; the query then reads its sources from the beginning, so \
         give it a new output too, or sources that begin where Spark has ended"
    ))
    .with_condition("CHECKPOINT_OF_SPARK")
}

/// Whether `bytes`, which do not parse, are the beginning of a record whose end never reached
/// the disk: shorter, or with zeros in place of the rest. That is what a power cut leaves of an
/// object whose writing was not acknowledged. Flipped bits are *not* a cut.
///
/// It works because a record has a line feed after its header and one at its very end, and
/// nowhere else.
pub(crate) fn is_cut(kind: &str, bytes: &[u8]) -> bool {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    let bytes = &bytes[..end];
    let start = format!("fluvial {kind} v");
    let header_max = start.len() + FORMAT.to_string().len() + " 01234567".len();
    let Some(header) = bytes.iter().position(|b| *b == b'\n') else {
        return start.as_bytes().starts_with(bytes)
            || (bytes.starts_with(start.as_bytes()) && bytes.len() <= header_max);
    };
    let body = &bytes[header + 1..];
    if header > header_max || !bytes.starts_with(start.as_bytes()) || body.ends_with(b"\n") {
        return false;
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        // Nothing is missing but the line feed.
        Ok(_) => true,
        Err(error) => error.is_eof(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Bytes {
        metadata_bytes(&QueryId::new("q-1").unwrap()).unwrap()
    }

    #[test]
    fn every_proper_beginning_is_a_cut_with_or_without_zeros() {
        let whole = whole();
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            assert!(parse_metadata(&cut).is_err() && is_cut(METADATA, &cut), "{length}");
            cut.resize(whole.len(), 0);
            assert!(parse_metadata(&cut).is_err() && is_cut(METADATA, &cut), "{length} zeros");
        }
    }

    #[test]
    fn no_flipped_bit_is_a_cut() {
        let whole = whole();
        for i in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.to_vec();
                flipped[i] ^= 1 << bit;
                assert!(parse_metadata(&flipped).is_err(), "byte {i} bit {bit}");
                assert!(!is_cut(METADATA, &flipped), "byte {i} bit {bit}");
            }
        }
    }

    #[test]
    fn what_spark_wrote_is_said_to_be_spark_s() {
        let metadata = b"{\"id\":\"3f9b2f3c-8c5a-4a3d-8d6e-0a1f3c5b7d9e\"}";
        let offsets = b"v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":1}\n{\"logOffset\":0}";
        let commit = b"v1\n{\"nextBatchWatermarkMs\":0}";
        let errors = [
            parse_metadata(metadata).unwrap_err(),
            parse_plan(offsets).unwrap_err(),
            parse_commit(commit).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.condition(), Some("CHECKPOINT_OF_SPARK"), "{error}");
        }
        let other = parse_metadata(b"{\"ids\":1}").unwrap_err();
        assert_eq!(other.condition(), Some("CHECKPOINT_ENTRY_CORRUPT"), "{other}");
    }

    #[test]
    fn something_else_is_not_a_cut() {
        for other in ["hello", "{\"id\":1}", "fluvial commit v1 00000000\n{\"a\":1}\n", "v1\n"] {
            assert!(!is_cut(METADATA, other.as_bytes()), "{other}");
        }
    }
}
