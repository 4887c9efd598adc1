//! A table whose log and files are written by hand, byte by byte, on a simulated disk.

use crate::table::PLACE;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use fluvial_core::{
    BatchId, Offset, Options, PlanRequest, ReadLimit, Result, RunId, Source, SourceRange,
};
use fluvial_delta::{DeltaSource, DeltaSourceOptions, TableLocation};
use fluvial_sim::Disk;
use futures::TryStreamExt;
use object_store::ObjectStore;
use parquet::arrow::ArrowWriter;
use roaring::RoaringTreemap;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ROOT: &str = "warehouse/table";

/// Columns of most tables here: `v BIGINT, k STRING`, partitioned by `k`.
pub(crate) const COLUMNS: &[(&str, &str)] = &[("v", "long"), ("k", "string")];

/// A table. Its next version has the number of versions that it has.
pub(crate) struct Hand {
    pub(crate) disk: Disk,
    next: AtomicU64,
}

impl Hand {
    /// Version 0: a table of `v` and `k`, partitioned by `k`, with these properties.
    pub(crate) fn new(disk: &Disk, properties: Value) -> Self {
        let table = Self { disk: disk.clone(), next: AtomicU64::new(0) };
        let features = json!({"protocol": {
            "minReaderVersion": 3, "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors", "columnMapping"],
            "writerFeatures": ["deletionVectors", "columnMapping", "changeDataFeed"],
        }});
        table.commit(&[features, metadata(COLUMNS, properties)]);
        table
    }

    /// Writes the next version.
    pub(crate) fn commit(&self, actions: &[Value]) -> u64 {
        let version = self.next.fetch_add(1, Ordering::Relaxed);
        let lines: Vec<String> = actions.iter().map(Value::to_string).collect();
        let name = self.log(version);
        self.disk.write(&name, lines.join("\n"));
        self.disk.set_modified(&name, 1_800_000_000_000 + version as i64 * 1000);
        version
    }

    /// The name of a version.
    pub(crate) fn log(&self, version: u64) -> String {
        format!("{ROOT}/_delta_log/{version:020}.json")
    }

    /// A version that adds one file of these values.
    pub(crate) fn append(&self, path: &str, values: &[i64]) -> u64 {
        let add = self.add(path, values);
        self.commit(&[add])
    }

    /// Writes a file of values; the action that adds it. `k` is `p`.
    pub(crate) fn add(&self, path: &str, values: &[i64]) -> Value {
        let size = self.file(path, &[("v", numbers(values))]);
        json!({"add": {
            "path": path, "partitionValues": {"k": "p"}, "size": size, "dataChange": true,
            "modificationTime": 1_800_000_000_000_i64,
            "stats": json!({"numRecords": values.len()}).to_string(),
        }})
    }

    /// Writes a file; its size.
    pub(crate) fn file(&self, path: &str, columns: &[(&str, ArrayRef)]) -> usize {
        let batch = RecordBatch::try_from_iter(columns.to_vec()).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.into_inner().unwrap();
        let size = bytes.len();
        self.disk.write(&self.path(path), bytes);
        size
    }

    /// Where a file of the table is on the disk.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{ROOT}/{path}")
    }

    /// The removal of a file that [`Self::add`] added.
    pub(crate) fn remove(&self, path: &str) -> Value {
        json!({"remove": {
            "path": path, "partitionValues": {"k": "p"}, "dataChange": true,
            "extendedFileMetadata": true, "deletionTimestamp": 1_800_000_000_000_i64,
        }})
    }

    /// Writes a deletion vector of these rows, and puts it into an action.
    pub(crate) fn delete(&self, action: &mut Value, id: u128, rows: &[u64]) {
        let mut data = 1_681_511_377_u32.to_le_bytes().to_vec();
        rows.iter().collect::<RoaringTreemap>().serialize_into(&mut data).unwrap();
        let mut file = vec![1];
        file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        file.extend(&data);
        file.extend(crc32fast::hash(&data).to_be_bytes());
        let uuid = uuid::Uuid::from_u128(id);
        self.disk.write(&self.path(&format!("deletion_vector_{uuid}.bin")), file);
        action["add"]["deletionVector"] = json!({
            "storageType": "u", "pathOrInlineDv": z85(&id.to_be_bytes()), "offset": 1,
            "sizeInBytes": data.len(), "cardinality": rows.len(),
        });
    }

    /// The source of a process.
    pub(crate) async fn open(&self, options: &[(&str, &str)]) -> Result<DeltaSource> {
        open(self.disk.process().store(), options).await
    }
}

