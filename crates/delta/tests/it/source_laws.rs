//! The laws of sources, over logs that are written by hand.

use crate::hand::{Hand, numbers, open, texts};
use crate::table::drive_local;
use async_trait::async_trait;
use fluvial_conformance::source::SourceWorld;
use fluvial_core::Source;
use fluvial_sim::Disk;
use futures::future::LocalBoxFuture;
use object_store::ObjectStore;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a portion of data is.
#[derive(Clone, Copy)]
enum Portion {
    /// One or two files, and sometimes a version that only moves rows.
    Files,
    /// A file with deleted rows, in a version that removes another one.
    Deleted,
    /// Rows that changed, in files of changes or not.
    Changes,
}

struct Table {
    hand: Hand,
    portion: Portion,
    fed: AtomicU64,
}

impl Table {
    fn world(disk: &Disk, portion: Portion) -> Box<dyn SourceWorld> {
        let feed = matches!(portion, Portion::Changes);
        let properties = json!({"delta.enableChangeDataFeed": feed.to_string()});
        Box::new(Self { hand: Hand::new(disk, properties), portion, fed: AtomicU64::new(0) })
    }
}

#[async_trait]
impl SourceWorld for Table {
    async fn open(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn Source> {
        let options = match self.portion {
            Portion::Files => [("failOnDataLoss", "true")],
            Portion::Deleted => [("ignoreChanges", "true")],
            Portion::Changes => [("readChangeFeed", "true")],
        };
        Arc::new(open(store, &options).await.unwrap())
    }

    fn feed(&self) {
        let n = self.fed.fetch_add(1, Ordering::Relaxed);
        let first = n as i64 * 10;
        let hand = &self.hand;
        match self.portion {
            Portion::Files => {
                if n % 3 == 1 {
                    let mut moved = hand.add(&format!("k=p/{n}-moved"), &[1]);
                    moved["add"]["dataChange"] = false.into();
                    hand.commit(&[moved]);
                }
                let one = hand.add(&format!("k=p/{n}-a"), &[first, first + 1, first + 2]);
                let two = hand.add(&format!("k=p/{n}-b"), &[first + 3, first + 4, first + 5]);
                hand.commit(&[one, two][..1 + (n % 2) as usize]);
            }
            Portion::Deleted => {
                let values = [first, first + 1, first + 2, first + 3];
                let mut add = hand.add(&format!("k=p/{n}"), &values);
                hand.delete(&mut add, n.into(), &[n % 4]);
                hand.commit(&[hand.remove("k=p/older"), add]);
            }
            Portion::Changes if n.is_multiple_of(2) => {
                let add = hand.add(&format!("k=p/{n}"), &[first, first + 1, first + 2]);
                hand.commit(&[add]);
            }
            Portion::Changes => {
                let path = format!("_change_data/k=p/{n}");
                let kinds = texts(&["update_preimage", "update_postimage", "delete"]);
                let values = numbers(&[first, first + 1, first + 2]);
                let size = hand.file(&path, &[("v", values), ("_change_type", kinds)]);
                let cdc = json!({"cdc": {
                    "path": path, "partitionValues": {"k": "p"}, "size": size, "dataChange": false,
                }});
                let add = hand.add(&format!("k=p/{n}"), &[first]);
                hand.commit(&[add, cdc]);
            }
        }
    }

    fn unit_rows(&self) -> u64 {
        3
    }

    fn drive(&self, work: LocalBoxFuture<'_, ()>) {
        drive_local(work);
    }
}

fluvial_conformance::source!(appends, |disk: &Disk| Table::world(disk, Portion::Files));
fluvial_conformance::source!(deletion_vectors, |disk: &Disk| {
    Table::world(disk, Portion::Deleted)
});
fluvial_conformance::source!(change_feed, |disk: &Disk| Table::world(disk, Portion::Changes));
