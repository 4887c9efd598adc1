//! Which columns a source reads with, and what happens where they change.
//!
//! A source has columns before it hears where its query stands. Where it begins, and on a
//! checkpoint, they are compared with those that the table had there, which are kept before
//! anything is read ([`DeltaTracking`]); if they are others, the query ends and is started with
//! the right ones. Entries follow from the offset: one that was written before a crash is followed
//! by the right one.
//!
//! [`DeltaTracking`]: super::DeltaTracking

use super::DeltaSource;
use super::columns::Columns;
use super::options::DeltaStart;
use super::position::{BEFORE, Part, Position};
use super::table::CHANGED;
use super::tracking::{Tracked, conflict};
use crate::entry::actions;
use crate::error::delta_error;
use deltalake::kernel::{Action, Snapshot};
use fluvial_core::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The condition of columns that change and are tracked.
const EVOLUTION: &str = "DELTA_STREAMING_METADATA_EVOLUTION";

impl DeltaSource {
    /// Takes the columns that are tracked; those of the version that the options begin with if
    /// none are.
    pub(super) async fn take_columns(&mut self) -> Result<()> {
        let Some(tracking) = &self.options.tracking else { return Ok(()) };
        let tracked = tracking.newest(&self.table.id).await?;
        let found = match &tracked {
            Some(entry) => Some((entry.delta_commit_version, entry.columns.clone())),
            None => self.columns_at_start().await?,
        };
        if let Some((version, columns)) = found {
            self.table = Arc::new(self.table.with_columns(version, &columns)?);
        }
        self.tracked = tracked;
        Ok(())
    }

    /// `None` if they are those of the newest version, or there is no such start: a new query is
    /// told so when it begins, and one with a checkpoint does not need it.
    async fn columns_at_start(&self) -> Result<Option<(u64, Columns)>> {
        if matches!(self.options.start, DeltaStart::Snapshot | DeltaStart::Latest) {
            return Ok(None);
        }
        let found = match self.start().await {
            Ok(Position { version, .. }) => {
                self.columns_of(version).await.map(|columns| Some((version, columns)))
            }
            Err(error) => Err(error),
        };
        match found {
            Err(error) if error.kind() != ErrorKind::Unavailable => Ok(None),
            found => found,
        }
    }

    /// Makes sure that a query that begins with `version` has its columns.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has others: started again, it has them.
    pub(super) async fn settle(&self, version: u64) -> Result<()> {
        let tracks = self.options.tracking.is_some();
        if !tracks && version <= self.table.version {
            return Ok(());
        }
        let columns = self.columns_of(version).await?;
        self.keep(version, &columns).await?;
        let Some(what) = self.table.differs(&columns)? else {
            self.known(|known| known.settled = true);
            return Ok(());
        };
        let error = Error::invalid(format!(
            "the query begins with version {version} of the table, and has columns of version {} \
             ({what}): start the query again, it begins with the right ones",
            self.table.version
        ));
        Err(error.with_condition(if tracks { EVOLUTION } else { CHANGED }))
    }

    /// Makes sure that a query on a checkpoint reads with the columns of that place.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has others, or if what is tracked is not this stream's.
    pub(super) async fn settle_at(&self, at: Position) -> Result<()> {
        if self.options.tracking.is_none() || self.known(|known| known.settled) {
            return Ok(());
        }
        let Some(tracked) = &self.tracked else {
            // What was read last: a batch that runs again reads it, and what follows is compared
            // with it.
            let ended = at.part == Part::Changes && at.index == BEFORE;
            return self.settle(at.version.saturating_sub(u64::from(ended))).await;
        };
        tracked.check_owner(self.known(|known| known.owner.clone()).as_deref())?;
        let version = tracked.delta_commit_version;
        if version > at.version {
            return Err(conflict(&format!(
                "it has come to version {version}, and this one is at {}",
                at.version
            )));
        }
        self.known(|known| known.settled = true);
        Ok(())
    }

    /// Remembers a version that changes the columns; the query ends, and goes on with them.
    pub(super) async fn evolve(&self, version: u64, error: Error) -> Result<Error> {
        if self.options.tracking.is_none() {
            return Ok(error);
        }
        self.keep(version, &self.columns_of(version).await?).await?;
        Ok(Error::invalid(error.message().to_owned()).with_condition(EVOLUTION))
    }

    /// Writes down that the columns are these from `version` on, unless it stands there.
    async fn keep(&self, version: u64, columns: &Columns) -> Result<()> {
        let Some(tracking) = &self.options.tracking else { return Ok(()) };
        let owner = self.known(|known| known.owner.clone());
        let newest = tracking.newest(&self.table.id).await?;
        if let Some(entry) = &newest {
            entry.check_owner(owner.as_deref())?;
            if entry.delta_commit_version <= version && entry.columns == *columns {
                return Ok(());
            }
        }
        let number = newest.map_or(0, |entry| entry.number + 1);
        let columns = columns.clone();
        let entry = Tracked { number, delta_commit_version: version, columns, owner };
        tracking.add(&self.table.id, &entry).await
    }

    /// The columns that the table had in a version, also where what is before it was cleaned up.
    async fn columns_of(&self, version: u64) -> Result<Columns> {
        if let Some(changed) = self.changed_by(version).await?.flatten() {
            return Ok(changed);
        }
        let error = match self.columns_in_snapshot(Some(version)).await {
            Ok(columns) => return Ok(columns),
            Err(error) => error,
        };
        if self.log.read(0).await?.is_some() {
            return Err(error.at(format!("the columns of version {version}")));
        }
        // No checkpoint is that old. Nothing changed until a version says so.
        for later in version + 1..=self.newest().await? {
            if let Some(None) = self.changed_by(later).await? {
                continue;
            }
            return self.columns_in_snapshot(Some(later - 1)).await.map_err(|e| {
                Error::invalid(format!(
                    "the columns that the table had in version {version} are not in its log any \
                     more: begin with version {later} or a later one"
                ))
                .with_condition("DELTA_VERSION_NOT_FOUND")
                .with_source(e)
            });
        }
        self.columns_in_snapshot(None).await
    }

    async fn columns_in_snapshot(&self, version: Option<u64>) -> Result<Columns> {
        let snapshot = Snapshot::try_new(self.table.log_store.as_ref(), version).await;
        Columns::of(snapshot.map_err(delta_error)?.metadata())
    }

    /// The columns that a version itself names; `None` if the version is not there.
    async fn changed_by(&self, version: u64) -> Result<Option<Option<Columns>>> {
        let Some(written) = self.log.read(version).await? else { return Ok(None) };
        let metadata = actions(version, &written.bytes)?.into_iter().find_map(|action| {
            if let Action::Metadata(metadata) = action { Some(metadata) } else { None }
        });
        metadata.map(|metadata| Columns::of(&metadata)).transpose().map(Some)
    }
}
