//! What passes from a sealed store to the commit.

use crate::token::Token;
use bytes::Bytes;
use fluvial_core::{Change, Error, Result, RunId};
use std::fmt;
use std::str::FromStr;

/// A sealed store: the commit stores the frame.
#[derive(Debug)]
pub(crate) struct Sealed {
    /// Under which its writes wait in memory, until an open shows that this attempt was elected.
    pub(crate) ticket: Ticket,
    /// The frames before this one; empty if it is full.
    pub(crate) before: Token,
    /// The frame to store.
    pub(crate) frame: Bytes,
}

/// Names the writes of one handle. Another backend than the one that gave it knows nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    pub(crate) run: RunId,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.run)
    }
}

impl FromStr for Ticket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (number, run) = text.split_once('-').ok_or_else(foreign)?;
        Ok(Self { number: number.parse().map_err(|_| foreign())?, run: RunId::new(run)? })
    }
}

fn foreign() -> Error {
    Error::invalid("a store that another backend sealed cannot be committed to memory")
}

impl Sealed {
    /// Packs it.
    pub(crate) fn into_change(self) -> Change {
        let parents = format!("{} {}", self.ticket, self.before);
        Change::Bytes { bytes: self.frame, parents }
    }

    /// Unpacks it.
    ///
    /// # Errors
    ///
    /// `Invalid` if another backend made it.
    pub(crate) fn open(bytes: &Bytes, parents: &str) -> Result<Self> {
        let (ticket, before) = parents.split_once(' ').ok_or_else(foreign)?;
        let (ticket, before) = (ticket.parse()?, before.parse().map_err(|_| foreign())?);
        Ok(Self { ticket, before, frame: bytes.clone() })
    }
}
