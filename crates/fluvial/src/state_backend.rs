//! Which backend keeps the state of a query: ours, or the session's own.

use crate::session::Session;
use crate::settings::{BackendFor, SessionSettings, StateBackendKind};
use crate::storage::Place;
use fluvial_core::{BatchLog, Error, Result, RunId, StateBackend};
#[cfg(feature = "lsm")]
use fluvial_state_lsm::{LocalCache, Lsm};
use fluvial_state_memory::{Budget, MemoryBackend};
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a backend keeps the state of one query, and for which run it is opened.
#[derive(Debug, Clone)]
pub struct StatePlace {
    /// The checkpoint's store.
    pub store: Arc<dyn ObjectStore>,
    /// The folder in it that is the backend's alone.
    pub folder: Path,
    /// The run. Names of objects should carry it, so that two runs never meet.
    pub run: RunId,
    /// Whose state it is, for errors: `query clicks`.
    pub owner: String,
}

/// Opens a backend of the user's for one run of one query.
pub(crate) type OpenBackend = dyn Fn(StatePlace) -> Result<Arc<dyn StateBackend>> + Send + Sync;

/// What the backends of a session share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The memory that state may take, as it was set last.
    budget: Mutex<Option<Arc<Budget>>>,
    #[cfg(feature = "lsm")]
    lsm_budget: Mutex<Option<Arc<fluvial_state_lsm::Budget>>>,
}

impl Shared {
    /// The budget of so many bytes.
    fn budget(&self, max: u64) -> Arc<Budget> {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        match budget.as_ref().filter(|budget| budget.max() == max) {
            Some(same) => Arc::clone(same),
            None => Arc::clone(budget.insert(Arc::new(Budget::new(max, "state.memory")))),
        }
    }

    /// The same for the log-structured backend.
    #[cfg(feature = "lsm")]
    fn lsm_budget(&self, max: u64) -> Arc<fluvial_state_lsm::Budget> {
        let mut budget = self.lsm_budget.lock().unwrap_or_else(PoisonError::into_inner);
        match budget.as_ref().filter(|budget| budget.max() == max) {
            Some(same) => Arc::clone(same),
            None => {
                let new = fluvial_state_lsm::Budget::new(max, "state.memory");
                Arc::clone(budget.insert(Arc::new(new)))
            }
        }
    }
}

/// Which backend a query has whose batches are in `log`.
pub(crate) async fn kind(
    settings: &SessionSettings,
    log: &dyn BatchLog,
) -> Result<StateBackendKind> {
    let pinned = match settings.state_backend_for {
        BackendFor::All => None,
        // Also a batch that was planned and never done runs with the backend of its plan.
        BackendFor::New => log.latest_plan().await?,
    };
    let pinned = pinned.and_then(|plan| StateBackendKind::of_format(&plan.settings.state_format));
    Ok(pinned.unwrap_or(settings.state_backend))
}

/// The backend of that kind for a query whose checkpoint is at `checkpoint`.
pub(crate) fn open(
    session: &Session,
    kind: StateBackendKind,
    checkpoint: &Place,
    run: &RunId,
    owner: String,
) -> Result<Arc<dyn StateBackend>> {
    let place = StatePlace {
        store: Arc::clone(&checkpoint.store),
        folder: checkpoint.join("state").path,
        run: run.clone(),
        owner,
    };
    of_kind(session, kind, place)
}

/// The backend that reads a format which a checkpoint names.
pub(crate) fn for_format(
    session: &Session,
    format: &str,
    place: StatePlace,
) -> Result<Arc<dyn StateBackend>> {
    let kind = StateBackendKind::of_format(format).unwrap_or(StateBackendKind::Own);
    let own = session.own_backend().is_some();
    let unknown = || {
        Error::invalid(format!(
            "the state has the format {format:?}, which no backend of this session reads: give it \
             one with Session::builder().state_backend(..)"
        ))
        .with_condition("STATE_FORMAT_CHANGED")
    };
    if kind == StateBackendKind::Own && !own {
        return Err(unknown());
    }
    let backend = of_kind(session, kind, place)?;
    if backend.format() != format {
        return Err(unknown());
    }
    Ok(backend)
}

/// Where a query's blocks are cached: a folder of its own, the same after a restart and with every
/// release, or the blocks of the one before would stay for ever.
#[cfg(feature = "lsm")]
fn cache_folder(cache: &std::path::Path, store: &str, folder: &str) -> std::path::PathBuf {
    // FNV-1a, of 128 bits: two queries must not meet. A zero byte ends the first text.
    let bytes = store.bytes().chain([0]).chain(folder.bytes());
    let hash = bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    cache.join(format!("{hash:032x}"))
}

