//! Names of files without what costs a request for each: a folder with a million files, all but a
//! few of which were read before.

use super::glob::Glob;
use super::listing::{is_partition_name, visible};
use super::options::FileOptions;
use super::place::{FilePlace, parse_path};
use async_trait::async_trait;
use fluvial_core::{Error, Result};
use object_store::path::Path;
use std::fmt::Debug;
use std::io::ErrorKind;

/// Lists names alone, where that is cheaper than listing files with their sizes and times.
#[async_trait]
pub trait ListNames: Debug + Send + Sync {
    /// What is directly in `folder`, a path below the store's root, in no order: the files whose
    /// listing by the store would have them, and the folders. A missing folder is empty.
    async fn list_names(&self, folder: &Path) -> Result<FolderNames>;
}

/// Names in one folder.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FolderNames {
    /// Names of files.
    pub files: Vec<String>,
    /// Names of folders.
    pub folders: Vec<String>,
}

impl FolderNames {
    /// Reads a local folder: its entries, and nothing of the files. It blocks.
    ///
    /// # Errors
    ///
    /// `Invalid` if it cannot be listed, or a name is no UTF-8.
    pub fn read(folder: &std::path::Path) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::invalid(format!("the folder {} cannot be listed: {error}", folder.display()))
                .with_condition("PATH_NOT_READABLE")
                .with_source(error)
        };
        let mut names = Self::default();
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(names),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let mut kind = entry.file_type().map_err(failed)?;
            if kind.is_symlink() {
                // What it leads to counts; a link to nothing is nothing.
                match std::fs::metadata(entry.path()) {
                    Ok(found) => kind = found.file_type(),
                    Err(_) => continue,
                }
            }
            let name = entry.file_name().into_string().map_err(|name| {
                Error::invalid(format!("{}/{name:?} is no name in UTF-8", folder.display()))
                    .with_condition("PATH_NOT_READABLE")
            })?;
            if kind.is_dir() {
                names.folders.push(name);
            } else if kind.is_file() && !is_upload(&name) {
                names.files.push(name);
            }
        }
        Ok(names)
    }
}

/// Files that `object_store` has not completed yet: `name#1`.
fn is_upload(name: &str) -> bool {
    let tail = name.rsplit_once('#').map(|(_, tail)| tail);
    tail.is_some_and(|tail| !tail.is_empty() && tail.bytes().all(|b| b.is_ascii_digit()))
}

/// The paths of all files of a plain folder, by the rules of [`super::listing::list`]. Each
/// folder's are given to `keep`; what it leaves is in the result.
pub(crate) async fn paths(
    place: &FilePlace,
    options: &FileOptions,
    names: &dyn ListNames,
    keep: impl Fn(&mut Vec<String>) + Send + Sync,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![place.root().clone()];
    while let Some(folder) = folders.pop() {
        let here = names.list_names(&folder).await?;
        let top = folder == *place.root();
        for name in here.folders {
            let below = if options.recursive {
                visible(&name)
            } else {
                is_partition_name(&name) && (top || visible(&name))
            };
            if below {
                folders.push(parse_path(&under(&folder, &name))?);
            }
        }
        let wanted = |name: &String| visible(name) && fits(options.name_filter.as_ref(), name);
        let mut files: Vec<String> = here.files.into_iter().filter(wanted).collect();
        for name in &mut files {
            *name = under(&folder, name);
        }
        keep(&mut files);
        found.append(&mut files);
    }
    Ok(found)
}

fn fits(filter: Option<&Glob>, name: &str) -> bool {
    filter.is_none_or(|filter| filter.matches(name))
}

fn under(folder: &Path, name: &str) -> String {
    match folder.as_ref() {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_without_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for name in ["a", "b#1", "c#x"] {
            std::fs::write(path.join(name), "x").unwrap();
        }
        std::fs::create_dir(path.join("d=1")).unwrap();
        #[cfg(unix)]
        for (to, name) in [("a", "link"), ("d=1", "e"), ("nowhere", "f")] {
            std::os::unix::fs::symlink(path.join(to), path.join(name)).unwrap();
        }
        let mut names = FolderNames::read(path).unwrap();
        names.files.sort();
        names.folders.sort();
        assert_eq!(names.files, ["a", "c#x", "link"]);
        assert_eq!(names.folders, ["d=1", "e"]);
        assert_eq!(FolderNames::read(&path.join("none")).unwrap(), FolderNames::default());
        assert!(FolderNames::read(&path.join("a")).is_err());
    }
}
