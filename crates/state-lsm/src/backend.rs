//! The backend.

use crate::background;
use crate::budget::Budget;
use crate::compaction;
use crate::load::Parts;
use crate::manifest::{Manifest, ManifestRun};
use crate::objects::{Created, Objects};
use crate::overlay::Overlay;
use crate::run::{Run, RunKey};
use crate::seal::{Next, NextRun};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::store::{LsmStore, Origin};
use crate::token::{ObjectName, Place, Token};
use crate::verify;
use crate::version::Version;
use async_trait::async_trait;
use bytes::Bytes;
use fluvial_core::{
    Change, Error, KeyGroupRange, Result, RunId, SealedStore, Snapshot, StateBackend, StateStore,
    StateVersion, StoreId, Verification,
};
use futures::future::BoxFuture;
use object_store::ObjectStore;
use object_store::path::Path;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often a name may be taken before something is wrong.
const NAMES_MAX: usize = 1000;

/// State as sorted runs on an object store.
///
/// A commit writes one object, `<version>-<attempt>-<run>` under the root: for each partition of
/// each store what changed, as a sorted run, and a manifest that names this run and the earlier
/// ones. There is no log besides: a batch can be replayed. A version is opened from its manifest
/// and the indexes of its runs; blocks are read when they are needed. Nothing is listed but by
/// [`StateBackend::retain`].
#[derive(Debug)]
pub struct Lsm {
    shared: Arc<Shared>,
}

impl Lsm {
    /// A backend that keeps its objects under `root`. No two processes may have the same `run`.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, run: RunId, settings: Settings) -> Self {
        let objects = Objects::new(store, root);
        Self { shared: Arc::new(Shared::new(objects, run, settings, None)) }
    }

    /// As [`Self::new`], but runs are merged by tasks that `spawn` starts, not by commits: so no
    /// commit waits for it. What is shown does not depend on how far they get.
    pub fn with_spawn(
        store: Arc<dyn ObjectStore>,
        root: Path,
        run: RunId,
        settings: Settings,
        spawn: impl Fn(BoxFuture<'static, ()>) + Send + Sync + 'static,
    ) -> Self {
        let objects = Objects::new(store, root);
        let shared = Shared::new(objects, run, settings, Some(Box::new(spawn)));
        Self { shared: Arc::new(shared) }
    }

    /// The same within a budget, which others may share. `owner` says in errors whose state it is:
    /// `query clicks`.
    ///
    /// # Panics
    ///
    /// If a store was opened before.
    #[must_use]
    pub fn within(self, budget: Arc<Budget>, owner: impl Into<String>) -> Self {
        let shared = Arc::try_unwrap(self.shared).expect("nothing was opened yet");
        Self { shared: Arc::new(shared.within(budget, owner.into())) }
    }

    /// How often the local cache failed; each time the object store was asked instead.
    pub fn local_cache_failures(&self) -> u64 {
        self.shared.disk.as_ref().map_or(0, crate::disk::DiskCache::failures)
    }

    /// Tasks that merge runs, or whose result waits for a commit to name it.
    pub fn merges_in_flight(&self) -> usize {
        self.shared.jobs.count()
    }

    /// Bytes that are held of its budget, by this backend and others.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.budget.used()
    }

    /// Merges some of the stored runs, if that is due, or takes what a task has merged.
    async fn compact(&self, id: &StoreId, mut next: Next) -> Result<Next> {
        if self.shared.jobs.spawn.is_some() {
            self.shared.jobs.join(id, &mut next);
            return Ok(next);
        }
        let settings = &self.shared.settings;
        let first = usize::from(matches!(next.runs.first(), Some(NextRun::New(..))));
        let old = next.runs[first..].iter().filter_map(|run| match run {
            NextRun::Old(run, clip) => Some((Arc::clone(run), *clip)),
            NextRun::New(..) => None,
        });
        let old = Version::new(next.groups, next.rows.clone(), old);
        let Some(due) = compaction::pick(&old.runs, old.total_rows(), settings) else {
            return Ok(next);
        };
        let (runs, older) = (&old.runs[due.clone()], &old.runs[due.end..]);
        let merged = compaction::merge(&self.shared, runs, older, None).await?;
        let merged = merged.map(|mut built| {
            let bytes = Bytes::from(std::mem::take(&mut built.bytes));
            NextRun::New(Box::new(built), bytes)
        });
        let Next { groups, rows, mut runs } = next;
        runs.splice(first + due.start..first + due.end, merged);
        Ok(Next { groups, rows, runs })
    }

    /// Lays out the object of a commit: its parts, and where the manifest of each store is.
    fn pack(nexts: &mut [Next]) -> (Vec<Bytes>, Vec<(Manifest, u64, Bytes)>) {
        let (mut parts, mut manifests, mut offset) = (Vec::new(), Vec::new(), 0);
        for next in nexts {
            let mut runs = Vec::with_capacity(next.runs.len());
            for run in &mut next.runs {
                runs.push(match run {
                    NextRun::New(built, bytes) => {
                        built.meta.offset = offset;
                        offset += bytes.len() as u64;
                        parts.push(bytes.clone());
                        ManifestRun { object: None, meta: built.meta.clone(), clip: next.groups }
                    }
                    NextRun::Old(run, clip) => {
                        let object = Some(run.key.object.clone());
                        ManifestRun { object, meta: run.meta.clone(), clip: *clip }
                    }
                });
            }
            let manifest = Manifest { groups: next.groups, rows: next.rows.clone(), runs };
            let bytes = Bytes::from(manifest.encode());
            parts.push(bytes.clone());
            manifests.push((manifest, offset, bytes.clone()));
            offset += bytes.len() as u64;
        }
        (parts, manifests)
    }

    /// Writes an object under a name that nobody had.
    async fn write(&self, version: StateVersion, parts: Vec<Bytes>) -> Result<ObjectName> {
        for _ in 0..NAMES_MAX {
            let object = self.shared.name(version);
            // A name that is taken is our own lost acknowledgement: what it names is garbage.
            if self.shared.objects.create(&object, parts.clone()).await? == Created::Yes {
                return Ok(object);
            }
        }
        Err(Error::fenced(format!(
            "{NAMES_MAX} objects of state with the names of run {} exist: another process has the \
             same run id",
            self.shared.run
        )))
    }

    /// Makes a version that was stored readable from memory.
    fn publish(
        &self,
        id: &StoreId,
        next: Next,
        object: &ObjectName,
        token: &Token,
    ) -> Arc<Version> {
        let shared = &self.shared;
        let runs: Vec<_> = next
            .runs
            .into_iter()
            .map(|run| match run {
                NextRun::Old(run, clip) => (run, clip),
                NextRun::New(built, _) => {
                    let key = RunKey { object: object.clone(), offset: built.meta.offset };
                    let run = Run::new(key, built.meta, built.tail, built.filter, &shared.budget);
                    let run = Arc::new(run);
                    for (number, block) in built.blocks.into_iter().enumerate() {
                        run.keep(number as u32, block);
                    }
                    shared.know(&run);
                    (run, next.groups)
                }
            })
            .collect();
        let version = Arc::new(Version::new(next.groups, next.rows, runs));
        shared.keep(id, next.groups, token.to_string(), &version);
        version
    }
}

