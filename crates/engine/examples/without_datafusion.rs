//! The engine without DataFusion: a running count per word, by an operator of our own.
//!
//! ```text
//! cargo run -p fluvial-engine --example without_datafusion
//! ```
//!
//! Everything that the engine needs is handed to it: a log, state, a clock, sources, a sink, and
//! a runner, here one that runs a single operator. It spawns nothing and has no runtime of its
//! own: `Engine::run` is a future for the executor of your choice. Executor and clock are the
//! simulator's here, and the store is memory; on `LocalFileSystem` or S3 it is the same.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fluvial_checkpoint::{ObjectLog, Retention, compare, retain_from};
use fluvial_core::{
    BatchInfo, Error, EvictWatermark, KeyGroup, KeyGroupCount, LateBatch, Operator, OperatorCounts,
    OperatorId, OperatorRun, OutputMode, Prefetch, QueryId, Result, RunId, SinkId, Source,
    SourceId, StateField, StateSchema, StateStore,
};
use fluvial_engine::{
    CheckpointRules, Engine, Environment, Input, OperatorRunner, QuerySpec, Settings, Stateful,
    Trigger, Unobserved,
};
use fluvial_sim::{VirtualClock, block_on};
use fluvial_sinks::MemorySink;
use fluvial_sources::MemorySource;
use fluvial_state_memory::MemoryBackend;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often each word has come, up to now: update mode.
struct Counts;

impl Operator for Counts {
    fn kind(&self) -> &str {
        "counts"
    }

    fn ports(&self) -> usize {
        1
    }

    fn output_schema(&self) -> SchemaRef {
        let word = Field::new("word", DataType::Utf8, false);
        Arc::new(Schema::new(vec![word, Field::new("count", DataType::Int64, false)]))
    }

    fn state_schema(&self) -> StateSchema {
        let field = |name: &str, data_type: DataType| StateField {
            name: name.into(),
            data_type: data_type.to_string(),
        };
        StateSchema {
            kind: self.kind().into(),
            format: 1,
            keys: vec![field("word", DataType::Utf8)],
            values: vec![field("count", DataType::Int64)],
            meaning: BTreeMap::new(),
            layout: None,
        }
    }

    fn wants_empty_batch(&self, _: OutputMode, _: EvictWatermark, _: EvictWatermark) -> bool {
        false
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        let (schema, counts) = (self.output_schema(), OperatorCounts::default());
        Ok(Box::new(CountsRun { schema, info, seen: BTreeMap::new(), output: None, counts }))
    }
}

/// One batch on one partition.
struct CountsRun {
    schema: SchemaRef,
    info: BatchInfo,
    seen: BTreeMap<String, i64>,
    output: Option<RecordBatch>,
    counts: OperatorCounts,
}

/// The key group of a word: any stable hash will do, here FNV.
fn group(word: &str, groups: KeyGroupCount) -> KeyGroup {
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    groups.group_of(hash)
}

fn words(rows: &RecordBatch) -> &StringArray {
    rows.column(0).as_string()
}

impl OperatorRun for CountsRun {
    fn push(&mut self, _: usize, rows: RecordBatch, _: &mut dyn StateStore) -> Result<()> {
        for word in words(&rows).iter().flatten() {
            *self.seen.entry(word.to_owned()).or_default() += 1;
        }
        let nulls = words(&rows).null_count() as u64;
        self.counts.rows.null_key += nulls;
        self.counts.rows.kept += rows.num_rows() as u64 - nulls;
        Ok(())
    }

