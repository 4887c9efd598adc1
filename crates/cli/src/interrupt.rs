//! Ctrl-C, and the signal by which service managers and containers ask a program to end.

#[cfg(unix)]
use anyhow::Context;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for wishes that the program ends. Once made, the program no longer ends by itself.
pub(crate) struct Interrupt {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

impl Interrupt {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())
                .context("cannot listen for the signal to end")?,
        })
    }

    /// The next wish.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
