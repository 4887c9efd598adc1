//! Other implementations as judges: they read what we have written, and we read what they have.

use crate::{cargo, kafka, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The packages of Python that read and write Delta tables.
pub(crate) const DELTALAKE: &[&str] = &["deltalake==1.6.6", "pyarrow==26.0.1"];
/// Spark, and the folder of its jars for Delta: their version in `xtask/peers/pom.xml`. Delta 4.1.0 does
/// not read checkpoints with later patches of Spark: a constructor is gone.
const SPARK: &[&str] = &["pyspark==4.1.0"];
const JARS: &str = "delta-4.1.0";
/// The packages of Python that read and write files.
const FILES: &[&str] = &["pyarrow==26.0.1", "fastavro==1.13.1"];

/// What `cargo xtask peers NAME` runs.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [name] if name == "delta" => delta(Peers::Package),
        [name, who] if name == "delta" && who == "--spark" => delta(Peers::PackageAndSpark),
        [name, rest @ ..] if name == "files" => files(rest),
        _ => bail!("which peers? There are: delta [--spark], files [SEED] [all]"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Peers {
    Package,
    PackageAndSpark,
}

/// The clickstream job's table read with the Python package, then a table that all write in turns.
///
/// Without Python or its package index, or Java and Maven, there is nobody to ask: that is said,
/// and is no failure.
fn delta(peers: Peers) -> Result<()> {
    let target = std::path::absolute(target())?;
    let folder = target.join("peers");
    let Some(python) = environment(&folder, DELTALAKE)? else { return Ok(()) };
    cargo(&["build", "--package", "fluvial-cli"])?;
    let root = root();
    let program = target.join("debug/fluvial");
    let example = root.join("examples/clickstream");
    let expected = root.join("crates/fluvial/tests/golden/clickstream_5m/expected.json");
    judge(&python, "clickstream.py", &[&program, &example, &expected])?;
    if peers == Peers::Package {
        return judge(&python, "tables.py", &[&program]);
    }
    if environment(&folder, SPARK)?.is_none() {
        return Ok(());
    }
    match kafka::bring_jars("xtask/peers/pom.xml", folder.join(JARS)) {
        Ok(jars) => judge(&python, "tables.py", &[&program, &jars]),
        Err(why) => skipped(&format!("a JDK, and Maven for Delta's jars ({why:#})")).map(drop),
    }
}

fn judge(python: &Path, script: &str, arguments: &[&Path]) -> Result<()> {
    let path = root().join("xtask/peers").join(script);
    let status =
        Command::new(python).arg(&path).args(arguments).status().context(script.to_owned())?;
    if !status.success() {
        bail!("{script}: somebody sees something else");
    }
    Ok(())
}

/// Random files of each format: written by others and read by us, and the reverse. Arguments are
/// the seed, and `all`: with Avro and ORC, for which DataFusion is built once more.
fn files(arguments: &[String]) -> Result<()> {
    let target = std::path::absolute(target())?;
    let Some(python) = environment(&target.join("peers"), FILES)? else { return Ok(()) };
    let mut build = vec!["build", "--package", "fluvial-cli"];
    if arguments.iter().any(|word| word == "all") {
        build.extend(["--features", "avro,orc"]);
    }
    cargo(&build)?;
    let program = target.join("debug/fluvial");
    let arguments = arguments.iter().map(Path::new);
    let arguments: Vec<&Path> = [program.as_path()].into_iter().chain(arguments).collect();
    judge(&python, "files.py", &arguments)
}

/// A Python of our own with packages; `None`, after saying why, if there cannot be one.
pub(crate) fn environment(folder: &Path, packages: &[&str]) -> Result<Option<PathBuf>> {
    let python = folder.join("bin/python");
    if !python.is_file() && !succeeds(Command::new("python3").args(["-m", "venv"]).arg(folder)) {
        return skipped("python3 with its module venv");
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    if !succeeds(&mut install) {
        return skipped(&format!("{} from the Python package index", packages.join(" and ")));
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
