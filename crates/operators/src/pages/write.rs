//! What a batch changes of rows in pages: some leave, and new ones are stored.

use super::ledger::{Block, Ledger};
use super::page::{PAGE_BYTES, PAGE_ROWS, missing, read, read_times, write, write_times};
use super::{Coming, Pages};
use crate::entries::{Bytes, PIECE, Puts};
use arrow::array::{Array, BinaryArray};
use fluvial_core::{Error, KeyGroup, Result, StateStore};

/// A row on its way into a page.
#[derive(Debug, Clone, Copy)]
struct Item<'a> {
    tag: u32,
    /// Of a row with a time.
    time: i64,
    row: &'a [u8],
}

/// The rows that came.
pub(crate) trait NewRows {
    /// What is stored of a row.
    fn bytes(&self, row: u32) -> &[u8];

    /// Its time, if it has one.
    fn time(&self, row: u32) -> Option<i64>;

    /// Whether it is stored.
    fn stays(&self, row: u32) -> bool;
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// Rows of earlier batches that have left.
    pub(crate) left: u64,
    /// Rows that wait now.
    pub(crate) rows: u64,
}

/// Pages that are being written.
struct Writing<'a, N> {
    pages: &'a Pages,
    new: &'a N,
    puts: Puts,
    /// Keys of what is dropped.
    dropped: Bytes,
    state: &'a mut dyn StateStore,
}

impl Pages {
    /// Lets rows leave and stores the new ones. `changed` is told by how many rows a group has grown.
    pub(crate) fn write(
        &self,
        new: &impl NewRows,
        state: &mut dyn StateStore,
        mut changed: impl FnMut(KeyGroup, i64),
    ) -> Result<Written> {
        let (puts, dropped) = (Puts::default(), Bytes::default());
        let mut writing = Writing { pages: self, new, puts, dropped, state };
        let mut written = Written::default();
        let mut coming = self.coming.as_slice();
        for (group, ledger) in self.ledgers.iter().enumerate() {
            let own = coming.iter().take_while(|block| block.group == group).count();
            let (now, later) = coming.split_at(own);
            coming = later;
            let leaves = |block: &Block| block.is_over(self.until) || block.is_cut(self.until);
            let before = ledger.rows();
            if now.is_empty() && !ledger.blocks.iter().any(leaves) {
                written.rows += before;
                continue;
            }
            let (ledger, left) = writing.group(group, ledger, now)?;
            let after = ledger.rows();
            changed(self.group(group), after as i64 - before as i64);
            written.left += left;
            written.rows += after;
        }
        writing.puts.flush(writing.state)?;
        writing.drop_all()?;
        Ok(written)
    }
}

