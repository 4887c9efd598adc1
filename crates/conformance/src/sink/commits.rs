//! Laws that need no crash: what is visible when, what is remembered.

use super::Make;
use super::world::{Attempt, World, publish, rows, stage};
use fluvial_core::{BatchId, CommitOutcome, OutputMode, PartitionId};

/// Law 1. Neither writers nor a restart make staged rows visible.
pub fn staged_is_invisible(make: Make<'_>) {
    let world = World::new(make);
    world.drive(async {
        let attempt = Attempt::new(1);
        let (sink, _) = world.opened(attempt).await;
        let mut unfinished = sink.writer(BatchId(0), PartitionId(7)).await.expect("writer");
        unfinished.write(rows(&[1])).await.expect("write");
        assert!(world.visible().await.is_empty(), "written rows are visible");
        stage(sink.as_ref(), attempt, 0).await.expect("stage");
        assert!(world.visible().await.is_empty(), "staged rows are visible");
        let (_, last) = world.opened(Attempt::new(2)).await;
        assert_eq!(last, None);
        assert!(world.visible().await.is_empty(), "a restart made staged rows visible");
    });
}

/// Law 3: also for older batches, other data, fewer partitions and another process.
pub fn commit_is_idempotent(make: Make<'_>) {
    let world = World::new(make);
    world.drive(async {
        let first = Attempt::new(1);
        let (sink, _) = world.opened(first).await;
        for batch in 0..3 {
            let outcome = publish(sink.as_ref(), first, batch).await.expect("commit");
            assert_eq!(outcome, CommitOutcome::Committed, "batch {batch}");
        }
        let expected = first.values(0..3);
        assert_eq!(world.visible().await, expected);
        let second = Attempt::new(2);
        let (other, _) = world.opened(second).await;
        for batch in [2, 0, 1, 2] {
            for (sink, attempt) in [(&sink, first), (&other, second)] {
                let staged = stage(sink.as_ref(), attempt, batch).await.expect("stage");
                for staged in [staged.clone(), staged[1..].to_vec(), Vec::new()] {
                    let outcome = sink
                        .commit(BatchId(batch), staged, &attempt.note(batch))
                        .await
                        .expect("commit");
                    assert_already(&outcome, batch, 2, first);
                    assert_eq!(world.visible().await, expected, "batch {batch} again");
                }
            }
        }
        let outcome = publish(other.as_ref(), second, 3).await.expect("commit");
        assert_eq!(outcome, CommitOutcome::Committed, "the next batch");
        assert_eq!(world.visible().await, [expected, second.values([3])].concat());
    });
}

/// A repeated commit answers with the note of the attempt that won, surely for the newest batch.
fn assert_already(outcome: &CommitOutcome, batch: u64, newest: u64, winner: Attempt) {
    match outcome {
        CommitOutcome::AlreadyCommitted(Some(note)) => {
            assert_eq!(*note, winner.note(batch), "the note of batch {batch}");
        }
        CommitOutcome::AlreadyCommitted(None) => {
            assert_ne!(batch, newest, "the note of the newest batch is gone");
        }
        CommitOutcome::Committed => panic!("batch {batch} was committed twice"),
    }
}

/// Law 3: the note comes back byte for byte, from any process, batch after batch.
pub fn note_is_kept(make: Make<'_>) {
    let world = World::new(make);
    world.drive(async {
        for batch in 0..4 {
            let attempt = Attempt::new(batch as i64 + 1);
            let (sink, _) = world.opened(attempt).await;
            publish(sink.as_ref(), attempt, batch).await.expect("commit");
            let later = Attempt::new(9);
            for sink in [sink, world.opened(later).await.0] {
                let outcome = publish(sink.as_ref(), later, batch).await.expect("commit");
                let expected = CommitOutcome::AlreadyCommitted(Some(attempt.note(batch)));
                assert_eq!(outcome, expected, "batch {batch}");
            }
        }
    });
}

/// Law 5.
pub fn told(make: Make<'_>) {
    let world = World::new(make);
    world.drive(async {
        let mut expected = None;
        for batch in 0..4 {
            let attempt = Attempt::new(batch as i64 + 1);
            let (sink, last) = world.opened(attempt).await;
            assert_eq!(last, expected, "before batch {batch}");
            stage(sink.as_ref(), attempt, batch).await.expect("stage");
            assert_eq!(world.opened(attempt).await.1, expected, "batch {batch} is only staged");
            publish(sink.as_ref(), attempt, batch).await.expect("commit");
            expected = Some(BatchId(batch));
        }
        assert_eq!(world.opened(Attempt::new(9)).await.1, expected);
    });
}

/// Law 6, also for an attempt that was staged and then given up.
pub fn drop_aborts(make: Make<'_>) {
    let world = World::new(make);
    world.drive(async {
        let attempt = Attempt::new(1);
        let (sink, _) = world.opened(attempt).await;
        let mut writer = sink.writer(BatchId(0), PartitionId(0)).await.expect("writer");
        writer.write(rows(&[1])).await.expect("write");
        drop(writer);
        stage(sink.as_ref(), Attempt::new(2), 0).await.expect("stage");
        publish(sink.as_ref(), attempt, 0).await.expect("commit");
        assert_eq!(world.visible().await, attempt.values([0]), "an aborted attempt is visible");
        publish(sink.as_ref(), attempt, 1).await.expect("commit");
        assert_eq!(world.visible().await, attempt.values(0..2), "an aborted attempt came later");
    });
}

/// Laws 2, 3 and 5 over so many batches that whatever the sink folds together was folded.
pub fn history_is_kept(make: Make<'_>) {
    const BATCHES: u64 = 25;
    let world = World::new(make);
    world.drive(async {
        let attempt = Attempt::new(1);
        let (mut sink, _) = world.opened(attempt).await;
        for batch in 0..BATCHES {
            if batch % 7 == 6 {
                sink = world.opened(attempt).await.0;
            }
            let outcome = publish(sink.as_ref(), attempt, batch).await.expect("commit");
            assert_eq!(outcome, CommitOutcome::Committed, "batch {batch}");
        }
        assert_eq!(world.visible().await, attempt.values(0..BATCHES));
        let (late, last) = world.opened(Attempt::new(2)).await;
        assert_eq!(last, Some(BatchId(BATCHES - 1)));
        for batch in 0..BATCHES {
            let outcome = publish(late.as_ref(), Attempt::new(2), batch).await.expect("commit");
            assert_already(&outcome, batch, BATCHES - 1, attempt);
        }
        assert_eq!(world.visible().await, attempt.values(0..BATCHES));
    });
}

/// What complete mode means, for sinks that take it: a batch replaces the result.
pub fn complete_replaces(make: Make<'_>) {
    let world = World::new(make);
    if !world.sink(&world.disk.process()).modes().contains(&OutputMode::Complete) {
        return;
    }
    world.drive(async {
        let attempt = Attempt { mode: OutputMode::Complete, ..Attempt::new(1) };
        for batch in 0..3 {
            let (sink, _) = world.opened(attempt).await;
            publish(sink.as_ref(), attempt, batch).await.expect("commit");
            assert_eq!(world.visible().await, attempt.values([batch]), "batch {batch}");
            let outcome = publish(sink.as_ref(), Attempt { number: 2, ..attempt }, batch).await;
            assert_already(&outcome.expect("commit"), batch, batch, attempt);
            assert_eq!(world.visible().await, attempt.values([batch]), "batch {batch} again");
        }
    });
}
