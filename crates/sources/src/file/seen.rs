//! Which files were taken: fingerprints in sorted runs.

/// A set of fingerprints that grows for as long as a query lives.
///
/// Runs double in size, so that ten million files are some twenty sorted arrays: 17 bytes a file.
/// Fingerprints are spread evenly, so that their first bits say where they are.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The longest first; each is at least twice as long as the next.
    runs: Vec<Run>,
}

/// Sorted fingerprints, and where those of each bucket begin.
#[derive(Debug, Default)]
struct Run {
    sorted: Vec<u128>,
    /// So many first bits are the number of a bucket.
    bits: u32,
    /// One more than there are buckets.
    starts: Vec<usize>,
}

/// So many fingerprints are in a bucket, on average: a few lines of the processor's cache.
const BUCKET: usize = 16;

impl Run {
    fn new(sorted: Vec<u128>) -> Self {
        let bits = (sorted.len() / BUCKET).max(1).ilog2();
        let (mut starts, mut at) = (vec![0], 0);
        for bucket in 0..1usize << bits {
            at += sorted[at..].iter().take_while(|f| bucket_of(**f, bits) == bucket).count();
            starts.push(at);
        }
        Self { sorted, bits, starts }
    }

    fn contains(&self, fingerprint: u128) -> bool {
        let bucket = bucket_of(fingerprint, self.bits);
        let (start, end) = (self.starts[bucket], self.starts[bucket + 1]);
        self.sorted[start..end].binary_search(&fingerprint).is_ok()
    }
}

fn bucket_of(fingerprint: u128, bits: u32) -> usize {
    fingerprint.checked_shr(u128::BITS - bits).unwrap_or(0) as usize
}

impl Seen {
    /// Whether a fingerprint is in the set.
    pub(crate) fn contains(&self, fingerprint: u128) -> bool {
        self.runs.iter().any(|run| run.contains(fingerprint))
    }

    /// Adds fingerprints.
    pub(crate) fn extend(&mut self, fingerprints: impl IntoIterator<Item = u128>) {
        let mut run: Vec<u128> = fingerprints.into_iter().collect();
        if run.is_empty() {
            return;
        }
        run.sort_unstable();
        let short = |last: &mut Run, next: usize| last.sorted.len() < next.saturating_mul(2);
        while let Some(longer) = self.runs.pop_if(|last| short(last, run.len())) {
            run = merged(&longer.sorted, &run);
        }
        run.dedup();
        run.shrink_to_fit();
        self.runs.push(Run::new(run));
    }

    /// How many there are, those given twice in different calls counted as often.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.sorted.len()).sum()
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
    fn buckets_are_found_by_first_bits() {
        let spread = |n: u128| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        let seen: Seen = (0..10_000).map(spread).chain([0, u128::MAX]).collect();
        assert_eq!(seen.runs[0].bits, 9);
        assert!((0..10_000).all(|n| seen.contains(spread(n))));
        assert!((10_000..20_000).all(|n| !seen.contains(spread(n))));
        assert!(seen.contains(0) && seen.contains(u128::MAX) && !seen.contains(1));
    }

    #[test]
    fn there_are_few_runs() {
        let mut seen = Seen::default();
        (0..10_000u128).for_each(|n| seen.extend([n * 7]));
        assert!(seen.runs.len() <= 14, "{}", seen.runs.len());
        assert_eq!(seen.len(), 10_000);
    }
}
