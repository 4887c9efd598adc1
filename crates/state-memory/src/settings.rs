//! Settings of the backend.

pub use crate::frame::Compression;

/// What may be chosen; the defaults suit nearly everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The most deltas before a full snapshot is written. More make commits smaller, restarts
    /// slower and tokens longer.
    pub deltas_max: usize,
    /// Whether what is written is compressed.
    pub compression: Compression,
}

impl Default for Settings {
    fn default() -> Self {
        Self { deltas_max: 24, compression: Compression::default() }
    }
}
