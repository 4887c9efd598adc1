//! Ctrl-C, and the signal by which service managers and containers ask a program to end.

use anyhow::Context;

/// Waits for wishes that the program ends. Once made, the program no longer ends by itself.
pub(crate) struct Interrupt {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Interrupt {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .context("cannot listen for the signal to end")?,
        })
    }

    /// The next wish.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
