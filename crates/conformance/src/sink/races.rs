//! Law 7, and laws 2 and 3 while several runs of one query live at once.

use super::Make;
use super::world::{Attempt, Task, World, interleave, patiently, publish, stage};
use fluvial_core::{BatchId, CommitOutcome, ErrorKind, Result};
use fluvial_sim::{CrashAt, Process, Rng, When};
use futures::future::LocalBoxFuture;

const SEEDS: std::ops::Range<u64> = 0..60;

/// Law 7: of three processes that commit one batch exactly one publishes; the others get its
/// note.
pub fn races_have_one_winner(make: Make<'_>) {
    for seed in SEEDS {
        let world = World::new(make);
        let mut rng = Rng::new(seed);
        world.drive(async {
            let world = &world;
            let attempts = [1, 2, 3].map(Attempt::new);
            let tasks: [Task<'_, Result<CommitOutcome>>; 3] = attempts.map(|attempt| {
                let process = world.disk.process();
                let mine = process.clone();
                let task = async move {
                    let (sink, _) = world.open(&mine, attempt).await?;
                    publish(sink.as_ref(), attempt, 0).await
                };
                (process, Box::pin(task) as LocalBoxFuture<'_, _>)
            });
            let mut winner = None;
            let mut told = Vec::new();
            let ended = interleave(&mut rng, tasks.into()).await;
            for (attempt, outcome) in attempts.into_iter().zip(ended) {
                match outcome.expect("nobody crashes").expect("commit") {
                    CommitOutcome::Committed => {
                        assert!(winner.replace(attempt).is_none(), "two winners, seed {seed}");
                    }
                    CommitOutcome::AlreadyCommitted(note) => told.push(note),
                }
            }
            let winner = winner.unwrap_or_else(|| panic!("nobody won, seed {seed}"));
            assert_eq!(world.visible().await, winner.values([0]), "seed {seed}");
            assert_eq!(told, [Some(winner.note(0)), Some(winner.note(0))], "seed {seed}");
        });
    }
}

/// Laws 2, 3 and 7 with zombies: runs that go on, or die somewhere, while others took over.
/// Every batch is published once, by one attempt; whoever is told `Committed` published it.
pub fn zombies_change_nothing(make: Make<'_>) {
    const END: u64 = 3;
    for seed in SEEDS {
        let world = World::new(make);
        let mut rng = Rng::new(seed);
        world.drive(async {
            let world = &world;
            let attempts = [1, 2, 3].map(Attempt::new);
            let tasks: [Task<'_, Result<Vec<u64>>>; 3] = attempts.map(|attempt| {
                let dies = attempt.number == 2 && rng.chance(50);
                let when = if rng.chance(50) { When::Before } else { When::After };
                let crash = dies.then(|| CrashAt { step: rng.below(30), when });
                let process = world.disk.mortal(crash);
                let mine = process.clone();
                (process, Box::pin(run(world, mine, attempt, END)) as LocalBoxFuture<'_, _>)
            });
            let ended = interleave(&mut rng, tasks.into()).await;
            let mut published: Vec<Option<Attempt>> = vec![None; END as usize];
            for (attempt, ended) in attempts.into_iter().zip(ended) {
                let Some(committed) = ended else { continue };
                for batch in committed.expect("a run without faults") {
                    let before = published[batch as usize].replace(attempt);
                    assert_eq!(before, None, "batch {batch} has two winners, seed {seed}");
                }
            }
            let seen = world.visible().await;
            let mut expected = Vec::new();
            for (batch, winner) in (0..END).zip(published) {
                // The run that died may have published without being told.
                let winner = winner.unwrap_or(attempts[1]);
                expected.extend(winner.values([batch]));
            }
            expected.sort_unstable();
            assert_eq!(seen, expected, "seed {seed}");
        });
    }
}

/// One run of batches `0..end`; the batches that it was told to have published.
async fn run(world: &World, process: Process, attempt: Attempt, end: u64) -> Result<Vec<u64>> {
    let (sink, last) = world.open(&process, attempt).await?;
    let mut committed = Vec::new();
    for batch in last.map_or(0, |last| last.0)..end {
        let staged = stage(sink.as_ref(), attempt, batch).await?;
        let note = attempt.note(batch);
        let commit = async || sink.commit(BatchId(batch), staged.clone(), &note).await;
        match patiently(commit).await {
            Ok(CommitOutcome::Committed) => committed.push(batch),
            Ok(CommitOutcome::AlreadyCommitted(_)) => {}
            // A sink may notice that it has been overtaken, and say so.
            Err(error) if error.kind() == ErrorKind::Fenced => break,
            Err(error) => return Err(error),
        }
    }
    Ok(committed)
}
