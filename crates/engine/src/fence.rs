//! How a run finds out that another one has taken over.

use fluvial_core::{BatchId, BatchLog, Error, ErrorKind, Result, RunId};
use futures::try_join;

/// Fails with `Fenced` if the log shows that another run is ahead of `batch`, whose plan is
/// durable: it has committed the batch, or even gone so far that retention has dropped the plan.
///
/// No listing: one of the two is always so, because the next batch is planned only after the
/// commit of this one.
pub(crate) async fn check_not_overtaken(
    log: &dyn BatchLog,
    batch: BatchId,
    us: &RunId,
) -> Result<()> {
    let committed = async { absent(log.commit(batch).await) };
    let (planned, committed) = try_join!(log.plan(batch), committed)?;
    if let Some(commit) = committed {
        return Err(overtaken(us, batch, &format!("run {} committed it", commit.run)));
    }
    if planned.is_none() {
        return Err(overtaken(us, batch, "the log has gone on and dropped its plan"));
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
