//! Several sorted sources as one, without an allocation per row.
//!
//! Sources come newest first. A source that needs a block which is not close says so and nothing
//! is lost: the caller brings the block and asks again.

use crate::block::{Block, BlockCursor, Found, Kind};
use crate::overlay::Overlay;
use crate::run::{HeldBlock, Unread};
use crate::version::Live;
use fluvial_core::KeyRange;
use std::ops::Range;
use std::sync::Arc;

/// Where blocks come from: the run by its number, and the block.
pub(crate) type Bring<'b> = dyn FnMut(usize, u32) -> Result<Arc<HeldBlock>, Unread> + Send + 'b;

/// Which way sources are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The least key first.
    Up,
    /// The greatest key first.
    Down,
}

/// What a run shows of some ranges.
#[derive(Debug)]
pub(crate) struct RunCursor<'v> {
    way: Way,
    live: &'v Live,
    /// The number of the run, for who brings blocks.
    number: usize,
    pieces: std::vec::IntoIter<KeyRange>,
    piece: KeyRange,
    blocks: Range<u32>,
    block: Option<Arc<HeldBlock>>,
    is_new: bool,
    at: BlockCursor,
    /// What of the block is left, going down.
    left: Left,
}

/// Entries of a block in order: blocks can be read from their beginning only.
#[derive(Debug, Default)]
struct Left {
    keys: Vec<u8>,
    entries: Vec<(Range<usize>, Found)>,
}

impl Left {
    /// Takes the entries of a block that lie in a range.
    fn fill(&mut self, block: &Block, range: &KeyRange, at: &mut BlockCursor) {
        self.keys.clear();
        at.seek(block, &range.start);
        while let Some(found) = at.found.take() {
            if !range.end.is_empty() && at.key >= range.end {
                break;
            }
            let start = self.keys.len();
            self.keys.extend_from_slice(&at.key);
            self.entries.push((start..self.keys.len(), found));
            at.advance(block);
        }
    }

    /// Goes to the last one; whether there is one.
    fn pop(&mut self, at: &mut BlockCursor) -> bool {
        let Some((key, found)) = self.entries.pop() else { return false };
        at.key.clear();
        at.key.extend_from_slice(&self.keys[key]);
        at.found = Some(found);
        true
    }
}

impl<'v> RunCursor<'v> {
    /// A cursor over these ranges, which are in order.
    pub(crate) fn new(live: &'v Live, number: usize, mut pieces: Vec<KeyRange>, way: Way) -> Self {
        if way == Way::Down {
            pieces.reverse();
        }
        Self {
            way,
            live,
            number,
            pieces: pieces.into_iter(),
            piece: KeyRange::all(),
            blocks: 0..0,
            block: None,
            is_new: false,
            at: BlockCursor::default(),
            left: Left::default(),
        }
    }

    /// Goes to the next entry; whether there is one.
    fn advance(&mut self, bring: &mut Bring<'_>) -> Result<bool, Unread> {
        match self.way {
            Way::Up => self.advance_up(bring),
            Way::Down => self.advance_down(bring),
        }
    }

    fn advance_down(&mut self, bring: &mut Bring<'_>) -> Result<bool, Unread> {
        loop {
            if let Some(held) = &self.block {
                if std::mem::take(&mut self.is_new) {
                    self.left.fill(&held.block, &self.piece, &mut self.at);
                }
                if self.left.pop(&mut self.at) {
                    return Ok(true);
                }
                self.block = None;
            }
            if self.blocks.is_empty() {
                let Some(piece) = self.pieces.next() else { return Ok(false) };
                self.blocks = self.live.run.tail.index.blocks_in(&piece);
                self.piece = piece;
            } else {
                self.block = Some(bring(self.number, self.blocks.end - 1)?);
                self.blocks.end -= 1;
                self.is_new = true;
            }
        }
    }

    fn advance_up(&mut self, bring: &mut Bring<'_>) -> Result<bool, Unread> {
        loop {
            if let Some(held) = &self.block {
                if std::mem::take(&mut self.is_new) {
                    self.at.seek(&held.block, &self.piece.start);
                } else {
                    self.at.advance(&held.block);
                }
                if self.at.found.is_some() {
                    if self.piece.end.is_empty() || self.at.key < self.piece.end {
                        return Ok(true);
                    }
                    self.blocks = 0..0;
                }
                self.block = None;
            }
            if self.blocks.is_empty() {
                let Some(piece) = self.pieces.next() else { return Ok(false) };
                self.blocks = self.live.run.tail.index.blocks_in(&piece);
                self.piece = piece;
            } else {
                self.block = Some(bring(self.number, self.blocks.start)?);
                self.blocks.start += 1;
                self.is_new = true;
            }
        }
    }

