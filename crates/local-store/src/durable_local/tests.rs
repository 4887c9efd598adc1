use super::*;
use disk::told;
use fluvial_core::ErrorKind;
use fluvial_sim::block_on;
use object_store::ObjectStoreExt;
use std::io;
use std::sync::Mutex;

fn open(folder: &tempfile::TempDir, durability: Durability) -> DurableLocal {
    DurableLocal::open(folder.path().join("new/root"), durability).unwrap()
}

fn each(check: impl Fn(&tempfile::TempDir, DurableLocal)) {
    for durability in [Durability::Synced, Durability::Relaxed] {
        let folder = tempfile::tempdir().unwrap();
        check(&folder, open(&folder, durability));
    }
}

fn create() -> PutOptions {
    PutMode::Create.into()
}

/// Every file on the disk, hidden ones included.
fn files(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn gives_back_what_was_put_with_the_tag_that_readers_see() {
    each(|_, store| {
        let path = Path::from("a/b/7");
        block_on(async {
            for (text, mode) in [("one", PutMode::Create), ("two", PutMode::Overwrite)] {
                let put = store.put_opts(&path, text.into(), mode.into()).await.unwrap();
                let got = store.get(&path).await.unwrap();
                assert_eq!(put.e_tag, got.meta.e_tag);
                assert_eq!(got.bytes().await.unwrap(), text);
            }
        });
    });
}

#[test]
fn create_is_refused_where_something_is_and_leaves_nothing() {
    each(|folder, store| {
        let path = Path::from("a/7");
        block_on(async {
            store.put_opts(&path, "one".into(), create()).await.unwrap();
            let again = store.put_opts(&path, "two".into(), create()).await.unwrap_err();
            assert!(matches!(again, object_store::Error::AlreadyExists { .. }), "{again}");
            assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "one");
        });
        assert_eq!(files(folder.path()), ["7"]);
    });
}

#[test]
fn a_hidden_file_that_a_crash_left_is_in_nobodys_way() {
    each(|folder, store| {
        let path = Path::from("a/7");
        std::fs::create_dir_all(folder.path().join("new/root/a")).unwrap();
        std::fs::write(folder.path().join("new/root/a/7#1"), "half").unwrap();
        block_on(async {
            store.put_opts(&path, "whole".into(), create()).await.unwrap();
            let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
            assert_eq!(listed.len(), 1);
            assert_eq!(listed[0].location, path);
        });
    });
}

#[test]
fn many_threads_create_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, Durability::Synced);
    let path = Path::from("a/7");
    let won: usize = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|number| {
                let (store, path) = (store.clone(), path.clone());
                scope.spawn(move || {
                    let put = store.put_opts(&path, number.to_string().into(), create());
                    usize::from(block_on(put).is_ok())
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(won, 1);
    assert_eq!(files(folder.path()), ["7"]);
}

#[test]
fn uploads_are_invisible_until_complete_and_gone_when_dropped() {
    each(|folder, store| {
        let path = Path::from("big");
        block_on(async {
            let mut upload = store.put_multipart(&path).await.unwrap();
            let (one, two) = (upload.put_part("one".into()), upload.put_part("two".into()));
            two.await.unwrap();
            one.await.unwrap();
            assert!(store.head(&path).await.is_err());
            upload.complete().await.unwrap();
            assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "onetwo");

            let mut aborted = store.put_multipart(&Path::from("other")).await.unwrap();
            aborted.put_part("x".into()).await.unwrap();
            aborted.abort().await.unwrap();
        });
        assert_eq!(files(folder.path()), ["big"]);
    });
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, Durability::Synced);
    drop(block_on(store.put_multipart(&Path::from("dropped"))).unwrap());
    assert_eq!(files(folder.path()).len(), 0);
}

#[test]
fn copies_renames_and_lists() {
    each(|_, store| {
        let (a, b, c) = (Path::from("x/a"), Path::from("y/b"), Path::from("y/c"));
        block_on(async {
            store.put(&a, "1".into()).await.unwrap();
            store.copy(&a, &b).await.unwrap();
            let refused = store.copy_if_not_exists(&a, &b).await.unwrap_err();
            assert!(matches!(refused, object_store::Error::AlreadyExists { .. }));
            store.rename(&a, &c).await.unwrap();
            assert!(store.rename_if_not_exists(&c, &b).await.is_err());
            let listed: Vec<_> = store.list(Some(&Path::from("y"))).try_collect().await.unwrap();
            assert_eq!(listed.len(), 2);
            let one = store.list_with_delimiter(None).await.unwrap();
            assert_eq!(one.common_prefixes.len(), 2);
            let after = store.list_with_offset(Some(&Path::from("y")), &b);
            assert_eq!(after.try_collect::<Vec<_>>().await.unwrap().len(), 1);
            store.delete(&b).await.unwrap();
            assert!(store.get(&b).await.is_err());
            assert_eq!(store.get_range(&c, 0..1).await.unwrap(), "1");
        });
    });
}

