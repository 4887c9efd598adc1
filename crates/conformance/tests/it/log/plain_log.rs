//! A small honest log, and the ways in which it can be made to lie.

use async_trait::async_trait;
use bytes::Bytes;
use fluvial_core::{BatchId, BatchLog, Commit, Error, Plan, Put, QueryId, Result, RunId, frame};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// The last writer wins.
    Overwrites,
    /// Looks first and then writes.
    ChecksThenWrites,
    /// Says `Created` to the loser too.
    BothWin,
    /// Takes its own entry for another's when the answer was lost.
    OwnIsForeign,
    /// Gives up when the store says "exists" and nothing is there.
    BelievesConflicts,
    /// The newest is the last by text.
    TextOrder,
    /// Reads its own memory instead of the store.
    Remembers,
    /// Acknowledges a commit before writing it, with the next plan.
    CommitsLate,
    /// Takes whatever has a number in its name for an entry.
    AnyName,
    /// No checksum.
    Unchecked,
    /// Steps over every entry that it cannot read.
    SkipsDamage,
    /// Removes what it is asked to.
    TruncatesAll,
    /// Keeps the newest commit only.
    KeepsOne,
    /// Removes nothing.
    KeepsAll,
    /// Removes without leaving a mark.
    NoMark,
    /// Answers everybody with their own proposal.
    IdOfEachRun,
    /// Makes up an id if it is lost.
    MakesUpId,
}

pub(crate) struct PlainLog {
    store: Arc<dyn ObjectStore>,
    fault: Fault,
    late: Mutex<Option<Commit>>,
    memory: Mutex<Option<Option<Plan>>>,
}

