//! Create-if-absent, as stores really answer it.

use bytes::Bytes;
use fluvial_core::{Error, Result};
use object_store::path::Path;
use object_store::{
    Error as StoreError, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
};

/// How often a refusal that wrote nothing is asked again before the caller is told to.
const ATTEMPTS: u32 = 4;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Created {
    /// The object is ours.
    Ours,
    /// There is one. It may be ours too: an earlier call whose answer was lost.
    Found(Bytes),
}

/// Creates an object unless it exists; otherwise says what is there.
///
/// "Already exists" is not believed until the object was read: stores also say so when two
/// requests meet and neither has written anything yet.
pub(crate) async fn create(store: &dyn ObjectStore, path: &Path, bytes: Bytes) -> Result<Created> {
    for _ in 0..ATTEMPTS {
        let options = PutOptions::from(PutMode::Create);
        match store.put_opts(path, bytes.clone().into(), options).await {
            Ok(_) => return Ok(Created::Ours),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {}
            Err(error) => return Err(Error::from(error).at(format!("creating {path}"))),
        }
        if let Some(found) = read(store, path).await? {
            return Ok(Created::Found(found));
        }
    }
    Err(Error::unavailable(format!(
        "the store refuses to create {path} and says that it exists, but it does not: try again"
    )))
}

/// The bytes of an object, if there is one.
pub(crate) async fn read(store: &dyn ObjectStore, path: &Path) -> Result<Option<Bytes>> {
    let place = |error| Error::from(error).at(format!("reading {path}"));
    match store.get(path).await {
        Ok(found) => whole(found, path).await.map(Some),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(place(error)),
    }
}

/// All bytes of an object. An answer that breaks off is no torn object: whoever took it for one
/// would elect the entry anew although it has a winner.
pub(crate) async fn whole(found: GetResult, path: &Path) -> Result<Bytes> {
    let size = found.meta.size;
    let bytes = found.bytes().await;
    let bytes = bytes.map_err(|error| Error::from(error).at(format!("reading {path}")))?;
    if bytes.len() as u64 != size {
        let came = bytes.len();
        return Err(Error::unavailable(format!("reading {path}: {came} of {size} bytes came")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_sim::{Disk, Fault, block_on};

    #[test]
    fn a_conflict_that_wrote_nothing_is_asked_again() {
        let (disk, path) = (Disk::new(), Path::from("a"));
        let process = disk.faulty(0, Fault::Conflict);
        assert_eq!(block_on(create(&process, &path, "x".into())).unwrap(), Created::Ours);
        assert_eq!(disk.read("a").unwrap(), "x");
    }

    /// `duplicates-within-on-lsm` in the simulator, seed 674: a run whose read of `metadata` broke
    /// off gave the query a second identity.
    #[test]
    fn an_answer_that_breaks_off_is_no_torn_object() {
        let (disk, path) = (Disk::new(), Path::from("a"));
        disk.write("a", "whole");
        let error = block_on(read(&disk.faulty(0, Fault::Cut), &path)).unwrap_err();
        assert_eq!(error.kind(), fluvial_core::ErrorKind::Unavailable);
        assert_eq!(block_on(read(&disk.process(), &path)).unwrap().unwrap(), "whole");
    }

    #[test]
    fn endless_conflicts_are_the_callers_to_wait_for() {
        let faults = (0..20).step_by(2).map(|step| (step, Fault::Conflict));
        let process = Disk::new().faulty_at(faults);
        let error = block_on(create(&process, &Path::from("a"), "x".into())).unwrap_err();
        assert_eq!(error.kind(), fluvial_core::ErrorKind::Unavailable);
    }

    /// Trap D6.
    #[test]
    fn after_a_lost_acknowledgement_our_own_bytes_are_found() {
        let (disk, path) = (Disk::new(), Path::from("a"));
        let process = disk.faulty(0, Fault::LostAck);
        assert!(block_on(create(&process, &path, "x".into())).is_err());
        let again = block_on(create(&process, &path, "x".into())).unwrap();
        assert_eq!(again, Created::Found("x".into()));
    }
}
