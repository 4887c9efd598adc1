//! How a run finds out that another one has taken over.

use fluvial_core::{BatchId, BatchLog, Error, ErrorKind, Result, RunId};
use futures::try_join;

/// Fails with `Fenced` if the log shows that another run is ahead of `batch`: it has planned the
/// next one or committed this one.
///
/// No listing: those two entries are enough. If retention has dropped them again, the log itself
/// fences whoever puts something so old (law 6 of `BatchLog`).
pub(crate) async fn check_not_overtaken(
    log: &dyn BatchLog,
    batch: BatchId,
    us: &RunId,
) -> Result<()> {
    let planned = async { absent(log.plan(batch.next()).await) };
    let committed = async { absent(log.commit(batch).await) };
    let (planned, committed) = try_join!(planned, committed)?;
    if let Some(plan) = planned {
        return Err(overtaken(
            us,
            batch,
            &format!("run {} planned batch {}", plan.run, plan.batch),
        ));
    }
    if let Some(commit) = committed {
        return Err(overtaken(us, batch, &format!("run {} committed it", commit.run)));
    }
    Ok(())
}

/// A damaged entry at that place says nothing about another run; whoever writes there decides.
fn absent<T>(entry: Result<Option<T>>) -> Result<Option<T>> {
    match entry {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        entry => entry,
    }
}

/// The error of a run that lost the query to another one.
pub(crate) fn overtaken(us: &RunId, batch: BatchId, how: &str) -> Error {
    Error::fenced(format!(
        "run {us} stops at batch {batch}: {how}; two runs share this checkpoint, and only one may"
    ))
    .with_condition("CONCURRENT_RUN")
}
