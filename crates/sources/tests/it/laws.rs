//! The laws of sources, stamped on every source.

use crate::query::{Names, Spec};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_conformance::source::SourceWorld;
use fluvial_core::ddl::parse_ddl;
use fluvial_core::{Options, Source};
use fluvial_sim::{Disk, VirtualClock};
use fluvial_sources::{
    FileFormat, FilePlace, FileSource, MemorySource, RateMicroBatchSource, RateSource,
};
use object_store::ObjectStore;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SCHEMA: &str = "v BIGINT, k STRING";

/// Files of three rows.
struct Files {
    disk: Disk,
    spec: Spec,
    fed: AtomicU64,
}

impl Files {
    fn world(disk: &Disk, spec: Spec) -> Box<dyn SourceWorld> {
        Box::new(Self { disk: disk.clone(), spec, fed: AtomicU64::new(0) })
    }
}

#[async_trait]
impl SourceWorld for Files {
    async fn open(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn Source> {
        let mut place = FilePlace::new(store.clone(), "sim:///", "in").unwrap();
        if self.spec.names {
            place = place.with_names(Arc::new(Names(store.clone())));
        }
        let source = FileSource::builder(place, self.spec.format)
            .schema(parse_ddl(SCHEMA).unwrap())
            .options(Options::new(self.spec.options.clone()))
            .log(store, Path::from("checkpoint/sources/s"))
            .with_metadata_column();
        let source = if self.spec.auto { source.auto_loader() } else { source };
        Arc::new(source.open().await.unwrap())
    }

    fn feed(&self) {
        let n = self.fed.fetch_add(1, Ordering::Relaxed);
        // Names fall while times rise: the time decides.
        let name = format!("in/k=p{}/{:04}", n % 2, 9999 - n);
        let values = [n * 3, n * 3 + 1, n * 3 + 2];
        if self.spec.format == FileFormat::Parquet {
            let column: ArrayRef =
                Arc::new(Int64Array::from_iter_values(values.iter().map(|v| *v as i64)));
            let batch = RecordBatch::try_from_iter([("v", column)]).unwrap();
            let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            self.disk.write(&name, writer.into_inner().unwrap());
        } else {
            let lines = values.map(|v| format!("{{\"v\": {v}}}\n"));
            self.disk.write(&name, lines.concat());
        }
        self.disk.set_modified(&name, 1_700_000_000_000 + n as i64 * 1000);
    }

    fn unit_rows(&self) -> u64 {
        3
    }
}

fluvial_conformance::source!(json_files, |disk: &Disk| Files::world(disk, Spec::json("")));
fluvial_conformance::source!(parquet_files, |disk: &Disk| {
    Files::world(disk, Spec::json("").format(FileFormat::Parquet))
});
fluvial_conformance::source!(deleted_files, |disk: &Disk| {
    Files::world(disk, Spec::json("").option("cleanSource", "delete"))
});

fluvial_conformance::source!(auto_loader, |disk: &Disk| {
    // Listings of the tail alone would break law 2 here on purpose: names do not rise.
    let spec = Spec { auto: true, ..Spec::json("") };
    Files::world(disk, spec.option("allowOverwrites", "true"))
});
fluvial_conformance::source!(auto_loader_that_rescues, |disk: &Disk| {
    let spec = Spec { auto: true, ..Spec::json("") };
    Files::world(disk, spec.option("schemaEvolutionMode", "rescue"))
});

fluvial_conformance::source!(auto_loader_by_names, |disk: &Disk| {
    let spec = Spec { auto: true, names: true, ..Spec::json("") };
    Files::world(disk, spec)
});

/// Seconds of a virtual clock.
struct Rate(Arc<VirtualClock>);

#[async_trait]
impl SourceWorld for Rate {
    async fn open(&self, _: Arc<dyn ObjectStore>) -> Arc<dyn Source> {
        let options = Options::new([("rowsPerSecond", "5"), ("rampUpTime", "3s")]);
        Arc::new(RateSource::new(self.0.clone(), options).unwrap())
    }

    fn feed(&self) {
        self.0.advance(Duration::from_secs(2));
    }

    fn unit_rows(&self) -> u64 {
        5
    }
}

fluvial_conformance::source!(rate, |_: &Disk| {
    Box::new(Rate(Arc::new(VirtualClock::at(1_700_000_000_000))))
});

struct RateMicroBatch;

#[async_trait]
impl SourceWorld for RateMicroBatch {
    async fn open(&self, _: Arc<dyn ObjectStore>) -> Arc<dyn Source> {
        Arc::new(RateMicroBatchSource::new(Options::new([("rowsPerBatch", "4")])).unwrap())
    }

    fn feed(&self) {}

    fn unit_rows(&self) -> u64 {
        4
    }

    fn is_endless(&self) -> bool {
        true
    }
}

fluvial_conformance::source!(rate_micro_batch, |_: &Disk| Box::new(RateMicroBatch));

/// One source that outlives the processes: it promises replay in one process only.
struct Memory {
    source: Arc<MemorySource>,
    schema: SchemaRef,
    fed: AtomicU64,
}

#[async_trait]
impl SourceWorld for Memory {
    async fn open(&self, _: Arc<dyn ObjectStore>) -> Arc<dyn Source> {
        self.source.clone()
    }

    fn feed(&self) {
        let n = self.fed.fetch_add(3, Ordering::Relaxed) as i64;
        let column = Arc::new(Int64Array::from(vec![n, n + 1, n + 2]));
        let batch = RecordBatch::try_new(self.schema.clone(), vec![column]).unwrap();
        self.source.add_data(batch).unwrap();
    }

    fn unit_rows(&self) -> u64 {
        1
    }
}

fluvial_conformance::source!(memory, |_: &Disk| {
    let schema: SchemaRef = Arc::new(parse_ddl("n BIGINT").unwrap());
    let source = Arc::new(MemorySource::new("m", schema.clone()));
    Box::new(Memory { source, schema, fed: AtomicU64::new(0) })
});
