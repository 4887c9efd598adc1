//! `Puts`: keys and values on their way into the state.

use super::keys::{Bytes, PIECE};
use fluvial_core::{Result, StateStore};

/// Values that are written in one call: [`PIECE`], or so many bytes of them.
const PUT_BYTES: usize = 64 << 20;

/// Entries that are written together.
#[derive(Default)]
pub(super) struct Puts {
    pub(super) keys: Bytes,
    pub(super) values: Bytes,
}

impl Puts {
    /// Ends the key and the value that are being written.
    pub(super) fn end(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.keys.end()?;
        self.values.end()?;
        let is_full = self.keys.len() >= PIECE || self.values.bytes() >= PUT_BYTES;
        if is_full { self.flush(state) } else { Ok(()) }
    }

    /// Writes what there is.
    pub(super) fn flush(&mut self, state: &mut dyn StateStore) -> Result<()> {
        if self.keys.len() == 0 {
            return Ok(());
        }
        state.put_many(&self.keys.take(), &self.values.take())
    }
}
