//! Folders of the local file system.

use fluvial_core::ddl::parse_ddl;
use fluvial_core::{BatchId, PlanRequest, ReadLimit, RunId, Source};
use fluvial_sim::block_on;
use fluvial_sources::{FileFormat, FilePlace, FileSource};
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::sync::Arc;

/// The rows of all files of a local folder, as text.
fn read(folder: &std::path::Path, path: &str, schema: &str) -> String {
    let path = format!("{}{path}", folder.display());
    let place = FilePlace::new(Arc::new(LocalFileSystem::new()), "file:///", &path).unwrap();
    let source = FileSource::builder(place, FileFormat::Json)
        .schema(parse_ddl(schema).unwrap())
        .log(Arc::new(InMemory::new()), Path::from("log"))
        .with_metadata_column();
    let source = block_on(source.open()).unwrap();
    let (start, run) = (block_on(source.initial()).unwrap(), RunId::new("r").unwrap());
    let (batch, start, limit) = (BatchId(0), &start, ReadLimit::NONE);
    let request = PlanRequest { batch, run: &run, start, limit, until: None, splits: 1 };
    let range = block_on(source.plan(request)).unwrap().unwrap();
    block_on(source.adopt(&range)).unwrap();
    let mut shown = Vec::new();
    for split in &range.splits {
        let stream = source.read(&range, split, None).unwrap();
        for batch in block_on(stream.try_collect::<Vec<_>>()).unwrap() {
            shown.push(arrow::util::pretty::pretty_format_batches(&[batch]).unwrap().to_string());
        }
    }
    shown.join("\n")
}

#[test]
fn names_may_have_any_character() {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, n: u32| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{{\"value\": {n}}}\n")).unwrap();
    };
    put("in/p=a b/x %20+é.json", 41);
    put("in/p=c%2Fd/y#1.json", 42);
    put("in/p=e/z[1]{2}*?.json", 43);
    let table = read(folder.path(), "/in", "value BIGINT, p STRING");
    for part in ["41", "42", "43", "| a b |", "| c/d |", "file_name: x%20%2520+%C3%A9.json,"] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    let table = read(folder.path(), "/in/p=c%2Fd/y#?.json", "value BIGINT");
    assert!(table.contains("42"), "{table}");
}
