//! A look at a store before a query trusts it.

use crate::create::read;
use fluvial_core::{Error, ErrorKind, Result, RunId};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

/// Refuses a store that cannot create an object if absent.
///
/// Some stores accept such a request and overwrite all the same: two runs on one checkpoint
/// would then both win. So an object below `folder` is created twice; the second time must be
/// refused and must leave the first. The object is named after the run and removed afterwards.
///
/// # Errors
///
/// `Invalid` (`CHECKPOINT_STORE_UNSUITABLE`) if the store is unsuitable or may not be written
/// to; other kinds if it could not be reached.
pub async fn probe(store: &dyn ObjectStore, folder: &Path, run: &RunId) -> Result<()> {
    let path = folder.clone().join("probe").join(run.as_str());
    let answer = twice(store, &path).await;
    // Whatever came of it, nothing is left behind. A probe that cannot be deleted is harmless.
    let _ = store.delete(&path).await;
    answer.map_err(|error| match error.kind() {
        ErrorKind::Invalid => error
            .at(format!("{folder} of {store} cannot hold a checkpoint"))
            .with_condition("CHECKPOINT_STORE_UNSUITABLE"),
        _ => error,
    })
}

async fn twice(store: &dyn ObjectStore, path: &Path) -> Result<()> {
    let put = |bytes: &'static str| {
        let create = PutOptions::from(PutMode::Create);
        async move { store.put_opts(path, bytes.into(), create).await }
    };
    let mut first_exists = false;
    match put("first").await {
        Ok(_) => {}
        // Our own lost acknowledgement, or what S3 says of requests at once.
        Err(StoreError::AlreadyExists { .. }) => first_exists = true,
        Err(error) => return Err(Error::from(error).at(format!("creating {path}"))),
    }
    match put("second").await {
        Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {}
        Ok(_) if first_exists => {
            return Err(Error::unavailable(format!(
                "the store said that {path} exists, and then that it does not: try again"
            )));
        }
        Ok(_) => {
            return Err(Error::invalid(
                "the store created the same object twice: it has no working create-if-absent; \
                 use a store or a setting with conditional writes",
            ));
        }
        Err(error) => return Err(Error::from(error).at(format!("creating {path} again"))),
    }
    match read(store, path).await? {
        Some(found) if found == "first" => Ok(()),
        Some(_) => Err(Error::invalid(
            "the store refused to create an object that exists, and overwrote it all the same",
        )),
        None => Err(Error::unavailable(format!(
            "{path} was created but cannot be read: the store is not consistent, or someone \
             else cleans there"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_sim::{Disk, Fault, Op, block_on};

    fn run() -> RunId {
        RunId::new("r").unwrap()
    }

    #[test]
    fn a_good_store_passes_and_nothing_stays() {
        let disk = Disk::new();
        let process = disk.process();
        block_on(probe(&process, &Path::from("q"), &run())).unwrap();
        assert_eq!(disk.paths().len(), 0);
        assert!(process.calls().iter().all(|call| call.op != Op::List));
    }

    #[test]
    fn what_a_crashed_probe_left_does_not_matter() {
        let disk = Disk::new();
        disk.write("q/probe/r", "first");
        block_on(probe(&disk.process(), &Path::from("q"), &run())).unwrap();
        assert_eq!(disk.paths().len(), 0);
    }

    #[test]
    fn a_store_out_of_reach_is_not_an_unsuitable_one() {
        let process = Disk::new().faulty(0, Fault::Unavailable);
        let error = block_on(probe(&process, &Path::from("q"), &run())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }

    /// Found by the simulator: S3 says so of two requests at once.
    #[test]
    fn a_false_conflict_does_not_make_a_good_store_unsuitable() {
        let process = Disk::new().faulty(0, Fault::Conflict);
        let error = block_on(probe(&process, &Path::from("q"), &run())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}
