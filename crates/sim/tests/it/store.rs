//! The store behaves as object stores do.

use fluvial_sim::{Disk, block_on};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion,
};

fn create() -> PutOptions {
    PutOptions { mode: PutMode::Create, ..Default::default() }
}

#[test]
fn create_is_refused_where_something_is() {
    let (disk, path) = (Disk::new(), Path::from("a"));
    let process = disk.process();
    block_on(process.put_opts(&path, "one".into(), create())).unwrap();
    let again = block_on(process.put_opts(&path, "two".into(), create())).unwrap_err();
    assert!(matches!(again, Error::AlreadyExists { .. }));
    assert_eq!(disk.read("a").unwrap(), "one");
}

#[test]
fn update_needs_the_tag_of_what_is_there() {
    let (disk, path) = (Disk::new(), Path::from("a"));
    let process = disk.process();
    let first: UpdateVersion = block_on(process.put(&path, "one".into())).unwrap().into();
    let update = |version: UpdateVersion| PutOptions::from(PutMode::Update(version));
    let second = block_on(process.put_opts(&path, "two".into(), update(first.clone()))).unwrap();
    let stale = block_on(process.put_opts(&path, "three".into(), update(first))).unwrap_err();
    assert!(matches!(stale, Error::Precondition { .. }));
    disk.remove("a");
    let gone = block_on(process.put_opts(&path, "x".into(), update(second.into()))).unwrap_err();
    assert!(matches!(gone, Error::Precondition { .. }));
}

#[test]
fn ranges_are_cut_and_checked() {
    let (disk, path) = (Disk::new(), Path::from("a"));
    disk.write("a", "0123456789");
    let process = disk.process();
    let get = |range: GetRange| {
        let options = GetOptions { range: Some(range), ..Default::default() };
        block_on(async { process.get_opts(&path, options).await?.bytes().await })
    };
    assert_eq!(get(GetRange::Bounded(2..4)).unwrap(), "23");
    assert_eq!(get(GetRange::Bounded(8..99)).unwrap(), "89");
    assert_eq!(get(GetRange::Offset(7)).unwrap(), "789");
    assert_eq!(get(GetRange::Suffix(3)).unwrap(), "789");
    assert!(get(GetRange::Bounded(10..11)).is_err());
    let several = block_on(process.get_ranges(&path, &[0..1, 9..10])).unwrap();
    assert_eq!(several, ["0", "9"]);
    assert_eq!(block_on(process.head(&path)).unwrap().size, 10);
}

#[test]
fn listing_is_sorted_and_minds_the_segments() {
    let disk = Disk::new();
    for path in ["a/2", "a/10", "a/b/c", "ab/1", "a"] {
        disk.write(path, "x");
    }
    let process = disk.process();
    let list = |prefix: &str, offset: Option<&str>| -> Vec<String> {
        let prefix = Path::from(prefix);
        let found = match offset {
            Some(offset) => process.list_with_offset(Some(&prefix), &Path::from(offset)),
            None => process.list(Some(&prefix)),
        };
        let found: Vec<_> = block_on(found.try_collect()).unwrap();
        found.into_iter().map(|meta| meta.location.to_string()).collect()
    };
    assert_eq!(list("a", None), ["a/10", "a/2", "a/b/c"]);
    assert_eq!(list("a", Some("a/10")), ["a/2", "a/b/c"]);
    let one = block_on(process.list_with_delimiter(Some(&Path::from("a")))).unwrap();
    assert_eq!(one.common_prefixes, [Path::from("a/b")]);
    assert_eq!(one.objects.len(), 2);
}

#[test]
fn multipart_is_invisible_until_complete_and_keeps_the_order_of_parts() {
    let (disk, path) = (Disk::new(), Path::from("a"));
    let process = disk.process();
    block_on(async {
        let mut upload = process.put_multipart(&path).await.unwrap();
        let (one, two) = (upload.put_part("one".into()), upload.put_part("two".into()));
        two.await.unwrap();
        assert!(upload.complete().await.is_err(), "a part is missing");
        one.await.unwrap();
        assert_eq!(disk.paths().len(), 0);
        upload.complete().await.unwrap();
    });
    assert_eq!(disk.read("a").unwrap(), "onetwo");
}

#[test]
fn copies_renames_and_deletes() {
    let disk = Disk::new();
    disk.write("a", "1");
    disk.write("b", "2");
    let process = disk.process();
    let (a, b, c) = (Path::from("a"), Path::from("b"), Path::from("c"));
    block_on(async {
        let refused = process.copy_if_not_exists(&a, &b).await.unwrap_err();
        assert!(matches!(refused, Error::AlreadyExists { .. }));
        process.copy(&a, &b).await.unwrap();
        assert!(process.rename_if_not_exists(&a, &b).await.is_err());
        process.rename(&a, &c).await.unwrap();
        process.delete(&Path::from("nothing")).await.unwrap();
        assert!(matches!(process.copy(&a, &b).await.unwrap_err(), Error::NotFound { .. }));
    });
    assert_eq!(disk.paths(), ["b", "c"]);
    assert_eq!(disk.read("b").unwrap(), "1");
}

#[test]
fn the_time_of_modification_rises_with_every_write() {
    let disk = Disk::new();
    disk.write("z", "1");
    disk.write("a", "1");
    let process = disk.process();
    let modified = |path: &str| block_on(process.head(&Path::from(path))).unwrap().last_modified;
    assert!(modified("z") < modified("a"));
    disk.set_modified("a", 0);
    assert!(modified("a") < modified("z"));
}
