//! The memory that batches of a session may take, queries of batch tables included.

use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use fluvial_core::Result;
use fluvial_datafusion::{dialect, from_datafusion};
use std::sync::Arc;

/// The state with so many bytes for all that runs in it; without a limit if there is none.
///
/// # Errors
///
/// As DataFusion's runtime, whose parts it keeps.
pub(super) fn with_batch_memory(state: SessionState, bytes: Option<u64>) -> Result<SessionState> {
    let pool: Arc<dyn MemoryPool> = match bytes {
        // Each gets its share: what sorts must not starve what only passes rows on.
        Some(bytes) => Arc::new(FairSpillPool::new(usize::try_from(bytes).unwrap_or(usize::MAX))),
        None => Arc::new(UnboundedMemoryPool::default()),
    };
    let runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
        .with_memory_pool(pool)
        .build_arc()
        .map_err(from_datafusion)?;
    Ok(dialect::rebuilt(state).with_runtime_env(runtime).build())
}
