//! The mark below which entries may be gone.
//!
//! Deleting old entries would let a run that slept for a week create one of them anew and think
//! that it won. So the mark is raised, durably, *before* anything below it is deleted, and
//! whoever has created an entry looks at the mark *afterwards*: a creation below the mark was
//! possible only because of the cleaning, and whoever did it is a zombie.

use crate::create::{Created, create, read, whole};
use crate::format::{LOW_WATER, is_cut, low_water_bytes, parse_low_water};
use fluvial_core::{BatchId, Error, Result};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};

/// How many runs may get in each other's way before one is told to try again.
const ATTEMPTS: u32 = 8;

/// The mark; 0 as long as nothing was cleaned. One that a power cut left torn is 0 again, until
/// the next cleaning raises it.
pub(crate) async fn load(store: &dyn ObjectStore, path: &Path) -> Result<BatchId> {
    let Some(bytes) = read(store, path).await? else { return Ok(BatchId::FIRST) };
    match parse_low_water(&bytes) {
        Err(_) if is_cut(LOW_WATER, &bytes) => Ok(BatchId::FIRST),
        parsed => parsed.map_err(|e| e.at(path)),
    }
}

/// Raises the mark to `batch`; it never falls. Returns where it stands.
///
/// On a store without conditional updates (a local disk) two runs that clean at the same moment
/// may leave the lower of their marks, until the next cleaning. A zombie may then live longer;
/// that costs work, not correctness, because sinks and commits do not depend on the mark.
pub(crate) async fn raise(store: &dyn ObjectStore, path: &Path, batch: BatchId) -> Result<BatchId> {
    let bytes = low_water_bytes(batch)?;
    for _ in 0..ATTEMPTS {
        let found = match store.get(path).await {
            Ok(found) => found,
            Err(StoreError::NotFound { .. }) => {
                if create(store, path, bytes.clone()).await? == Created::Ours {
                    return Ok(batch);
                }
                continue;
            }
            Err(error) => return Err(Error::from(error).at(format!("reading {path}"))),
        };
        let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
        let old = whole(found, path).await?;
        // An unreadable mark is written anew: it only ever says what may be missing.
        match parse_low_water(&old) {
            Ok(mark) if mark >= batch => return Ok(mark),
            Ok(_) | Err(_) => {}
        }
        let update = PutMode::Update(UpdateVersion { e_tag, version });
        let put = match store.put_opts(path, bytes.clone().into(), update.into()).await {
            Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) => {
                store.put(path, bytes.clone().into()).await
            }
            other => other,
        };
        match put {
            Ok(_) => return Ok(batch),
            Err(StoreError::Precondition { .. }) => {}
            Err(error) => return Err(Error::from(error).at(format!("writing {path}"))),
        }
    }
    Err(Error::unavailable(format!("{path} changes faster than it can be raised: try again")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_sim::{Disk, Rng, Task, block_on, interleave};

    #[test]
    fn it_never_falls() {
        let (disk, path) = (Disk::new(), Path::from("q/low-water"));
        let process = disk.process();
        block_on(async {
            assert_eq!(load(&process, &path).await.unwrap(), BatchId(0));
            assert_eq!(raise(&process, &path, BatchId(5)).await.unwrap(), BatchId(5));
            assert_eq!(raise(&process, &path, BatchId(3)).await.unwrap(), BatchId(5));
            assert_eq!(load(&process, &path).await.unwrap(), BatchId(5));
        });
    }

    #[test]
    fn the_highest_of_several_racers_stays() {
        for seed in 0..50 {
            let (disk, path) = (Disk::new(), Path::from("low-water"));
            let tasks: Vec<Task<'_, ()>> = [3, 9, 6]
                .into_iter()
                .map(|mark| {
                    let (process, path) = (disk.process(), path.clone());
                    let own = process.clone();
                    let future = async move {
                        raise(&own, &path, BatchId(mark)).await.unwrap();
                    };
                    (process, Box::pin(future) as _)
                })
                .collect();
            interleave(&mut Rng::new(seed), tasks);
            assert_eq!(block_on(load(&disk.process(), &path)).unwrap(), BatchId(9), "{seed}");
        }
    }

    #[test]
    fn a_damaged_mark_is_said_and_written_anew() {
        let (disk, path) = (Disk::new(), Path::from("low-water"));
        disk.write("low-water", "nonsense");
        let process = disk.process();
        assert!(block_on(load(&process, &path)).is_err());
        block_on(raise(&process, &path, BatchId(2))).unwrap();
        assert_eq!(block_on(load(&process, &path)).unwrap(), BatchId(2));
        disk.damage("low-water", |bytes| bytes.truncate(9));
        assert_eq!(block_on(load(&process, &path)).unwrap(), BatchId(0));
    }
}
