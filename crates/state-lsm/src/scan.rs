//! Scans: what a version and the batch say of a range, merged, from either end.

use crate::merge::{Merge, RunCursor, Source, Way};
use crate::run::Unread;
use crate::store::{LsmStore, not_prefetched};
use fluvial_core::{Entries, KeyRange, Result};
use fluvial_state::Column;

impl LsmStore {
    /// Sources of a scan, newest first. `lists` are those of the writes.
    fn sources<'v>(&'v self, range: &KeyRange, lists: &'v [Vec<u32>], way: Way) -> Vec<Source<'v>> {
        let lists = lists.iter().map(|list| self.overlay.in_range(list, range));
        let mut sources: Vec<_> = lists
            .filter(|list| !list.is_empty())
            .map(|list| Source::writes(&self.overlay, list, way))
            .collect();
        let pieces = self.overlay.gone.outside(range);
        for (number, live) in self.base.runs.iter().enumerate() {
            let shown: Vec<KeyRange> = pieces.iter().flat_map(|piece| live.shown(piece)).collect();
            if !shown.is_empty() {
                sources.push(Source::Run(RunCursor::new(live, number, shown, way)));
            }
        }
        sources
    }

    /// The first entries of a range, this way.
    pub(crate) fn entries(&self, range: &KeyRange, limit: usize, way: Way) -> Result<Entries> {
        let (mut keys, mut values) = (Column::new(0, 0), Column::new(0, 0));
        let range = range.within(self.groups);
        let order = self.overlay.ordered();
        let mut merge = Merge::new(self.sources(&range, &order.lists, way), way);
        let base = &self.base;
        let mut bring = |run: usize, block| base.runs[run].block(block);
        let mut found = 0;
        while found < limit {
            match merge.advance(&mut bring) {
                Err(Unread) => return Err(not_prefetched(&self.id)),
                Ok(false) => break,
                Ok(true) => {}
            }
            if let Some(value) = merge.value() {
                keys.push(Some(merge.key()))?;
                values.push(Some(value))?;
                found += 1;
            }
        }
        Ok(Entries { keys: keys.finish(), values: values.finish() })
    }
}
