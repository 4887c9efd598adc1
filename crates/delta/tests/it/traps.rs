//! How others failed with Delta tables: group D of `docs/src/traps.md`, where no other file has it.

use crate::hand::Hand;
use crate::table::{drive, load, location, memory, numbers, opened, publish, read_numbers, spec};
use fluvial_core::options::Options;
use fluvial_core::{ErrorKind, OutputMode, Sink};
use fluvial_delta::{DeltaOptions, DeltaSink, TableVersion};
use fluvial_sim::{Disk, Fault, Op, Process};
use object_store::ObjectStoreExt;
use serde_json::{Value, json};

/// Trap D8.
#[test]
fn an_already_exists_that_wrote_nothing_is_tried_again() {
    // Which call creates the version of batch 1, counting all calls of the process.
    let creates = |process: &Process| {
        let calls = process.calls();
        calls.iter().rposition(|call| call.op == Op::Create).unwrap() as u64
    };
    let two = |process: Process| {
        let store = process.store();
        drive(async move {
            let (sink, _) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
            publish(&sink, 0, &numbers(&[1])).await.unwrap();
            let first = publish(&sink, 1, &numbers(&[2])).await;
            let again = match &first {
                Ok(_) => None,
                Err(_) => Some(publish(&sink, 1, &numbers(&[2])).await.unwrap()),
            };
            (first.map(drop), again, read_numbers(&store).await)
        })
    };
    let undisturbed = Disk::new().process();
    let (first, _, rows) = two(undisturbed.clone());
    first.unwrap();
    assert_eq!(rows, [1, 2]);
    let at = creates(&undisturbed);
    for fault in [Fault::Conflict, Fault::LostAck] {
        let process = Disk::new().mortal(None).with_faults([(at, fault)]);
        let (first, _, rows) = two(process);
        match fault {
            // Nothing is there: whoever asked may ask again.
            Fault::Conflict => assert_eq!(first.unwrap_err().kind(), ErrorKind::Unavailable),
            // Our own bytes are there.
            _ => first.unwrap(),
        }
        assert_eq!(rows, [1, 2], "{fault:?}");
    }
}

/// Trap D11.
#[test]
fn complete_mode_removes_files_with_the_vectors_that_they_have() {
    drive(async {
        let hand = Hand::new(&Disk::new(), json!({}));
        let mut add = hand.add("k=p/a", &[1, 2, 3]);
        hand.delete(&mut add, 7, &[1]);
        let version = hand.commit(&[add.clone()]);
        let store = hand.disk.process().store();
        let sink = DeltaSink::new(location(&store), DeltaOptions::default());
        let rows = numbers(&[9]);
        let rows = arrow::array::RecordBatch::try_from_iter([("v", rows.column(0).clone())]);
        let rows = rows.unwrap();
        sink.open(&spec("q", OutputMode::Complete, rows.schema())).await.unwrap();
        publish(&sink, 0, &rows).await.unwrap();
        let log = format!("warehouse/table/_delta_log/{:020}.json", version + 1);
        let bytes = store.get(&log.into()).await.unwrap().bytes().await.unwrap();
        let lines = std::str::from_utf8(&bytes).unwrap().lines();
        let actions: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let removed = actions.iter().find_map(|action| action.get("remove")).unwrap();
        let vector = |of: &Value| of["deletionVector"]["pathOrInlineDv"].clone();
        assert!(vector(&add["add"]).is_string());
        assert_eq!(vector(removed), vector(&add["add"]));
    });
}

/// Trap D15.
#[test]
fn versions_that_are_kept_are_read_after_the_log_was_cleaned() {
    let store = memory();
    drive(async {
        let properties = [
            ("delta.checkpointInterval", "10"),
            // Everything may go that can.
            ("delta.logRetentionDuration", "interval 0 days"),
        ];
        let options = DeltaOptions::parse(Options::new(properties), Vec::new()).unwrap();
        let sink = DeltaSink::new(location(&store), options);
        sink.open(&spec("q", OutputMode::Append, numbers(&[]).schema())).await.unwrap();
        let count = 34;
        for batch in 0..count {
            publish(&sink, batch, &numbers(&[batch as i64])).await.unwrap();
        }
        // Version n + 1 is batch n. The newest checkpoint is the last multiple of ten, less one.
        let newest = load(&store).await.version().unwrap();
        assert_eq!(newest, count);
        let checkpoint = (newest + 1) / 10 * 10 - 1;
        for version in checkpoint..=newest {
            let version = TableVersion::Number(version);
            let table = fluvial_delta::table_provider(&location(&store), version).await;
            table.unwrap_or_else(|e| panic!("{version:?}: {e}"));
        }
        assert_eq!(read_numbers(&store).await, Vec::from_iter(0..count as i64));
        let history = fluvial_delta::history(&location(&store), None).await.unwrap();
        assert!(history.num_rows() < count as usize, "nothing was cleaned: {}", history.num_rows());
    });
}
