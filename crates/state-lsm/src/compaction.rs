//! Merging runs: when, and how.
//!
//! Runs of about one size are merged when there are [`Settings::fanout`] of them that have entries,
//! so that an entry is written a few times in its life; and all runs are merged when more than half of their
//! entries show nothing. What is merged are always neighbours in age.

use crate::builder::{Built, RunBuilder};
use crate::gone::Gone;
use crate::lookup::hash;
use crate::merge::{Merge, RunCursor, Source, Way};
use crate::objects::{Objects, Upload};
use crate::run::{HeldBlock, Unread};
use crate::seal::told;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::token::ObjectName;
use crate::version::Live;
use fluvial_core::{KeyRange, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Runs up to this size are all of the lowest level.
const SMALLEST: u64 = 64 << 10;
/// Versions with fewer entries than this are not worth a thought about space.
const FEW: u64 = 1000;
/// How many times more runs without entries may gather: they name ranges that are gone, and cost
/// reads nothing.
const RANGES_FACTOR: usize = 4;
/// Bytes of blocks that are read ahead of one run.
const AHEAD: u64 = 1 << 20;
/// Entries between two breaths of a task.
const BREATH: u64 = 4096;

fn level(bytes: u64, fanout: u64) -> u32 {
    (bytes / SMALLEST).max(1).ilog(fanout)
}

/// The runs to merge, if any should be, by their places in a version of `rows` keys.
pub(crate) fn pick(runs: &[Live], rows: u64, settings: &Settings) -> Option<Range<usize>> {
    let entries: u64 = runs.iter().map(|live| live.run.meta.entries).sum();
    let fanout = settings.fanout.max(2);
    if runs.len() > 1 && entries > 2 * rows.max(FEW) {
        return Some(0..runs.len());
    }
    // A small run behind a larger one is taken for as large, or it would stay for ever.
    let mut levels: Vec<u32> = Vec::with_capacity(runs.len());
    for live in runs {
        let own = level(live.run.meta.bytes(), fanout as u64);
        levels.push(levels.last().map_or(own, |before| own.max(*before)));
    }
    let mut start = 0;
    for same in levels.chunk_by(|a, b| a == b) {
        let all = start..start + same.len();
        let with_entries =
            runs[all.clone()].iter().filter(|live| live.run.meta.entries > 0).count();
        if with_entries >= fanout || same.len() >= RANGES_FACTOR * fanout {
            return Some(all);
        }
        start = all.end;
    }
    None
}

/// Merges runs into one; `older` are those behind them. `None` if nothing is left.
///
/// # Errors
///
/// As of reading the runs.
pub(crate) async fn merge(
    shared: &Shared,
    runs: &[Live],
    older: &[Live],
    mut spill: Option<&mut Spill<'_>>,
) -> Result<Option<Built>> {
    // Only what these runs say of each other counts: the newer ones go on hiding by themselves.
    let mut hidden = Gone::default();
    let cursors = runs.iter().enumerate().map(|(number, live)| {
        let pieces = hidden.outside(&KeyRange::all().within(live.clip));
        hidden = hidden.union(&live.gone());
        Source::Run(RunCursor::new(live, number, pieces, Way::Up))
    });
    let mut merge = Merge::new(cursors.collect(), Way::Up);
    let mut ahead: BTreeMap<(usize, u32), Arc<HeldBlock>> = BTreeMap::new();
    let entries: u64 = runs.iter().map(|live| live.run.meta.entries).sum();
    let builder = RunBuilder::new(&shared.settings, entries as usize);
    let mut builder = builder.within(&shared.budget);
    let mut since = 0u64;
    loop {
        let found = merge.advance(&mut |run, block| {
            let kept = ahead.remove(&(run, block)).ok_or(Unread);
            kept.or_else(|Unread| runs[run].run.peek(block))
        });
        match found {
            Ok(false) => break,
            Ok(true) => {
                if let Some(kind) = merge.kind() {
                    let value = merge.value().unwrap_or_default();
                    builder.add(merge.key(), hash(merge.key()), kind, value);
                }
                since += 1;
                if let Some(spill) = spill.as_deref_mut()
                    && since.is_multiple_of(BREATH)
                {
                    spill.take(&mut builder).await?;
                    shared.jobs.pace.breathe().await;
                }
            }
            Err(Unread) => {
                let Some((run, blocks)) = merge.lacking() else { break };
                let blocks = near(&runs[run], blocks);
                let read =
                    runs[run].run.read(&shared.objects, shared.disk.as_ref(), &blocks).await?;
                for (number, block) in blocks.into_iter().zip(read) {
                    ahead.insert((run, number), runs[run].run.hold(block));
                }
            }
        }
    }
    Ok(builder.finish(told(&hidden, older)))
}

/// Where the bytes of a large run go while it is made.
#[derive(Debug)]
pub(crate) struct Spill<'s> {
    objects: &'s Objects,
    name: &'s ObjectName,
    /// From this size on.
    from: usize,
    /// The upload, if there is one.
    pub(crate) upload: Option<Upload>,
}

impl<'s> Spill<'s> {
    /// To an object of that name; small runs stay in memory.
    pub(crate) fn new(objects: &'s Objects, name: &'s ObjectName, from: usize) -> Self {
        Self { objects, name, from, upload: None }
    }

    async fn take(&mut self, builder: &mut RunBuilder) -> Result<()> {
        if builder.waiting() < self.from {
            return Ok(());
        }
        if self.upload.is_none() {
            self.upload = Some(self.objects.begin(self.name).await?);
        }
        match &mut self.upload {
            Some(upload) => upload.put(builder.drain()).await,
            None => Ok(()),
        }
    }
}

/// The first of these blocks that are read at once.
fn near(live: &Live, blocks: Range<u32>) -> Vec<u32> {
    let index = &live.run.tail.index;
    let start = index.place(blocks.start).start;
    let end = blocks.clone().find(|block| index.place(*block).end - start > AHEAD);
    let end = end.unwrap_or(blocks.end).max(blocks.start + 1);
    (blocks.start..end).collect()
}