impl PlainLog {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, fault: Fault) -> Self {
        Self { store, fault, late: Mutex::default(), memory: Mutex::default() }
    }

    fn seal(&self, value: &impl serde::Serialize) -> Bytes {
        let body = serde_json::to_vec(value).unwrap();
        if self.fault == Fault::Unchecked { body.into() } else { frame::seal("entry", 1, &body) }
    }

    fn open<T: serde::de::DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        let body = match self.fault {
            Fault::Unchecked => bytes,
            _ => frame::open("entry", 1, bytes)?,
        };
        serde_json::from_slice(body).map_err(|e| Error::corrupt("no JSON").with_source(e))
    }

    async fn read(&self, path: &Path) -> Result<Option<Bytes>> {
        match self.store.get(path).await {
            Ok(found) => Ok(Some(found.bytes().await?)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, path: &Path, bytes: Bytes) -> Result<Option<Bytes>> {
        let mode = match self.fault {
            Fault::Overwrites => PutMode::Overwrite,
            Fault::ChecksThenWrites => {
                if let Some(found) = self.read(path).await? {
                    return Ok(Some(found));
                }
                PutMode::Overwrite
            }
            _ => PutMode::Create,
        };
        for _ in 0..3 {
            match self
                .store
                .put_opts(path, bytes.clone().into(), PutOptions::from(mode.clone()))
                .await
            {
                Ok(_) => return Ok(None),
                Err(StoreError::AlreadyExists { .. }) => match self.read(path).await? {
                    Some(found) => return Ok(Some(found)),
                    None if self.fault == Fault::BelievesConflicts => {
                        return Err(Error::corrupt("it exists and does not"));
                    }
                    None => {}
                },
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::unavailable("conflicts"))
    }

    async fn put<T>(&self, folder: &str, batch: BatchId, run: &RunId, entry: &T) -> Result<Put<T>>
    where
        T: serde::Serialize + serde::de::DeserializeOwned + Clone,
    {
        let path = Path::from(format!("{folder}/{batch}"));
        let found = self.create(&path, self.seal(entry)).await?;
        if self.fault != Fault::NoMark && batch < self.mark().await? {
            return Err(Error::fenced("removed"));
        }
        match found {
            None => Ok(Put::Created),
            Some(_) if self.fault == Fault::BothWin => Ok(Put::Created),
            Some(bytes) => {
                let text: Value = self.open(&bytes)?;
                if self.fault == Fault::OwnIsForeign && text["run"] == run.as_str() {
                    return Err(Error::fenced("someone else won"));
                }
                Ok(Put::Exists(self.open(&bytes)?))
            }
        }
    }

    async fn one<T: serde::de::DeserializeOwned>(
        &self,
        folder: &str,
        batch: BatchId,
    ) -> Result<Option<T>> {
        let found = self.read(&Path::from(format!("{folder}/{batch}"))).await?;
        match found.map(|bytes| self.open(&bytes)).transpose() {
            Err(_) if self.fault == Fault::SkipsDamage => Ok(None),
            read => read,
        }
    }

    async fn mark(&self) -> Result<BatchId> {
        match self.read(&Path::from("mark")).await? {
            Some(bytes) => self.open(&bytes),
            None => Ok(BatchId(0)),
        }
    }

    async fn numbers(&self, folder: &str) -> Result<Vec<BatchId>> {
        let mark = if self.fault == Fault::NoMark { BatchId(0) } else { self.mark().await? };
        let found: Vec<_> = self.store.list(Some(&Path::from(folder))).try_collect().await?;
        let mut names: Vec<String> = found
            .into_iter()
            .filter_map(|meta| meta.location.filename().map(str::to_owned))
            .collect();
        if self.fault == Fault::AnyName {
            for name in &mut names {
                name.retain(|c| c.is_ascii_digit());
            }
        }
        let numbers = names.iter().filter_map(|name| name.parse().ok().map(BatchId));
        let mut numbers: Vec<_> = numbers.filter(|batch| *batch >= mark).collect();
        if self.fault != Fault::TextOrder {
            numbers.sort_unstable();
        }
        Ok(numbers)
    }

    async fn latest<T: serde::de::DeserializeOwned>(&self, folder: &str) -> Result<Option<T>> {
        for batch in self.numbers(folder).await?.into_iter().rev() {
            match self.one(folder, batch).await? {
                Some(entry) => return Ok(Some(entry)),
                None if self.fault == Fault::AnyName => {
                    return Err(Error::corrupt("it is listed but not there"));
                }
                None => {}
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl BatchLog for PlainLog {
    async fn query_id(&self, proposed: &QueryId) -> Result<QueryId> {
        let path = Path::from("metadata");
        match self.read(&path).await? {
            Some(bytes) => return self.open(&bytes),
            None if self.fault == Fault::MakesUpId => {}
            None if self.latest::<Plan>("plans").await?.is_some() => {
                return Err(Error::invalid("the id is lost"));
            }
            None => {}
        }
        match self.create(&path, self.seal(proposed)).await? {
            Some(found) if self.fault != Fault::IdOfEachRun => self.open(&found),
            _ => Ok(proposed.clone()),
        }
    }

    async fn put_plan(&self, plan: &Plan) -> Result<Put<Plan>> {
        let late = self.late.lock().unwrap().take();
        if let Some(commit) = late {
            self.put("commits", commit.batch, &commit.run, &commit).await?;
        }
        self.put("plans", plan.batch, &plan.run, plan).await
    }

    async fn put_commit(&self, commit: &Commit) -> Result<Put<Commit>> {
        if self.fault == Fault::CommitsLate {
            *self.late.lock().unwrap() = Some(commit.clone());
            return Ok(Put::Created);
        }
        self.put("commits", commit.batch, &commit.run, commit).await
    }

    async fn latest_plan(&self) -> Result<Option<Plan>> {
        let memory = self.memory.lock().unwrap().clone();
        if let (Fault::Remembers, Some(plan)) = (self.fault, memory) {
            return Ok(plan);
        }
        let latest = self.latest("plans").await?;
        *self.memory.lock().unwrap() = Some(latest.clone());
        Ok(latest)
    }

    async fn latest_commit(&self) -> Result<Option<Commit>> {
        self.latest("commits").await
    }

    async fn plan(&self, batch: BatchId) -> Result<Option<Plan>> {
        self.one("plans", batch).await
    }

    async fn commit(&self, batch: BatchId) -> Result<Option<Commit>> {
        self.one("commits", batch).await
    }

    async fn commits(&self) -> Result<Vec<Commit>> {
        let mut commits = Vec::new();
        for batch in self.numbers("commits").await? {
            commits.extend(self.one("commits", batch).await?);
        }
        Ok(commits)
    }

    async fn truncate_before(&self, batch: BatchId) -> Result<()> {
        let commits = self.numbers("commits").await?;
        let kept = match self.fault {
            Fault::TruncatesAll => Some(BatchId(u64::MAX)),
            Fault::KeepsAll => None,
            Fault::KeepsOne => commits.last().copied(),
            _ => commits.iter().rev().nth(1).copied(),
        };
        let Some(bound) = kept.map(|kept| kept.min(batch)) else { return Ok(()) };
        if self.fault != Fault::NoMark && self.mark().await? < bound {
            self.store.put(&Path::from("mark"), self.seal(&bound).into()).await?;
        }
        let mut old = Vec::new();
        for folder in ["plans", "commits"] {
            let found: Vec<_> = self.store.list(Some(&Path::from(folder))).try_collect().await?;
            old.extend(found.into_iter().map(|meta| meta.location).filter(|path| {
                let number = path.filename().and_then(|name| name.parse().ok());
                number.is_some_and(|number| BatchId(number) < bound)
            }));
        }
        for path in old {
            self.store.delete(&path).await?;
        }
        Ok(())
    }
}
