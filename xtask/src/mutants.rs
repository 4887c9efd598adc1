//! Are the tests awake? Each change of `xtask/mutants.list` is made in a copy of the repository, and
//! some test of its package has to fail.

use crate::{peers, root};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Mutant {
    package: String,
    file: String,
    before: String,
    after: String,
}

/// What `cargo xtask mutants [PACKAGE]` runs.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut mutants = read(&std::fs::read_to_string(root().join("xtask/mutants.list"))?)?;
    if let [package] = arguments {
        mutants.retain(|mutant| mutant.package == *package);
    }
    let target = std::path::absolute(peers::target())?.join("mutants");
    let copy = target.join("source");
    copy_sources(&copy)?;
    let packages: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.package.as_str()).collect();
    for package in packages {
        if !passes(&copy, &target, package)? {
            bail!("the tests of {package} fail without a change");
        }
    }
    let (mut survivors, all) = (0, mutants.len());
    for mutant in &mutants {
        let Mutant { package, file, before, after } = mutant;
        let path = copy.join(file);
        let text = std::fs::read_to_string(&path)?;
        if text.matches(before.as_str()).count() != 1 {
            bail!("{file} does not have this once: {before}");
        }
        std::fs::write(&path, text.replacen(before.as_str(), after, 1))?;
        let survives = passes(&copy, &target, package)?;
        std::fs::write(&path, text)?;
        survivors += usize::from(survives);
        let what = if survives { "SURVIVES" } else { "noticed " };
        println!("{what}  {file}: {} -> {}", before.trim(), after.trim());
    }
    println!("{} of {all} changes noticed", all - survivors);
    if survivors > 0 {
        bail!("{survivors} changes went unnoticed");
    }
    Ok(())
}

fn read(text: &str) -> Result<Vec<Mutant>> {
    let mut all: Vec<Mutant> = Vec::new();
    for line in text.lines() {
        let lines = |old: &str, new: &str| match old {
            "" => new.to_owned(),
            _ => format!("{old}\n{new}"),
        };
        match (line.split_at_checked(1), all.last_mut()) {
            (None | Some(("#", _)), _) => {}
            (Some(("-", rest)), Some(last)) => last.before = lines(&last.before, rest),
            (Some(("+", rest)), Some(last)) => last.after = lines(&last.after, rest),
            _ => {
                let (package, file) = line.split_once(' ').with_context(|| line.to_owned())?;
                let (before, after) = (String::new(), String::new());
                all.push(Mutant { package: package.into(), file: file.into(), before, after });
            }
        }
    }
    Ok(all)
}

/// Whether all tests of a package pass. What does not compile counts as noticed.
fn passes(copy: &Path, target: &Path, package: &str) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(copy)
        .args(["test", "--quiet", "--package", package, "--lib", "--tests"])
        .env("CARGO_TARGET_DIR", target)
        // A change may make a test wait for ever.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(status.success())
}

/// Copies what cargo needs, anew.
fn copy_sources(to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::create_dir_all(to)?;
    for name in ["Cargo.toml", "Cargo.lock"] {
        std::fs::copy(root().join(name), to.join(name))?;
    }
    for folder in ["benches", "crates", "docs", "examples", "xtask"] {
        copy_folder(&root().join(folder), &to.join(folder))?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path: PathBuf = entry?.path();
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() && name != "target" {
            copy_folder(&path, &to.join(name))?;
        } else if path.is_file() {
            std::fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
