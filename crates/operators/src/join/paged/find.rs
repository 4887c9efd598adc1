//! Stored rows that may match what came.

use super::{Paged, Place};
use crate::join::distinct::{Distinct, tag_of};
use crate::join::keys::Bytes;
use crate::join::{Config, JoinEviction, page};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::TimestampMicrosecondType;
use fluvial_core::{Error, Result, StateStore};
use fluvial_state::{KeyCodec, ValueCodec};

/// Pages that are read at once.
const PAGES: usize = 1024;

/// What rows are looked for by.
pub(in crate::join) struct Search<'a> {
    pub(in crate::join) config: &'a Config,
    pub(in crate::join) keys: &'a Distinct,
    /// Which keys the other side brings rows for that may match.
    pub(in crate::join) probed: &'a [bool],
    pub(in crate::join) key_codec: &'a KeyCodec,
    pub(in crate::join) codec: &'a ValueCodec,
}

/// Rows that were found.
#[derive(Debug, Default)]
pub(in crate::join) struct Found {
    /// Their keys.
    pub(in crate::join) numbers: Vec<u32>,
    /// Their columns, part by part.
    pub(in crate::join) parts: Vec<Vec<ArrayRef>>,
}

/// Rows of one read whose tag is right.
#[derive(Default)]
struct Hits<'v> {
    rows: Vec<&'v [u8]>,
    numbers: Vec<u32>,
    groups: Vec<usize>,
    /// The time up to which rows of its block have left.
    left: Vec<Option<i64>>,
}

impl Paged {
    /// The rows of the wanted pages that have a probed key.
    pub(in crate::join) fn find(
        &self,
        search: &Search<'_>,
        state: &dyn StateStore,
    ) -> Result<Found> {
        let mut found = Found::default();
        for places in self.wanted.chunks(PAGES) {
            let mut asked = Bytes::default();
            for place in places {
                self.put_place(&mut asked, *place)?;
            }
            let pages = state.get_many(&asked.take())?;
            let mut hits = Hits::default();
            for (page, place) in pages.iter().zip(places) {
                let page = page.ok_or_else(|| Error::corrupt("a page of a join is gone"))?;
                self.look_at(page, *place, search, &mut hits)?;
            }
            if !hits.rows.is_empty() {
                self.check(hits, search, &mut found)?;
            }
        }
        Ok(found)
    }

    fn look_at<'v>(
        &self,
        page: &'v [u8],
        place: Place,
        search: &Search<'_>,
        hits: &mut Hits<'v>,
    ) -> Result<()> {
        let left = self.ledgers[place.group].blocks[place.block].left_until();
        let probed = |number: u32| search.probed[number as usize];
        for row in page::read(page)? {
            let (tag, columns) = row?;
            if let Some(number) = search.keys.find_tag(place.group, tag, probed) {
                hits.rows.push(columns);
                hits.numbers.push(number);
                hits.groups.push(place.group);
                hits.left.push(left);
            }
        }
        Ok(())
    }

    /// Keeps the rows that have the key that their tag promised, and have not left.
    fn check(&self, hits: Hits<'_>, search: &Search<'_>, found: &mut Found) -> Result<()> {
        let count = hits.rows.len();
        let mut columns = search.codec.decode_each(hits.rows)?;
        let own = search.config.stored_keys(self.side);
        let keys: Vec<ArrayRef> = own.into_iter().map(|at| ArrayRef::clone(&columns[at])).collect();
        let encoded = search.key_codec.encode(&keys, None, count)?.keys;
        let times = match search.config.side(self.side).eviction {
            JoinEviction::Time { column, .. } => {
                columns[column].as_primitive_opt::<TimestampMicrosecondType>()
            }
            _ => None,
        };
        let mut keep = Vec::with_capacity(count);
        let before = found.numbers.len();
        for (row, number) in hits.numbers.iter().enumerate() {
            let key = encoded.value(row);
            let number = match search.keys.key(*number as usize) == key {
                true => Some(*number),
                false => search.keys.find(hits.groups[row], tag_of(key), key),
            };
            let time = times.filter(|times| times.is_valid(row)).map(|times| times.value(row));
            let has_left = time.zip(hits.left[row]).is_some_and(|(time, until)| time <= until);
            let number = number.filter(|number| search.probed[*number as usize] && !has_left);
            keep.push(number.is_some());
            found.numbers.extend(number);
        }
        columns.truncate(search.config.side(self.side).width);
        if found.numbers.len() - before < count {
            let keep = BooleanArray::from(keep);
            let kept = columns.iter().map(|column| filter(column, &keep));
            columns = kept.collect::<std::result::Result<_, _>>()?;
        }
        found.parts.push(columns);
        Ok(())
    }
}
