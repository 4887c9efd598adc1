//! What is left over, to the object: state that no commit needs, lists of files that no plan names,
//! and files that nobody published.

use crate::oracle::log;
use crate::output::FOLDER;
use crate::simulation::Violation;
use crate::world::World;
use fluvial_core::{BatchLog, Commit, Result, Snapshot, frame};
use fluvial_sim::block_on;
use object_store::path::Path;
use std::collections::{BTreeMap, BTreeSet};

/// Folders in which a query that was disturbed has as many objects in the end as one that was not.
const COUNTED: [&str; 2] = ["checkpoint/offsets/", "checkpoint/commits/"];

const STATE: &str = "checkpoint/state/";

/// How many objects are in each of the folders that are counted.
pub(crate) fn counts(world: &World) -> BTreeMap<&'static str, usize> {
    COUNTED.map(|folder| (folder, world.disk().paths_under(folder).len())).into()
}

/// After some batches in peace, with cleaning, and another start: what is there is what somebody
/// needs.
pub(crate) fn check(
    world: &World,
    expected: &BTreeMap<&'static str, usize>,
) -> Result<(), Violation> {
    let unreadable = |e: fluvial::Error| Violation::new(format!("what is left over: {e}"));
    let commits = block_on(log(world).commits()).map_err(unreadable)?;
    check_state(world, &commits)?;
    check_sources(world).map_err(unreadable)??;
    check_output(world).map_err(unreadable)??;
    let found = counts(world);
    if found != *expected {
        return Err(Violation::new(format!(
            "objects left over: {found:?}, without faults {expected:?}"
        )));
    }
    Ok(())
}

fn check_state(world: &World, commits: &[Commit]) -> Result<(), Violation> {
    let Some(newest) = commits.last() else { return Ok(()) };
    let plan = block_on(log(world).plan(newest.batch)).ok().flatten();
    let format = plan.map(|plan| plan.settings.state_format).unwrap_or_default();
    let reach: fn(&World, &Snapshot) -> Result<Vec<String>> = match format.as_str() {
        "memory" => in_memory,
        "lsm" => in_runs,
        _ => return Ok(()),
    };
    let snapshots = || commits.iter().flat_map(|commit| &commit.snapshots);
    let mut needed = BTreeSet::new();
    for snapshot in snapshots() {
        needed.extend(reach(world, snapshot).map_err(|e| Violation::new(e.to_string()))?);
    }
    let there: BTreeSet<String> = world.disk().paths_under(STATE).into_iter().collect();
    if let Some(gone) = needed.difference(&there).next() {
        return Err(Violation::new(format!("{gone} is needed and not there")));
    }
    let oldest = snapshots().map(|snapshot| snapshot.version.0).min().unwrap_or_default();
    for left in there.difference(&needed) {
        // What was merged beside the last batches is named by a later commit, or dropped then.
        if format == "memory" || version_of(left).is_none_or(|version| version < oldest) {
            return Err(Violation::new(format!(
                "{left} is left over: no commit from version {oldest} on needs it"
            )));
        }
    }
    Ok(())
}

/// The version or batch that an object was written for.
fn version_of(path: &str) -> Option<u64> {
    path.rsplit('/').next()?.split('-').next()?.parse().ok()
}

fn in_memory(_: &World, snapshot: &Snapshot) -> Result<Vec<String>> {
    let token = fluvial_state_memory::inspect_token(&snapshot.token)?;
    let (operator, store) = (&snapshot.id.operator, &snapshot.id.store);
    Ok(token.objects.iter().map(|name| format!("{STATE}{operator}/{store}/{name}")).collect())
}

fn in_runs(world: &World, snapshot: &Snapshot) -> Result<Vec<String>> {
    let Some(token) = fluvial_state_lsm::inspect_token(&snapshot.token)? else {
        return Ok(Vec::new());
    };
    let path = format!("{STATE}{}", token.object);
    let Some(bytes) = world.disk().read(&path) else { return Ok(vec![path]) };
    let manifest = bytes.slice(token.manifest.start as usize..token.manifest.end as usize);
    let manifest = fluvial_state_lsm::inspect_manifest(&manifest)?;
    let others = manifest.runs.into_iter().filter_map(|run| run.object);
    Ok(others.map(|name| format!("{STATE}{name}")).chain([path]).collect())
}

/// Of the logs of file sources: for each batch since the newest ten entries began, what is there
/// is what the newest plan leads to. What is older waits for its batch to be released.
fn check_sources(world: &World) -> Result<Result<(), Violation>> {
    let Some(plan) = block_on(log(world).latest_plan())? else { return Ok(Ok(())) };
    for (source, range) in plan.ranges.iter().chain(&plan.silent) {
        let Some(log) = &range.log else { continue };
        let folder = format!("checkpoint/sources/{source}/");
        let (mut needed, mut next) = (BTreeSet::new(), Some(log.clone()));
        let mut first = version_of(&log.name);
        while let Some(log) = next {
            let path = format!("{folder}{}", log.name);
            let Some(bytes) = world.disk().read(&path) else {
                return Ok(Err(Violation::new(format!("{path} is needed and not there"))));
            };
            let needs = fluvial_sources::parse_log_object(frame::open("files", 1, &bytes)?)?;
            needed.extend(needs.parts.into_iter().map(|part| part.name));
            first = version_of(&log.name);
            needed.insert(log.name);
            next = needs.previous;
        }
        let newest = version_of(&log.name);
        let settled = |name: &str| version_of(name) >= first && version_of(name) <= newest;
        for path in world.disk().paths_under(&folder) {
            let name = path.strip_prefix(&folder).unwrap_or(&path);
            if settled(name) && !needed.contains(name) {
                return Ok(Err(Violation::new(format!("{path} is left over: no plan names it"))));
            }
        }
    }
    Ok(Ok(()))
}

/// Of a folder of files: nothing is staged, and every file is one that was published.
fn check_output(world: &World) -> Result<Result<(), Violation>> {
    let disk = world.disk();
    let folder = format!("{FOLDER}/");
    let owned = format!("{folder}_fluvial/");
    if disk.paths_under(&owned).is_empty() {
        return Ok(Ok(()));
    }
    if let Some(staged) = disk.paths_under(&format!("{owned}staged/")).first() {
        return Ok(Err(Violation::new(format!("{staged} is left over"))));
    }
    let files = fluvial_sinks::committed_files(disk.process().store(), Path::from(FOLDER));
    let files: BTreeSet<String> = block_on(files)?.iter().map(ToString::to_string).collect();
    let there = disk.paths_under(&folder).into_iter().filter(|path| !path.starts_with(&owned));
    let there: BTreeSet<String> = there.collect();
    if there != files {
        let other = there.symmetric_difference(&files).next();
        return Ok(Err(Violation::new(format!("{other:?} is no file that was published"))));
    }
    Ok(Ok(()))
}