pub(crate) async fn open(
    store: Arc<dyn ObjectStore>,
    options: &[(&str, &str)],
) -> Result<DeltaSource> {
    let location = TableLocation::parse(PLACE).unwrap().with_store(store);
    let options = DeltaSourceOptions::parse(Options::new(options.to_vec()), "UTC")?;
    DeltaSource::open(location, options).await
}

/// The columns of a table, with their types in Delta's words.
pub(crate) fn metadata(columns: &[(&str, &str)], properties: Value) -> Value {
    let field = |(name, of): &(&str, &str)| json!({"name": name, "type": of, "nullable": true, "metadata": {}});
    let fields: Vec<Value> = columns.iter().map(field).collect();
    metadata_of(&fields, properties)
}

pub(crate) fn metadata_of(fields: &[Value], properties: Value) -> Value {
    let schema = json!({"type": "struct", "fields": fields}).to_string();
    json!({"metaData": {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9", "schemaString": schema,
        "format": {"provider": "parquet", "options": {}}, "partitionColumns": ["k"],
        "configuration": properties, "createdTime": 0,
    }})
}

pub(crate) fn numbers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

pub(crate) fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn z85(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 85] =
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let (words, _) = bytes.as_chunks::<4>();
    let digits = |word: &[u8; 4]| {
        let number = u32::from_be_bytes(*word) as usize;
        [52_200_625, 614_125, 7_225, 85, 1].map(|power| DIGITS[number / power % 85] as char)
    };
    words.iter().flat_map(digits).collect()
}

/// A query that reads a source, batch by batch.
pub(crate) struct Reading {
    pub(crate) source: DeltaSource,
    pub(crate) at: Offset,
    limit: ReadLimit,
}

impl Reading {
    pub(crate) async fn new(source: DeltaSource) -> Self {
        let at = source.initial().await.unwrap();
        Self::from(source, &at)
    }

    /// From a place in a checkpoint on.
    pub(crate) fn from(source: DeltaSource, at: &Offset) -> Self {
        Self { at: at.clone(), limit: source.read_limit(), source }
    }

    pub(crate) async fn plan(&self) -> Result<Option<SourceRange>> {
        let (run, start) = (RunId::new("r").unwrap(), &self.at);
        let (batch, limit) = (BatchId(0), self.limit);
        let request = PlanRequest { batch, run: &run, start, limit, until: None, splits: 2 };
        self.source.plan(request).await
    }

    /// The rows of the next batch; `None` if there is nothing new.
    pub(crate) async fn rows(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        let Some(range) = self.plan().await? else { return Ok(None) };
        self.source.adopt(&range).await?;
        let rows = read(&self.source, &range).await?;
        self.at = range.end;
        Ok(Some(rows))
    }

    /// The first column of the next batch.
    pub(crate) async fn batch(&mut self) -> Result<Option<Vec<i64>>> {
        Ok(self.rows().await?.map(|rows| first_column(&rows)))
    }

    /// The offset as it stands in the checkpoint: version, index, whether in the snapshot.
    pub(crate) fn place(&self) -> (u64, i64, bool) {
        let offset = self.at.json();
        let number = |name: &str| offset[name].as_i64().unwrap();
        let starting = offset["isStartingVersion"].as_bool().unwrap();
        (number("reservoirVersion") as u64, number("index"), starting)
    }
}

pub(crate) async fn read(source: &DeltaSource, range: &SourceRange) -> Result<Vec<RecordBatch>> {
    let mut rows = Vec::new();
    for split in &range.splits {
        rows.extend(source.read(range, split, None)?.try_collect::<Vec<_>>().await?);
    }
    Ok(rows)
}

pub(crate) fn first_column(rows: &[RecordBatch]) -> Vec<i64> {
    let column = |b: &RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
    rows.iter().flat_map(column).collect()
}

/// One column of texts, nulls as `-`.
pub(crate) fn text_column(rows: &[RecordBatch], column: usize) -> Vec<String> {
    let column = |batch: &RecordBatch| {
        let texts = batch.column(column).as_string::<i32>();
        texts.iter().map(|text| text.unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    rows.iter().flat_map(column).collect()
}
