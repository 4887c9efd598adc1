//! What the stores of a process share: the objects, the memory, and what is in it.

use crate::background::{Jobs, Spawn};
use crate::budget::{Budget, lock};
use crate::disk::DiskCache;
use crate::load::{self, Parts};
use crate::manifest::{Manifest, RunMeta};
use crate::objects::{Objects, PARALLEL, READS};
use crate::run::{HeldBlock, Run, RunKey};
use crate::seal::{Draft, Owner, Sealed};
use crate::settings::Settings;
use crate::token::{ObjectName, Place};
use crate::version::Version;
use bytes::Bytes;
use fluvial_core::{Change, Error, KeyGroupRange, Result, RunId, StateVersion, StoreId};
use futures::{StreamExt, TryStreamExt};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Versions kept in memory for each store and range of groups: the newest attempts, and what they
/// were made from.
const VERSIONS_MAX: usize = 4;

type Versions = BTreeMap<(StoreId, KeyGroupRange), VecDeque<(String, Arc<Version>)>>;

/// What the stores of a process share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) objects: Objects,
    pub(crate) settings: Settings,
    pub(crate) budget: Arc<Budget>,
    /// Whose state it is, for errors: `query clicks`.
    pub(crate) owner: String,
    pub(crate) run: RunId,
    pub(crate) jobs: Jobs,
    pub(crate) disk: Option<DiskCache>,
    attempts: AtomicU64,
    tickets: AtomicU64,
    sealed: Mutex<BTreeMap<u64, Weak<Sealed>>>,
    versions: Mutex<Versions>,
    runs: Mutex<BTreeMap<RunKey, Weak<Run>>>,
    /// The objects that each manifest needs.
    reach: Mutex<BTreeMap<Place, Arc<BTreeSet<ObjectName>>>>,
}

impl Shared {
    /// Nothing is in memory yet.
    pub(crate) fn new(
        objects: Objects,
        run: RunId,
        settings: Settings,
        spawn: Option<Spawn>,
    ) -> Self {
        Self {
            objects,
            disk: settings.local_cache.clone().map(DiskCache::new),
            budget: Arc::new(Budget::new(settings.memory_bytes, "Settings::memory_bytes")),
            owner: String::new(),
            settings,
            run,
            jobs: Jobs::new(spawn),
            attempts: AtomicU64::new(0),
            tickets: AtomicU64::new(0),
            sealed: Mutex::default(),
            versions: Mutex::default(),
            runs: Mutex::default(),
            reach: Mutex::default(),
        }
    }

    /// The same within a budget.
    pub(crate) fn within(mut self, budget: Arc<Budget>, owner: String) -> Self {
        self.settings.memory_bytes = budget.max();
        Self { budget, owner, ..self }
    }

    /// The name of an object that this process has given to no other.
    pub(crate) fn name(&self, version: StateVersion) -> ObjectName {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        ObjectName { version, attempt, run: self.run.clone() }
    }

    /// Keeps a sealed store until its commit, or until the engine forgets it.
    pub(crate) fn seal(&self, draft: Draft, pins: Vec<Arc<HeldBlock>>) -> Change {
        let sealed = Arc::new(Sealed::new(draft, pins));
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        let mut known = lock(&self.sealed);
        known.retain(|_, sealed| sealed.strong_count() > 0);
        known.insert(number, Arc::downgrade(&sealed));
        drop(known);
        let parents = format!("{number}-{}", self.run);
        Change::Bytes { bytes: Bytes::from_owner(Owner(sealed)), parents }
    }

    /// Takes a sealed store back.
    ///
    /// # Errors
    ///
    /// `Invalid` if another backend sealed it.
    pub(crate) fn unseal(&self, parents: &str) -> Result<Draft> {
        let number = parents.split_once('-').filter(|(_, run)| *run == self.run.as_str());
        let number = number.and_then(|(number, _)| number.parse().ok());
        let sealed = number.and_then(|number: u64| lock(&self.sealed).remove(&number));
        let draft = sealed.and_then(|sealed| lock(&sealed.upgrade()?.draft).take());
        draft.ok_or_else(|| {
            Error::invalid("a store that another backend sealed cannot be committed to this one")
        })
    }

    /// Reads blocks that are missing, by the number of their run; they stay while the result does.
    pub(crate) async fn bring(
        &self,
        version: &Version,
        missing: BTreeMap<usize, BTreeSet<u32>>,
    ) -> Result<Vec<Arc<HeldBlock>>> {
        let reads = missing.into_iter().flat_map(|(number, blocks)| {
            let run = &version.runs[number].run;
            run.near(blocks).into_iter().map(move |blocks| async move {
                let read = run.read(&self.objects, self.disk.as_ref(), &blocks).await?;
                let held = blocks.iter().zip(read).map(|(number, block)| run.keep(*number, block));
                Ok::<_, Error>(held.collect::<Vec<_>>())
            })
        });
        let reads: Vec<_> = reads.collect();
        let held: Vec<_> = futures::stream::iter(reads).buffered(READS).try_collect().await?;
        Ok(held.into_iter().flatten().collect())
    }

