//! The backend.

use crate::budget::{Account, Budget, Taken};
use crate::cache::Cache;
use crate::load::{self, Parts};
use crate::objects::{Created, Objects};
use crate::overlay::Overlay;
use crate::pack::Sealed;
use crate::settings::Settings;
use crate::store::{MemoryStore, Origin};
use crate::table::Table;
use crate::token::{FrameRef, ObjectName, Token};
use crate::verify;
use async_trait::async_trait;
use bytes::Bytes;
use fluvial_core::{
    Change, Error, KeyGroupRange, Result, RunId, SealedStore, Snapshot, StateBackend, StateStore,
    StateVersion, StoreId, Verification,
};
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a name may be taken before something is wrong.
const NAMES_MAX: usize = 1000;

/// State in memory, durable on an object store.
///
/// A commit writes one object for each store, `<operator>/<store>/<version>-<attempt>-<run>`
/// under the root: what changed in each partition of this process or, every
/// [`Settings::deltas_max`] times or when that is less, everything. A version is opened from
/// memory if it is there, and else from what its snapshots name. Nothing is listed but by
/// [`StateBackend::retain`].
#[derive(Debug)]
pub struct MemoryBackend {
    objects: Objects,
    run: RunId,
    settings: Settings,
    attempts: AtomicU64,
    cache: Arc<Cache>,
    account: Option<Account>,
}

impl MemoryBackend {
    /// A backend that keeps its objects under `root`. No two processes may have the same `run`.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, run: RunId, settings: Settings) -> Self {
        let objects = Objects::new(store, root);
        let cache = Arc::new(Cache::new(run.clone(), None));
        Self { objects, run, settings, attempts: AtomicU64::new(0), cache, account: None }
    }

    /// The same within a budget, which others may share. `owner` says in errors whose state it is:
    /// `query clicks`.
    #[must_use]
    pub fn within(mut self, budget: Arc<Budget>, owner: impl Into<String>) -> Self {
        let account = Account { budget, owner: owner.into() };
        self.cache = Arc::new(Cache::new(self.run.clone(), Some(account.clone())));
        self.account = Some(account);
        self
    }

    /// Bytes of memory held for all stores that are not open, roughly.
    pub fn memory_bytes(&self) -> u64 {
        self.cache.held() as u64
    }

    /// The version that the parts make, from memory or read.
    async fn base(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        parts: &Parts,
        name: &str,
    ) -> Result<Arc<Table>> {
        if let Some(table) = self.cache.get(id, groups, name) {
            return Ok(table);
        }
        let table = Arc::new(load::table(&self.objects, id, parts, groups).await?);
        self.cache.keep(id, groups, name, &table);
        Ok(table)
    }

    /// Writes the frames of one store; returns where they are.
    async fn write(
        &self,
        id: &StoreId,
        version: StateVersion,
        frames: Vec<Bytes>,
    ) -> Result<Vec<FrameRef>> {
        for _ in 0..NAMES_MAX {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let object = ObjectName { version, attempt, run: self.run.clone() };
            // A name that is taken is our own lost acknowledgement: what it names is garbage.
            if self.objects.create(id, &object, frames.clone()).await? == Created::Yes {
                let mut offset = 0;
                let refs = frames.iter().map(|frame| {
                    let length = frame.len() as u64;
                    let crc32 = crc32fast::hash(frame);
                    let frame = FrameRef { object: object.clone(), offset, length, crc32 };
                    offset += length;
                    frame
                });
                return Ok(refs.collect());
            }
        }
        Err(Error::fenced(format!(
            "{NAMES_MAX} objects of state {id} with the names of run {} exist: another process \
             has the same run id",
            self.run
        )))
    }
}

#[async_trait]
impl StateBackend for MemoryBackend {
    fn format(&self) -> &str {
        "memory"
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
        let base = self.base(id, groups, &parts, &name).await?;
        let taken = Taken::from(self.account.as_ref());
        taken.check(id)?;
        Ok(Box::new(MemoryStore {
            id: id.clone(),
            groups,
            version,
            overlay: Overlay::new(&base),
            base,
            name,
            origin,
            settings: self.settings,
            cache: Arc::clone(&self.cache),
            taken,
        }))
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        // For each object to write: its parcels, and where each stands in `sealed`.
        let mut objects: BTreeMap<_, Vec<(usize, Sealed)>> = BTreeMap::new();
        let mut tokens: Vec<Token> = Vec::with_capacity(sealed.len());
        for (i, store) in sealed.iter().enumerate() {
            tokens.push(match &store.change {
                Change::None(token) => token.parse()?,
                Change::Bytes { bytes, parents } => {
                    let parcel = Sealed::open(bytes, parents)?;
                    let version = StateVersion(store.base.0 + 1);
                    let object = objects.entry((store.id.clone(), version)).or_default();
                    object.push((i, parcel));
                    Token::default()
                }
            });
        }
        let writes = objects.iter().map(|((id, version), parcels)| {
            let frames = parcels.iter().map(|(_, parcel)| parcel.frame.clone()).collect();
            self.write(id, *version, frames)
        });
        let written = futures::future::try_join_all(writes).await?;
        for (((id, _), parcels), frames) in objects.into_iter().zip(written) {
            for ((i, parcel), frame) in parcels.into_iter().zip(frames) {
                let Sealed { ticket, before: Token(mut chain), .. } = parcel;
                chain.push(frame);
                tokens[i] = Token(chain);
                let token = tokens[i].to_string();
                self.cache.commit(&id, sealed[i].groups, &ticket, token);
            }
        }
        let snapshots = sealed.into_iter().zip(tokens).map(|(store, token)| Snapshot {
            id: store.id,
            groups: store.groups,
            version: StateVersion(store.base.0 + 1),
            rows: store.rows,
            token: token.to_string(),
        });
        Ok(snapshots.collect())
    }

    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        let Some(oldest) = live.iter().map(|snapshot| snapshot.version).min() else {
            return Ok(());
        };
        let mut needed = BTreeSet::new();
        for snapshot in live {
            let Token(frames) = snapshot.token.parse()?;
            needed.extend(frames.into_iter().map(|frame| (snapshot.id.clone(), frame.object)));
        }
        let mut objects = self.objects.list().await?;
        objects.retain(|object| object.1.version < oldest && !needed.contains(object));
        self.objects.delete(objects).await
    }

    async fn verify(&self, snapshots: &[Snapshot], report: &dyn Verification) -> Result<()> {
        verify::verify(&self.objects, snapshots, report).await
    }
}
