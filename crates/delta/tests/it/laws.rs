//! The laws of sinks, over a simulated store.
//!
//! The Delta library reads its log on threads of its own, so an interleaving of several
//! processes is not the same in every run while they open; between opening and the end it is.

use crate::table::{PLACE, drive_local, read_numbers};
use fluvial_conformance::sink::{Destination, Owners};
use fluvial_core::{Result, Sink};
use fluvial_delta::{DeltaOptions, DeltaSink, TableLocation};
use fluvial_sim::Disk;
use futures::future::{BoxFuture, LocalBoxFuture};
use object_store::ObjectStore;
use std::sync::Arc;

fluvial_conformance::sink!(durable: delta_sink, || Table);

/// A table with frequent checkpoints.
struct Table;

impl Destination for Table {
    fn sink(&self, store: Arc<dyn ObjectStore>) -> Box<dyn Sink> {
        let location = TableLocation::parse(PLACE).unwrap().with_store(store);
        let mut options = DeltaOptions::default();
        options.properties.insert("delta.checkpointInterval".into(), "10".into());
        Box::new(DeltaSink::new(location, options))
    }

    fn visible(&self, store: Arc<dyn ObjectStore>) -> BoxFuture<'_, Result<Vec<i64>>> {
        Box::pin(async move {
            let location = TableLocation::parse(PLACE).unwrap().with_store(store.clone());
            // Before the first sink opens there is no table.
            match fluvial_delta::table_provider(&location, Default::default()).await {
                Err(error) if error.condition() == Some("DELTA_TABLE_NOT_FOUND") => Ok(Vec::new()),
                Err(error) => Err(error),
                Ok(_) => Ok(read_numbers(&store).await),
            }
        })
    }

    fn owners(&self) -> Owners {
        Owners::Many
    }

    fn drive(&self, work: LocalBoxFuture<'_, ()>) {
        drive_local(work);
    }
}

#[test]
fn a_batch_costs_one_write_of_data_one_of_the_log_and_no_listing() {
    use crate::table::{numbers, opened, publish};
    use fluvial_core::OutputMode;
    use fluvial_sim::Op;
    let process = Disk::new().process();
    let store = process.store();
    crate::table::drive(async {
        let (sink, _) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        publish(&sink, 0, &numbers(&[1])).await.unwrap();
        let before = process.calls().len();
        publish(&sink, 1, &numbers(&[2])).await.unwrap();
        let ops: Vec<_> = process.calls()[before..].iter().map(|call| call.op).collect();
        assert_eq!(ops, [Op::Put, Op::Create, Op::Get], "data, log, look for a checkpoint");
    });
}
