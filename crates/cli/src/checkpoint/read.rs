//! What a checkpoint holds. Only reads: a run may be writing to it.

use fluvial_checkpoint::{Layout, ObjectLog, format};
use fluvial_core::protocol::{Resume, resume};
use fluvial_core::{BatchId, BatchLog, Commit, Error, Plan, QueryId, Result, SourceId};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything about one checkpoint.
#[derive(Debug)]
pub(crate) struct Report {
    /// What to call it.
    pub(crate) name: String,
    /// The query; `None` if the record is missing or damaged.
    pub(crate) query: Option<QueryId>,
    /// What is left of each batch.
    pub(crate) batches: BTreeMap<BatchId, Batch>,
    /// What is wrong, each with the name of the object.
    pub(crate) damaged: Vec<String>,
    /// What the next run does.
    pub(crate) next: Next,
    /// Where it is in its store.
    root: Path,
}

impl Report {
    /// Whether nothing is damaged and the next run can go on.
    pub(crate) fn is_sound(&self) -> bool {
        self.damaged.is_empty() && !matches!(self.next, Next::Refuse(_))
    }

    /// What is wrong, with the checkpoint called as its user does, and not as the store.
    pub(crate) fn named(&self, what: &str) -> String {
        match self.root.as_ref() {
            "" => what.to_owned(),
            root => {
                let name = self.name.trim_end_matches('/');
                what.replace(&format!("{root}/"), &format!("{name}/"))
            }
        }
    }
}

/// One batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) plan: Option<Plan>,
    pub(crate) commit: Option<Commit>,
}

/// What the next run does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It starts from the beginning.
    Begin,
    /// It runs a planned batch again.
    Again(BatchId),
    /// It plans this batch.
    Plan(BatchId),
    /// It refuses.
    Refuse(String),
}

/// The checkpoints at `root`: itself, or the folders in it.
pub(crate) async fn find(store: &dyn ObjectStore, root: &Path) -> Result<Vec<Path>> {
    if is_checkpoint(store, root).await? {
        return Ok(vec![root.clone()]);
    }
    let mut found = Vec::new();
    for folder in store.list_with_delimiter(Some(root)).await?.common_prefixes {
        if is_checkpoint(store, &folder).await? {
            found.push(folder);
        }
    }
    Ok(found)
}

async fn is_checkpoint(store: &dyn ObjectStore, root: &Path) -> Result<bool> {
    let layout = Layout::new(root.clone());
    let inside = store.list_with_delimiter(Some(root)).await?;
    let has_record = inside.objects.iter().any(|object| object.location == layout.metadata());
    let folders = [layout.offsets(), layout.commits()];
    Ok(has_record || inside.common_prefixes.iter().any(|folder| folders.contains(folder)))
}

/// Reads a checkpoint. What is damaged is in the report; only a store that fails is an error.
pub(crate) async fn read(store: Arc<dyn ObjectStore>, root: Path, name: String) -> Result<Report> {
    let log = ObjectLog::new(store.clone(), root);
    let layout = log.layout().clone();
    let mut damaged = Vec::new();
    let query = query(store.as_ref(), &layout, &mut damaged).await?;
    let mut batches: BTreeMap<BatchId, Batch> = BTreeMap::new();
    let plans = numbers(store.as_ref(), &layout.offsets()).await?;
    for batch in &plans {
        let plan = log.plan(*batch).await;
        batches.entry(*batch).or_default().plan = intact(plan, &mut damaged)?;
    }
    let commits = numbers(store.as_ref(), &layout.commits()).await?;
    for batch in &commits {
        let commit = log.commit(*batch).await;
        batches.entry(*batch).or_default().commit = intact(commit, &mut damaged)?;
    }
    let mark = intact(log.low_water().await.map(Some), &mut damaged)?.unwrap_or(BatchId::FIRST);
    gaps(&layout.offsets(), &plans, mark, &mut damaged);
    gaps(&layout.commits(), &commits, mark, &mut damaged);
    source_logs(store.as_ref(), &layout, &batches, &mut damaged).await?;
    let next = next(&batches);
    let root = layout.root().clone();
    let mut report = Report { name, query, batches, damaged, next, root };
    report.damaged = report.damaged.iter().map(|what| report.named(what)).collect();
    Ok(report)
}

