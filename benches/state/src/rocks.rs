//! RocksDB, as a state store uses it: no write-ahead log, a flush and a checkpoint for each commit.

use crate::Contestant;
use arrow::array::BinaryArray;
use fluvial_core::KeyRange;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Direction, IteratorMode, Options, ReadOptions,
    WriteBatch, WriteOptions,
};
use std::path::PathBuf;
use tempfile::TempDir;

const CACHE_BYTES: usize = 256 << 20;
const WRITE_BUFFER_BYTES: usize = 64 << 20;

/// A database, and the checkpoint of the last commit.
pub(crate) struct RocksContestant {
    folder: TempDir,
    db: Option<DB>,
    place: PathBuf,
    options: Options,
    write: WriteOptions,
    commits: usize,
}

fn options() -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES).expect("a cache"));
    blocks.set_bloom_filter(10.0, false);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks.set_format_version(5);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_bytes_per_sync(1 << 20);
    options.increase_parallelism(2);
    options
}

impl RocksContestant {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (options, mut write) = (options(), WriteOptions::default());
        write.disable_wal(true);
        let place = folder.path().join("db");
        let db = Some(DB::open(&options, &place).expect("it opens"));
        Self { folder, db, place, options, write, commits: 0 }
    }

    fn db(&self) -> &DB {
        self.db.as_ref().expect("it is open between calls")
    }
}

impl Contestant for RocksContestant {
    fn put(&mut self, keys: &BinaryArray, values: &BinaryArray) {
        let mut batch = WriteBatch::default();
        for (key, value) in keys.iter().flatten().zip(values.iter().flatten()) {
            batch.put(key, value);
        }
        self.db().write_opt(batch, &self.write).expect("it is written");
    }

    fn get(&mut self, keys: &BinaryArray) -> usize {
        let found = self.db().multi_get(keys.iter().flatten());
        found.into_iter().filter(|value| value.as_ref().expect("it is read").is_some()).count()
    }

    fn get_each(&mut self, keys: &BinaryArray) -> usize {
        let found = |key: &[u8]| self.db().get_pinned(key).expect("it is read").is_some();
        keys.iter().flatten().filter(|key| found(key)).count()
    }

    fn scan(&mut self, range: &KeyRange) -> usize {
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(range.end.clone());
        let mode = IteratorMode::From(&range.start, Direction::Forward);
        self.db().iterator_opt(mode, read).map(|entry| entry.expect("it is read")).count()
    }

    fn evict(&mut self, ranges: &[KeyRange]) {
        let mut batch = WriteBatch::default();
        ranges.iter().for_each(|range| batch.delete_range(&range.start, &range.end));
        self.db().write_opt(batch, &self.write).expect("it is removed");
    }

    fn commit(&mut self) {
        self.db().flush().expect("it flushes");
        let checkpoint = Checkpoint::new(self.db()).expect("a checkpoint");
        let place = |commit: usize| self.folder.path().join(format!("checkpoint-{commit}"));
        checkpoint.create_checkpoint(place(self.commits)).expect("a checkpoint");
        drop(checkpoint);
        if let Some(older) = self.commits.checked_sub(1) {
            let _ = std::fs::remove_dir_all(place(older));
        }
        self.commits += 1;
    }

    fn reopen(&mut self) {
        self.db = None;
        let newest = self.folder.path().join(format!("checkpoint-{}", self.commits - 1));
        let _ = std::fs::remove_dir_all(&self.place);
        std::fs::rename(&newest, &self.place).expect("a checkpoint");
        self.db = Some(DB::open(&self.options, &self.place).expect("it opens"));
        let checkpoint = Checkpoint::new(self.db()).expect("a checkpoint");
        checkpoint.create_checkpoint(newest).expect("a checkpoint");
    }
}
