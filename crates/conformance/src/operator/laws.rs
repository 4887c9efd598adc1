//! One function per law.

use super::history::{Batch, Handing, Outcome, SECOND, batches, events, run, texts};
use super::{Contents, Make, Subject};
use fluvial_core::{EventDuration, LateHandling, OutputMode};
use fluvial_sim::Rng;

/// Histories that every law tries; a failure names its seed.
const SEEDS: std::ops::Range<u64> = 0..10;

/// A far watermark: everything that happens in a history is long over.
const FAR: i64 = 1_000_000 * SECOND;

/// Runs a whole history, each batch as `handing` says.
fn whole(
    subject: &dyn Subject,
    seed: u64,
    handing: &mut dyn FnMut(usize) -> Handing,
) -> (Vec<Outcome>, Contents) {
    let batches = batches(subject, &mut Rng::new(seed));
    let mut contents = Contents::new();
    let outcomes = batches
        .iter()
        .enumerate()
        .map(|(n, batch)| run(subject, &mut contents, batch, &mut handing(n)))
        .collect();
    (outcomes, contents)
}

fn sorted(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    outcomes.iter().map(Outcome::sorted).collect()
}

fn is_append(subject: &dyn Subject) -> bool {
    subject.mode() == OutputMode::Append
}

/// Law 1: the same history gives the same rows in the same order, state and counts.
pub fn is_deterministic(make: Make<'_>) {
    for seed in SEEDS {
        let first = whole(make().as_ref(), seed, &mut |_| Handing::default());
        let again = whole(make().as_ref(), seed, &mut |_| Handing::default());
        assert_eq!(first, again, "seed {seed}");
    }
}

/// Law 2: chunks, and draining between them, change nothing.
pub fn is_chunk_invariant(make: Make<'_>) {
    for seed in SEEDS {
        let (expected, state) = whole(make().as_ref(), seed, &mut |_| Handing::default());
        let mut rng = Rng::new(!seed);
        let mut cut = |_| Handing { cut: Some(rng.fork()), ..Handing::default() };
        let (outcomes, cut_state) = whole(make().as_ref(), seed, &mut cut);
        assert_eq!(sorted(&outcomes), sorted(&expected), "output, seed {seed}");
        assert_eq!(cut_state, state, "state, seed {seed}");
    }
}

/// Law 3: what one batch emits and remembers, two batches emit and remember too.
pub fn is_cut_invariant(make: Make<'_>) {
    for seed in SEEDS {
        let subject = make();
        let subject = subject.as_ref();
        if !is_append(subject) {
            return;
        }
        let mut rng = Rng::new(seed);
        let (mut whole, mut cut) = (Contents::new(), Contents::new());
        for batch in batches(subject, &mut rng) {
            // The same watermark for both uses: between the two, a row would come in time for
            // the first part and be final before the second.
            let batch = Batch { late: batch.evict, ..batch };
            let (mut left, mut right) = (batch.clone(), batch.clone());
            right.number += 100;
            for (port, all) in batch.events.iter().enumerate() {
                let at = rng.index(all.len() + 1);
                left.events[port].truncate(at);
                right.events[port].drain(..at);
            }
            let mut once = Handing::default();
            let expected = run(subject, &mut whole, &batch, &mut once).sorted();
            let mut rows = run(subject, &mut cut, &left, &mut once).rows;
            rows.extend(run(subject, &mut cut, &right, &mut once).rows);
            rows.sort();
            assert_eq!(rows, expected, "output under {:?}, seed {seed}", batch.evict);
            let (cut, whole) = (subject.meaning(&cut), subject.meaning(&whole));
            assert_eq!(cut, whole, "state under {:?}, seed {seed}", batch.evict);
        }
    }
}

