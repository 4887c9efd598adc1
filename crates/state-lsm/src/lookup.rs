//! Point reads of many keys at once: sorted once, each run asked once, each block read once.

use crate::codec::tag;
use crate::gone::Gone;
use crate::run::{HeldBlock, Unread};
use crate::version::{Live, Version};
use arrow::array::BinaryArray;
use fluvial_core::KeyGroup;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A block, and the number of separators in it before a key.
type Separators = (u32, Result<u32, Unread>);

/// The hash of a key.
pub(crate) fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Some keys of a column, in order.
#[derive(Debug, Clone)]
pub(crate) struct Asked<'k> {
    pub(crate) keys: &'k BinaryArray,
    rows: Vec<Row>,
}

/// A row of the column.
#[derive(Debug, Clone, Copy)]
struct Row {
    at: u32,
    hash: u64,
}

impl<'k> Asked<'k> {
    /// These rows with their hashes, none of them null.
    pub(crate) fn new(keys: &'k BinaryArray, rows: impl Iterator<Item = (u32, u64)>) -> Self {
        let mut rows: Vec<Row> = rows.map(|(at, hash)| Row { at, hash }).collect();
        let key = |row: &Row| keys.value(row.at as usize);
        if !rows.is_sorted_by(|a, b| key(a) <= key(b)) {
            let mut tagged: Vec<(u128, Row)> =
                rows.iter().map(|row| (tag(key(row)), *row)).collect();
            tagged.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0).then_with(|| key(&a.1).cmp(key(&b.1))).then(a.1.at.cmp(&b.1.at))
            });
            rows = tagged.into_iter().map(|(_, row)| row).collect();
        }
        Self { keys, rows }
    }

    /// The same in pieces of so many keys.
    pub(crate) fn pieces(&self, length: usize) -> impl Iterator<Item = Asked<'k>> {
        self.rows.chunks(length).map(|rows| Asked { keys: self.keys, rows: rows.to_vec() })
    }
}

/// What became of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Its value: bytes of the block of that number.
    Value(u32, Range<u32>),
    /// Its value was copied out before.
    Fetched,
    /// There is none.
    Absent,
    /// A block that may have it is not in memory: that of this run.
    Unread {
        /// The run, by its place in the version.
        run: usize,
        /// The block.
        block: u32,
    },
}

/// Whether an unread block ends the search for its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnUnread {
    /// It does.
    Stop,
    /// Older runs are asked too: what they would have to read is wanted as well.
    GoOn,
}

/// Blocks that answers point into.
#[derive(Debug, Default)]
pub(crate) struct Blocks(pub(crate) Vec<Arc<HeldBlock>>);

impl Blocks {
    /// The bytes of a value.
    pub(crate) fn value(&self, block: u32, value: &Range<u32>) -> &[u8] {
        self.0[block as usize].block.value(value)
    }
}

/// Asks a version for keys, as if `gone` were gone; tells of each what became of it.
pub(crate) fn look_up(
    version: &Version,
    gone: &Gone,
    asked: Asked<'_>,
    on_unread: OnUnread,
    mut tell: impl FnMut(u32, Answer),
) -> Blocks {
    let mut search = Search { keys: asked.keys, on_unread, blocks: Blocks::default() };
    let mut rows = asked.rows;
    if !gone.is_empty() {
        rows.retain(|row| {
            let is_gone = gone.contains(asked.keys.value(row.at as usize));
            if is_gone {
                tell(row.at, Answer::Absent);
            }
            !is_gone
        });
    }
    for (run, live) in version.runs.iter().enumerate() {
        if rows.is_empty() {
            break;
        }
        search.ask(run, live, &mut rows, &mut tell);
    }
    rows.iter().for_each(|row| tell(row.at, Answer::Absent));
    search.blocks
}

struct Search<'k> {
    keys: &'k BinaryArray,
    on_unread: OnUnread,
    blocks: Blocks,
}

impl Search<'_> {
    /// Asks one run for all rows that no newer one has answered, and takes out what it answers.
    fn ask(
        &mut self,
        run: usize,
        live: &Live,
        rows: &mut Vec<Row>,
        tell: &mut impl FnMut(u32, Answer),
    ) {
        let (meta, index) = (&live.run.meta, &live.run.tail.index);
        let whole = live.clip == meta_groups(live);
        // The block of the last key, and the number of separators before that key.
        let mut until = 0;
        let mut open: Option<Separators> = None;
        let keys = self.keys;
        rows.retain(|row| {
            let key = keys.value(row.at as usize);
            if !live.hidden.is_empty() && live.hidden.contains(key) {
                tell(row.at, Answer::Absent);
                return false;
            }
            let foreign = !whole && !KeyGroup::of(key).is_some_and(|g| live.clip.contains(g));
            if meta.entries == 0
                || foreign
                || key < meta.low.as_slice()
                || key > meta.high.as_slice()
                || !live.run.filter.may_have(row.hash)
            {
                return true;
            }
            until = index.blocks_until(key, until);
            let Some(block) = until.checked_sub(1) else { return true };
            let held = match open {
                Some((number, held)) if number == block => held,
                _ => {
                    let held = live.block(block).map(|held| {
                        self.blocks.0.push(held);
                        self.blocks.0.len() as u32 - 1
                    });
                    open = Some((block, held));
                    held
                }
            };
            let Ok(held) = held else {
                tell(row.at, Answer::Unread { run, block });
                return self.on_unread == OnUnread::GoOn;
            };
            match self.blocks.0[held as usize].block.find(key) {
                None => true,
                Some(found) => {
                    let is_live = found.kind.is_live();
                    let value = Answer::Value(held, found.value);
                    tell(row.at, if is_live { value } else { Answer::Absent });
                    false
                }
            }
        });
    }
}

/// The groups that a run has keys of, as a range.
fn meta_groups(live: &Live) -> fluvial_core::KeyGroupRange {
    let groups = &live.run.tail.groups;
    match (groups.first(), groups.last()) {
        (Some(first), Some(last))
            if live.clip.contains(first.group) && live.clip.contains(last.group) =>
        {
            live.clip
        }
        _ => fluvial_core::KeyGroupRange { start: 0, end: 0 },
    }
}
