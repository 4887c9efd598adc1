//! Tests that run themselves again in another process, to be killed there.

use std::path::Path;
use std::process::Command;

/// A runtime as programs have it.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// This test program with this test alone, which finds `folder` in the environment under `name`.
pub(crate) fn again_with(test: &str, name: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads", "1"]).env(name, folder);
    command
}
