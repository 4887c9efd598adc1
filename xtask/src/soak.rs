//! The real program, killed, stopped and run in pairs, on the local disk and on S3.

use crate::{cargo, peers, root, s3};
use anyhow::{Context, Result, bail};
use std::process::Command;

/// What `cargo xtask soak` runs. Other arguments go to the script: see `xtask/soak/soak.py`.
///
/// Without Python or its package index there is no reader: that is said, and is no failure.
/// Without a server the jobs run on the local disk only.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let target = peers::target();
    let Some(python) = peers::environment(&target.join("peers"), peers::DELTALAKE)? else {
        return Ok(());
    };
    let packages = ["--package", "fluvial-cli", "--package", "fluvial"];
    let what = ["--bin", "fluvial", "--example", "drop_duplicates"];
    cargo(&[["build", "--release"].as_slice(), &packages, &what].concat())?;
    let server = s3::server()?;
    let root = root();
    let script = |command: &mut Command, name: &str| {
        command
            .arg(root.join("xtask/soak").join(name))
            .arg(target.join("release/fluvial"))
            .arg(target.join("release/examples/drop_duplicates"))
            .arg(root.join("examples"));
    };
    let mut soak = Command::new(&python);
    script(&mut soak, "soak.py");
    soak.args(arguments);
    if let Some(server) = &server {
        soak.args(["--s3", &server.address()]);
    }
    let status = soak.status().context("xtask/soak/soak.py")?;
    if !status.success() {
        bail!("a job that was killed wrote something else");
    }
    // In a namespace of its own anybody may make a small disk; not every system has them.
    let apart = ["--map-root-user", "--mount"];
    if !Command::new("unshare").args(apart).arg("true").status().is_ok_and(|s| s.success()) {
        println!("full disk: SKIPPED, because there are no namespaces for users here");
        return Ok(());
    }
    let mut full = Command::new("unshare");
    full.args(apart).arg(&python);
    script(&mut full, "full_disk.py");
    if !full.status().context("xtask/soak/full_disk.py")?.success() {
        bail!("a job on a full disk wrote something else");
    }
    Ok(())
}
