//! Laws under crashes and faults, at every I/O step.

use super::Make;
use super::world::{Attempt, World, finish, publish, stage};
use fluvial_core::{BatchId, CommitOutcome, OutputMode, Sink};
use fluvial_sim::{CrashAt, Fault, Flaky, Rng, When};

/// Each run publishes batches `0..END`.
const END: u64 = 3;
const SEEDS: std::ops::Range<u64> = 0..40;

/// Law 2: after a crash at any step the reader sees whole batches, the next start is told how
/// many, data and note come from one attempt, and the rest of the work completes the output.
pub fn commit_is_atomic_under_crashes(make: Make<'_>) {
    every_crash_point(make, OutputMode::Append);
    let modes = World::new(make);
    if modes.sink(&modes.disk.process()).modes().contains(&OutputMode::Complete) {
        every_crash_point(make, OutputMode::Complete);
    }
}

fn every_crash_point(make: Make<'_>, mode: OutputMode) {
    let first = Attempt { mode, ..Attempt::new(1) };
    for step in 0.. {
        let mut survived = false;
        for when in [When::Before, When::After] {
            let place = format!("{mode} mode, crash {when:?} step {step}");
            let world = World::new(make);
            let process = world.disk.mortal(CrashAt { step, when });
            world.drive(async {
                let run = finish(&world, &process, first, END);
                if let Some(answer) = process.live(run).await {
                    answer.expect("a run without faults");
                    survived = true;
                }
                check_after_crash(&world, first, &place).await;
            });
        }
        if survived {
            break;
        }
    }
}

async fn check_after_crash(world: &World, first: Attempt, place: &str) {
    let seen = world.visible().await;
    let batches = (0..=END).find(|n| shown(first, first, *n, *n) == seen);
    let Some(batches) = batches else { panic!("torn: {place}: {seen:?}") };
    let second = Attempt { number: 2, ..first };
    let (sink, last) = world.opened(second).await;
    assert_eq!(last.map_or(0, |last| last.0 + 1), batches, "told: {place}");
    assert_eq!(world.visible().await, seen, "a start changed the output: {place}");
    if let Some(last) = last {
        check_note(sink.as_ref(), first, last.0, place).await;
    }
    for batch in batches..END {
        let outcome = publish(sink.as_ref(), second, batch).await.expect("commit");
        assert_eq!(outcome, CommitOutcome::Committed, "batch {batch} after recovery: {place}");
        check_note(sink.as_ref(), second, batch, place).await;
    }
    let expected = shown(first, second, batches, END);
    assert_eq!(world.visible().await, expected, "after recovery: {place}");
}

/// The note comes from the attempt whose rows are visible.
async fn check_note(sink: &dyn Sink, winner: Attempt, batch: u64, place: &str) {
    let again = publish(sink, Attempt { number: 3, ..winner }, batch).await.expect("commit");
    let expected = CommitOutcome::AlreadyCommitted(Some(winner.note(batch)));
    assert_eq!(again, expected, "the note of batch {batch}: {place}");
}

/// What a reader sees when `first` published batches `0..taken` and `second` the rest.
fn shown(first: Attempt, second: Attempt, taken: u64, end: u64) -> Vec<i64> {
    let start = if first.mode == OutputMode::Complete { end.saturating_sub(1) } else { 0 };
    let of = |batch| if batch < taken { first } else { second };
    let mut values: Vec<_> = (start..end).flat_map(|batch| of(batch).values([batch])).collect();
    values.sort_unstable();
    values
}

/// Laws 2 and 3 over chains of crashes, also during recovery, with errors in between.
pub fn restarts_end_well(make: Make<'_>) {
    for seed in SEEDS {
        let mut rng = Rng::new(seed);
        let world = World::new(make);
        world.drive(async {
            let lives = 2 + rng.below(4) as i64;
            for number in 1..=lives {
                let when = if rng.chance(50) { When::Before } else { When::After };
                let crash = CrashAt { step: rng.below(40), when };
                let process = world.disk.flaky(Flaky::new(rng.next_u64(), 10), crash);
                let run = finish(&world, &process, Attempt::new(number), END);
                // An error is a way to die: the next life must cope with what is there.
                let _ = process.live(run).await;
                check_batches(&world.visible().await, lives, seed);
            }
            let last = Attempt::new(lives + 1);
            finish(&world, &world.disk.process(), last, END).await.expect("a run without faults");
            let seen = world.visible().await;
            check_batches(&seen, lives + 1, seed);
            assert_eq!(seen.len(), Attempt::new(1).values(0..END).len(), "seed {seed}: {seen:?}");
        });
    }
}

/// Whole batches, each from one attempt and once, without a hole.
fn check_batches(seen: &[i64], attempts: i64, seed: u64) {
    let mut expected = Vec::new();
    for batch in 0..END {
        let of = |n: &i64| seen.contains(&Attempt::new(*n).parts(batch)[0][0]);
        let Some(winner) = (1..=attempts).find(of) else { break };
        expected.extend(Attempt::new(winner).values([batch]));
    }
    expected.sort_unstable();
    assert_eq!(seen, expected, "seed {seed}: torn, repeated or with a hole");
}

/// Laws 2 and 3 when calls fail or their answers are lost, and the caller repeats what it is told
/// to repeat.
pub fn faults_do_no_damage(make: Make<'_>) {
    let attempt = Attempt::new(1);
    for fault in Fault::ALL {
        for step in 0.. {
            let world = World::new(make);
            let process = world.disk.faulty(step, fault);
            world.drive(async {
                let place = format!("{fault:?} at step {step}");
                if let Err(error) = finish(&world, &process, attempt, END).await {
                    panic!("{place}: a passing fault ended the run: {error}");
                }
                assert_eq!(world.visible().await, attempt.values(0..END), "{place}");
            });
            if process.steps() <= step {
                break;
            }
        }
    }
    repeated_commit_after_a_lost_answer(make);
}

/// The first commit is told to have failed and is repeated by a process that knows nothing.
fn repeated_commit_after_a_lost_answer(make: Make<'_>) {
    let (first, second) = (Attempt::new(1), Attempt::new(2));
    for step in 0.. {
        let world = World::new(make);
        let process = world.disk.faulty(step, Fault::LostAck);
        world.drive(async {
            let run = async {
                let sink = world.sink(&process);
                sink.open(&first.spec()).await?;
                let staged = stage(sink.as_ref(), first, 0).await?;
                sink.commit(BatchId(0), staged, &first.note(0)).await
            };
            let _ = run.await;
            let (sink, last) = world.opened(second).await;
            let outcome = publish(sink.as_ref(), second, 0).await.expect("commit");
            let winner = if last.is_some() { first } else { second };
            let told = match outcome {
                CommitOutcome::Committed => second,
                CommitOutcome::AlreadyCommitted(_) => first,
            };
            assert_eq!(told, winner, "lost answer at step {step}");
            assert_eq!(world.visible().await, winner.values([0]), "lost answer at step {step}");
        });
        if process.steps() <= step {
            break;
        }
    }
}