    fn prefetch(&self) -> Result<Prefetch> {
        Ok(Prefetch::Keys(self.keys()))
    }

    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()> {
        let keys = self.keys();
        let before = state.get_many(&keys)?;
        for (row, count) in self.seen.values_mut().enumerate() {
            if !before.is_null(row) {
                let bytes = before.value(row).try_into();
                let bytes = bytes.map_err(|_| Error::corrupt("a count has eight bytes"))?;
                *count += i64::from_be_bytes(bytes);
            }
        }
        let counts = self.seen.values().map(|count| count.to_be_bytes());
        state.put_many(&keys, &BinaryArray::from_iter_values(counts))?;
        self.counts.rows_updated = keys.len() as u64;
        self.counts.rows_total = state.size().rows;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(self.seen.keys())),
            Arc::new(Int64Array::from_iter_values(self.seen.values().copied())),
        ];
        self.output = Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(())
    }

    fn drain(&mut self, _: &mut dyn StateStore) -> Result<Option<RecordBatch>> {
        let most = self.info.batch_rows;
        let Some(rows) = self.output.take().filter(|rows| rows.num_rows() > 0) else {
            return Ok(None);
        };
        if rows.num_rows() > most {
            self.output = Some(rows.slice(most, rows.num_rows() - most));
        }
        Ok(Some(rows.slice(0, most.min(rows.num_rows()))))
    }

    fn take_late(&mut self) -> Vec<LateBatch> {
        Vec::new()
    }

    fn counts(&self) -> OperatorCounts {
        self.counts
    }
}

impl CountsRun {
    /// The state's keys of the words of this batch, in order: key group, then word.
    fn keys(&self) -> BinaryArray {
        let key = |word: &String| {
            let prefix = group(word, self.info.key_groups).prefix();
            [&prefix[..], word.as_bytes()].concat()
        };
        BinaryArray::from_iter_values(self.seen.keys().map(key))
    }
}

/// The whole query over a store: its log in `log`, its state in `state`.
fn query(
    store: &Arc<dyn ObjectStore>,
    run: &str,
    source: Arc<dyn Source>,
    sink: Arc<MemorySink>,
) -> Result<QuerySpec> {
    let (run, words) = (RunId::new(run)?, SourceId::new("words")?);
    let operator = Stateful {
        id: OperatorId::new("count")?,
        operator: Arc::new(Counts),
        route: Arc::new(|_, rows, groups| {
            Ok(self::words(rows).iter().map(|word| group(word.unwrap_or(""), groups)).collect())
        }),
    };
    let input = Input { source: words.clone(), port: 0, map: None, watermark: None };
    let backend = MemoryBackend::new(
        Arc::clone(store),
        Path::from("state"),
        run.clone(),
        fluvial_state_memory::Settings::default(),
    );
    let retention = Retention::default();
    Ok(QuerySpec {
        name: None,
        proposed_id: QueryId::new("word-counts")?,
        run,
        sources: [(words, source)].into(),
        runner: Arc::new(OperatorRunner::stateful(vec![input], operator)),
        sink,
        sink_id: SinkId::new("sink")?,
        late: None,
        mode: OutputMode::Update,
        trigger: Trigger::AvailableNow,
        settings: Settings::default(),
        environment: Environment {
            log: Arc::new(ObjectLog::new(Arc::clone(store), Path::from("log"))),
            state: Some(Arc::new(backend)),
            clock: Arc::new(VirtualClock::new()),
            rules: CheckpointRules {
                compare: Arc::new(compare),
                retain_from: Arc::new(move |commits, now| retain_from(commits, now, &retention)),
            },
            place: "log".into(),
        },
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let schema = Arc::new(Schema::new(vec![Field::new("word", DataType::Utf8, false)]));
    let source = Arc::new(MemorySource::new("words", Arc::clone(&schema)));
    let sink = Arc::new(MemorySink::new("counts"));

    // Two runs, as of two processes: the second goes on where the first has stopped.
    for (run, text) in [("monday", "to be or not to be"), ("tuesday", "not now, now or never")] {
        let words =
            StringArray::from(text.split([' ', ',']).filter(|w| !w.is_empty()).collect::<Vec<_>>());
        source.add_data(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(words)])?)?;
        let spec = query(&store, run, source.clone(), Arc::clone(&sink))?;
        block_on(async {
            let engine = Engine::open(spec, Arc::new(Unobserved)).await?;
            let query = engine.query();
            engine.run().await;
            query.exception().map_or(Ok(()), Err)
        })?;
    }
    for (batch, rows) in sink.batches() {
        let counts = rows.column(1).as_primitive::<arrow::datatypes::Int64Type>();
        for (word, count) in words(&rows).iter().flatten().zip(counts.values()) {
            println!("batch {batch}: {word} {count}");
        }
    }
    Ok(())
}
