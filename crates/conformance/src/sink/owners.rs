//! Law 4: one owner, or several that do not disturb each other.

use super::world::{Attempt, Task, World, interleave, publish};
use super::{Make, Owners};
use fluvial_core::{BatchId, CommitOutcome, ErrorKind, Result};
use fluvial_sim::Rng;
use futures::future::LocalBoxFuture;

const SEEDS: std::ops::Range<u64> = 0..20;

/// Law 4, by what the destination declares.
pub fn one_owner(make: Make<'_>) {
    match World::new(make).place().owners() {
        Owners::One => {
            others_are_refused(make);
            one_of_two_becomes_the_owner(make);
        }
        Owners::Many => owners_are_kept_apart(make),
    }
}

fn others_are_refused(make: Make<'_>) {
    let world = World::new(make);
    world.drive(async {
        let (owner, other) = (Attempt::of("owner", 1), Attempt::of("other", 2));
        let (sink, _) = world.opened(owner).await;
        let refuse = async |when: &str| {
            let error = world.open(&world.disk.process(), other).await.err();
            let error = error.unwrap_or_else(|| panic!("another query was let in {when}"));
            assert_eq!(error.kind(), ErrorKind::Invalid, "{when}: {error}");
            assert!(error.message().contains("owner"), "{when}: names the owner: {error}");
        };
        refuse("before the first batch").await;
        publish(sink.as_ref(), owner, 0).await.expect("commit");
        refuse("after a batch").await;
        assert_eq!(world.visible().await, owner.values([0]));
        let (sink, last) = world.opened(Attempt::of("owner", 3)).await;
        assert_eq!(last, Some(BatchId(0)), "the owner comes back");
        let outcome = publish(sink.as_ref(), owner, 1).await.expect("commit");
        assert_eq!(outcome, CommitOutcome::Committed);
    });
}

fn one_of_two_becomes_the_owner(make: Make<'_>) {
    for seed in SEEDS {
        let world = World::new(make);
        let attempts = [Attempt::of("owner", 1), Attempt::of("other", 2)];
        world.drive(async {
            let world = &world;
            let tasks: [Task<'_, Result<CommitOutcome>>; 2] = attempts.map(|attempt| {
                let process = world.disk.process();
                let mine = process.clone();
                let task = async move {
                    let (sink, _) = world.open(&mine, attempt).await?;
                    publish(sink.as_ref(), attempt, 0).await
                };
                (process, Box::pin(task) as LocalBoxFuture<'_, _>)
            });
            let ended = interleave(&mut Rng::new(seed), tasks.into()).await;
            let won: Vec<_> =
                (0..2).filter(|i| matches!(&ended[*i], Some(Ok(_)))).map(|i| attempts[i]).collect();
            assert_eq!(won.len(), 1, "seed {seed}: one of two queries owns the place: {ended:?}");
            assert_eq!(world.visible().await, won[0].values([0]), "seed {seed}");
        });
    }
}

fn owners_are_kept_apart(make: Make<'_>) {
    for seed in SEEDS {
        let world = World::new(make);
        let attempts = [Attempt::of("one", 1), Attempt::of("two", 2)];
        world.drive(async {
            let world = &world;
            let tasks: [Task<'_, Result<()>>; 2] = attempts.map(|attempt| {
                let process = world.disk.process();
                let mine = process.clone();
                let task = async move {
                    let (sink, last) = world.open(&mine, attempt).await?;
                    assert_eq!(last, None, "batches of another query count");
                    for batch in 0..3 {
                        let outcome = publish(sink.as_ref(), attempt, batch).await?;
                        assert_eq!(outcome, CommitOutcome::Committed, "batch {batch}");
                    }
                    Ok(())
                };
                (process, Box::pin(task) as LocalBoxFuture<'_, _>)
            });
            for ended in interleave(&mut Rng::new(seed), tasks.into()).await {
                ended.expect("nobody crashes").expect("writers do not disturb each other");
            }
            let expected = attempts.map(|attempt| attempt.values(0..3)).concat();
            assert_eq!(world.visible().await, expected, "seed {seed}");
            for attempt in attempts {
                let (sink, last) = world.opened(attempt).await;
                assert_eq!(last, Some(BatchId(2)), "seed {seed}: {}", attempt.query);
                let late = Attempt { number: 9, ..attempt };
                let outcome = publish(sink.as_ref(), late, 2).await.expect("commit");
                let note = Some(attempt.note(2));
                assert_eq!(outcome, CommitOutcome::AlreadyCommitted(note), "seed {seed}");
            }
        });
    }
}
