//! RocksDB, as a state store uses it: no write-ahead log, a flush and a checkpoint for each commit.

use crate::Contestant;
use arrow::array::BinaryArray;
use fluvial_core::KeyRange;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    Direction, IteratorMode, Options, ReadOptions, WriteBatch, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const WRITE_BUFFER_BYTES: usize = 64 << 20;
const FAMILY: &str = "default";

/// A database, and the checkpoint of the last commit.
pub(crate) struct RocksContestant {
    folder: TempDir,
    db: Option<DB>,
    place: PathBuf,
    options: Options,
    write: WriteOptions,
    commits: usize,
}

/// What its guide to tuning asks for: filters, index and filter blocks in the cache and the newest
/// ones pinned there, levels sized from the last one, lz4, background threads for both cores.
fn options(memory: u64) -> Options {
    let mut blocks = BlockBasedOptions::default();
    let cache = usize::try_from(memory / 2).expect("it fits");
    blocks.set_block_cache(&Cache::new_lru_cache(cache).expect("a cache"));
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

fn open(options: &Options, place: &Path) -> DB {
    let family = ColumnFamilyDescriptor::new(FAMILY, options.clone());
    DB::open_cf_descriptors(options, place, [family]).expect("it opens")
}

impl RocksContestant {
    pub(crate) fn new(memory: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (options, mut write) = (options(memory), WriteOptions::default());
        write.disable_wal(true);
        let place = folder.path().join("db");
        let db = Some(open(&options, &place));
        Self { folder, db, place, options, write, commits: 0 }
    }

    fn db(&self) -> &DB {
        self.db.as_ref().expect("it is open between calls")
    }

    fn family(&self) -> &ColumnFamily {
        self.db().cf_handle(FAMILY).expect("it was opened")
    }

    fn entries(&self, range: &KeyRange, mut each: impl FnMut(Box<[u8]>)) {
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(range.end.clone());
        let mode = IteratorMode::From(&range.start, Direction::Forward);
        for entry in self.db().iterator_cf_opt(self.family(), read, mode) {
            each(entry.expect("it is read").0);
        }
    }

    /// The folder of the last checkpoint.
    pub(crate) fn checkpoint(&self, commit: usize) -> PathBuf {
        self.folder.path().join(format!("checkpoint-{commit}"))
    }
}

impl Contestant for RocksContestant {
    fn put(&mut self, keys: &BinaryArray, values: &BinaryArray) {
        let mut batch = WriteBatch::default();
        for (key, value) in keys.iter().flatten().zip(values.iter().flatten()) {
            batch.put_cf(self.family(), key, value);
        }
        self.db().write_opt(batch, &self.write).expect("it is written");
    }

    fn get(&mut self, keys: &BinaryArray) -> usize {
        let keys = keys.iter().flatten();
        let found = self.db().batched_multi_get_cf(self.family(), keys, false);
        found.into_iter().filter(|value| value.as_ref().expect("it is read").is_some()).count()
    }

    fn get_each(&mut self, keys: &BinaryArray) -> usize {
        let family = self.family();
        let found = |key: &[u8]| self.db().get_pinned_cf(family, key).expect("it is read");
        keys.iter().flatten().filter(|key| found(key).is_some()).count()
    }

    fn scan(&mut self, range: &KeyRange) -> usize {
        let mut count = 0;
        self.entries(range, |_| count += 1);
        count
    }

    fn evict(&mut self, ranges: &[KeyRange]) -> u64 {
        let (mut batch, mut count) = (WriteBatch::default(), 0);
        for range in ranges {
            self.entries(range, |key| {
                batch.delete_cf(self.family(), key);
                count += 1;
            });
        }
        self.db().write_opt(batch, &self.write).expect("it is removed");
        count
    }

    fn evict_uncounted(&mut self, ranges: &[KeyRange]) {
        let mut batch = WriteBatch::default();
        ranges.iter().for_each(|r| batch.delete_range_cf(self.family(), &r.start, &r.end));
        self.db().write_opt(batch, &self.write).expect("it is removed");
    }

    fn commit(&mut self) {
        self.db().flush_cf(self.family()).expect("it flushes");
        let checkpoint = Checkpoint::new(self.db()).expect("a checkpoint");
        checkpoint.create_checkpoint(self.checkpoint(self.commits)).expect("a checkpoint");
        drop(checkpoint);
        if let Some(older) = self.commits.checked_sub(1) {
            let _ = std::fs::remove_dir_all(self.checkpoint(older));
        }
        self.commits += 1;
    }

    fn settle(&mut self) {
        let busy = |name: &str| {
            let value = self.db().property_int_value_cf(self.family(), name);
            value.expect("a property") != Some(0)
        };
        while busy("rocksdb.num-running-flushes")
            || busy("rocksdb.num-running-compactions")
            || busy("rocksdb.compaction-pending")
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn reopen(&mut self) {
        self.db = None;
        let newest = self.checkpoint(self.commits - 1);
        let _ = std::fs::remove_dir_all(&self.place);
        std::fs::rename(&newest, &self.place).expect("a checkpoint");
        self.db = Some(open(&self.options, &self.place));
        let checkpoint = Checkpoint::new(self.db()).expect("a checkpoint");
        checkpoint.create_checkpoint(newest).expect("a checkpoint");
    }

    fn folder(&self) -> Option<&Path> {
        Some(self.folder.path())
    }
}
