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
        if is_below(root, options, &meta.location) {
            found.push(entry(meta));
        }
    }
    found.retain(|file| options.admits(file.mtime));
    Ok(found)
}

/// Whether a listing of the place would find a file of this path.
pub(crate) fn is_of(place: &FilePlace, options: &FileOptions, path: &Path) -> bool {
    if place.patterns.is_empty() {
        return is_below(place.root(), options, path);
    }
    let Some(rest) = path.prefix_match(place.root()) else { return false };
    let names: Vec<String> = rest.map(|part| part.as_ref().to_owned()).collect();
    let fit = |(pattern, name): (&Glob, &String)| visible(name) && pattern.matches(name);
    if names.len() < place.patterns.len() || !place.patterns.iter().zip(&names).all(fit) {
        return false;
    }
    // A pattern that stands for the folder of the file, or for the file itself.
    let folder: Path = place
        .root()
        .parts()
        .chain(
            names[..place.patterns.len().min(names.len() - 1)]
                .iter()
                .map(|name| name.as_str().into()),
        )
        .collect();
    is_below(&folder, options, path)
}

/// Whether a listing of the plain folder `root` would find it.
fn is_below(root: &Path, options: &FileOptions, path: &Path) -> bool {
    let below = match root.as_ref() {
        "" => Some(path.as_ref()),
        root => path.as_ref().strip_prefix(root).and_then(|rest| rest.strip_prefix('/')),
    };
    let Some(below) = below.filter(|below| !below.is_empty()) else { return false };
    let (folders, name) = below.rsplit_once('/').unwrap_or(("", below));
    let accepts = |folder: &str| {
        folder.is_empty() || (visible(folder) && (options.recursive || folder.contains('=')))
    };
    let named = options.name_filter.as_ref().is_none_or(|filter| filter.matches(name));
    visible(name) && named && folders.split('/').all(accepts)
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
pub(super) fn visible(name: &str) -> bool {
    let hidden = (name.starts_with('_') && !name.contains('='))
        || name.starts_with('.')
        || name.ends_with("._COPYING_");
    !hidden
}

fn is_partition(path: &Path) -> bool {
    path.filename().is_some_and(is_partition_name)
}

pub(super) fn is_partition_name(name: &str) -> bool {
    name.contains('=') && !name.starts_with('.')
}

pub(super) fn entry(meta: ObjectMeta) -> FileEntry {
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
