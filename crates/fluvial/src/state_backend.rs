//! Which backend keeps the state of a query: ours, or the session's own.

use crate::settings::{SessionSettings, StateBackendKind};
use crate::storage::Place;
use fluvial_core::{Error, Result, RunId, StateBackend};
use fluvial_state_memory::MemoryBackend;
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;

/// Where a backend keeps the state of one query, and for which run it is opened.
#[derive(Debug, Clone)]
pub struct StatePlace {
    /// The checkpoint's store.
    pub store: Arc<dyn ObjectStore>,
    /// The folder in it that is the backend's alone.
    pub folder: Path,
    /// The run. Names of objects should carry it, so that two runs never meet.
    pub run: RunId,
}

/// Opens a backend of the user's for one run of one query.
pub(crate) type OpenBackend = dyn Fn(StatePlace) -> Result<Arc<dyn StateBackend>> + Send + Sync;

/// The backend of a query whose checkpoint is at `checkpoint`.
pub(crate) fn open(
    settings: &SessionSettings,
    own: Option<&OpenBackend>,
    checkpoint: &Place,
    run: &RunId,
) -> Result<Arc<dyn StateBackend>> {
    let place = StatePlace {
        store: Arc::clone(&checkpoint.store),
        folder: checkpoint.join("state").path,
        run: run.clone(),
    };
    match (settings.state_backend, own) {
        (StateBackendKind::Memory, _) => {
            let settings = fluvial_state_memory::Settings::default();
            Ok(Arc::new(MemoryBackend::new(place.store, place.folder, place.run, settings)))
        }
        (StateBackendKind::Own, Some(open)) => open(place),
        (StateBackendKind::Own, None) => Err(Error::invalid(
            "state.backend is \"own\", but the session has no backend of its own: give it one with \
             Session::builder().state_backend(..), or set state.backend to memory",
        )
        .with_condition("INVALID_SETTING")),
    }
}
