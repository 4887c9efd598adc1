//! Files that a version wrote, which every later one must read. `FLUVIAL_FIXTURES=write` makes
//! those of the newest format anew.

use crate::world::{ALL, Contents, Version, column, id, show};
use fluvial_core::{KeyRange, Prefetch, RunId, Snapshot, StateBackend, StateVersion};
use fluvial_sim::{Disk, block_on};
use fluvial_state_lsm::{Compression, Lsm, Settings};
use object_store::path::Path;
use std::path::PathBuf;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", "v1"].iter().collect()
}

fn backend(disk: &Disk, compression: Compression) -> Lsm {
    let settings = Settings { compression, block_bytes: 200, fanout: 3, ..Settings::default() };
    let run = RunId::new("fixture").unwrap();
    Lsm::new(disk.process().store(), Path::from("q/state"), run, settings)
}

/// What each batch does: values, deleted keys, and a deleted range, with merging in between.
async fn write(disk: &Disk) -> Version {
    let mut last = Version::genesis();
    let kinds = [Compression::None, Compression::Lz4, Compression::Zstd];
    let backends = kinds.map(|compression| backend(disk, compression));
    for batch in 0..7u8 {
        let backend = &backends[usize::from(batch) % 3];
        let number = StateVersion(last.number);
        let mut store = backend.open(&id(), ALL, number, &last.snapshots).await.unwrap();
        store.prefetch(&Prefetch::Ranges(vec![KeyRange::all()])).await.unwrap();
        let keys: Vec<Vec<u8>> =
            (0..40).map(|i| vec![0, i % 4, 1, 0, 0, 0, 0, 0, 0, 0, batch, i]).collect();
        let value = vec![batch; 20];
        let values = column(keys.iter().map(|_| value.as_slice()));
        store.put_many(&column(keys.iter().map(Vec::as_slice)), &values).unwrap();
        last.contents.extend(keys.iter().map(|key| (key.clone(), value.clone())));
        store.delete_many(&column([keys[3].as_slice()])).unwrap();
        last.contents.remove(&keys[3]);
        let until = batch.saturating_sub(3);
        let old = KeyRange { start: vec![0, 1], end: vec![0, 1, 1, 0, 0, 0, 0, 0, 0, 0, until] };
        store.delete_range(&old).unwrap();
        last.contents.retain(|key, _| !old.contains(key));
        last.snapshots = backend.commit(vec![store.seal().unwrap()]).await.unwrap();
        last.number += 1;
    }
    last
}

#[test]
fn what_was_written_is_read() {
    let fresh = Disk::new();
    let written = block_on(write(&fresh));
    let folder = folder();
    if std::env::var("FLUVIAL_FIXTURES").is_ok_and(|mode| mode == "write") {
        std::fs::create_dir_all(&folder).unwrap();
        for (path, bytes) in fresh.contents() {
            std::fs::write(folder.join(path.rsplit('/').next().unwrap()), bytes).unwrap();
        }
        std::fs::write(folder.join("token"), &written.snapshots[0].token).unwrap();
    }
    let disk = Disk::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        disk.write(&format!("q/state/{name}"), std::fs::read(entry.path()).unwrap());
    }
    let token = std::fs::read_to_string(folder.join("token")).unwrap();
    let contents: Contents = written.contents.clone();
    let rows = contents.len() as u64;
    let version = StateVersion(written.number);
    let snapshot = Snapshot { id: id(), groups: ALL, version, rows, token };
    let version = Version { snapshots: vec![snapshot], contents, ..written };
    let shown = block_on(show(&backend(&disk, Compression::Lz4), &version));
    assert_eq!(shown, version.contents);
}
