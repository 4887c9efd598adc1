//! How the program ends.

use fluvial_core::{Error, ErrorKind};
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done, or Ctrl-C stopped it cleanly.
    Done = 0,
    /// Something failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Another run owns the query now.
    Fenced = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A mistake on the command line that only shows when it is used.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn of(message: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(message.into()))
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The code for an error: what its cause says that the caller should do.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if cause.is::<UsageError>() {
            return Exit::Usage;
        }
        match cause.downcast_ref::<Error>().map(Error::kind) {
            Some(ErrorKind::Fenced) => return Exit::Fenced,
            Some(_) => return Exit::Failed,
            None => {}
        }
    }
    Exit::Failed
}

/// What people read about an error: what happened, and below it why, as far as that adds words.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let mut lines = vec![format!("error: {error}")];
    let mut said = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !said.contains(&cause) {
            lines.push(format!("  because: {cause}"));
            said.push_str(&cause);
        }
    }
    if of(error) == Exit::Fenced {
        lines.push("another run has taken over: nothing is lost, it goes on there".to_owned());
    }
    lines.join("\n")
}

/// Prints an error and gives the code to end with.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    // Nobody may be reading, and the code says it too.
    let _ = writeln!(std::io::stderr(), "{}", text(error));
    of(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_kind_decides_the_code() {
        let code = |error: Error| of(&anyhow::Error::new(error));
        assert_eq!(code(Error::fenced("x")), Exit::Fenced);
        assert_eq!(code(Error::invalid("x")), Exit::Failed);
        assert_eq!(code(Error::corrupt("x").with_source(Error::fenced("y"))), Exit::Failed);
        assert_eq!(of(&UsageError::of("x")), Exit::Usage);
        assert_eq!(of(&anyhow::anyhow!("x")), Exit::Failed);
        let wrapped = Err::<(), _>(Error::fenced("x")).context("table t").unwrap_err();
        assert_eq!(of(&wrapped), Exit::Fenced);
    }

    #[test]
    fn causes_are_told_once() {
        let error = Error::invalid("batch 7: disk full").with_source(Error::invalid("disk full"));
        assert_eq!(text(&anyhow::Error::new(error)), "error: batch 7: disk full");
        let error = Error::unavailable("cannot write").with_source(std::io::Error::other("why"));
        assert_eq!(text(&anyhow::Error::new(error)), "error: cannot write\n  because: why");
        let fenced = text(&anyhow::Error::new(Error::fenced("batch 3 is another run's")));
        assert!(fenced.ends_with("another run has taken over: nothing is lost, it goes on there"));
    }
}
