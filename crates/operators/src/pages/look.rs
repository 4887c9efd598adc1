//! Stored rows that may have the keys of a batch.

use super::{Pages, Place, page};
use crate::entries::Bytes;
use arrow::array::BinaryArray;
use fluvial_core::{Error, Result, StateStore};

/// Pages that are read at once.
const PAGES: usize = 1024;

/// Rows of one read whose tag is right.
#[derive(Default)]
pub(crate) struct Hits<'v> {
    pub(crate) rows: Vec<&'v [u8]>,
    /// The first key that has the tag, by the number that it was given.
    pub(crate) numbers: Vec<u32>,
    /// Their groups, from the first of the partition.
    pub(crate) groups: Vec<usize>,
    /// The time up to which rows of its block have left.
    pub(crate) left: Vec<Option<i64>>,
    /// Their times, where the times of their block were wanted.
    pub(crate) times: Vec<Option<i64>>,
}

/// The times of a block: where they are wanted they come before its pages.
struct Times {
    of: (usize, usize),
    times: Vec<i64>,
    /// The row that comes next.
    at: usize,
}

impl Times {
    fn next(&mut self) -> Result<i64> {
        self.at += 1;
        let time = self.times.get(self.at - 1).copied();
        time.ok_or_else(|| Error::corrupt("a block of stored rows has too few times"))
    }
}

impl Pages {
    /// Gives `check` the rows of the wanted pages that have a tag which `number_of` knows in a
    /// group.
    pub(crate) fn look(
        &self,
        state: &dyn StateStore,
        number_of: impl Fn(usize, u32) -> Option<u32>,
        mut check: impl FnMut(Hits<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut times: Option<Times> = None;
        for places in self.wanted.chunks(PAGES) {
            let mut asked = Bytes::default();
            for place in places {
                self.put_place(&mut asked, *place)?;
            }
            let pages: BinaryArray = state.get_many(&asked.take())?;
            let mut hits = Hits::default();
            for (page, place) in pages.iter().zip(places) {
                let page = page.ok_or_else(page::missing)?;
                self.look_at(page, *place, &mut times, &number_of, &mut hits)?;
            }
            if !hits.rows.is_empty() {
                check(hits)?;
            }
        }
        Ok(())
    }

    fn look_at<'v>(
        &self,
        page: &'v [u8],
        place: Place,
        times: &mut Option<Times>,
        number_of: &impl Fn(usize, u32) -> Option<u32>,
        hits: &mut Hits<'v>,
    ) -> Result<()> {
        let block = &self.ledgers[place.group].blocks[place.block];
        let of = (place.group, place.block);
        if place.page == 0 {
            *times = Some(Times { of, times: page::read_times(page, block.first)?, at: 0 });
            return Ok(());
        }
        let mut times = times.as_mut().filter(|times| times.of == of);
        let left = block.left_until();
        let rows = page::read(page)?;
        if let Some(times) = &mut times {
            times.at = rows.start.ok_or_else(page::unplaced)?;
        }
        for row in rows {
            let (tag, row) = row?;
            let time = times.as_mut().map(|times| times.next()).transpose()?;
            if let Some(number) = number_of(place.group, tag) {
                hits.rows.push(row);
                hits.numbers.push(number);
                hits.groups.push(place.group);
                hits.left.push(left);
                hits.times.push(time);
            }
        }
        Ok(())
    }
}
