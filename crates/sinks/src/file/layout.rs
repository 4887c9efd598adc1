//! Where everything is below the output folder.
//!
//! ```text
//! <output>/_fluvial/owner                        which query writes here
//! <output>/_fluvial/commits/7                    batch 7 is published: its files, its note
//! <output>/_fluvial/low-water/3                  manifests below 3 * <kept> may be gone
//! <output>/_fluvial/staged/<run>/7-0-0.parquet   data of batch 7, partition 0: not visible
//! <output>/<folders>/part-00000-<query>-7-c000.snappy.parquet
//! ```
//!
//! Readers skip names that begin with `_`, so what is below `_fluvial` is invisible to them.

use fluvial_core::BatchId;
use object_store::path::Path;

/// The output folder.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: Path,
}

/// The folder of everything that is not output.
const HIDDEN: &str = "_fluvial";

impl Layout {
    pub(crate) fn new(root: Path) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn hidden(&self, folder: &str) -> Path {
        self.root.clone().join(HIDDEN).join(folder)
    }

    pub(crate) fn owner(&self) -> Path {
        self.hidden("owner")
    }

    pub(crate) fn commits(&self) -> Path {
        self.hidden("commits")
    }

    pub(crate) fn commit(&self, batch: BatchId) -> Path {
        self.commits().join(batch.to_string())
    }

    pub(crate) fn low_waters(&self) -> Path {
        self.hidden("low-water")
    }

    pub(crate) fn low_water(&self, mark: u64) -> Path {
        self.low_waters().join(mark.to_string())
    }

    pub(crate) fn staged(&self) -> Path {
        self.hidden("staged")
    }

    /// A path below the output folder, as manifests have it.
    pub(crate) fn resolve(&self, relative: &str) -> Path {
        // Folder names are escaped already: a path takes its parts as they are.
        let parts = relative.split('/').filter(|part| !part.is_empty());
        let parsed = parts.map(|part| Path::parse(part).unwrap_or_else(|_| Path::from(part)));
        parsed.fold(self.root.clone(), |path, part| path.parts().chain(part.parts()).collect())
    }

    /// A path below the output folder as manifests have it; `None` if it is elsewhere.
    pub(crate) fn relative(&self, path: &Path) -> Option<String> {
        let rest = path.prefix_match(&self.root)?;
        let parts: Vec<_> = rest.map(|part| part.as_ref().to_owned()).collect();
        Some(parts.join("/"))
    }
}

/// The number that an object is named after. Other names are nobody's business here.
pub(crate) fn number(path: &Path) -> Option<u64> {
    let name = path.filename()?;
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    name.parse().ok().filter(|_| plain)
}

/// The batch that a staged object belongs to: its name begins with it.
pub(crate) fn staged_batch(path: &Path) -> Option<BatchId> {
    let (batch, _) = path.filename()?.split_once('-')?;
    batch.parse().ok().map(BatchId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_whatever_is_in_a_name() {
        let layout = Layout::new(Path::from("a b/out"));
        for relative in ["x", "p=50%25/x.parquet", "p=a b/é=%3A/x", "p=k%3Dv/y"] {
            let path = layout.resolve(relative);
            assert_eq!(layout.relative(&path).as_deref(), Some(relative), "{path}");
            assert_eq!(path.as_ref(), format!("a b/out/{relative}"));
        }
    }

    #[test]
    fn only_plain_numbers_are_manifests() {
        let number = |name: &str| super::number(&Path::from(name));
        assert_eq!(number("commits/12"), Some(12));
        for foreign in ["commits/1.tmp", "commits/+1", "commits/x", "commits/-1"] {
            assert_eq!(number(foreign), None, "{foreign}");
        }
        assert_eq!(staged_batch(&Path::from("s/r/7-0-0.json")), Some(BatchId(7)));
    }
}
