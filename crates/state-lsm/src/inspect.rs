//! Looks into what lies on the object store, without a query: for tools, and for fuzzing.

use crate::block::{Block, unpack};
use crate::index::RunIndex;
use crate::manifest::Manifest;
use crate::token::Token;
use fluvial_core::{KeyGroupRange, KeyRange, Result};
use std::borrow::Cow;

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestSummary {
    /// The key groups that it covers.
    pub groups: KeyGroupRange,
    /// Keys.
    pub rows: u64,
    /// Its runs, newest first.
    pub runs: Vec<RunSummary>,
}

/// A run as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// The object; `None` for that of the manifest.
    pub object: Option<String>,
    /// Where it begins in its object.
    pub offset: u64,
    /// Bytes of its blocks, of its index, and of its filter, one behind the other.
    pub bytes: [u64; 3],
    /// The key groups for which it counts.
    pub groups: KeyGroupRange,
    /// Entries, those that delete included.
    pub entries: u64,
    /// Entries that delete.
    pub deletes: u64,
    /// Ranges of older keys that it deletes.
    pub ranges: u64,
}

/// What a token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSummary {
    /// The object of the manifest, and where it is there.
    pub object: String,
    /// The place of the manifest.
    pub manifest: std::ops::Range<u64>,
}

/// Reads a manifest. Its checksum is in the token that names it and is not checked here.
///
/// # Errors
///
/// `Corrupt` for bytes that no writer wrote, `Invalid` for a newer format; never a panic.
pub fn inspect_manifest(bytes: &[u8]) -> Result<ManifestSummary> {
    let manifest = Manifest::decode(bytes)?;
    let runs = manifest.runs.iter().map(|run| RunSummary {
        object: run.object.as_ref().map(ToString::to_string),
        offset: run.meta.offset,
        bytes: [run.meta.data, run.meta.meta, run.meta.filter],
        groups: run.clip,
        entries: run.meta.entries,
        deletes: run.meta.deletes,
        ranges: run.meta.ranges,
    });
    let runs = runs.collect();
    Ok(ManifestSummary { groups: manifest.groups, rows: manifest.total_rows(), runs })
}

/// Reads a block that was unpacked: by how much its entries change the number of keys.
///
/// # Errors
///
/// As [`inspect_manifest`].
pub fn inspect_block(bytes: &[u8]) -> Result<i64> {
    let block = Block::open(bytes.to_vec())?;
    let (start, mut key) = (&bytes[..bytes.len().min(3)], Vec::new());
    block.find(start);
    block.count(start, &[], &mut key);
    Ok(block.count(&[], &[], &mut key))
}

/// Reads the index of a run whose blocks take `data` bytes: how many blocks there are.
///
/// # Errors
///
/// As [`inspect_manifest`].
pub fn inspect_index(bytes: &[u8], data: u64) -> Result<u32> {
    let tail = RunIndex::decode(bytes, data)?;
    let range = KeyRange { start: bytes.iter().take(3).copied().collect(), end: Vec::new() };
    tail.index.blocks_in(&range);
    Ok(tail.index.blocks())
}

/// Unpacks a block or an index as it was stored, which had `plain_bytes` before.
///
/// # Errors
///
/// `Corrupt` unless these are exactly those bytes.
pub fn inspect_packed(bytes: &[u8], plain_bytes: usize) -> Result<Vec<u8>> {
    unpack(bytes, plain_bytes).map(Cow::into_owned)
}

/// Reads the token of a snapshot; `None` if the snapshot has no keys.
///
/// # Errors
///
/// `Corrupt` for a text that no writer wrote.
pub fn inspect_token(token: &str) -> Result<Option<TokenSummary>> {
    let Token(place) = token.parse()?;
    Ok(place.map(|place| TokenSummary {
        object: place.object.to_string(),
        manifest: place.offset..place.offset + place.length,
    }))
}
