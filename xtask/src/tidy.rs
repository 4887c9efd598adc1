//! The rules that the compiler cannot check.

use crate::conditions;
use crate::graph::{GRAPH, PURE};
use crate::root;
use crate::traps;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Longest source file, in lines. Split by concept before raising it.
const FILE_LINES_MAX: usize = 500;

/// Words that make a run depend on something other than its plan.
const NONDETERMINISM: &[&str] =
    &["SystemTime::now", "Instant::now", "thread::spawn", "tokio::spawn", "rand::"];

/// Attributes that hide a test or assert too little, and code that is not there yet.
const BANNED: &[&str] = &["#[ignore", "#[should_panic", "todo!(", "unimplemented!(", "dbg!("];

/// Checks all rules.
pub(crate) fn check() -> Result<()> {
    let errors = errors(&root());
    for error in &errors {
        eprintln!("{error}");
    }
    if !errors.is_empty() {
        bail!("{} rules broken", errors.len());
    }
    Ok(())
}

fn errors(root: &Path) -> Vec<String> {
    let mut errors = Vec::new();
    strays(root, &mut errors);
    for rule in GRAPH {
        let folder = root.join("crates").join(rule.name);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        edges(rule.name, &manifest, &mut errors);
        one_sentence(rule.name, &manifest, &folder, &mut errors);
        for file in sources(&folder) {
            source(rule.name, &file, &mut errors);
        }
    }
    for file in sources(&root.join("xtask")) {
        source("xtask", &file, &mut errors);
    }
    let files = sources(&root.join("crates"));
    conditions::check(root, &files, &mut errors);
    traps::check(root, &files, &mut errors);
    errors
}

/// Every crate is in the table, and the table has no other.
fn strays(root: &Path, errors: &mut Vec<String>) {
    let found: BTreeSet<String> = entries(&root.join("crates")).map(|p| name(&p)).collect();
    let ruled: BTreeSet<String> = GRAPH.iter().map(|rule| rule.name.to_owned()).collect();
    for stray in found.symmetric_difference(&ruled) {
        errors.push(format!("crate {stray} is missing in the repository or in xtask's graph"));
    }
}

fn edges(krate: &str, manifest: &str, errors: &mut Vec<String>) {
    let Some(rule) = GRAPH.iter().find(|rule| rule.name == krate) else { return };
    let actual = dependencies(manifest);
    for (section, allowed) in [("dependencies", rule.normal), ("dev-dependencies", rule.dev)] {
        for dependency in actual.get(section).into_iter().flatten() {
            let known = allowed.contains(&dependency.as_str())
                || (section == "dev-dependencies" && rule.normal.contains(&dependency.as_str()));
            if !known {
                errors.push(format!("crates/{krate}: {section} must not name {dependency}"));
            }
        }
    }
}

/// The description in the manifest opens the crate's documentation too.
fn one_sentence(krate: &str, manifest: &str, folder: &Path, errors: &mut Vec<String>) {
    let description = manifest
        .lines()
        .find_map(|line| line.strip_prefix("description = \""))
        .map(|rest| rest.trim_end_matches('"'));
    let Some(description) = description else {
        errors.push(format!("crates/{krate}: no description"));
        return;
    };
    let lib = folder.join("src/lib.rs");
    let main = folder.join("src/main.rs");
    let text = std::fs::read_to_string(&lib).or_else(|_| std::fs::read_to_string(&main));
    let text = text.unwrap_or_default();
    let opening: String =
        text.lines().map_while(|line| line.strip_prefix("//! ")).collect::<Vec<_>>().join(" ");
    if !opening.starts_with(description) {
        errors
            .push(format!("crates/{krate}: the docs do not open with the manifest's description"));
    }
}

fn source(krate: &str, file: &Path, errors: &mut Vec<String>) {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let place = file.display();
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        errors.push(format!("{place}: {lines} lines, at most {FILE_LINES_MAX}"));
    }
    // This file lists the words that it looks for.
    if file.ends_with("xtask/src/tidy.rs") {
        return;
    }
    for word in BANNED.iter().filter(|word| text.contains(**word)) {
        errors.push(format!("{place}: {word} is banned"));
    }
    let tested = file.components().any(|c| c.as_os_str() == "tests");
    if PURE.contains(&krate) && !tested {
        for word in NONDETERMINISM.iter().filter(|word| text.contains(**word)) {
            errors.push(format!("{place}: {word} in a crate that takes part in results"));
        }
    }
}

/// Our own crates per section of a manifest.
fn dependencies(manifest: &str) -> BTreeMap<String, Vec<String>> {
    let mut section = String::new();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
        } else if let Some(rest) = line.strip_prefix("fluvial") {
            let word = rest.split(['.', ' ', '=']).next().unwrap_or_default();
            let dependency = word.strip_prefix('-').unwrap_or("fluvial");
            found.entry(section.clone()).or_default().push(dependency.to_owned());
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = entries(folder).partition(|p| p.is_dir());
    let nested = folders.iter().flat_map(|f| sources(f));
    files.into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs")).chain(nested).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        assert_eq!(super::errors(&super::root()), Vec::<String>::new());
    }
}
