//! Sinks that forget with their value keep the laws as long as it lives.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use fluvial_conformance::sink::{Destination, Owners};
use fluvial_core::{Result, Sink};
use fluvial_sinks::MemorySink;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use std::sync::Arc;

fluvial_conformance::sink!(in_process: memory, || Memory(MemorySink::new("t")));

fn values(rows: &[RecordBatch]) -> Vec<i64> {
    rows.iter().flat_map(|r| r.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

struct Memory(MemorySink);

impl Destination for Memory {
    fn sink(&self, _: Arc<dyn ObjectStore>) -> Box<dyn Sink> {
        Box::new(self.0.clone())
    }

    fn visible(&self, _: Arc<dyn ObjectStore>) -> BoxFuture<'_, Result<Vec<i64>>> {
        Box::pin(async { Ok(values(&self.0.snapshot())) })
    }

    fn owners(&self) -> Owners {
        Owners::One
    }
}
