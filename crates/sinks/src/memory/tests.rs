use super::*;
use crate::testing::{note, numbers, publish, spec, values};
use fluvial_core::ErrorKind;
use futures::executor::block_on;

fn opened(mode: OutputMode) -> MemorySink {
    let sink = MemorySink::new("t");
    block_on(sink.open(&spec("q", mode))).unwrap();
    sink
}

#[test]
fn append_adds_rows_in_partition_order() {
    let sink = opened(OutputMode::Append);
    block_on(async {
        publish(&sink, 0, &[numbers(&[1]), numbers(&[2, 3])]).await.unwrap();
        publish(&sink, 1, &[numbers(&[]), numbers(&[4])]).await.unwrap();
    });
    assert_eq!(values(&sink.snapshot()), [1, 2, 3, 4]);
    let ids: Vec<_> = sink.batches().iter().map(|(batch, _)| batch.0).collect();
    assert_eq!(ids, [0, 0, 1]);
}

#[test]
fn complete_replaces_rows() {
    let sink = opened(OutputMode::Complete);
    block_on(async {
        publish(&sink, 0, &[numbers(&[1, 2])]).await.unwrap();
        publish(&sink, 1, &[numbers(&[3])]).await.unwrap();
    });
    assert_eq!(values(&sink.snapshot()), [3]);
}

/// Trap D2.
#[test]
fn staged_rows_are_invisible_and_an_old_batch_changes_nothing() {
    let sink = opened(OutputMode::Append);
    block_on(async {
        let mut writer = sink.writer(BatchId(0), PartitionId(0)).await.unwrap();
        writer.write(numbers(&[9])).await.unwrap();
        writer.stage().await.unwrap();
        assert!(sink.snapshot().is_empty());
        publish(&sink, 0, &[numbers(&[1])]).await.unwrap();
        publish(&sink, 1, &[numbers(&[2])]).await.unwrap();
        let old = publish(&sink, 0, &[numbers(&[7])]).await.unwrap();
        assert_eq!(old, CommitOutcome::AlreadyCommitted(None));
        let same = publish(&sink, 1, &[numbers(&[7])]).await.unwrap();
        assert_eq!(same, CommitOutcome::AlreadyCommitted(Some(note(1))));
    });
    assert_eq!(values(&sink.snapshot()), [1, 2]);
}

/// Trap I10.
#[test]
fn a_full_table_refuses_the_batch_and_keeps_what_it_has() {
    let limits = MemoryLimits { rows_max: 3, ..MemoryLimits::default() };
    let sink = MemorySink::new("t").with_limits(limits);
    block_on(async {
        sink.open(&spec("q", OutputMode::Append)).await.unwrap();
        publish(&sink, 0, &[numbers(&[1, 2])]).await.unwrap();
        let error = publish(&sink, 1, &[numbers(&[3, 4])]).await.unwrap_err();
        assert_eq!(error.condition(), Some("MEMORY_SINK_FULL"));
    });
    assert_eq!(values(&sink.snapshot()), [1, 2]);
}

/// Trap I10.
#[test]
fn a_lost_table_is_recovered_in_complete_mode_only() {
    let fresh = opened(OutputMode::Append);
    let error = block_on(publish(&fresh, 3, &[numbers(&[1])])).unwrap_err();
    assert_eq!(error.condition(), Some("MEMORY_SINK_CANNOT_RECOVER"));
    assert_eq!(error.kind(), ErrorKind::Invalid);

    let fresh = opened(OutputMode::Complete);
    block_on(publish(&fresh, 3, &[numbers(&[1])])).unwrap();
    assert_eq!(values(&fresh.snapshot()), [1]);
}

#[test]
fn a_second_run_in_the_same_process_goes_on() {
    let sink = opened(OutputMode::Append);
    block_on(async {
        publish(&sink, 0, &[numbers(&[1])]).await.unwrap();
        let again = sink.clone();
        let last = again.open(&spec("q", OutputMode::Append)).await.unwrap();
        assert_eq!(last, Some(BatchId(0)));
        publish(&again, 1, &[numbers(&[2])]).await.unwrap();
        let other = again.open(&spec("other", OutputMode::Append)).await.unwrap_err();
        assert_eq!(other.condition(), Some("SINK_OWNED_BY_ANOTHER_QUERY"));
    });
    assert_eq!(values(&sink.snapshot()), [1, 2]);
}
