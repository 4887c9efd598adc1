//! What passes from a sealed store to the commit.

use crate::token::Token;
use bytes::Bytes;
use fluvial_core::{Change, Error, Result};

/// The data of a sealed store.
///
/// The commit stores the frame. The delta, never compressed, stays in memory until a later open
/// shows that this attempt was elected; for a full frame it is not part of what is stored.
#[derive(Debug)]
pub(crate) struct Sealed {
    /// The name in memory of what the delta applies to.
    pub(crate) name: String,
    /// The frames before this one; empty if it is full.
    pub(crate) before: Token,
    /// The frame to store.
    pub(crate) frame: Vec<u8>,
    /// The body of the delta.
    pub(crate) delta: Vec<u8>,
}

/// The same, as it arrives.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) name: String,
    pub(crate) before: Token,
    pub(crate) frame: Bytes,
    pub(crate) delta: Bytes,
}

impl Sealed {
    /// Packs it: the delta and the frame behind each other, and how long the delta is.
    pub(crate) fn into_change(self) -> Change {
        let parents = format!("{} {} {}", self.delta.len(), self.before, self.name);
        let mut bytes = self.delta;
        bytes.reserve_exact(self.frame.len());
        bytes.extend_from_slice(&self.frame);
        Change::Bytes { bytes: bytes.into(), parents }
    }
}

impl Parcel {
    /// Unpacks it.
    ///
    /// # Errors
    ///
    /// `Invalid` if another backend made it.
    pub(crate) fn open(bytes: &Bytes, parents: &str) -> Result<Self> {
        let parsed = || {
            let (length, rest) = parents.split_once(' ')?;
            let (before, name) = rest.split_once(' ')?;
            let length = length.parse().ok().filter(|length| *length < bytes.len())?;
            Some((length, before.parse().ok()?, name.to_owned()))
        };
        let (length, before, name) = parsed().ok_or_else(|| {
            Error::invalid("a store that another backend sealed cannot be committed to memory")
        })?;
        // A copy, so that a delta kept in memory does not keep a full frame with it.
        let delta = Bytes::copy_from_slice(&bytes[..length]);
        Ok(Self { name, before, frame: bytes.slice(length..), delta })
    }
}
