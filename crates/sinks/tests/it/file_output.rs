//! Folders and files as Spark's file sink makes them.

use crate::files::{ROOT, numbers, opened, options, publish, read, spec};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use fluvial_core::{BatchId, ErrorKind, Note, OutputMode, PartitionId, Sink};
use fluvial_sinks::{FileFormat, FileOptions, FileSink, TextCompression, committed_files};
use futures::executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn partitioned_by(column: &str) -> FileOptions {
    FileOptions { partition_by: vec![column.into()], ..options() }
}

/// The recorded case `suite_sink_partitioned`.
#[test]
fn partition_columns_become_folders_and_leave_the_files() {
    let store = memory();
    let batch = |ids: Vec<i64>| {
        let values = ids.iter().map(|id| id * 1000).collect::<Vec<_>>();
        rows(vec![
            ("id", Arc::new(Int64Array::from(ids)) as ArrayRef),
            ("v", Arc::new(Int64Array::from(values))),
        ])
    };
    block_on(async {
        let (sink, _) = opened(&store, partitioned_by("id"), "r", &batch(vec![])).await.unwrap();
        publish(&sink, 0, &[batch(vec![1, 2, 3])]).await.unwrap();
        publish(&sink, 1, &[batch(vec![1, 4])]).await.unwrap();
        let files = committed_files(store.clone(), Path::from(ROOT)).await.unwrap();
        let folders: BTreeSet<_> =
            files.iter().map(|p| p.parts().nth(1).unwrap().as_ref().to_owned()).collect();
        assert_eq!(folders.into_iter().collect::<Vec<_>>(), ["id=1", "id=2", "id=3", "id=4"]);
        assert_eq!(files.len(), 5);
        for file in files {
            for rows in read(&store, &file).await {
                assert_eq!(rows.schema().fields().len(), 1);
                let id = file.parts().nth(1).unwrap().as_ref()[3..].parse::<i64>().unwrap();
                let v = rows.column(0).as_primitive::<Int64Type>().value(0);
                assert_eq!((rows.schema().field(0).name().as_str(), v), ("v", id * 1000));
            }
        }
    });
}

/// The recorded cases `suite_sink_path_special_characters` and
/// `suite_sink_partition_special_values`, on a real file system.
#[test]
fn special_characters_survive_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> =
        Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let values = [None, Some("x/y"), Some("a b"), Some("50%"), Some("k=v"), Some("t:1"), Some("é")];
    let rows = rows(vec![
        ("a", Arc::new(StringArray::from(values.to_vec())) as ArrayRef),
        ("b", Arc::new(Int64Array::from_iter_values(0..7))),
    ]);
    let root = Path::parse("output @#output").unwrap();
    block_on(async {
        let sink = FileSink::new(store.clone(), root.clone(), partitioned_by("a"));
        sink.open(&spec("q", "r", rows.schema())).await.unwrap();
        publish(&sink, 0, std::slice::from_ref(&rows)).await.unwrap();
        assert_eq!(committed_files(store.clone(), root).await.unwrap().len(), 7);
    });
    let found = std::fs::read_dir(folder.path().join("output @#output")).unwrap();
    let mut names: Vec<_> =
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "_fluvial");
    names.sort();
    assert_eq!(
        names,
        [
            "a=50%25",
            "a=__HIVE_DEFAULT_PARTITION__",
            "a=a b",
            "a=k%3Dv",
            "a=t%3A1",
            "a=x%2Fy",
            "a=é"
        ]
    );
}

#[test]
fn names_depend_on_nothing_but_query_batch_and_partition() {
    let names = |run: &str| {
        let store = memory();
        block_on(async {
            let (sink, _) = opened(&store, options(), run, &numbers(&[])).await.unwrap();
            publish(&sink, 0, &[numbers(&[1]), numbers(&[2])]).await.unwrap();
            committed_files(store.clone(), Path::from(ROOT)).await.unwrap()
        })
    };
    assert_eq!(names("one"), names("two"));
    assert_eq!(names("one")[1].as_ref(), "out/part-00001-q-0-c000.snappy.parquet");
}