#[test]
fn each_put_syncs_its_folder_once_and_new_folders_with_their_parents() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let store = DurableLocal::open(&root, Durability::Synced).unwrap();
    let put = |path: &str, mode: PutMode| {
        let path = Path::from(path);
        let _ = block_on(store.put_opts(&path, "x".into(), mode.into()));
        std::mem::take(&mut *store.folders.synced.lock().unwrap())
    };
    let first = put("q/offsets/0", PutMode::Create);
    assert!(first.contains(&root.join("q/offsets")), "{first:?}");
    assert!(first.contains(&root.join("q")) && first.contains(&root), "{first:?}");
    assert_eq!(put("q/offsets/1", PutMode::Create), [root.join("q/offsets")]);
    assert_eq!(put("q/offsets/1", PutMode::Overwrite), [root.join("q/offsets")]);
    let refused = put("q/offsets/1", PutMode::Create);
    assert_eq!(refused, [root.join("q/offsets")], "what exists is durable too");
    assert_eq!(put("q/commits/0", PutMode::Create), [root.join("q/commits"), root.join("q")]);
}

#[test]
fn what_another_process_left_is_synced_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let other = DurableLocal::open(&root, Durability::Relaxed).unwrap();
    block_on(other.put(&Path::from("q/offsets/0"), "x".into())).unwrap();
    let store = DurableLocal::open(&root, Durability::Synced).unwrap();
    let offsets = Path::from("q/offsets");
    let listed: Vec<_> = block_on(store.list(Some(&offsets)).try_collect()).unwrap();
    assert_eq!(listed.len(), 1);
    let synced = || std::mem::take(&mut *store.folders.synced.lock().unwrap());
    assert_eq!(synced()[0], root.join("q/offsets"));
    block_on(store.get(&Path::from("q/offsets/0"))).unwrap();
    assert_eq!(synced().len(), 0, "once");
    assert_eq!(other.folders.synced.lock().unwrap().len(), 0, "relaxed is not synced");
}

#[test]
fn blocking_work_goes_where_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let done = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&done);
    let store = open(&folder, Durability::Synced).with_offload(Arc::new(move |work| {
        *counted.lock().unwrap() += 1;
        work();
    }));
    block_on(store.put(&Path::from("a"), "1".into())).unwrap();
    assert_eq!(*done.lock().unwrap(), 1);
    let lost = open(&folder, Durability::Synced).with_offload(Arc::new(drop));
    assert!(block_on(lost.put(&Path::from("a"), "1".into())).is_err());
}

#[test]
fn conditional_updates_are_refused_by_name() {
    each(|_, store| {
        let update = PutMode::Update(object_store::UpdateVersion { e_tag: None, version: None });
        let path = Path::from("a");
        let error = block_on(store.put_opts(&path, "1".into(), update.into())).unwrap_err();
        assert!(matches!(error, object_store::Error::NotImplemented { .. }), "{error}");
    });
}

#[test]
fn what_the_disk_says_is_told_with_what_to_do() {
    let tell = |kind: io::ErrorKind| {
        let error = told("writing", std::path::Path::new("/q/offsets/7"), io::Error::from(kind));
        Error::from(error)
    };
    let full = tell(io::ErrorKind::StorageFull);
    assert_eq!(full.kind(), ErrorKind::Unavailable);
    assert!(full.message().contains("writing /q/offsets/7"), "{full}");
    assert!(full.message().contains("free some space"), "{full}");
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
        assert_eq!(tell(kind).kind(), ErrorKind::Invalid);
    }
    let denied = object_store::Error::Generic {
        store: "LocalFileSystem",
        source: Box::new(io::Error::from(io::ErrorKind::PermissionDenied)),
    };
    assert_eq!(Error::from(clear(denied)).kind(), ErrorKind::Invalid);
}

#[test]
fn a_file_in_the_way_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let at = folder.path().join("file");
    let error = DurableLocal::open(&at, Durability::Synced).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("file"), "{error}");
    let store = DurableLocal::open(folder.path(), Durability::Synced).unwrap();
    let error = Error::from(block_on(store.put(&Path::from("file/x"), "1".into())).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
