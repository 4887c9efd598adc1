//! Sinks that forget with their value keep the laws as long as it lives. What is visible of a
//! console or a callback is all that it was given; of noop it is nothing, so only the laws about
//! what it remembers apply.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use fluvial_conformance::sink::{Destination, Owners};
use fluvial_core::{
    BatchId, CommitOutcome, Note, OutputMode, PartitionId, Result, Sink, SinkSpec, SinkWriter,
    Staged,
};
use fluvial_sinks::{ConsoleSink, ForeachBatchSink, MemorySink, NoopSink, Truncate};
use futures::future::BoxFuture;
use object_store::ObjectStore;
use std::io::Write;
use std::sync::{Arc, Mutex};

fluvial_conformance::sink!(in_process: memory, || Memory(MemorySink::new("t")));

fluvial_conformance::sink!(@laws foreach_batch, Shown::callback, [
    staged_is_invisible
    commit_is_idempotent
    note_is_kept
    told
    drop_aborts
    history_is_kept
    one_owner
    races_have_one_winner
    zombies_change_nothing
]);

fluvial_conformance::sink!(@laws console, Shown::console, [
    staged_is_invisible
    commit_is_idempotent
    note_is_kept
    told
    drop_aborts
    history_is_kept
    one_owner
    races_have_one_winner
    zombies_change_nothing
]);

fluvial_conformance::sink!(@laws noop, Shown::nothing, [note_is_kept told]);

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

/// A sink that cannot be looked into, and what came out of it.
struct Shown {
    sink: Arc<dyn Sink>,
    seen: Arc<Mutex<Vec<i64>>>,
}

impl Shown {
    fn callback() -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let out = Arc::clone(&seen);
        let sink = ForeachBatchSink::new(move |_, rows: Vec<RecordBatch>| {
            out.lock().unwrap().extend(values(&rows));
            async { Ok(()) }
        });
        Self { sink: Arc::new(sink), seen }
    }

    fn console() -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let printed = Printed { line: Vec::new(), seen: Arc::clone(&seen) };
        let sink = ConsoleSink::new(Box::new(printed)).with_truncate(Truncate::Never);
        Self { sink: Arc::new(sink), seen }
    }

    fn nothing() -> Self {
        Self { sink: Arc::new(NoopSink::new()), seen: Arc::default() }
    }
}

impl Destination for Shown {
    fn sink(&self, _: Arc<dyn ObjectStore>) -> Box<dyn Sink> {
        Box::new(Handle(Arc::clone(&self.sink)))
    }

    fn visible(&self, _: Arc<dyn ObjectStore>) -> BoxFuture<'_, Result<Vec<i64>>> {
        Box::pin(async { Ok(self.seen.lock().unwrap().clone()) })
    }

    fn owners(&self) -> Owners {
        Owners::One
    }
}

/// The numbers in a table of one column, line by line as they are printed.
struct Printed {
    line: Vec<u8>,
    seen: Arc<Mutex<Vec<i64>>>,
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = String::from_utf8(std::mem::take(&mut self.line)).unwrap();
            let cell = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
            let number = cell.and_then(|cell| cell.trim().parse::<i64>().ok());
            self.seen.lock().unwrap().extend(number);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One process's hold on a value that all share.
struct Handle(Arc<dyn Sink>);

#[async_trait]
impl Sink for Handle {
    fn description(&self) -> String {
        self.0.description()
    }

    fn modes(&self) -> &[OutputMode] {
        self.0.modes()
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.0.open(spec).await
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        self.0.writer(batch, partition).await
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        self.0.commit(batch, staged, note).await
    }
}
