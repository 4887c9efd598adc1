//! Which files there are.

use super::entry::FileEntry;
use super::glob::Glob;
use super::options::FileOptions;
use super::place::{FilePlace, parse_path};
use fluvial_core::{Error, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error as StoreError, ListResult, ObjectMeta};

/// So many folders are listed at once.
const CONCURRENCY: usize = 16;

/// Everything that can be read, in no particular order: one listing, and no request per file.
///
/// A plain folder is listed with the `k=v` folders in it, of any depth; other folders below it
/// only if asked for. A pattern stands for files and for folders, and of a folder the files in
/// it are read.
pub(crate) async fn list(place: &FilePlace, options: &FileOptions) -> Result<Vec<FileEntry>> {
    let mut files = list_all(place, options).await?;
    files.retain(|file| options.admits(file.mtime));
    Ok(files)
}

/// What comes after `greatest` in the order of paths: for files that arrive in that order. Only
/// for a plain folder.
pub(crate) async fn list_after(
    place: &FilePlace,
    options: &FileOptions,
    greatest: &str,
) -> Result<Vec<FileEntry>> {
    let (root, after) = (place.root(), parse_path(greatest)?);
    let mut all = place.store.list_with_offset(Some(root), &after);
    let mut found = Vec::new();
    while let Some(meta) = all.next().await {
        let meta = meta.map_err(|e| listing_failed(place, root, e))?;
        let below = meta.location.as_ref().strip_prefix(root.as_ref()).unwrap_or_default();
        let (folders, name) = below.trim_start_matches('/').rsplit_once('/').unwrap_or(("", below));
        let name = name.trim_start_matches('/');
        let accepts = |folder: &str| {
            folder.is_empty() || (visible(folder) && (options.recursive || folder.contains('=')))
        };
        let named = options.name_filter.as_ref().is_none_or(|filter| filter.matches(name));
        if visible(name) && named && folders.split('/').all(accepts) {
            found.push(entry(meta));
        }
    }
    found.retain(|file| options.admits(file.mtime));
    Ok(found)
}

async fn list_all(place: &FilePlace, options: &FileOptions) -> Result<Vec<FileEntry>> {
    let (mut folders, mut found) = (vec![place.root().clone()], Vec::new());
    for (i, pattern) in place.patterns.iter().enumerate() {
        let last = i + 1 == place.patterns.len();
        let mut next = Vec::new();
        for level in level(place, &folders).await? {
            next.extend(level.common_prefixes.into_iter().filter(|path| fits(pattern, path)));
            if last {
                let objects = level.objects.into_iter();
                found.extend(objects.filter(|meta| fits(pattern, &meta.location)));
            }
        }
        folders = next;
    }
    if options.recursive {
        for folder in &folders {
            found.extend(deep(place, folder, visible).await?);
        }
    } else {
        let mut partitions = Vec::new();
        for level in level(place, &folders).await? {
            found.extend(level.objects);
            partitions.extend(level.common_prefixes.into_iter().filter(is_partition));
        }
        for folder in &partitions {
            found.extend(deep(place, folder, |name| name.contains('=') && visible(name)).await?);
        }
    }
    found.retain(|meta| {
        let name = meta.location.filename().unwrap_or_default();
        visible(name) && options.name_filter.as_ref().is_none_or(|filter| filter.matches(name))
    });
    Ok(found.into_iter().map(entry).collect())
}

/// The files and folders directly in each of `folders`.
async fn level(place: &FilePlace, folders: &[Path]) -> Result<Vec<ListResult>> {
    let list = |folder: Path| async move {
        match place.store.list_with_delimiter(Some(&folder)).await {
            Ok(level) => Ok(level),
            // A folder may vanish between two listings.
            Err(StoreError::NotFound { .. }) => {
                Ok(ListResult { common_prefixes: Vec::new(), objects: Vec::new() })
            }
            Err(error) => Err(listing_failed(place, &folder, error)),
        }
    };
    futures::stream::iter(folders.to_vec()).map(list).buffered(CONCURRENCY).try_collect().await
}