/// Law 4: late rows leave nothing, are counted, and are handed over to who asks for them.
pub fn ignores_late_rows(make: Make<'_>) {
    for seed in SEEDS {
        let subject = make();
        let subject = subject.as_ref();
        let mut rng = Rng::new(seed);
        let ports = subject.operator().ports();
        let EventDuration(reach) = subject.reach();
        let watermark = 1000 * SECOND;
        let mut on_time = Vec::new();
        let mut late = Vec::new();
        for _ in 0..ports {
            let (count, late_count) = (rng.below(20), 1 + rng.below(20));
            on_time.push(events(&mut rng, count, watermark + SECOND));
            late.push(events(&mut rng, late_count, watermark - reach - 100 * SECOND));
        }
        let mut late_rows: Vec<String> = Vec::new();
        for (port, events) in late.iter().enumerate() {
            let rows = texts(&subject.rows(port, events));
            late_rows.extend(rows.into_iter().map(|row| format!("{port}: {row}")));
        }
        late_rows.sort();
        let batch =
            |events| Batch { number: 1000, events, late: Some(watermark), evict: Some(watermark) };
        let mixed: Vec<_> =
            on_time.iter().zip(&late).map(|(a, b)| [b.as_slice(), a].concat()).collect();
        let (mut state, mut expected_state) = (Contents::new(), Contents::new());
        let once = Handing::default;
        let expected = run(subject, &mut expected_state, &batch(on_time), &mut once());
        let outcome = run(subject, &mut state, &batch(mixed.clone()), &mut once());
        assert_eq!(outcome.sorted(), expected.sorted(), "output, seed {seed}");
        assert_eq!(state, expected_state, "state, seed {seed}");
        let dropped = outcome.counts.rows.late;
        assert_eq!(dropped, late_rows.len() as u64, "late rows are counted, seed {seed}");
        assert!(outcome.late.is_empty(), "nobody asked for late rows, seed {seed}");
        let mut asked = Handing { late_rows: LateHandling::HandOver, ..once() };
        let mut outcome = run(subject, &mut Contents::new(), &batch(mixed), &mut asked);
        outcome.late.sort();
        assert_eq!(outcome.late, late_rows, "late rows that are handed over, seed {seed}");
        assert_eq!(outcome.sorted(), expected.sorted(), "output beside them, seed {seed}");
    }
}

/// Law 5: once everything is over, nothing is remembered.
pub fn state_is_bounded_by_watermark(make: Make<'_>) {
    for seed in SEEDS {
        let subject = make();
        let subject = subject.as_ref();
        if !is_append(subject) {
            return;
        }
        let (_, mut contents) = whole(subject, seed, &mut |_| Handing::default());
        let events = vec![Vec::new(); subject.operator().ports()];
        let last = Batch { number: 1000, events, late: Some(FAR), evict: Some(FAR) };
        let before = subject.rows_in(&contents);
        let outcome = run(subject, &mut contents, &last, &mut Handing::default());
        assert_eq!(contents, Contents::new(), "seed {seed}");
        assert!(outcome.counts.rows_removed <= before, "no more was removed than there was");
    }
}

/// Law 6: no output batch is larger than asked for, and together they are the same.
pub fn output_is_bounded(make: Make<'_>) {
    for seed in SEEDS {
        let (expected, state) = whole(make().as_ref(), seed, &mut |_| Handing::default());
        for batch_rows in [1, 3] {
            let mut small = |_| Handing { batch_rows, ..Handing::default() };
            let (outcomes, small_state) = whole(make().as_ref(), seed, &mut small);
            assert_eq!(sorted(&outcomes), sorted(&expected), "output, seed {seed}");
            assert_eq!(small_state, state, "state, seed {seed}");
            let largest = outcomes.iter().map(|outcome| outcome.largest).max().unwrap_or(0);
            assert!(largest <= batch_rows, "{largest} rows for {batch_rows}, seed {seed}");
        }
    }
}