    /// The blocks that it comes to next, the one that it lacks first.
    pub(crate) fn next_blocks(&self) -> Range<u32> {
        self.blocks.clone()
    }
}

/// Writes of a batch in one of their lists.
#[derive(Debug)]
pub(crate) struct WriteCursor<'v> {
    overlay: &'v Overlay,
    list: std::slice::Iter<'v, u32>,
    way: Way,
    at: u32,
}

/// A source.
#[derive(Debug)]
pub(crate) enum Source<'v> {
    Run(RunCursor<'v>),
    Writes(WriteCursor<'v>),
}

impl<'v> Source<'v> {
    /// What `overlay` says in a list of its entries.
    pub(crate) fn writes(overlay: &'v Overlay, list: &'v [u32], way: Way) -> Self {
        Self::Writes(WriteCursor { overlay, list: list.iter(), way, at: 0 })
    }

    fn advance(&mut self, bring: &mut Bring<'_>) -> Result<bool, Unread> {
        match self {
            Self::Run(run) => run.advance(bring),
            Self::Writes(WriteCursor { overlay, list, way, at }) => {
                let is_there = |at: &&u32| overlay.entry(**at).is_some();
                let next = match way {
                    Way::Up => list.find(is_there),
                    Way::Down => list.rfind(is_there),
                };
                *at = next.copied().unwrap_or(0);
                Ok(next.is_some())
            }
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Self::Run(run) => &run.at.key,
            Self::Writes(w) => w.overlay.entry(w.at).map_or(&[][..], |write| write.key),
        }
    }

    /// The value, if there is one.
    fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Run(run) => {
                let found = run.at.found.as_ref().filter(|found| found.kind.is_live())?;
                Some(run.block.as_ref()?.block.value(&found.value))
            }
            Self::Writes(w) => w.overlay.entry(w.at)?.value,
        }
    }

    fn delta(&self) -> i64 {
        match self {
            Self::Run(run) => run.at.found.as_ref().map_or(0, |found| found.kind.delta()),
            Self::Writes(_) => 0,
        }
    }
}

/// The union of sources; of equal keys the newest wins.
#[derive(Debug)]
pub(crate) struct Merge<'v> {
    way: Way,
    sources: Vec<Source<'v>>,
    /// Sources that have an entry, by its key and then newest first.
    order: Vec<usize>,
    /// Sources that must go on first.
    behind: Vec<usize>,
    /// How many of `order` have the key that was shown last.
    equal: usize,
}

impl<'v> Merge<'v> {
    /// Of these sources, newest first, which are read this way.
    pub(crate) fn new(sources: Vec<Source<'v>>, way: Way) -> Self {
        let behind = (0..sources.len()).rev().collect();
        Self { way, sources, order: Vec::new(), behind, equal: 0 }
    }

    /// Goes to the next key; whether there is one. After [`Unread`] the same call goes on.
    pub(crate) fn advance(&mut self, bring: &mut Bring<'_>) -> Result<bool, Unread> {
        self.behind.extend(self.order.drain(..std::mem::take(&mut self.equal)));
        while let Some(source) = self.behind.last().copied() {
            let is_there = self.sources[source].advance(bring)?;
            self.behind.pop();
            if is_there {
                self.place(source);
            }
        }
        let Some(first) = self.order.first() else { return Ok(false) };
        let key = self.sources[*first].key();
        let others = self.order[1..].iter();
        self.equal = 1 + others.take_while(|other| self.sources[**other].key() == key).count();
        Ok(true)
    }

    fn place(&mut self, source: usize) {
        let key = self.sources[source].key();
        let before = |other: &usize| {
            let keys = self.sources[*other].key().cmp(key);
            let keys = if self.way == Way::Up { keys } else { keys.reverse() };
            keys.then(other.cmp(&source)).is_lt()
        };
        let at = self.order.iter().take_while(|other| before(other)).count();
        self.order.insert(at, source);
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        self.sources[self.order[0]].key()
    }

    /// Its value; `None` if it is deleted.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.sources[self.order[0]].value()
    }

    /// What all entries of the key come to; `None` if that is nothing.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let delta = self.order[..self.equal].iter().map(|at| self.sources[*at].delta()).sum();
        Kind::of(self.value().is_some(), delta)
    }

    /// The run that lacks a block, and the blocks that it comes to next.
    pub(crate) fn lacking(&self) -> Option<(usize, Range<u32>)> {
        match &self.sources[*self.behind.last()?] {
            Source::Run(run) => Some((run.number, run.next_blocks())),
            Source::Writes(_) => None,
        }
    }
}
