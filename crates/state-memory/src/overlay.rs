//! The writes of one batch over a version that stays as it is.

use crate::codec;
use crate::ranges::Ranges;
use crate::table::{Hash, Mark, Table};
use fluvial_core::KeyRange;
use std::ops::ControlFlow;

/// A view of a version with writes over it.
///
/// A key is looked for in `changes`, then in `gone`, then in the version. A record of `changes`
/// that hides one of the version is marked; so counting needs no second look.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    changes: Table,
    /// Removed ranges of the version; `changes` were made after them.
    gone: Ranges,
    rows: u64,
}

impl Overlay {
    /// Nothing over `base`.
    pub(crate) fn new(base: &Table) -> Self {
        Self { rows: base.len() as u64, ..Self::default() }
    }

    /// Number of keys.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether there is no difference to the version.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && self.gone.is_empty()
    }

    /// The value of a key.
    pub(crate) fn get<'a>(&'a self, base: &'a Table, key: &[u8]) -> Option<&'a [u8]> {
        let hash = Hash::of(key);
        if !self.changes.is_empty()
            && let Some(id) = self.changes.find(hash, key)
        {
            return self.changes.value(id);
        }
        self.below(base, hash, key).and_then(|id| base.value(id))
    }

    /// The record of the version that shows through.
    fn below(&self, base: &Table, hash: Hash, key: &[u8]) -> Option<u32> {
        if !self.gone.is_empty() && self.gone.contains(key) {
            return None;
        }
        base.find(hash, key)
    }

    /// Writes a value. What is there already is not written again.
    pub(crate) fn put(&mut self, base: &Table, key: &[u8], value: &[u8]) {
        let hash = Hash::of(key);
        if let Some(id) = self.changes.find(hash, key) {
            self.rows += u64::from(self.changes.value(id).is_none());
            self.changes.set(id, Some(value));
            return;
        }
        let mark = match self.below(base, hash, key) {
            Some(id) if base.value(id) == Some(value) => return,
            Some(_) => Mark::Hides,
            None => {
                self.rows += 1;
                Mark::Plain
            }
        };
        self.changes.insert(hash, key, Some(value), mark);
    }

    /// Writes a value unless there is one; says whether it did.
    pub(crate) fn put_absent(&mut self, base: &Table, key: &[u8], value: &[u8]) -> bool {
        let hash = Hash::of(key);
        if let Some(id) = self.changes.find(hash, key) {
            let gone = self.changes.value(id).is_none();
            if gone {
                self.rows += 1;
                self.changes.set(id, Some(value));
            }
            return gone;
        }
        let absent = self.below(base, hash, key).is_none();
        if absent {
            self.rows += 1;
            self.changes.insert(hash, key, Some(value), Mark::Plain);
        }
        absent
    }

    /// Removes a key, if it is there.
    pub(crate) fn delete(&mut self, base: &Table, key: &[u8]) {
        let hash = Hash::of(key);
        if let Some(id) = self.changes.find(hash, key) {
            self.rows -= u64::from(self.changes.value(id).is_some());
            match self.changes.mark(id) {
                Mark::Hides => self.changes.set(id, None),
                Mark::Plain => self.changes.remove(id),
            }
        } else if self.below(base, hash, key).is_some() {
            self.rows -= 1;
            self.changes.insert(hash, key, None, Mark::Hides);
        }
    }

    /// Removes every key of `range`; returns how many there were.
    pub(crate) fn delete_range(&mut self, base: &Table, range: &KeyRange) -> u64 {
        let (mut puts, mut hidden) = (0, 0);
        self.changes.remove_range(range, |changes, id| {
            puts += u64::from(changes.value(id).is_some());
            hidden += u64::from(changes.mark(id) == Mark::Hides);
        });
        let below: u64 = self.gone.outside(range).iter().map(|piece| base.count(piece)).sum();
        if below > 0 {
            self.gone.insert(range);
        }
        let removed = puts + below - hidden;
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
        let clear = self.changes.is_clear(range);
        let over = if clear { Vec::new() } else { self.puts(range, limit) };
        let mut over = over.into_iter().peekable();
        for piece in self.gone.outside(range) {
            let mut flow = ControlFlow::Continue(());
            base.scan(&piece, |id| {
                let key = base.key(id);
                while let Some(put) = over.next_if(|put| self.changes.key(*put) < key) {
                    flow =
                        visit(self.changes.key(put), self.changes.value(put).unwrap_or_default());
                    flow?;
                }
                if !clear && self.hides(key) {
                    return ControlFlow::Continue(());
                }
                flow = visit(key, base.value(id).unwrap_or_default());
                flow
            });
            if flow.is_break() {
                return;
            }
        }
        for put in over {
            let value = self.changes.value(put).unwrap_or_default();
            if visit(self.changes.key(put), value).is_break() {
                return;
            }
        }
    }

    fn hides(&self, key: &[u8]) -> bool {
        self.changes.find(Hash::of(key), key).is_some()
    }

    /// The first `limit` written values of `range`, in order.
    fn puts(&self, range: &KeyRange, limit: usize) -> Vec<u32> {
        let mut puts = Vec::new();
        self.changes.scan(range, |id| {
            if self.changes.value(id).is_some() {
                puts.push(id);
            }
            if puts.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        puts
    }

    /// What changed, as the body of a delta.
    pub(crate) fn delta_body(&self) -> Vec<u8> {
        codec::delta_body(&self.gone, &self.changes)
    }

    /// Everything, as the body of a full frame.
    pub(crate) fn full_body(&self, base: &Table) -> Vec<u8> {
        codec::full_body(base, &self.gone, &self.changes, self.rows)
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        self.changes.held() + self.gone.held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::KeyGroupRange;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Write {
        Put(Vec<u8>, Vec<u8>),
        PutAbsent(Vec<u8>, Vec<u8>),
        Delete(Vec<u8>),
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
            2 => key().prop_map(Write::Delete),
            1 => range().prop_map(Write::DeleteRange),
        ];
        proptest::collection::vec(write, 0..20)
    }

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    fn play(base: &Table, model: &mut Model, writes: &[Write], asked: &KeyRange) -> Overlay {
        let mut overlay = Overlay::new(base);
        for write in writes {
            match write {
                Write::Put(key, value) => {
                    overlay.put(base, key, value);
                    model.insert(key.clone(), value.clone());
                }
                Write::PutAbsent(key, value) => {
                    let absent = !model.contains_key(key);
                    assert_eq!(overlay.put_absent(base, key, value), absent);
                    model.entry(key.clone()).or_insert_with(|| value.clone());
                }
                Write::Delete(key) => {
                    overlay.delete(base, key);
                    model.remove(key);
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
                for (key, value) in &model {
                    prop_assert_eq!(overlay.get(&base, key), Some(value.as_slice()));
                }
                let mut from_full = Table::default();
                codec::apply(&overlay.full_body(&base), &mut from_full, groups, groups).unwrap();
                prop_assert_eq!(contents(&from_full), model.clone());
                codec::apply(&overlay.delta_body(), &mut base, groups, groups).unwrap();
                prop_assert_eq!(contents(&base), model.clone());
            }
        }

        #[test]
        fn damaged_bodies_never_panic(body: Vec<u8>, writes in writes(), at: usize, with: u8) {
            let groups = KeyGroupRange { start: 0, end: 2 };
            let _ = codec::apply(&body, &mut Table::default(), groups, groups);
            let mut model = Model::new();
            let all = KeyRange::all();
            let mut body = play(&Table::default(), &mut model, &writes, &all).delta_body();
            let at = at % body.len();
            body[at] ^= with;
            let _ = codec::apply(&body, &mut Table::default(), groups, groups);
        }
    }

    #[test]
    fn what_is_there_already_is_no_change() {
        let mut base = Table::default();
        base.put(Hash::of(b"\0\0a"), b"\0\0a", b"1");
        let mut overlay = Overlay::new(&base);
        overlay.put(&base, b"\0\0a", b"1");
        overlay.delete(&base, b"\0\0b");
        overlay.delete_range(&base, &KeyRange::prefix(b"\0\0c"));
        overlay.put(&base, b"\0\0d", b"2");
        overlay.delete(&base, b"\0\0d");
        assert!(overlay.is_unchanged());
    }
}