fn of_kind(
    session: &Session,
    kind: StateBackendKind,
    place: StatePlace,
) -> Result<Arc<dyn StateBackend>> {
    match (kind, session.own_backend()) {
        (StateBackendKind::Memory, _) => {
            let settings = fluvial_state_memory::Settings::default();
            let backend = MemoryBackend::new(place.store, place.folder, place.run, settings);
            Ok(Arc::new(match session.settings().state_memory {
                Some(max) => backend.within(session.state_shared().budget(max), place.owner),
                None => backend,
            }))
        }
        #[cfg(feature = "lsm")]
        (StateBackendKind::Lsm, _) => {
            let set = session.settings();
            if let Some(cache) = set.state_cache.as_deref()
                && cache.exists()
                && !cache.is_dir()
            {
                let what = format!("state.cache is {}, which is no folder", cache.display());
                return Err(Error::invalid(what).with_condition("INVALID_SETTING"));
            }
            let local_cache = set.state_cache.as_deref().map(|cache| LocalCache {
                folder: cache_folder(cache, &place.store.to_string(), place.folder.as_ref()),
                bytes_max: set.state_cache_max,
            });
            let settings = fluvial_state_lsm::Settings {
                local_cache,
                ..fluvial_state_lsm::Settings::default()
            };
            let memory = set.state_memory.unwrap_or(settings.memory_bytes);
            let budget = session.state_shared().lsm_budget(memory);
            let StatePlace { store, folder, run, owner } = place;
            let backend = match tokio::runtime::Handle::try_current() {
                // Runs are merged beside the batches.
                Ok(runtime) => Lsm::with_spawn(store, folder, run, settings, move |task| {
                    runtime.spawn(task);
                }),
                Err(_) => Lsm::new(store, folder, run, settings),
            };
            Ok(Arc::new(backend.within(budget, owner)))
        }
        (StateBackendKind::Own, Some(open)) => open(place),
        (StateBackendKind::Own, None) => Err(Error::invalid(
            "state.backend is \"own\", but the session has no backend of its own: give it one with \
             Session::builder().state_backend(..), or set state.backend to memory or lsm",
        )
        .with_condition("INVALID_SETTING")),
    }
}

#[cfg(all(test, feature = "lsm"))]
mod tests {
    use super::*;
    use fluvial_checkpoint::ObjectLog;
    use fluvial_core::{
        BatchId, BatchTime, KeyGroupCount, OutputMode, PinnedSettings, Plan, QueryShape,
        WatermarkPolicy,
    };
    use object_store::memory::InMemory;

    fn plan(state_format: &str) -> Plan {
        Plan {
            batch: BatchId(0),
            run: RunId::new("run").unwrap(),
            ranges: Default::default(),
            ends: Default::default(),
            silent: Default::default(),
            late: Default::default(),
            evict: Default::default(),
            heard: Default::default(),
            time: BatchTime(0),
            partitions: 1,
            settings: PinnedSettings {
                key_groups: KeyGroupCount::DEFAULT,
                watermark_policy: WatermarkPolicy::Min,
                watermark_scope: Default::default(),
                state_format: state_format.into(),
            },
            shape: QueryShape {
                sources: Default::default(),
                operators: Default::default(),
                mode: OutputMode::Append,
            },
        }
    }

    /// The first batch may have been planned, and its run killed before the commit.
    #[tokio::test]
    async fn a_backend_for_new_checkpoints_leaves_a_planned_batch_its_own() {
        let log = ObjectLog::new(Arc::new(InMemory::new()), Path::from("c"));
        let mut settings = SessionSettings::default();
        let name = "spark.sql.streaming.stateStore.providerClass";
        settings.set(name, "a.b.RocksDBStateStoreProvider").unwrap();
        assert_eq!(kind(&settings, &log).await.unwrap(), StateBackendKind::Lsm);
        log.put_plan(&plan("memory")).await.unwrap();
        assert_eq!(kind(&settings, &log).await.unwrap(), StateBackendKind::Memory);
        settings.set("state.backend", "lsm").unwrap();
        assert_eq!(kind(&settings, &log).await.unwrap(), StateBackendKind::Lsm);
    }

    /// Another name would leave the blocks of before where nobody looks for them.
    #[test]
    fn a_query_has_the_same_cache_folder_with_every_release() {
        let folder = |store, folder| cache_folder(std::path::Path::new("cache"), store, folder);
        let known = "cache/b42f1be0af907a1d56651d92f5830b5a";
        assert_eq!(folder("s3://bucket", "checkpoints/q/state").to_str().unwrap(), known);
        assert_ne!(folder("a", "bc"), folder("ab", "c"));
    }
}