#[test]
fn json_lines_leave_nulls_out() {
    let store = memory();
    let rows = rows(vec![
        ("k", Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef),
        ("v", Arc::new(Int64Array::from(vec![Some(1), None]))),
    ]);
    block_on(async {
        let options = FileOptions::new(FileFormat::Json {
            ignore_nulls: true,
            compression: TextCompression::None,
        });
        let (sink, _) = opened(&store, options, "r", &rows).await.unwrap();
        publish(&sink, 0, std::slice::from_ref(&rows)).await.unwrap();
        let files = committed_files(store.clone(), Path::from(ROOT)).await.unwrap();
        let bytes = store.get(&files[0]).await.unwrap().bytes().await.unwrap();
        assert_eq!(bytes, "{\"k\":\"a\",\"v\":1}\n{}\n");
    });
}

#[test]
fn a_folder_keeps_its_owner_format_and_partitions() {
    let store = memory();
    let rows = rows(vec![
        ("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        ("v", Arc::new(Int64Array::from(vec![1]))),
    ]);
    block_on(async {
        opened(&store, options(), "r", &rows).await.unwrap();
        let open = async |query: &str, options: FileOptions, mode| {
            let sink = FileSink::new(store.clone(), Path::from(ROOT), options);
            let mut spec = spec(query, "r", rows.schema());
            spec.mode = mode;
            sink.open(&spec).await.unwrap_err()
        };
        let json = FileOptions::new(FileFormat::Json {
            ignore_nulls: true,
            compression: TextCompression::None,
        });
        let append = OutputMode::Append;
        for (query, options, mode, condition) in [
            ("other", options(), append, "SINK_OWNED_BY_ANOTHER_QUERY"),
            ("q", json, append, "FILE_SINK_FORMAT_CHANGED"),
            ("q", partitioned_by("id"), append, "FILE_SINK_PARTITIONS_CHANGED"),
            ("q", partitioned_by("nope"), append, "PARTITION_COLUMN_NOT_FOUND"),
            ("q", options(), OutputMode::Update, "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"),
        ] {
            let error = open(query, options, mode).await;
            assert_eq!(error.condition(), Some(condition), "{error}");
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    });
}

#[test]
fn files_end_at_their_rows_or_bytes() {
    let store = memory();
    let batch = |ids: std::ops::Range<i64>| {
        let ids = Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef;
        rows(vec![
            (
                "p",
                Arc::new(Int64Array::from_iter_values((0..ids.len()).map(|i| i as i64 % 2)))
                    as ArrayRef,
            ),
            ("id", ids),
        ])
    };
    let json = FileFormat::Json { ignore_nulls: true, compression: TextCompression::None };
    let options = FileOptions {
        rows_per_file_max: NonZeroU64::new(3),
        partition_by: vec!["p".into()],
        ..FileOptions::new(json)
    };
    let sizes = |options: FileOptions, root: &'static str, pieces: Vec<RecordBatch>| {
        let store = store.clone();
        block_on(async move {
            let sink = FileSink::new(store.clone(), Path::from(root), options);
            sink.open(&spec("q", "r", pieces[0].schema())).await.unwrap();
            let mut writer = sink.writer(BatchId(0), PartitionId(0)).await.unwrap();
            for piece in pieces {
                writer.write(piece).await.unwrap();
            }
            let staged = vec![writer.stage().await.unwrap()];
            sink.commit(BatchId(0), staged, &Note("note".into())).await.unwrap();
            let mut counts = Vec::new();
            for file in committed_files(store.clone(), Path::from(root)).await.unwrap() {
                let bytes = store.get(&file).await.unwrap().bytes().await.unwrap();
                counts.push((file.to_string(), bytes.iter().filter(|b| **b == b'\n').count()));
            }
            counts.sort();
            counts
        })
    };
    // Five rows of each folder: a file of three, and one of two, across two record batches.
    let counts = sizes(options, "rows", vec![batch(0..4), batch(4..10)]);
    let of = |folder: &str| {
        let found = counts.iter().filter(|(path, _)| path.contains(folder));
        found.map(|(_, rows)| *rows).collect::<Vec<_>>()
    };
    assert_eq!((of("p=0"), of("p=1")), (vec![3, 2], vec![3, 2]), "{counts:?}");
    // A row is at least nine bytes, so every record batch ends a file.
    let options = FileOptions { file_bytes_target: NonZeroU64::new(9), ..FileOptions::new(json) };
    let counts = sizes(options, "bytes", vec![batch(0..4), batch(4..10)]);
    let rows: Vec<_> = counts.iter().map(|(_, rows)| *rows).collect();
    assert_eq!(rows, [4, 6], "{counts:?}");
}