/// Entries between others that are not there. Below `mark` cleaning may have got to some.
fn gaps(folder: &Path, there: &BTreeSet<BatchId>, mark: BatchId, damaged: &mut Vec<String>) {
    let mut kept = there.iter().filter(|batch| **batch >= mark);
    let Some(mut before) = kept.next() else { return };
    for batch in kept {
        let (first, last) = (before.next(), batch.previous().unwrap_or(*batch));
        if first == last {
            damaged.push(format!("{folder}/{first} is missing, and {batch} is there"));
        } else if first < last {
            damaged.push(format!("{folder}/{first} to {last} are missing, and {batch} is there"));
        }
        before = batch;
    }
}

/// Takes note of damage; passes on everything else.
fn intact<T>(read: Result<Option<T>>, damaged: &mut Vec<String>) -> Result<Option<T>> {
    match read {
        Err(error) if is_damage(&error) => {
            damaged.push(error.message().to_owned());
            Ok(None)
        }
        read => read,
    }
}

/// Whether an error is about what is in the checkpoint, and not about reaching it.
fn is_damage(error: &Error) -> bool {
    use fluvial_core::ErrorKind;
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid)
}

async fn query(
    store: &dyn ObjectStore,
    layout: &Layout,
    damaged: &mut Vec<String>,
) -> Result<Option<QueryId>> {
    let path = layout.metadata();
    match bytes(store, &path).await? {
        None => {
            damaged.push(format!("{path} is missing: the query's id is not known"));
            Ok(None)
        }
        Some(bytes) => {
            let id = format::parse_metadata(&bytes).map(Some).map_err(|error| error.at(&path));
            intact(id, damaged)
        }
    }
}

async fn bytes(store: &dyn ObjectStore, path: &Path) -> Result<Option<Vec<u8>>> {
    match store.get(path).await {
        Ok(found) => Ok(Some(found.bytes().await?.to_vec())),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The batches that have an entry in a folder, whatever its generation.
async fn numbers(store: &dyn ObjectStore, folder: &Path) -> Result<BTreeSet<BatchId>> {
    let objects: Vec<_> = store.list(Some(folder)).try_collect().await?;
    let number = |path: &Path| {
        let name = path.filename()?;
        let number = name.split_once(".again-").map_or(name, |(number, _)| number);
        let batch: u64 = number.parse().ok()?;
        (batch.to_string() == number).then_some(BatchId(batch))
    };
    Ok(objects.iter().filter_map(|object| number(&object.location)).collect())
}

/// Checks what the sources wrote beside the plans against the checksums in the plans.
async fn source_logs(
    store: &dyn ObjectStore,
    layout: &Layout,
    batches: &BTreeMap<BatchId, Batch>,
    damaged: &mut Vec<String>,
) -> Result<()> {
    let mut checked: BTreeSet<(&SourceId, &str)> = BTreeSet::new();
    for plan in batches.values().filter_map(|batch| batch.plan.as_ref()) {
        for (source, range) in plan.ranges.iter().chain(&plan.silent) {
            let Some(log) = &range.log else { continue };
            if !checked.insert((source, &log.name)) {
                continue;
            }
            let path = layout.source(source).join(log.name.as_str());
            let batch = plan.batch;
            match bytes(store, &path).await? {
                None => damaged.push(format!("{path} is missing: batch {batch} needs it")),
                Some(bytes) if crc32fast::hash(&bytes) != log.crc32 => damaged
                    .push(format!("{path} is damaged: batch {batch} has another checksum for it")),
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn next(batches: &BTreeMap<BatchId, Batch>) -> Next {
    let plan = batches.values().rev().find_map(|batch| batch.plan.clone());
    let commit = batches.values().rev().find_map(|batch| batch.commit.clone());
    match resume(plan, commit) {
        Ok(Resume::Fresh) => Next::Begin,
        Ok(Resume::Rerun { plan, .. }) => Next::Again(plan.batch),
        Ok(Resume::Next { commit, .. }) => Next::Plan(commit.batch.next()),
        Err(error) => Next::Refuse(error.message().to_owned()),
    }
}
