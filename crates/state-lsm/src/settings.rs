//! Settings of the backend.

pub use crate::block::Compression;
pub use crate::disk::LocalCache;

/// What may be chosen; the defaults suit nearly everybody. Names are those of RocksDB where it
/// has the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory for all stores of the backend, unless [`Lsm::within`](crate::Lsm::within)
    /// gives it a [`Budget`](crate::Budget) that backends share.
    pub memory_bytes: u64,
    /// Bytes of a block before compression (`block_size`). Larger ones compress better and make
    /// single reads slower.
    pub block_bytes: usize,
    /// Bits for each key in a filter (`bloom_bits_per_key`); at 10 one question in a hundred is
    /// answered wrongly. 0 for no filters.
    pub filter_bits: usize,
    /// How blocks are compressed (`compression`).
    pub compression: Compression,
    /// How many runs of about one size are merged into one
    /// (`level0_file_num_compaction_trigger`). More make merging cheaper and reading dearer.
    pub fanout: usize,
    /// A version up to so many bytes is read whole when it is opened: a few large reads cost less
    /// than many small ones.
    pub fetch_whole_bytes: u64,
    /// Blocks that were read from the object store are kept on a local disk too, for when memory has
    /// no room for them and for the next process on this machine. `None` for no such cache.
    pub local_cache: Option<LocalCache>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes: 512 << 20,
            block_bytes: 4 << 10,
            filter_bits: 10,
            compression: Compression::default(),
            fanout: 8,
            fetch_whole_bytes: 1 << 20,
            local_cache: None,
        }
    }
}