    /// A version in memory.
    pub(crate) fn version(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        name: &str,
    ) -> Option<Arc<Version>> {
        let versions = lock(&self.versions);
        let kept = versions.get(&(id.clone(), groups))?;
        kept.iter().find(|(other, _)| other == name).map(|(_, version)| Arc::clone(version))
    }

    /// Keeps a version in memory, in place of those with other ranges of the same groups: then
    /// the number of partitions has changed.
    pub(crate) fn keep(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        name: String,
        version: &Arc<Version>,
    ) {
        let mut versions = lock(&self.versions);
        versions.retain(|(other, range), _| {
            other != id || *range == groups || range.intersect(groups).is_empty()
        });
        let kept = versions.entry((id.clone(), groups)).or_default();
        kept.retain(|(other, _)| *other != name);
        kept.push_back((name, Arc::clone(version)));
        if kept.len() > VERSIONS_MAX {
            kept.pop_front();
        }
    }

    /// A run, from memory or read.
    pub(crate) async fn run(&self, key: RunKey, meta: RunMeta) -> Result<Arc<Run>> {
        let known = lock(&self.runs).get(&key).and_then(Weak::upgrade);
        if let Some(run) = known.filter(|run| run.meta == meta) {
            return Ok(run);
        }
        let run = Arc::new(Run::open(&self.objects, key, meta, &self.budget).await?);
        self.know(&run);
        Ok(run)
    }

    /// Lets others find a run.
    pub(crate) fn know(&self, run: &Arc<Run>) {
        let mut runs = lock(&self.runs);
        runs.retain(|_, run| run.strong_count() > 0);
        runs.insert(run.key.clone(), Arc::downgrade(run));
    }

    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// `NotFound` if its object is gone, `Corrupt` if it is damaged.
    pub(crate) async fn manifest(&self, place: &Place) -> Result<Manifest> {
        let Place { object, offset, length, crc32 } = place;
        let bytes = self.objects.read(object, *offset..offset + length).await?;
        let manifest = match crc32fast::hash(&bytes) == *crc32 {
            true => Manifest::decode(&bytes),
            false => Err(crate::objects::damaged("the checksum does not match")),
        };
        let manifest = manifest.map_err(|error| error.at(format_args!("state in {object}")))?;
        self.note_reach(place, &manifest);
        Ok(manifest)
    }

    /// Takes note of what a manifest needs.
    pub(crate) fn note_reach(&self, place: &Place, manifest: &Manifest) {
        let objects = manifest.runs.iter().filter_map(|run| run.object.clone());
        let objects = objects.chain([place.object.clone()]).collect();
        lock(&self.reach).insert(place.clone(), Arc::new(objects));
    }

    /// The objects that manifests need, each once. Others are forgotten.
    pub(crate) async fn reach(&self, places: BTreeSet<Place>) -> Result<BTreeSet<ObjectName>> {
        let unknown: Vec<Place> = {
            let mut known = lock(&self.reach);
            known.retain(|place, _| places.contains(place));
            places.iter().filter(|place| !known.contains_key(place)).cloned().collect()
        };
        let reads: Vec<_> = unknown.iter().map(|place| self.manifest(place)).collect();
        futures::stream::iter(reads).buffered(PARALLEL).try_for_each(|_| async { Ok(()) }).await?;
        let known = lock(&self.reach);
        let needed = places.iter().filter_map(|place| known.get(place));
        Ok(needed.flat_map(|objects| objects.iter().cloned()).collect())
    }

    /// Opens a version.
    pub(crate) async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        parts: &Parts,
        name: &str,
    ) -> Result<Arc<Version>> {
        if let Some(version) = self.version(id, groups, name) {
            return Ok(version);
        }
        let version = Arc::new(load::version(self, parts, groups).await?);
        self.keep(id, groups, name.to_owned(), &version);
        Ok(version)
    }

    /// Reads all blocks that are not in memory, if they are few.
    pub(crate) async fn fetch_whole(&self, version: &Version) -> Result<()> {
        let mut missing = BTreeMap::new();
        let mut bytes = 0;
        for live in &version.runs {
            bytes += live.run.unread_bytes();
            if bytes > self.settings.fetch_whole_bytes {
                return Ok(());
            }
        }
        for (number, live) in version.runs.iter().enumerate() {
            let unread = live.run.unread();
            if !unread.is_empty() {
                missing.insert(number, unread.into_iter().collect());
            }
        }
        self.bring(version, missing).await.map(drop)
    }
}
