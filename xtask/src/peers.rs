//! Other implementations as judges: they read what we have written.

use crate::{cargo, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The packages of the Python reader.
const PACKAGES: &[&str] = &["deltalake==1.6.6", "pyarrow==26.0.1"];

/// What `cargo xtask peers NAME` runs.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [name] if name == "delta" => delta(),
        _ => bail!("which peer? There is: delta"),
    }
}

/// The clickstream job through the program; its table read with the Python package.
///
/// Without Python or its package index there is nobody to ask: that is said, and is no failure.
fn delta() -> Result<()> {
    let target = target();
    let Some(python) = environment(&target.join("peers"))? else { return Ok(()) };
    cargo(&["build", "--package", "fluvial-cli"])?;
    let root = root();
    let status = Command::new(python)
        .arg(root.join("xtask/peers/delta.py"))
        .arg(target.join("debug/fluvial"))
        .arg(root.join("examples/clickstream"))
        .arg(root.join("crates/fluvial/tests/golden/clickstream_5m/expected.json"))
        .status()
        .context("xtask/peers/delta.py")?;
    if !status.success() {
        bail!("the deltalake package sees something else");
    }
    Ok(())
}

/// A Python of our own with the packages; `None`, after saying why, if there cannot be one.
pub(crate) fn environment(folder: &Path) -> Result<Option<PathBuf>> {
    let python = folder.join("bin/python");
    if !python.is_file() && !succeeds(Command::new("python3").args(["-m", "venv"]).arg(folder)) {
        return skipped("python3 with its module venv");
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    if !succeeds(&mut install) {
        return skipped(&format!("{} from the Python package index", PACKAGES.join(" and ")));
    }
    Ok(Some(python))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn skipped(missing: &str) -> Result<Option<PathBuf>> {
    println!("SKIPPED, nothing was compared: this needs {missing}");
    Ok(None)
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