#[async_trait]
impl StateBackend for Lsm {
    fn format(&self) -> &str {
        "lsm"
    }

    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        let parts = Parts::of(id, groups, version, snapshots)?;
        let (name, origin) = match parts.exact(groups) {
            Some(token) => (token.to_string(), Origin::Exact(token)),
            None => (parts.name(), Origin::Parts),
        };
        let shared = &self.shared;
        let at = |error: Error| error.at(format_args!("state of {id}"));
        let base = shared.open(id, groups, &parts, &name).await.map_err(at)?;
        shared.fetch_whole(&base).await.map_err(at)?;
        let whole = base.runs.iter().map_while(|live| live.run.pin()).collect();
        Ok(Box::new(LsmStore {
            id: id.clone(),
            groups,
            version,
            base,
            origin,
            overlay: Overlay::default(),
            whole,
            pins: Vec::new(),
            pinned: 0,
            fetched: Overlay::default(),
            known: RefCell::default(),
            charge: shared.budget.charge(0),
            shared: Arc::clone(shared),
        }))
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        let _first = self.shared.jobs.pace.first();
        let mut tokens: Vec<Token> = Vec::with_capacity(sealed.len());
        let (mut places, mut nexts) = (Vec::new(), Vec::new());
        let mut newest = StateVersion(0);
        let mut rows: Vec<u64> = sealed.iter().map(|store| store.rows).collect();
        for (at, store) in sealed.iter().enumerate() {
            tokens.push(match &store.change {
                Change::None(token) => token.parse()?,
                Change::Bytes { parents, .. } => {
                    let next = self.shared.unseal(parents)?.finish(&self.shared).await?;
                    rows[at] = next.rows.iter().sum();
                    if rows[at] > 0 {
                        nexts.push(self.compact(&store.id, next).await?);
                        places.push(at);
                        newest = newest.max(StateVersion(store.base.0 + 1));
                    }
                    Token::default()
                }
            });
        }
        if !nexts.is_empty() {
            let (parts, manifests) = Self::pack(&mut nexts);
            let object = self.write(newest, parts).await?;
            let stored = places.into_iter().zip(nexts).zip(manifests);
            for ((at, next), (manifest, offset, bytes)) in stored {
                let (length, crc32) = (bytes.len() as u64, crc32fast::hash(&bytes));
                let place = Place { object: object.clone(), offset, length, crc32 };
                self.shared.note_reach(&place, &manifest);
                tokens[at] = Token(Some(place));
                let id = &sealed[at].id;
                let version = self.publish(id, next, &object, &tokens[at]);
                background::start(&self.shared, id, &version, newest);
            }
        }
        let snapshots = sealed.into_iter().zip(tokens).zip(rows).map(|((store, token), rows)| {
            let (version, token) = (StateVersion(store.base.0 + 1), token.to_string());
            Snapshot { id: store.id, groups: store.groups, version, rows, token }
        });
        Ok(snapshots.collect())
    }

    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        let Some(oldest) = live.iter().map(|snapshot| snapshot.version).min() else {
            return Ok(());
        };
        let mut places = BTreeSet::new();
        for snapshot in live {
            let Token(place) = snapshot.token.parse()?;
            places.extend(place);
        }
        let mut needed = self.shared.reach(places).await?;
        needed.extend(self.shared.jobs.in_flight());
        let mut objects = self.shared.objects.list().await?;
        objects.retain(|object| object.version < oldest && !needed.contains(object));
        self.shared.objects.delete(objects).await
    }

    async fn verify(&self, snapshots: &[Snapshot], report: &dyn Verification) -> Result<()> {
        verify::verify(&self.shared, snapshots, report).await
    }
}
