//! An example: a state backend of one's own, with the conformance kit on it.
//!
//! It keeps every version of a store as an Arrow IPC file, which pandas, polars and DuckDB read.
//! That is simple and not fast: each commit writes everything. What makes it *right* is short, and
//! is said where it stands; `cargo test -p own-backend` runs one test for each law.
//!
//! A session is given it like this:
//!
//! ```text
//! Session::builder()
//!     .state_backend(|place| Ok(Arc::new(IpcBackend::new(place.store, place.folder, place.run))))
//! ```

mod file;
mod store;

use async_trait::async_trait;
use fluvial_core::{
    Change, Error, KeyGroupRange, Result, RunId, SealedStore, Snapshot, StateBackend, StateStore,
    StateVersion, StoreId,
};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Contents, IpcStore};

/// State as Arrow files: `<operator>/<store>/<version>-<attempt>-<run>` under a folder.
#[derive(Debug)]
pub struct IpcBackend {
    objects: Arc<dyn ObjectStore>,
    folder: Path,
    run: RunId,
    attempts: AtomicU64,
}

impl IpcBackend {
    /// A backend that keeps its files in `folder`. No two processes may have the same `run`.
    pub fn new(objects: Arc<dyn ObjectStore>, folder: Path, run: RunId) -> Self {
        Self { objects, folder, run, attempts: AtomicU64::new(0) }
    }

    fn path(&self, id: &StoreId, name: &str) -> Path {
        self.folder.clone().join(id.operator.as_str()).join(id.store.as_str()).join(name)
    }

    async fn read(&self, snapshot: &Snapshot) -> Result<Contents> {
        // The token has a checksum, because a flipped bit must be an error and never other rows.
        let (name, crc32) = parse(&snapshot.token)?;
        let path = self.path(&snapshot.id, name);
        let bytes = self.objects.get(&path).await?.bytes().await?;
        if crc32fast::hash(&bytes) != crc32 {
            return Err(Error::corrupt(format!("{path} is damaged")));
        }
        file::read(bytes).map_err(|error| error.at(path))
    }

    /// Writes a file under a name that nobody has: a retry, another attempt and a run that was
    /// thought dead must not meet, since a commit may name any of their files.
    async fn write(
        &self,
        id: &StoreId,
        version: StateVersion,
        bytes: bytes::Bytes,
    ) -> Result<String> {
        let crc32 = crc32fast::hash(&bytes);
        loop {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let name = format!("{version}-{attempt}-{}", self.run);
            let path = self.path(id, &name);
            let put = self.objects.put_opts(&path, bytes.clone().into(), PutMode::Create.into());
            match put.await {
                Ok(_) => return Ok(format!("{name}:{crc32}")),
                // A lost acknowledgement of our own: what lies there is garbage now.
                Err(object_store::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn parse(token: &str) -> Result<(&str, u32)> {
    let parts = token.rsplit_once(':').and_then(|(name, crc32)| Some((name, crc32.parse().ok()?)));
    parts.ok_or_else(|| Error::corrupt(format!("{token:?} names no state of this backend")))
}

#[async_trait]
impl StateBackend for IpcBackend {
    // It is pinned in the checkpoint: a query on another backend is refused by name.
    fn format(&self) -> &str {
        "ipc"
    }

    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        // The number of partitions may have changed: the snapshots are cut in any way.
        let mut contents = Contents::new();
        for snapshot in snapshots.iter().filter(|s| !s.groups.intersect(groups).is_empty()) {
            contents.append(&mut self.read(snapshot).await?);
        }
        let exact = snapshots.iter().find(|snapshot| snapshot.groups == groups);
        let unchanged = exact.map(|snapshot| snapshot.token.clone());
        Ok(Box::new(IpcStore::new(id.clone(), groups, version, contents, unchanged)))
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        let mut snapshots = Vec::with_capacity(sealed.len());
        for SealedStore { id, groups, base, rows, change } in sealed {
            let version = StateVersion(base.0 + 1);
            let token = match change {
                Change::None(token) => token,
                Change::Bytes { bytes, .. } => self.write(&id, version, bytes).await?,
            };
            snapshots.push(Snapshot { id, groups, version, rows, token });
        }
        Ok(snapshots)
    }

    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        let Some(oldest) = live.iter().map(|snapshot| snapshot.version).min() else {
            return Ok(());
        };
        let kept = live.iter().map(|s| Ok(self.path(&s.id, parse(&s.token)?.0)));
        let kept = kept.collect::<Result<BTreeSet<Path>>>()?;
        let files: Vec<_> = self.objects.list(Some(&self.folder)).try_collect().await?;
        for path in files.into_iter().map(|file| file.location) {
            let version = path.filename().and_then(|name| name.split('-').next()?.parse().ok());
            // What is newer than all that counts may be an attempt in flight.
            let is_old = version.is_some_and(|version| StateVersion(version) < oldest);
            if is_old && !kept.contains(&path) {
                self.objects.delete(&path).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_run() -> RunId {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        RunId::new(format!("run-{}", RUNS.fetch_add(1, Ordering::Relaxed))).expect("a valid id")
    }

    // One test for each law, with crashes at every step, flipped bits and races.
    fluvial_conformance::state_backend!(ipc, |objects| Box::new(IpcBackend::new(
        objects,
        Path::from("state"),
        next_run()
    )));
}
