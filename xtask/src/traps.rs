//! The page of other engines' failures names tests that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The page.
const PAGE: &str = "docs/src/traps.md";

/// Reports tests that the page names and no file has.
pub(crate) fn check(root: &Path, files: &[PathBuf], errors: &mut Vec<String>) {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let mut functions = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        functions.extend(defined(&text).map(str::to_owned));
    }
    for (trap, test) in named(&page).into_iter().filter(|(_, test)| !functions.contains(*test)) {
        errors.push(format!("{PAGE} names the test {test} for {trap}: there is none"));
    }
}

/// The traps of the page and the tests in the last column of their rows.
fn named(page: &str) -> Vec<(&str, &str)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.filter_map(|row| Some((row.split(" | ").next()?, row.rsplit(" | ").next()?)));
    rows.flat_map(|(trap, tests)| tests.split('`').skip(1).step_by(2).map(move |test| (trap, test)))
        .collect()
}

/// The functions that a file defines.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    let rest = text.split("fn ").skip(1);
    rest.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_on_the_page_and_in_code() {
        let page = "| | wrong | here | tests |\n|---|---|---|---|\n\
                    | A1 | as `x` | `y` | `a_b`, `c` |\n";
        assert_eq!(named(page), [("A1", "a_b"), ("A1", "c")]);
        let code = "async fn a_b() {}\npub fn c<T>(t: T) {}";
        assert_eq!(defined(code).collect::<Vec<_>>(), ["a_b", "c"]);
    }
}
