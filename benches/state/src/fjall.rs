//! fjall: a commit syncs its journal, which it cannot do without.

use crate::Contestant;
use arrow::array::BinaryArray;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use fluvial_core::KeyRange;
use std::path::Path;
use tempfile::TempDir;

/// A database of one keyspace. It has no removal by range: keys are read and removed one by one.
pub(crate) struct FjallContestant {
    folder: TempDir,
    memory: u64,
    open: Option<(Database, Keyspace)>,
}

impl FjallContestant {
    pub(crate) fn new(memory: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let open = Some(open(folder.path(), memory));
        Self { folder, memory, open }
    }

    fn parts(&self) -> &(Database, Keyspace) {
        self.open.as_ref().expect("it is open between calls")
    }
}

fn open(folder: &Path, memory: u64) -> (Database, Keyspace) {
    let database = Database::builder(folder).cache_size(memory / 2).open();
    let database = database.expect("it opens");
    let keyspace = database.keyspace("state", KeyspaceCreateOptions::default);
    let keyspace = keyspace.expect("a keyspace");
    (database, keyspace)
}

impl Contestant for FjallContestant {
    fn put(&mut self, keys: &BinaryArray, values: &BinaryArray) {
        let (database, keyspace) = self.parts();
        let mut batch = database.batch();
        for (key, value) in keys.iter().flatten().zip(values.iter().flatten()) {
            batch.insert(keyspace, key, value);
        }
        batch.commit().expect("it is written");
    }

    fn get(&mut self, keys: &BinaryArray) -> usize {
        let (_, keyspace) = self.parts();
        let found = |key: &&[u8]| keyspace.get(key).expect("it is read").is_some();
        keys.iter().flatten().filter(found).count()
    }

    fn scan(&mut self, range: &KeyRange) -> usize {
        let (_, keyspace) = self.parts();
        let entries = keyspace.range(range.start.clone()..range.end.clone());
        entries.map(|entry| entry.into_inner().expect("it is read")).count()
    }

    fn evict(&mut self, ranges: &[KeyRange]) -> u64 {
        let (database, keyspace) = self.parts();
        let (mut batch, mut count) = (database.batch(), 0);
        for range in ranges {
            for entry in keyspace.range(range.start.clone()..range.end.clone()) {
                batch.remove(keyspace, entry.key().expect("it is read"));
                count += 1;
            }
        }
        batch.commit().expect("it is removed");
        count
    }

    fn commit(&mut self) {
        self.parts().0.persist(PersistMode::SyncAll).expect("it syncs");
    }

    fn reopen(&mut self) {
        self.open = None;
        self.open = Some(open(self.folder.path(), self.memory));
    }

    fn folder(&self) -> Option<&Path> {
        Some(self.folder.path())
    }
}
