//! What is published in an output folder, for readers that want whole batches at any moment.

use crate::file::commits::Commits;
use crate::file::layout::Layout;
use crate::file::options::{FileFormat, FileOptions, TextCompression};
use crate::file::store::exists;
use fluvial_core::Result;
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The data files of all published batches, sorted.
///
/// A plain listing shows the same files, except while the newest batch is being moved to its final
/// names, or after a crash at that moment until the query starts again: then a listing shows a
/// part of that batch. Here it is whole or absent at any moment: files that are not moved yet are
/// named where they are.
///
/// Names that begin with `_` or `.` are not data, unless they are folders of a partition column
/// (`_p=1`).
pub async fn committed_files(store: Arc<dyn ObjectStore>, root: Path) -> Result<Vec<Path>> {
    let layout = Layout::new(root);
    let kept = FileOptions::new(FileFormat::Json {
        ignore_nulls: true,
        compression: TextCompression::None,
    })
    .manifests_kept;
    let commits = Commits { store: store.clone(), layout: layout.clone(), kept };
    // The manifest first: a batch that is published after this look is left out as a whole.
    let newest = commits.newest().await?;
    let listed: Vec<_> = store.list(Some(layout.root())).try_collect().await?;
    let paths = listed.into_iter().map(|meta| meta.location);
    let mut files: BTreeSet<Path> = paths.filter(|path| is_data(&layout, path)).collect();
    let Some(newest) = newest else { return Ok(files.into_iter().collect()) };
    files.retain(|path| batch_of(path).is_none_or(|batch| batch <= newest.batch.0));
    for file in &newest.files {
        let (staged, path) = (layout.resolve(&file.staged), layout.resolve(&file.path));
        if files.contains(&path) {
            continue;
        }
        // Moved between the two looks, or not yet.
        if exists(store.as_ref(), &staged).await? {
            files.insert(staged);
        } else if exists(store.as_ref(), &path).await? {
            files.insert(path);
        }
    }
    Ok(files.into_iter().collect())
}

fn is_data(layout: &Layout, path: &Path) -> bool {
    let Some(relative) = layout.relative(path) else { return false };
    relative.split('/').all(|name| !name.starts_with(['_', '.']) || name.contains('='))
}

/// The batch in the name of a file that this sink wrote: `part-<partition>-<query>-<batch>-c..`.
fn batch_of(path: &Path) -> Option<u64> {
    let name = path.filename()?.strip_prefix("part-")?;
    let (rest, _) = name.rsplit_once("-c")?;
    rest.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_is_in_the_name() {
        let batch = |name: &str| batch_of(&Path::from(name));
        assert_eq!(batch("p=1/part-00003-a-b-c-7-c000.snappy.parquet"), Some(7));
        assert_eq!(batch("part-00003-foreign.parquet"), None);
    }
}
