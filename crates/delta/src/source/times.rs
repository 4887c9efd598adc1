//! When the versions of a table were committed.

use super::commit::Commit;
use super::log::Log;
use super::options::DeltaReading;
use deltalake::kernel::Metadata;
use fluvial_core::Result;

/// The versions that the log has, and their times.
#[derive(Debug)]
pub(crate) struct Times<'a> {
    log: &'a Log,
    /// In order. The times only grow, unless they are in the log.
    there: Vec<(u64, i64)>,
    in_log: bool,
}

/// Whether the times of a table's versions are in the log rather than in the store.
pub(crate) fn in_log(metadata: &Metadata) -> bool {
    let set = metadata.configuration().get("delta.enableInCommitTimestamps");
    set.is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

impl<'a> Times<'a> {
    /// Lists the log once.
    pub(crate) async fn read(log: &'a Log, in_log: bool) -> Result<Self> {
        let mut there = log.versions(0).await?;
        // A store's times may stand still or go back; those of versions do not.
        let mut newest = i64::MIN;
        for (_, time) in there.iter_mut().filter(|_| !in_log) {
            newest = (*time).max(newest.saturating_add(1));
            *time = newest;
        }
        Ok(Self { log, there, in_log })
    }

    /// The first version that was committed at `time` (milliseconds since the epoch) or later.
    pub(crate) async fn since(&self, time: i64) -> Result<Option<u64>> {
        Ok(self.there.get(self.place(time).await?).map(|(version, _)| *version))
    }

    /// The last version that was committed at `time` or before; `None` if all are younger.
    pub(crate) async fn until(&self, time: i64) -> Result<Option<u64>> {
        let after = self.place(time.saturating_add(1)).await?;
        Ok(after.checked_sub(1).and_then(|at| self.there.get(at)).map(|(version, _)| *version))
    }

    /// How many versions are older than `time`.
    async fn place(&self, time: i64) -> Result<usize> {
        let (mut low, mut high) = (0, self.there.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.time(middle).await? < time { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    async fn time(&self, at: usize) -> Result<i64> {
        let (version, time) = self.there[at];
        if !self.in_log {
            return Ok(time);
        }
        let Some(written) = self.log.read(version).await? else { return Ok(time) };
        Ok(Commit::parse(version, &written, DeltaReading::Rows)?.timestamp)
    }
}
