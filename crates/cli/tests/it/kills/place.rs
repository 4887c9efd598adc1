//! Where a kill landed, as the files show.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// How far the job was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// No batch was planned.
    Nowhere,
    /// A batch was planned, nothing of its state written.
    Planned,
    /// Its state was being written.
    Sealing,
    /// Its state was written, its rows not in the table.
    Sealed,
    /// Its rows were in the table, and no commit said so.
    Published,
    /// Every planned batch was committed.
    Committed,
    /// All batches were committed: too late to count.
    Over,
}

impl Place {
    /// Whether a plan was without its commit.
    pub(super) fn is_between(self) -> bool {
        matches!(self, Self::Planned | Self::Sealing | Self::Sealed | Self::Published)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nowhere => "before the first plan",
            Self::Planned => "after offsets/n, before the state of the batch",
            Self::Sealing => "after offsets/n, in the middle of writing state",
            Self::Sealed => "after the state, before the table has the rows",
            Self::Published => "after the table has the rows, before commits/n",
            Self::Committed => "after commits/n, before the next plan",
            Self::Over => "too late: the job was over",
        })
    }
}

/// What lies in the folder of a job.
#[derive(Debug)]
pub(super) struct Snapshot {
    plans: u64,
    commits: u64,
    state: BTreeSet<PathBuf>,
    published: Option<u64>,
}

impl Snapshot {
    pub(super) fn of(folder: &Path) -> Self {
        let checkpoint = folder.join(".fluvial/checkpoints/page_views_5m");
        Self {
            // Commits first: a batch may be committed between the two looks.
            commits: entries(&checkpoint.join("commits")),
            plans: entries(&checkpoint.join("offsets")),
            state: files(&checkpoint.join("state")),
            published: versions(folder).last().and_then(|newest| batch_of(newest)),
        }
    }

    /// How many batches are planned.
    pub(super) fn plans(&self) -> u64 {
        self.plans
    }

    /// How many batches are committed.
    pub(super) fn commits(&self) -> u64 {
        self.commits
    }

    /// Where a process was killed that began at `before`, of a job with so many batches.
    pub(super) fn place(&self, before: &Self, batches: u64) -> Place {
        assert!(self.plans == self.commits || self.plans == self.commits + 1, "{self:?}");
        if self.plans == 0 {
            return Place::Nowhere;
        }
        if self.plans == self.commits {
            return if self.commits == batches { Place::Over } else { Place::Committed };
        }
        if self.is_published() {
            return Place::Published;
        }
        match self.sealing_since(before) {
            None => Place::Planned,
            Some(path) if path.to_string_lossy().contains('#') => Place::Sealing,
            Some(_) => Place::Sealed,
        }
    }

    /// Whether the table has the batch that has no commit.
    pub(super) fn is_published(&self) -> bool {
        self.plans > self.commits && self.published == Some(self.commits)
    }

    /// State of the batch that has no commit, written by a process that began at `before`: an
    /// earlier one may have come further with the same batch.
    pub(super) fn sealing_since(&self, before: &Self) -> Option<PathBuf> {
        let version = format!("{}-", self.commits + 1);
        let mut written = self.state.difference(&before.state);
        let found = written.find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&version)
        });
        found.cloned()
    }
}

/// How many entries a log has: they are numbered from zero.
fn entries(log: &Path) -> u64 {
    let names = fs::read_dir(log).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.parse::<u64>().ok());
    numbers.max().map_or(0, |newest| newest + 1)
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { [path].into() }).collect()
}

/// The batch of each transaction in the log of the table.
pub(super) fn transactions(folder: &Path) -> Vec<u64> {
    versions(folder).iter().filter_map(|version| batch_of(version)).collect()
}

/// The versions of the table, the oldest first.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::from_iter(files(&folder.join("out/page_views_5m/_delta_log")));
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_suffix(".json").is_some_and(|name| name.parse::<u64>().is_ok())
    });
    found
}

/// The batch that a version of the table says it is.
fn batch_of(version: &Path) -> Option<u64> {
    let text = fs::read_to_string(version).unwrap();
    let actions = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut batches =
        actions.filter_map(|action: serde_json::Value| action["txn"]["version"].as_u64());
    batches.next()
}
