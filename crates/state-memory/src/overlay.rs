//! The writes of one batch over a version that stays as it is.

use crate::codec;
use crate::frame::FrameWriter;
use crate::runs::{Row, Runs};
use crate::segment::{Hash, Mark, Segment};
use crate::table::Table;
use arrow::array::{Array, BinaryArray};
use fluvial_core::{KeyRange, KeyRanges};
use std::ops::ControlFlow;

/// A view of a version with writes over it.
///
/// A key is looked for in `changes`, then in `gone`, then in the version. A record of `changes`
/// that hides one of the version is marked; so counting needs no second look.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    changes: Table,
    /// Removed ranges of the version; `changes` were made after them.
    gone: KeyRanges,
    rows: u64,
}

/// What the records of a run take.
fn record_bytes(run: &[Row], keys: &BinaryArray, values: &BinaryArray) -> usize {
    let bytes = |row: &Row| {
        let at = row.at as usize;
        Segment::record_bytes(keys.value(at), values.value(at))
    };
    run.iter().map(bytes).sum()
}

impl Overlay {
    /// Nothing over `base`.
    pub(crate) fn new(base: &Table) -> Self {
        Self { changes: Table::cut_like(base), gone: KeyRanges::default(), rows: base.len() as u64 }
    }

    /// Number of keys.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether there is no difference to the version.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && self.gone.is_empty()
    }

    /// The values of keys, in their order.
    pub(crate) fn get_many<'a>(
        &'a self,
        base: &'a Table,
        keys: &BinaryArray,
    ) -> Vec<Option<&'a [u8]>> {
        let mut found = vec![None; keys.len()];
        for run in Runs::of(keys, [base, &self.changes]).iter() {
            let first = keys.value(run[0].at as usize);
            let (over, below) = (self.changes.segment_of(first), base.segment_of(first));
            for &Row { at, hash } in run {
                let key = keys.value(at as usize);
                let change = over.and_then(|over| over.find(hash, key).map(|id| over.value(id)));
                found[at as usize] = change.unwrap_or_else(|| {
                    let below = below.filter(|_| !self.is_gone(key))?;
                    below.find(hash, key).and_then(|id| below.value(id))
                });
            }
        }
        found
    }

    /// The values of keys that were written and are not in the version, in their order.
    pub(crate) fn get_new_many<'a>(
        &'a self,
        base: &Table,
        keys: &BinaryArray,
    ) -> Vec<Option<&'a [u8]>> {
        let mut found = vec![None; keys.len()];
        for run in Runs::of(keys, [base, &self.changes]).iter() {
            let first = keys.value(run[0].at as usize);
            let Some(over) = self.changes.segment_of(first) else { continue };
            for &Row { at, hash } in run {
                let key = keys.value(at as usize);
                let Some(id) = over.find(hash, key).filter(|id| over.mark(*id) == Mark::Plain)
                else {
                    continue;
                };
                // What was removed by range is hidden without a mark.
                if !self.is_gone(key) || base.find(hash, key).is_none() {
                    found[at as usize] = over.value(id);
                }
            }
        }
        found
    }

    fn is_gone(&self, key: &[u8]) -> bool {
        !self.gone.is_empty() && self.gone.contains(key)
    }

    /// Writes values. What is there already is not written again.
    pub(crate) fn put_many(&mut self, base: &Table, keys: &BinaryArray, values: &BinaryArray) {
        for run in Runs::of(keys, [base, &self.changes]).iter() {
            let first = keys.value(run[0].at as usize);
            let (below, gone) = (base.segment_of(first), &self.gone);
            let mut added = 0;
            self.changes.change(first, |over| {
                over.reserve(run.len(), record_bytes(run, keys, values));
                for &Row { at, hash } in run {
                    let (key, value) = (keys.value(at as usize), values.value(at as usize));
                    if let Some(id) = over.find(hash, key) {
                        added += u64::from(over.value(id).is_none());
                        over.set(id, Some(value));
                        continue;
                    }
                    let shown = below.filter(|_| gone.is_empty() || !gone.contains(key));
                    let old = shown.and_then(|s| s.find(hash, key).map(|id| s.value(id)));
                    let mark = match old {
                        Some(old) if old == Some(value) => continue,
                        Some(_) => Mark::Hides,
                        None => {
                            added += 1;
                            Mark::Plain
                        }
                    };
                    over.insert(hash, key, Some(value), mark);
                }
            });
            self.rows += added;
        }
    }

    /// Writes the values of keys that have none, the first of each; says of each whether it did.
    pub(crate) fn put_absent(
        &mut self,
        base: &Table,
        keys: &BinaryArray,
        values: &BinaryArray,
    ) -> Vec<bool> {
        let mut written = vec![false; keys.len()];
        let mut is_below = Vec::new();
        for run in Runs::of(keys, [base, &self.changes]).iter() {
            let first = keys.value(run[0].at as usize);
            let (below, gone) = (base.segment_of(first), &self.gone);
            // All of a run before the writes: lookups that wait for memory then do so together.
            is_below.clear();
            is_below.extend(run.iter().map(|&Row { at, hash }| {
                let key = keys.value(at as usize);
                let shown = below.filter(|_| gone.is_empty() || !gone.contains(key));
                shown.is_some_and(|below| below.find(hash, key).is_some())
            }));
            let mut added = 0;
            self.changes.change(first, |over| {
                over.reserve(run.len(), record_bytes(run, keys, values));
                for (&Row { at, hash }, is_below) in run.iter().zip(&is_below) {
                    let (key, value) = (keys.value(at as usize), values.value(at as usize));
                    let absent = over.put_absent(hash, key, value, *is_below);
                    added += u64::from(absent);
                    written[at as usize] = absent;
                }
            });
            self.rows += added;
        }
        written
    }

    /// Removes keys that are there. `taken` is given the place and value of each.
    pub(crate) fn take_many(
        &mut self,
        base: &Table,
        keys: &BinaryArray,
        mut taken: impl FnMut(usize, &[u8]),
    ) {
        for run in Runs::of(keys, [base, &self.changes]).iter() {
            let first = keys.value(run[0].at as usize);
            let (below, gone) = (base.segment_of(first), &self.gone);
            let mut removed = 0;
            self.changes.change(first, |over| {
                for &Row { at, hash } in run {
                    let key = keys.value(at as usize);
                    if let Some(id) = over.find(hash, key) {
                        if let Some(value) = over.value(id) {
                            taken(at as usize, value);
                            removed += 1;
                        }
                        match over.mark(id) {
                            Mark::Hides => over.set(id, None),
                            Mark::Plain => over.remove(id),
                        }
                        continue;
                    }
                    let shown = below.filter(|_| gone.is_empty() || !gone.contains(key));
                    if let Some(value) = shown.and_then(|s| s.value(s.find(hash, key)?)) {
                        taken(at as usize, value);
                        removed += 1;
                        over.insert(hash, key, None, Mark::Hides);
                    }
                }
            });
            self.rows -= removed;
        }
    }

    /// Removes keys that are there.
    pub(crate) fn delete_many(&mut self, base: &Table, keys: &BinaryArray) {
        self.take_many(base, keys, |_, _| ());
    }

    /// Removes every key of `range`; returns how many there were.
    pub(crate) fn delete_range(&mut self, base: &Table, range: &KeyRange) -> u64 {
        let over = self.changes.remove_range(range);
        let below: u64 = self.gone.outside(range).iter().map(|piece| base.count(piece)).sum();
        if below > 0 {
            self.gone.insert(range);
        }
        let removed = (over.records - over.tombstones) as u64 + below - over.marked as u64;
        self.rows -= removed;
        removed
    }

    /// Visits the first `limit` entries of `range`.
    pub(crate) fn scan(
        &self,
        base: &Table,
        range: &KeyRange,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) {
        let mut left = limit;
        let mut visit = |key: &[u8], value: &[u8]| {
            visit(key, value);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if limit == 0 {
            return;
        }
        let over = if self.changes.is_clear(range) { Vec::new() } else { self.puts(range, limit) };
        let mut over = over.into_iter().peekable();
        // Of the part that is being read.
        let mut hidden = None;
        for piece in self.gone.outside(range) {
            let flow = base.scan(&piece, |part, record| {
                let key = part.key(record);
                let may_hide = match hidden {
                    Some((prefix, may_hide)) if prefix == *part.prefix() => may_hide,
                    _ => {
                        let may_hide = part.may_be_hidden_by(&self.changes);
                        hidden = Some((*part.prefix(), may_hide));
                        may_hide
                    }
                };
                while let Some((key, value)) = over.next_if(|(put, _)| *put < key) {
                    visit(key, value)?;
                }
                if may_hide && self.hides(key) {
                    return ControlFlow::Continue(());
                }
                visit(key, part.value(record).unwrap_or_default())
            });
            if flow.is_break() {
                return;
            }
        }
        for (key, value) in over {
            if visit(key, value).is_break() {
                return;
            }
        }
    }

    fn hides(&self, key: &[u8]) -> bool {
        self.changes.find(Hash::of(key), key).is_some()
    }

    /// The first `limit` written keys and values of `range`, in order.
    fn puts(&self, range: &KeyRange, limit: usize) -> Vec<(&[u8], &[u8])> {
        let mut puts = Vec::new();
        let _ = self.changes.scan(range, |part, record| {
            if let Some(value) = part.value(record) {
                puts.push((part.key(record), value));
            }
            if puts.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        puts
    }

    /// Makes the version what it is under this.
    pub(crate) fn apply_to(self, base: &mut Table) {
        for range in self.gone.iter() {
            base.remove_range(range);
        }
        base.absorb(self.changes);
    }

    /// What changed, as the body of a delta.
    pub(crate) fn write_delta(&self, out: &mut FrameWriter) {
        codec::write_delta(out, &self.gone, &self.changes);
    }

    /// Everything, as the body of a full frame.
    pub(crate) fn write_full(&self, base: &Table, out: &mut FrameWriter) {
        codec::write_full(out, base, &self.gone, &self.changes, self.rows);
    }

    /// Bytes of all that is there, roughly: those of removed records may count yet.
    pub(crate) fn bytes(&self, base: &Table) -> usize {
        let all = base.bytes() + self.changes.bytes();
        let records = (base.len() + self.changes.len()).max(1) as u64;
        (all as u64 * self.rows.min(records) / records) as usize
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        self.changes.held() + self.gone.held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Body, Compression, Kind, frame, open_frame};
    use fluvial_core::KeyGroupRange;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Write {
        Put(Vec<u8>, Vec<u8>),
        PutAbsent(Vec<u8>, Vec<u8>),
        Delete(Vec<u8>),
        Take(Vec<u8>),
        DeleteRange(KeyRange),
    }

    /// Two groups, two times, and keys that share their first bytes or are shorter than them.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let long =
            (0u8..2, 0u8..2, 0u8..4).prop_map(|(g, t, k)| vec![0, g, 1, 0, 0, 0, 0, 0, 0, 0, t, k]);
        let short = (0u8..2, proptest::collection::vec(0u8..2, 0..3)).prop_map(|(g, mut k)| {
            k.splice(0..0, [0, g]);
            k
        });
        prop_oneof![long, short]
    }

    fn range() -> impl Strategy<Value = KeyRange> {
        prop_oneof![
            (key(), key()).prop_map(|(start, end)| KeyRange { start, end }),
            key().prop_map(|start| KeyRange { start, end: Vec::new() }),
            (0u8..2, 0u8..2)
                .prop_map(|(g, t)| KeyRange::prefix(&[0, g, 1, 0, 0, 0, 0, 0, 0, 0, t])),
        ]
    }

    fn writes() -> impl Strategy<Value = Vec<Write>> {
        let value = proptest::collection::vec(any::<u8>(), 0..3);
        let write = prop_oneof![
            4 => (key(), value.clone()).prop_map(|(k, v)| Write::Put(k, v)),
            2 => (key(), value).prop_map(|(k, v)| Write::PutAbsent(k, v)),
            1 => key().prop_map(Write::Delete),
            1 => key().prop_map(Write::Take),
            1 => range().prop_map(Write::DeleteRange),
        ];
        proptest::collection::vec(write, 0..20)
    }

    fn body(bytes: Vec<u8>) -> Body<'static> {
        Body { format: 3, bytes: bytes.into() }
    }

    fn written(write: impl Fn(&mut FrameWriter)) -> Vec<u8> {
        let frame = frame(Kind::Full, Compression::None, write).bytes;
        open_frame(Kind::Full, &frame).unwrap().bytes.into_owned()
    }

    fn full(overlay: &Overlay, base: &Table) -> Vec<u8> {
        written(|out| overlay.write_full(base, out))
    }

    fn delta(overlay: &Overlay) -> Vec<u8> {
        written(|out| overlay.write_delta(out))
    }

    fn column(bytes: &[u8]) -> BinaryArray {
        BinaryArray::from_iter_values([bytes])
    }

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    fn play(base: &Table, model: &mut Model, writes: &[Write], asked: &KeyRange) -> Overlay {
        let mut overlay = Overlay::new(base);
        for write in writes {
            match write {
                Write::Put(key, value) => {
                    overlay.put_many(base, &column(key), &column(value));
                    model.insert(key.clone(), value.clone());
                }
                Write::PutAbsent(key, value) => {
                    let absent = !model.contains_key(key);
                    let written = overlay.put_absent(base, &column(key), &column(value));
                    assert_eq!(written, [absent]);
                    model.entry(key.clone()).or_insert_with(|| value.clone());
                }
                Write::Delete(key) => {
                    overlay.delete_many(base, &column(key));
                    model.remove(key);
                }
                Write::Take(key) => {
                    let mut taken = None;
                    overlay.take_many(base, &column(key), |_, value| taken = Some(value.to_vec()));
                    assert_eq!(taken, model.remove(key));
                }
                Write::DeleteRange(range) => {
                    let before = model.len();
                    model.retain(|key, _| range.is_empty() || !range.contains(key));
                    let removed = overlay.delete_range(base, range);
                    assert_eq!(removed, (before - model.len()) as u64);
                }
            }
            assert_eq!(overlay.rows(), model.len() as u64);
        }
        for limit in [0, 1, 3, usize::MAX] {
            let mut found = Vec::new();
            overlay.scan(base, asked, limit, |k, v| found.push((k.to_vec(), v.to_vec())));
            let inside = model.iter().filter(|(k, _)| !asked.is_empty() && asked.contains(k));
            let expected: Vec<_> =
                inside.take(limit).map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(found, expected, "{asked:?} limit {limit}");
        }
        overlay
    }

    fn contents(table: &Table) -> Model {
        let all = Overlay::new(table);
        let mut model = Model::new();
        all.scan(table, &KeyRange::all(), usize::MAX, |k, v| {
            model.insert(k.to_vec(), v.to_vec());
        });
        assert_eq!(model.len(), table.len());
        model
    }

    proptest! {
        /// Batch by batch: reads agree with a map, and so does the version after the delta.
        #[test]
        fn is_a_map_and_so_is_its_delta(batches in proptest::collection::vec((writes(), range()), 1..5)) {
            let groups = KeyGroupRange { start: 0, end: 2 };
            let (mut base, mut model) = (Table::default(), Model::new());
            for (writes, asked) in &batches {
                let overlay = play(&base, &mut model, writes, asked);
                let keys = BinaryArray::from_iter_values(model.keys());
                let values: Vec<_> = model.values().map(|v| Some(v.as_slice())).collect();
                prop_assert_eq!(overlay.get_many(&base, &keys), values);
                let mut from_full = Table::default();
                codec::apply(&body(full(&overlay, &base)), &mut from_full, groups, groups).unwrap();
                prop_assert_eq!(contents(&from_full), model.clone());
                let mut from_delta = base.clone();
                codec::apply(&body(delta(&overlay)), &mut from_delta, groups, groups).unwrap();
                prop_assert_eq!(contents(&from_delta), model.clone());
                overlay.apply_to(&mut base);
                prop_assert_eq!(contents(&base), model.clone());
            }
        }

        #[test]
        fn damaged_bodies_never_panic(bytes: Vec<u8>, writes in writes(), at: usize, with: u8) {
            let groups = KeyGroupRange { start: 0, end: 2 };
            let _ = codec::apply(&body(bytes), &mut Table::default(), groups, groups);
            let mut model = Model::new();
            let all = KeyRange::all();
            let mut damaged = delta(&play(&Table::default(), &mut model, &writes, &all));
            let at = at % damaged.len();
            damaged[at] ^= with;
            let _ = codec::apply(&body(damaged), &mut Table::default(), groups, groups);
        }
    }

    #[test]
    fn what_is_there_already_is_no_change() {
        let mut base = Table::default();
        base.put(Hash::of(b"\0\0a"), b"\0\0a", b"1");
        let mut overlay = Overlay::new(&base);
        overlay.put_many(&base, &column(b"\0\0a"), &column(b"1"));
        overlay.delete_many(&base, &column(b"\0\0b"));
        overlay.delete_range(&base, &KeyRange::prefix(b"\0\0c"));
        overlay.put_many(&base, &column(b"\0\0d"), &column(b"2"));
        overlay.delete_many(&base, &column(b"\0\0d"));
        assert!(overlay.is_unchanged());
    }
}
