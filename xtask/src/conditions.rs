//! The page of error conditions and the code agree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The page.
const PAGE: &str = "docs/src/errors.md";

/// Crates that only test others.
const TESTERS: &[&str] = &["conformance", "oracle", "sim", "testing"];

/// What is written like a condition and is none.
const OTHERS: &[&str] = &[
    "CARGO_MANIFEST_DIR",
    "CARGO_PKG_VERSION",
    "CURRENT_DEFAULT",
    "SYSTEM_TIME",
    "SYSTEM_VERSION",
    "TIMESTAMP_LTZ",
    "TIMESTAMP_NTZ",
];

/// Reports conditions that the page lacks, and those that nothing raises.
pub(crate) fn check(root: &Path, files: &[PathBuf], errors: &mut Vec<String>) {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let listed = listed(&page);
    let mut raised = BTreeSet::new();
    for file in files.iter().filter(|file| raises(file)) {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        raised.extend(in_code(&text));
    }
    for name in raised.difference(&listed) {
        errors.push(format!("{PAGE} does not explain {name}, which the code raises"));
    }
    for name in listed.difference(&raised) {
        errors.push(format!("{PAGE} explains {name}, which no code raises"));
    }
}

/// Whether a file belongs to what users run.
fn raises(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
    let crates = parts.iter().rposition(|part| *part == "crates");
    let tester = crates.and_then(|at| parts.get(at + 1)).is_some_and(|k| TESTERS.contains(k));
    !tester && !parts.iter().any(|part| *part == "tests" || *part == "tests.rs")
}

/// The names in the first column of the page's tables.
fn listed(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split('|').next());
    cells.flat_map(|cell| cell.split('`')).filter(|w| is_name(w)).map(str::to_owned).collect()
}

/// The names in a file's string literals, before its tests: `"NAME"`, and `"[NAME] text"`.
fn in_code(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = lines.flat_map(|line| line.split('"'));
    literals
        .map(|literal| match literal.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => literal,
        })
        .filter(|name| is_name(name) && !OTHERS.contains(name))
        .map(str::to_owned)
        .collect()
}

/// `WORD_WORD`, perhaps with `.WORD` or `.WORD_WORD` behind it.
fn is_name(text: &str) -> bool {
    let word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_uppercase())
            && !part.ends_with('_')
            && part.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let mut parts = text.split('.');
    parts.next().is_some_and(|first| word(first) && first.contains('_')) && parts.all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_code_and_on_the_page() {
        let code = "e.with_condition(\"A_B\");\n// \"X_Y\"\nf(\"[C_D.E] text\");\n\
                    #[cfg(test)] \"T_T\"";
        assert_eq!(in_code(code), BTreeSet::from(["A_B".into(), "C_D.E".into()]));
        let page = "| condition | do |\n|---|---|\n| `A_B`, `C_D.E` | see `Z_Z` |\n";
        assert_eq!(listed(page), in_code(code));
    }
}
