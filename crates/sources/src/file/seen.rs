//! Which files were taken: fingerprints in sorted runs.

/// A set of fingerprints that grows for as long as a query lives.
///
/// Runs double in size, so that ten million files are some twenty sorted arrays: 16 bytes a file
/// and nothing else, and a search of a few of them.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The longest first; each is at least twice as long as the next.
    runs: Vec<Vec<u128>>,
}

impl Seen {
    /// Whether a fingerprint is in the set.
    pub(crate) fn contains(&self, fingerprint: u128) -> bool {
        self.runs.iter().any(|run| run.binary_search(&fingerprint).is_ok())
    }

    /// Adds fingerprints.
    pub(crate) fn extend(&mut self, fingerprints: impl IntoIterator<Item = u128>) {
        let mut run: Vec<u128> = fingerprints.into_iter().collect();
        if run.is_empty() {
            return;
        }
        run.sort_unstable();
        while let Some(longer) = self.runs.pop_if(|last| last.len() < run.len().saturating_mul(2)) {
            run = merged(&longer, &run);
        }
        run.dedup();
        run.shrink_to_fit();
        self.runs.push(run);
    }

    /// How many there are, those given twice in different calls counted as often.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }
}

impl FromIterator<u128> for Seen {
    fn from_iter<I: IntoIterator<Item = u128>>(fingerprints: I) -> Self {
        let mut seen = Self::default();
        seen.extend(fingerprints);
        seen
    }
}

fn merged(a: &[u128], b: &[u128]) -> Vec<u128> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        out.push(*x.min(y));
        (i, j) = (i + usize::from(x <= y), j + usize::from(y <= x));
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(adds in proptest::collection::vec(proptest::collection::vec(0u128..200, 0..20), 0..30)) {
            let (mut seen, mut model) = (Seen::default(), BTreeSet::new());
            for add in adds {
                model.extend(add.iter().copied());
                seen.extend(add);
            }
            for n in 0..200 {
                prop_assert_eq!(seen.contains(n), model.contains(&n), "{}", n);
            }
        }
    }

    #[test]
    fn there_are_few_runs() {
        let mut seen = Seen::default();
        (0..10_000u128).for_each(|n| seen.extend([n * 7]));
        assert!(seen.runs.len() <= 14, "{}", seen.runs.len());
        assert_eq!(seen.len(), 10_000);
    }
}
