//! The state of a checkpoint, for looking at it without its query. Nothing is written: a run may
//! be going on.

use crate::session::Session;
use crate::state_backend::{self, StatePlace};
use crate::storage::Place;
use fluvial_checkpoint::ObjectLog;
use fluvial_core::{
    BatchId, BatchLog, Commit, Error, OperatorId, OperatorShape, Plan, Result, RunId, Snapshot,
    StateBackend, StoreName,
};
use object_store::path::Path;
use std::sync::Arc;

/// The state of one checkpoint.
pub(crate) struct StoredState {
    session: Session,
    place: Place,
    log: ObjectLog,
}

/// A batch that was committed, and the plan that says what its state means.
pub(crate) struct StoredBatch {
    pub(crate) plan: Plan,
    pub(crate) commit: Commit,
}

fn invalid(message: String) -> Error {
    Error::invalid(message).with_condition("STDS_INVALID_OPTION_VALUE")
}

impl StoredState {
    /// The state of the checkpoint at a location.
    pub(crate) fn open(session: &Session, location: &str) -> Result<Self> {
        let storage = session.storage();
        let (store, _, folder) = storage.look(location)?;
        let path = Path::parse(folder.trim_matches('/')).map_err(|error| {
            Error::invalid(format!("{location} cannot be a folder")).with_source(error)
        })?;
        let place = Place { store, path, url: storage.url(location)? };
        let log = ObjectLog::new(Arc::clone(&place.store), place.path.clone());
        Ok(Self { session: session.clone(), place, log })
    }

    /// A batch that is still retained; the newest if none is asked for.
    pub(crate) async fn batch(&self, batch: Option<BatchId>) -> Result<StoredBatch> {
        let commit = match batch {
            Some(batch) => self.log.commit(batch).await?,
            None => self.log.latest_commit().await?,
        };
        let Some(commit) = commit else { return Err(self.no_commit(batch).await?) };
        let plan = self.log.plan(commit.batch).await?.ok_or_else(|| {
            let (batch, place) = (commit.batch, self.place.shown());
            Error::not_found(format!("{place} has a commit of batch {batch} and no plan of it"))
                .with_condition("STDS_OFFSET_LOG_UNAVAILABLE")
        })?;
        Ok(StoredBatch { plan, commit })
    }

    async fn no_commit(&self, batch: Option<BatchId>) -> Result<Error> {
        let batches: Vec<BatchId> =
            self.log.commits().await?.iter().map(|commit| commit.batch).collect();
        let place = self.place.shown();
        let message = match (batch, batches.first(), batches.last()) {
            (Some(batch), Some(first), Some(last)) => {
                format!(
                    "batch {batch} is not there any more, or not yet: {place} has {first} to {last}"
                )
            }
            _ => format!("there is no committed batch in {place}: is that a checkpoint?"),
        };
        Ok(Error::not_found(message).with_condition("STDS_COMMITTED_BATCH_UNAVAILABLE"))
    }

    /// The backend of a format, for reading.
    pub(crate) fn backend(&self, format: &str) -> Result<Arc<dyn StateBackend>> {
        let place = StatePlace {
            store: Arc::clone(&self.place.store),
            folder: self.place.join("state").path,
            run: RunId::new("reader")?,
            owner: format!("checkpoint {}", self.place.shown()),
        };
        state_backend::for_format(&self.session, format, place)
    }

    /// All commits and plans that are still there, oldest first.
    pub(crate) async fn batches(&self) -> Result<Vec<StoredBatch>> {
        let mut batches = Vec::new();
        for commit in self.log.commits().await? {
            if let Some(plan) = self.log.plan(commit.batch).await? {
                batches.push(StoredBatch { plan, commit });
            }
        }
        Ok(batches)
    }
}

impl StoredBatch {
    /// An operator: by its name, by its position among all, or the only one.
    pub(crate) fn operator(&self, wanted: Option<&str>) -> Result<(&OperatorId, &OperatorShape)> {
        let operators = &self.plan.shape.operators;
        let names = || {
            let names: Vec<&str> = operators.keys().map(OperatorId::as_str).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let found = match wanted {
            Some(name) => {
                let named = operators.iter().find(|(id, _)| id.as_str() == name);
                named.or_else(|| operators.iter().nth(name.parse().ok()?))
            }
            None if operators.len() == 1 => operators.iter().next(),
            None => {
                return Err(Error::invalid(format!(
                    "which operator's state? The query has several: {}",
                    names()
                ))
                .with_condition("STDS_REQUIRED_OPTION_UNSPECIFIED"));
            }
        };
        found.ok_or_else(|| {
            let wanted = wanted.unwrap_or_default();
            invalid(format!("there is no stateful operator {wanted}: there are {}", names()))
        })
    }

    /// A store of an operator: by its name, or its first.
    pub(crate) fn store(shape: &OperatorShape, wanted: Option<&str>) -> Result<StoreName> {
        let found = match wanted {
            Some(name) => shape.stores.iter().find(|store| store.as_str() == name),
            None => shape.stores.first(),
        };
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = shape.stores.iter().map(StoreName::as_str).collect();
            let wanted = wanted.unwrap_or("default");
            invalid(format!("the operator has no store {wanted}: it has {}", names.join(", ")))
        })
    }

    /// The snapshots of one store.
    pub(crate) fn snapshots(&self, operator: &OperatorId, store: &StoreName) -> Vec<Snapshot> {
        let own =
            |snapshot: &&Snapshot| snapshot.id.operator == *operator && snapshot.id.store == *store;
        self.commit.snapshots.iter().filter(own).cloned().collect()
    }
}
