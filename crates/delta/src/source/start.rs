//! Where a new query begins.

use super::DeltaSource;
use super::commit::Commit;
use super::options::{DeltaReading, DeltaStart};
use super::position::{BEFORE, Part, Position};
use fluvial_core::{Error, Result};

impl DeltaSource {
    /// The position that the options ask for.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such version or time.
    pub(super) async fn start(&self) -> Result<Position> {
        match self.options.start {
            DeltaStart::Snapshot => {
                let version = self.table.version;
                if self.snapshot(version).await?.is_empty() {
                    return Ok(Position::before(version + 1));
                }
                Ok(Position { version, index: BEFORE, part: Part::Snapshot })
            }
            DeltaStart::Latest => Ok(Position::before(self.newest().await? + 1)),
            DeltaStart::Version(version) => match self.log.read(version).await? {
                Some(_) => Ok(Position::before(version)),
                None => Err(self.no_version(version).await?),
            },
            DeltaStart::Timestamp(time) => self.at_time(time).await.map(Position::before),
        }
    }

    /// The newest version of the table. One listing.
    pub(super) async fn newest(&self) -> Result<u64> {
        let there = self.log.versions(self.table.version).await?;
        Ok(there.last().map_or(self.table.version, |(version, _)| *version))
    }

    async fn no_version(&self, version: u64) -> Result<Error> {
        let there = self.log.versions(0).await?;
        let (oldest, newest) = match (there.first(), there.last()) {
            (Some((oldest, _)), Some((newest, _))) => (*oldest, *newest),
            _ => (self.table.version, self.table.version),
        };
        Ok(Error::invalid(format!(
            "startingVersion is {version}, but the log has the versions {oldest} to {newest}"
        ))
        .with_condition("DELTA_VERSION_NOT_FOUND"))
    }

    /// The first version that was committed at `time` or later.
    async fn at_time(&self, time: i64) -> Result<u64> {
        let there = self.log.versions(0).await?;
        if self.table.times_in_log {
            // Times in the log only grow.
            let (mut low, mut high) = (0, there.len());
            while low < high {
                let middle = low + (high - low) / 2;
                let (version, modified) = there[middle];
                if self.time_of(version, modified).await? < time {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            return there.get(low).map(|(version, _)| *version).ok_or_else(|| too_late(time));
        }
        // A store's times may stand still or go back; those of versions do not.
        let mut newest = i64::MIN;
        for (version, modified) in there {
            newest = modified.max(newest.saturating_add(1));
            if newest >= time {
                return Ok(version);
            }
        }
        Err(too_late(time))
    }

    async fn time_of(&self, version: u64, modified: i64) -> Result<i64> {
        let Some(written) = self.log.read(version).await? else { return Ok(modified) };
        let rows = DeltaReading::Rows;
        Ok(Commit::parse(version, &written, rows)?.timestamp)
    }
}

fn too_late(time: i64) -> Error {
    Error::invalid(format!(
        "startingTimestamp ({time} ms since 1970) is after the newest version of the table: begin \
         with startingVersion 'latest' for what comes from now on"
    ))
    .with_condition("DELTA_TIMESTAMP_GREATER_THAN_COMMIT")
}