impl<N: NewRows> Writing<'_, N> {
    /// Writes the blocks of a group. Its new ledger, and how many rows have left.
    fn group(&mut self, group: usize, stored: &Ledger, coming: &[Coming]) -> Result<(Ledger, u64)> {
        let mut ledger = stored.clone();
        let mut stays = vec![true; ledger.blocks.len()];
        let (mut left, mut new) = (0, Vec::with_capacity(coming.len()));
        for coming in coming {
            if !self.has_rows(coming) {
                continue;
            }
            let (block, gone) = self.store(&ledger, coming)?;
            left += gone;
            ledger.next = ledger.next.checked_add(1).ok_or_else(miscounted)?;
            new.push(block);
            coming.merged.iter().for_each(|at| stays[*at] = false);
        }
        for (block, stays) in ledger.blocks.iter_mut().zip(&mut stays).filter(|(_, s)| **s) {
            if block.is_over(self.pages.until) {
                left += u64::from(block.rows - block.gone);
                self.drop_block(group, block)?;
                *stays = false;
            } else if block.is_cut(self.pages.until) {
                left += self.cut(group, block)?;
            }
        }
        let mut stays = stays.into_iter();
        ledger.blocks.retain(|_| stays.next().unwrap_or(true));
        ledger.blocks.extend(new);
        let (space, key_group) = (self.pages.space, self.pages.group(group));
        if ledger == *stored {
            return Ok((ledger, left));
        }
        if ledger.blocks.is_empty() {
            space.ledger_key(self.dropped.open(), key_group);
            self.dropped.end()?;
            return Ok((ledger, left));
        }
        space.ledger_key(self.puts.keys.open(), key_group);
        ledger.write(self.puts.values.open());
        self.puts.end(self.state)?;
        Ok((ledger, left))
    }

    /// Whether some of its rows are stored.
    fn has_rows(&self, coming: &Coming) -> bool {
        self.pages.rows[coming.rows.clone()].iter().any(|(.., row)| self.new.stays(*row))
    }

    /// Counts the rows of a block that leave while others stay.
    fn cut(&mut self, group: usize, block: &mut Block) -> Result<u64> {
        let Some(until) = self.pages.until else { return Ok(0) };
        let mut key = Bytes::default();
        self.pages.space.page_key(key.open(), self.pages.group(group), block.number, 0);
        key.end()?;
        let found = self.state.get_many(&key.take())?;
        let times = read_times(present(&found, 0)?, block.first)?;
        let gone = times.iter().filter(|time| **time <= until).count();
        let left = u32::try_from(gone).ok().filter(|gone| *gone <= block.rows);
        let left = left.and_then(|gone| gone.checked_sub(block.gone)).ok_or_else(miscounted)?;
        (block.gone, block.until) = (block.gone + left, until);
        Ok(u64::from(left))
    }

    /// Writes a block with new rows and those of the blocks that it takes in. How many of these have
    /// left.
    fn store(&mut self, ledger: &Ledger, coming: &Coming) -> Result<(Block, u64)> {
        let merged = coming.merged.iter().map(|at| &ledger.blocks[*at]);
        let found =
            merged.map(|block| self.read(coming.group, block)).collect::<Result<Vec<_>>>()?;
        let (mut items, mut left) = (Vec::new(), 0);
        for (found, at) in found.iter().zip(&coming.merged) {
            left += self.take_in(&ledger.blocks[*at], found, &mut items)?;
        }
        let new = self.new;
        let rows = self.pages.rows[coming.rows.clone()].iter();
        items.extend(rows.filter(|(.., row)| new.stays(*row)).map(|(_, tag, row)| Item {
            tag: *tag,
            time: new.time(*row).unwrap_or_default(),
            row: new.bytes(*row),
        }));
        if !coming.merged.is_empty() {
            items.sort_by_key(|item| item.tag);
        }
        let block = self.put_block(coming, ledger.next, &items)?;
        for at in &coming.merged {
            self.drop_block(coming.group, &ledger.blocks[*at])?;
        }
        Ok((block, left))
    }

    fn read(&self, group: usize, block: &Block) -> Result<BinaryArray> {
        let mut keys = Bytes::default();
        self.pages.put_block(&mut keys, group, block)?;
        self.state.get_many(&keys.take())
    }

    /// Adds the rows of a stored block that stay; how many leave only now.
    fn take_in<'f>(
        &self,
        block: &Block,
        found: &'f BinaryArray,
        items: &mut Vec<Item<'f>>,
    ) -> Result<u64> {
        let (times, first) = match block.bits {
            Some(_) => (Some(read_times(present(found, 0)?, block.first)?), 1),
            None => (None, 0),
        };
        let until = self.pages.until.max(block.left_until());
        let (mut at, mut gone) = (0, 0);
        for page in first..found.len() {
            for row in read(present(found, page)?)? {
                let (tag, row) = row?;
                let time = times.as_ref().map(|times| times.get(at).copied());
                let time = time.map(|time| time.ok_or_else(miscounted)).transpose()?;
                at += 1;
                if time.zip(until).is_some_and(|(time, until)| time <= until) {
                    gone += 1;
                } else {
                    items.push(Item { tag, time: time.unwrap_or_default(), row });
                }
            }
        }
        if at != block.rows as usize || times.is_some_and(|times| times.len() != at) {
            return Err(miscounted());
        }
        u64::checked_sub(gone, u64::from(block.gone)).ok_or_else(miscounted)
    }

    /// Writes the pages of a block, and the times of its rows.
    fn put_block(&mut self, coming: &Coming, number: u64, items: &[Item<'_>]) -> Result<Block> {
        let (space, group) = (self.pages.space, self.pages.group(coming.group));
        let mut block = Block {
            number,
            bits: coming.bits,
            rows: u32::try_from(items.len()).map_err(|_| miscounted())?,
            first: 0,
            last: 0,
            gone: 0,
            until: i64::MIN,
            tags: Vec::with_capacity(items.len() / PAGE_ROWS + 1),
        };
        if block.bits.is_some() {
            let times = || items.iter().map(|item| item.time);
            block.first = times().min().unwrap_or_default();
            block.last = times().max().unwrap_or_default();
            space.page_key(self.puts.keys.open(), group, number, 0);
            write_times(self.puts.values.open(), block.first, block.last, times());
            self.puts.end(self.state)?;
        }
        let mut rest = items;
        while let Some(first) = rest.first() {
            let mut bytes = 0;
            let fits = rest.iter().take(PAGE_ROWS).take_while(|item| {
                let fits = bytes < PAGE_BYTES;
                bytes += item.row.len();
                fits
            });
            let (page, more) = rest.split_at(fits.count());
            block.tags.push(first.tag);
            space.page_key(self.puts.keys.open(), group, number, block.tags.len());
            let start = self.pages.placed.then_some(items.len() - rest.len());
            write(self.puts.values.open(), start, page.iter().map(|item| (item.tag, item.row)));
            self.puts.end(self.state)?;
            rest = more;
        }
        Ok(block)
    }

    fn drop_block(&mut self, group: usize, block: &Block) -> Result<()> {
        self.pages.put_block(&mut self.dropped, group, block)?;
        if self.dropped.len() >= PIECE { self.drop_all() } else { Ok(()) }
    }

    fn drop_all(&mut self) -> Result<()> {
        self.state.delete_many(&self.dropped.take())
    }
}

fn present(found: &BinaryArray, at: usize) -> Result<&[u8]> {
    let value = found.is_valid(at).then(|| found.value(at));
    value.ok_or_else(missing)
}

fn miscounted() -> Error {
    Error::corrupt("stored rows are not as many as their ledger says")
}
