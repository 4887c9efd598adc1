//! A log that somebody else has damaged.

use crate::hand::{Hand, Reading};
use crate::table::{drive, location, numbers, opened, publish, spec};
use fluvial_core::{Error, ErrorKind, OutputMode, Sink};
use fluvial_delta::{DeltaOptions, DeltaSink, TableVersion, table_provider};
use fluvial_sim::Disk;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::json;

fn assert_names(error: &Error, version: u64, kept: usize) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{kept} bytes: {error}");
    assert!(error.message().contains(&format!("version {version} of the log")), "{error}");
}

#[test]
fn a_version_that_is_cut_off_or_empty_stops_a_stream_by_its_number() {
    drive(async {
        let hand = Hand::new(&Disk::new(), json!({}));
        hand.append("k=p/a", &[1]);
        let version = hand.append("k=p/b", &[2]);
        hand.append("k=p/c", &[3]);
        let (disk, log) = (&hand.disk, Path::from(hand.log(version)));
        let whole = disk.process().store().get(&log).await.unwrap().bytes().await.unwrap();
        let source = async || hand.open(&[("startingVersion", "1")]).await;
        for kept in 0..whole.len() {
            disk.write(log.as_ref(), whole.clone());
            let mut query = Reading::new(source().await.unwrap()).await;
            disk.write(log.as_ref(), whole.slice(..kept));
            // What comes before it is read.
            assert_eq!(query.batch().await.unwrap(), Some(vec![1]));
            for _ in 0..2 {
                assert_names(&query.batch().await.unwrap_err(), version, kept);
            }
            // The library passes over what is empty.
            if kept > 0 {
                let error = source().await.err().unwrap();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{kept} bytes: {error}");
            }
        }
    });
}

#[test]
fn a_version_that_is_cut_off_or_empty_between_ours_stops_a_writer_by_its_number() {
    let append = |value: i64| numbers(&[value]);
    for kept in [0, 1, 30] {
        drive(async {
            let disk = Disk::new();
            let store = disk.process().store();
            let (sink, _) = opened(&store, "q", OutputMode::Append, &append(0)).await;
            publish(&sink, 0, &append(0)).await.unwrap();
            let log = |version: u64| format!("warehouse/table/_delta_log/{version:020}.json");
            let ours = store.get(&Path::from(log(1))).await.unwrap().bytes().await.unwrap();
            disk.write(&log(2), ours.slice(..kept));
            assert_names(&publish(&sink, 1, &append(1)).await.unwrap_err(), 2, kept);
            // Once it is whole, the same batch goes on.
            let other = DeltaSink::new(location(&store), DeltaOptions::default());
            disk.remove(&log(2));
            other.open(&spec("other", OutputMode::Append, append(0).schema())).await.unwrap();
            publish(&other, 0, &append(7)).await.unwrap();
            publish(&sink, 1, &append(1)).await.unwrap();
            assert_eq!(crate::table::read_numbers(&store).await, [0, 1, 7]);
        });
    }
}

#[test]
fn an_empty_version_stops_whoever_reads_or_opens_the_table() {
    drive(async {
        let disk = Disk::new();
        let store = disk.process().store();
        let append = |value: i64| numbers(&[value]);
        let properties = [("delta.checkpointInterval".into(), "5".into())].into();
        let options = DeltaOptions { properties, ..DeltaOptions::default() };
        let sink = DeltaSink::new(location(&store), options);
        let spec = |query| spec(query, OutputMode::Append, append(0).schema());
        sink.open(&spec("q")).await.unwrap();
        for batch in 0..3 {
            publish(&sink, batch, &append(7)).await.unwrap();
        }
        let log = |version: u64| format!("warehouse/table/_delta_log/{version:020}.json");
        let whole = store.get(&Path::from(log(2))).await.unwrap().bytes().await.unwrap();
        disk.write(&log(2), Vec::new());
        let read = async |version| table_provider(&location(&store), version).await;
        for version in [TableVersion::Newest, TableVersion::Number(2)] {
            assert_names(&read(version).await.unwrap_err(), 2, 0);
        }
        // What was there before is.
        read(TableVersion::Number(1)).await.unwrap();
        let other = DeltaSink::new(location(&store), DeltaOptions::default());
        assert_names(&other.open(&spec("other")).await.unwrap_err(), 2, 0);
        disk.write(&log(2), whole);
        other.open(&spec("other")).await.unwrap();
        // Below a checkpoint only who reads that far back needs it.
        publish(&sink, 3, &append(7)).await.unwrap();
        disk.write(&log(2), Vec::new());
        read(TableVersion::Newest).await.unwrap();
        assert_names(&read(TableVersion::Number(3)).await.unwrap_err(), 2, 0);
    });
}
