//! Bringing close what a batch is about to read.
//!
//! The blocks that it needs stay in memory until its commit. If the keys of a batch lie in so many
//! blocks that these would take much of the budget, their values are copied out piece by piece
//! instead: a key and its value are smaller than the block around them.

use crate::gone::Gone;
use crate::lookup::{Answer, Asked, OnUnread, hash, look_up};
use crate::overlay::{Below, Overlay};
use crate::run::{HeldBlock, Unread};
use crate::shared::Shared;
use crate::store::LsmStore;
use crate::version::Version;
use arrow::array::{Array, BinaryArray};
use fluvial_core::{KeyRange, Prefetch, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Blocks that are not close, by the number of their run.
type Missing = BTreeMap<usize, BTreeSet<u32>>;

/// What a batch needs: blocks that are close, blocks that are not, and keys in too many blocks.
#[derive(Default)]
struct Needed<'p> {
    close: Vec<Arc<HeldBlock>>,
    missing: Missing,
    scattered: Vec<&'p BinaryArray>,
}

/// Takes note of blocks that are not close.
pub(crate) fn note(missing: &mut Missing, answer: &Answer) {
    if let Answer::Unread { run, block } = answer {
        missing.entry(*run).or_default().insert(*block);
    }
}

/// How many keys are looked for at once, so that their blocks take little of the budget.
fn piece(shared: &Shared) -> usize {
    let blocks = shared.budget.max() / 16 / shared.settings.block_bytes.max(1) as u64;
    usize::try_from(blocks).unwrap_or(usize::MAX).max(1)
}

/// Looks for keys in order, however many blocks that needs, and tells of each what is known then;
/// blocks that values lie in are not kept.
pub(crate) async fn look_up_all(
    shared: &Shared,
    base: &Version,
    gone: &Gone,
    keys: &BinaryArray,
    mut tell: impl FnMut(u32, Option<&[u8]>),
) -> Result<()> {
    let rows = (0..keys.len()).filter(|at| keys.is_valid(*at));
    let asked = Asked::new(keys, rows.map(|at| (at as u32, hash(keys.value(at)))));
    for piece in asked.pieces(piece(shared)) {
        let mut missing = Missing::new();
        let close = look_up(base, gone, piece.clone(), OnUnread::GoOn, |_, answer| {
            note(&mut missing, &answer);
        });
        let brought = shared.bring(base, missing).await?;
        let mut found = Vec::new();
        let blocks = look_up(base, gone, piece, OnUnread::Stop, |at, answer| {
            if let Answer::Value(block, value) = answer {
                found.push((at, block, value));
            } else {
                tell(at, None);
            }
        });
        drop((close, brought));
        for (at, block, value) in found {
            tell(at, Some(blocks.value(block, &value)));
        }
    }
    Ok(())
}

impl LsmStore {
    /// Brings what reads of `what` need.
    pub(crate) async fn bring(&mut self, what: &Prefetch) -> Result<()> {
        let mut needed = Needed::default();
        self.needed(what, &mut needed);
        let Needed { close, missing, scattered } = needed;
        self.pin(close);
        let brought = self.shared.bring(&self.base, missing).await?;
        self.pin(brought);
        for keys in scattered {
            self.fetch(keys).await?;
        }
        self.weigh()
    }

    /// Keeps blocks in memory. What is named twice counts once.
    fn pin(&mut self, blocks: Vec<Arc<HeldBlock>>) {
        let known: HashSet<_> = self.pins.iter().map(Arc::as_ptr).collect();
        let before = self.pins.len();
        self.pins.extend(blocks.into_iter().filter(|held| !known.contains(&Arc::as_ptr(held))));
        self.pinned += self.pins[before..].iter().map(|held| held.block.held()).sum::<usize>();
    }

    /// Copies the values of keys out of their blocks.
    async fn fetch(&mut self, keys: &BinaryArray) -> Result<()> {
        let fetched: &mut Overlay = &mut self.fetched;
        look_up_all(&self.shared, &self.base, &self.overlay.gone, keys, |at, value| {
            let key = keys.value(at as usize);
            match value {
                Some(value) => fetched.put(hash(key), key, value, Below::Has),
                None => fetched.delete(hash(key), key, Below::Unknown),
            }
        })
        .await
    }

    /// What was copied out for a key: its value, or that there is none. What this batch deleted by
    /// range is not asked for here.
    pub(crate) fn fetched(&self, hash: u64, key: &[u8]) -> Option<Answer> {
        if self.fetched.is_unchanged() || self.overlay.gone.contains(key) {
            return None;
        }
        let write = self.fetched.get(hash, key)?;
        Some(write.value.map_or(Answer::Absent, |_| Answer::Fetched))
    }

    fn needed<'p>(&self, what: &'p Prefetch, needed: &mut Needed<'p>) {
        match what {
            Prefetch::Nothing => {}
            Prefetch::Each(all) => all.iter().for_each(|one| self.needed(one, needed)),
            Prefetch::Keys(keys) => self.needed_keys(keys, needed),
            Prefetch::Ranges(ranges) => {
                for range in ranges {
                    let range = range.within(self.groups);
                    for piece in self.overlay.gone.outside(&range) {
                        self.needed_range(&piece, needed);
                    }
                }
            }
        }
    }

    fn needed_keys<'p>(&self, keys: &'p BinaryArray, needed: &mut Needed<'p>) {
        let rows = (0..keys.len()).filter(|at| keys.is_valid(*at));
        let asked = Asked::new(keys, rows.map(|at| (at as u32, hash(keys.value(at)))));
        let mut missing = Missing::new();
        let gone = &self.overlay.gone;
        let close = look_up(&self.base, gone, asked, OnUnread::GoOn, |_, answer| {
            note(&mut missing, &answer);
        });
        // Those that are close are in memory anyhow; the others need room.
        if missing.values().map(BTreeSet::len).sum::<usize>() > 2 * piece(&self.shared) {
            return needed.scattered.push(keys);
        }
        needed.close.extend(close.0);
        for (run, blocks) in missing {
            needed.missing.entry(run).or_default().extend(blocks);
        }
    }

    fn needed_range(&self, range: &KeyRange, needed: &mut Needed<'_>) {
        for (run, live) in self.base.runs.iter().enumerate() {
            for piece in live.shown(range) {
                for block in live.run.tail.index.blocks_in(&piece) {
                    match live.run.block(block) {
                        Ok(held) => needed.close.push(held),
                        Err(Unread) => {
                            needed.missing.entry(run).or_default().insert(block);
                        }
                    }
                }
            }
        }
    }
}