/// Law 7: what a batch writes is there when it evicts, so what came late enough to be complete
/// at once leaves no state, and in append mode leaves as output.
pub fn writes_before_it_evicts(make: Make<'_>) {
    for seed in SEEDS {
        let subject = make();
        let subject = subject.as_ref();
        if subject.mode() == OutputMode::Complete {
            return;
        }
        let mut rng = Rng::new(seed);
        let events = (0..subject.operator().ports()).map(|_| events(&mut rng, 10, 0)).collect();
        let batch = Batch { number: 1000, events, late: None, evict: Some(FAR) };
        let mut contents = Contents::new();
        let outcome = run(subject, &mut contents, &batch, &mut Handing::default());
        assert_eq!(contents, Contents::new(), "state, seed {seed}");
        assert!(!outcome.rows.is_empty(), "output, seed {seed}");
    }
}

/// Law 9: every row that was pushed is accounted for, once, however the input is cut and on
/// whatever partition it comes.
pub fn accounts_for_every_row(make: Make<'_>) {
    for seed in SEEDS {
        let subject = make();
        let (mut rng, mut contents) = (Rng::new(seed), Contents::new());
        for batch in batches(subject.as_ref(), &mut rng) {
            let number = batch.number;
            // Ahead of many events, so that rows are late.
            let ahead = batch.evict.map(|watermark| watermark + 40 * SECOND);
            let batch = Batch { late: ahead, evict: ahead, ..batch };
            let cut = Some(rng.fork());
            let partitions = 1 + rng.below(4) as u32;
            let mut handing = Handing { cut, partitions, ..Handing::default() };
            let outcome = run(subject.as_ref(), &mut contents, &batch, &mut handing);
            let account = outcome.counts.rows;
            let pushed = outcome.pushed;
            assert_eq!(account.total(), pushed, "batch {number}, seed {seed}: {account:?}");
        }
    }
}

/// The number of partitions may change with every batch: rows and state stay the same.
pub fn is_rescaling_invariant(make: Make<'_>) {
    for seed in SEEDS {
        let (expected, state) = whole(make().as_ref(), seed, &mut |_| Handing::default());
        let mut rng = Rng::new(!seed);
        // More partitions than key groups, too: some own nothing.
        let mut scaled = |_| Handing { partitions: 1 + rng.below(10) as u32, ..Handing::default() };
        let (outcomes, scaled_state) = whole(make().as_ref(), seed, &mut scaled);
        assert_eq!(sorted(&outcomes), sorted(&expected), "output, seed {seed}");
        assert_eq!(scaled_state, state, "state, seed {seed}");
        for (n, (outcome, expected)) in outcomes.iter().zip(&expected).enumerate() {
            assert_eq!(outcome.counts, expected.counts, "counts of batch {n}, seed {seed}");
        }
    }
}

/// Whatever `finish_input` and `drain` read was named by `prefetch`; `push` reads nothing that
/// the run did not write. [`super::TestStore`] refuses all else.
pub fn prefetches_what_it_reads(make: Make<'_>) {
    for seed in SEEDS {
        let mut rng = Rng::new(seed);
        let mut cut = |_| Handing { cut: Some(rng.fork()), batch_rows: 2, ..Handing::default() };
        whole(make().as_ref(), seed, &mut cut);
    }
}

/// Law 8: a store that is local spares an operator some work and changes nothing.
pub fn is_the_same_on_a_local_store(make: Make<'_>) {
    for seed in SEEDS {
        let expected = whole(make().as_ref(), seed, &mut |_| Handing::default());
        let mut local = |_| Handing { local: true, ..Handing::default() };
        let (outcomes, state) = whole(make().as_ref(), seed, &mut local);
        assert_eq!(sorted(&outcomes), sorted(&expected.0), "output, seed {seed}");
        assert_eq!(state, expected.1, "state, seed {seed}");
        for (n, (outcome, expected)) in outcomes.iter().zip(&expected.0).enumerate() {
            assert_eq!(outcome.counts, expected.counts, "counts of batch {n}, seed {seed}");
        }
    }
}
