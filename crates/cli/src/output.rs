//! What a command has to say, on stdout.

use anyhow::Context;
use std::io::{ErrorKind, Write};

/// Prints it.
///
/// # Errors
///
/// What kept it from being printed; a reader that has seen enough, such as `head`, is none.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot print"),
    }
}
