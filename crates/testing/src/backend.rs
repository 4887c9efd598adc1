//! The state backends of the simulator: ours, with settings that make them work hard.

use fluvial_core::{Result, RunId, StateBackend};
use fluvial_state_lsm::Lsm;
use fluvial_state_memory::MemoryBackend;
use object_store::ObjectStore;
use object_store::path::Path;
use std::fmt;
use std::sync::Arc;

/// Where the state of a simulated query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// `memory`, with a full snapshot after every third delta.
    Memory,
    /// `lsm`, which merges two runs of one size, in tasks beside the batches.
    Lsm,
}

impl Backend {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Lsm];

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Memory => Self::Lsm,
            Self::Lsm => Self::Memory,
        }
    }

    /// Opens it for one run.
    ///
    /// # Errors
    ///
    /// None so far.
    pub fn open(
        self,
        store: Arc<dyn ObjectStore>,
        folder: Path,
        run: RunId,
    ) -> Result<Arc<dyn StateBackend>> {
        Ok(match self {
            Self::Memory => {
                let usual = fluvial_state_memory::Settings::default();
                let settings = fluvial_state_memory::Settings { deltas_max: 3, ..usual };
                Arc::new(MemoryBackend::new(store, folder, run, settings))
            }
            Self::Lsm => {
                let usual = fluvial_state_lsm::Settings::default();
                let settings = fluvial_state_lsm::Settings { fanout: 2, block_bytes: 64, ..usual };
                match tokio::runtime::Handle::try_current() {
                    Ok(runtime) => {
                        Arc::new(Lsm::with_spawn(store, folder, run, settings, move |task| {
                            runtime.spawn(task);
                        }))
                    }
                    Err(_) => Arc::new(Lsm::new(store, folder, run, settings)),
                }
            }
        })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Lsm => "lsm",
        })
    }
}
