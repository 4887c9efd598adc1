//! Where a new query begins.

use super::DeltaSource;
use super::options::DeltaStart;
use super::position::{BEFORE, Part, Position};
use super::times::Times;
use fluvial_core::{Error, Result};

impl DeltaSource {
    /// The position that the options ask for, once the columns are those of that place.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such version or time, or if the columns are others.
    pub(super) async fn begin(&self) -> Result<Position> {
        let position = self.start().await?;
        let version = position.version;
        // There is nothing yet behind the newest version.
        let latest = self.options.start == DeltaStart::Latest;
        self.settle(version - u64::from(latest)).await?;
        if position.part == Part::Snapshot && self.snapshot(version).await?.is_empty() {
            return Ok(Position::before(version + 1));
        }
        Ok(position)
    }

    /// The position that the options ask for.
    pub(super) async fn start(&self) -> Result<Position> {
        match self.options.start {
            DeltaStart::Snapshot => {
                let version = self.table.newest;
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
        let there = self.log.versions(self.table.newest).await?;
        Ok(there.last().map_or(self.table.newest, |(version, _)| *version))
    }

    async fn no_version(&self, version: u64) -> Result<Error> {
        let there = self.log.versions(0).await?;
        let (oldest, newest) = match (there.first(), there.last()) {
            (Some((oldest, _)), Some((newest, _))) => (*oldest, *newest),
            _ => (self.table.newest, self.table.newest),
        };
        Ok(Error::invalid(format!(
            "startingVersion is {version}, but the log has the versions {oldest} to {newest}"
        ))
        .with_condition("DELTA_VERSION_NOT_FOUND"))
    }

    /// The first version that was committed at `time` or later.
    async fn at_time(&self, time: i64) -> Result<u64> {
        let times = Times::read(&self.log, self.table.times_in_log).await?;
        times.since(time).await?.ok_or_else(|| too_late(time))
    }
}

fn too_late(time: i64) -> Error {
    Error::invalid(format!(
        "startingTimestamp ({time} ms since 1970) is after the newest version of the table: begin \
         with startingVersion 'latest' for what comes from now on"
    ))
    .with_condition("DELTA_TIMESTAMP_GREATER_THAN_COMMIT")
}
