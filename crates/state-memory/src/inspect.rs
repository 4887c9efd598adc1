//! Looks into what lies on the object store, without a query: for tools, and for fuzzing.

use crate::codec;
use crate::frame::{Kind, open_frame};
use crate::table::Table;
use crate::token::Token;
use fluvial_core::{Error, KeyGroupRange, Result};

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSummary {
    /// Whether it holds everything, or what changed.
    pub is_full: bool,
    /// Keys that a table has after it was applied to an empty one.
    pub rows: u64,
    /// Bytes after decompression.
    pub plain_bytes: u64,
}

/// What a token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSummary {
    /// Deltas after the full frame.
    pub deltas: usize,
    /// Bytes to read to open the snapshot.
    pub bytes: u64,
    /// The objects to read, by their names in the folder of their store, each once.
    pub objects: Vec<String>,
}

/// Reads a frame as a restart would, for any key groups. Its checksum is in the token that names
/// it and is not checked here.
///
/// # Errors
///
/// `Corrupt` for bytes that no writer wrote, `Invalid` for a newer format; never a panic.
pub fn inspect_frame(frame: &[u8]) -> Result<FrameSummary> {
    let kind = match frame.get(1) {
        Some(b'f') => Kind::Full,
        Some(b'd') => Kind::Delta,
        _ => return Err(Error::corrupt("this is not a frame of state in memory format")),
    };
    let body = open_frame(kind, frame)?;
    let (mut table, all) = (Table::default(), KeyGroupRange { start: 0, end: u16::MAX });
    codec::apply(&body, &mut table, all, all)?;
    let (rows, plain_bytes) = (table.len() as u64, body.bytes.len() as u64);
    Ok(FrameSummary { is_full: kind == Kind::Full, rows, plain_bytes })
}

/// Reads the token of a snapshot.
///
/// # Errors
///
/// `Corrupt` for a text that no writer wrote.
pub fn inspect_token(token: &str) -> Result<TokenSummary> {
    let Token(frames) = token.parse()?;
    let mut objects: Vec<String> = frames.iter().map(|frame| frame.object.to_string()).collect();
    objects.sort();
    objects.dedup();
    let bytes = frames.iter().fold(0u64, |sum, frame| sum.saturating_add(frame.length));
    Ok(TokenSummary { deltas: frames.len().saturating_sub(1), bytes, objects })
}
