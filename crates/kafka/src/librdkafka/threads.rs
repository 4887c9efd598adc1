//! Work that blocks, on threads of its own.

use fluvial_core::{Error, Result};
use futures::channel::oneshot;
use std::thread::Builder;

/// Runs `work` on a new thread and waits for it without blocking.
///
/// # Errors
///
/// `Unavailable` if there is no thread to be had, or if it died.
pub(super) async fn run<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (done, answer) = oneshot::channel();
    // Nobody may be waiting any more.
    start(name, move || drop(done.send(work())))?;
    let died = |_| Error::unavailable("a thread that speaks to the brokers died");
    answer.await.map_err(died)
}

/// Runs `work` on a new thread.
///
/// # Errors
///
/// `Unavailable` if there is none to be had.
pub(super) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    match Builder::new().name(name.to_owned()).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(Error::unavailable("the system gives no further thread").with_source(error))
        }
    }
}