/// All files below a folder whose folders on the way are all accepted.
async fn deep(
    place: &FilePlace,
    folder: &Path,
    accepts: impl Fn(&str) -> bool,
) -> Result<Vec<ObjectMeta>> {
    let mut found = Vec::new();
    let mut all = place.store.list(Some(folder));
    while let Some(meta) = all.next().await {
        let meta = meta.map_err(|e| listing_failed(place, folder, e))?;
        let below = meta.location.as_ref().strip_prefix(folder.as_ref()).unwrap_or_default();
        let folders = below.trim_start_matches('/').rsplit_once('/').map_or("", |(f, _)| f);
        if folders.split('/').all(|name| name.is_empty() || accepts(name)) {
            found.push(meta);
        }
    }
    Ok(found)
}

fn listing_failed(place: &FilePlace, folder: &Path, error: StoreError) -> Error {
    Error::from(error).at(format!("listing {} for {place}", place.show(folder.as_ref())))
}

fn fits(pattern: &Glob, path: &Path) -> bool {
    let name = path.filename().unwrap_or_default();
    visible(name) && pattern.matches(name)
}

/// Files being written, and what is not data: as in Spark.
fn visible(name: &str) -> bool {
    let hidden = (name.starts_with('_') && !name.contains('='))
        || name.starts_with('.')
        || name.ends_with("._COPYING_");
    !hidden
}

fn is_partition(path: &Path) -> bool {
    path.filename().is_some_and(|name| name.contains('=') && !name.starts_with('.'))
}

fn entry(meta: ObjectMeta) -> FileEntry {
    FileEntry {
        path: meta.location.into(),
        size: meta.size,
        mtime: meta.last_modified.timestamp_millis(),
        etag: meta.e_tag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::Options;
    use fluvial_sim::{Disk, block_on};

    fn listed(path: &str, pairs: &[(&str, &str)], files: &[&str]) -> Vec<String> {
        let disk = Disk::new();
        files.iter().for_each(|file| disk.write(&format!("in/{file}"), "x"));
        let place = FilePlace::new(disk.process().store(), "sim:///", path).unwrap();
        let mut options = Options::new(pairs.iter().copied());
        let options = FileOptions::take(&mut options, &place).unwrap();
        let found = block_on(list(&place, &options)).unwrap();
        let mut paths: Vec<_> =
            found.into_iter().map(|file| file.path.trim_start_matches("in/").to_owned()).collect();
        paths.sort();
        paths
    }

    /// Trap F4.
    #[test]
    fn files_being_written_are_not_there_yet() {
        let files = [
            ".a.json.tmp",
            "_b.json",
            "c.json._COPYING_",
            "d.json",
            "_p=1/e.json",
            ".h=1/f.json",
            "_p=1/_q/g.json",
            "_p=1/q=2/h.json",
            "_SUCCESS",
        ];
        assert_eq!(listed("in", &[], &files), ["_p=1/e.json", "_p=1/q=2/h.json", "d.json"]);
    }

    #[test]
    fn other_folders_are_read_only_if_asked_for() {
        let files = ["a", "d/b", "d/e/c", "d/_x/d", "k=1/d/e"];
        assert_eq!(listed("in", &[], &files), ["a"]);
        let recursive = [("recursiveFileLookup", "true")];
        assert_eq!(listed("in", &recursive, &files), ["a", "d/b", "d/e/c", "k=1/d/e"]);
    }

    #[test]
    fn a_pattern_stands_for_files_and_for_folders() {
        let files = ["4", "sub/1", "sub/sub/3", "sub/sub/deep/5", "sub/_x/6", "other/k=1/7"];
        assert_eq!(listed("in/*/*", &[], &files), ["other/k=1/7", "sub/1", "sub/sub/3"]);
        assert_eq!(listed("in/s*/1", &[], &files), ["sub/1"]);
        assert!(listed("in/*/nothing*", &[], &files).is_empty());
        assert!(listed("elsewhere", &[], &files).is_empty());
    }

    #[test]
    fn names_are_filtered() {
        let filter = [("pathGlobFilter", "*.json")];
        assert_eq!(
            listed("in", &filter, &["a.json", "b.csv", "k=1/c.json"]),
            ["a.json", "k=1/c.json"]
        );
    }
}
