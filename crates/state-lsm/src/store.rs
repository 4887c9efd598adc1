//! An open store.

use crate::budget::Charge;
use crate::gone::Gone;
use crate::lookup::{Answer, Asked, Blocks, OnUnread, hash, look_up};
use crate::merge::Way;
use crate::overlay::{Below, Overlay};
use crate::run::{HeldBlock, Unread, WholeRun};
use crate::seal::Draft;
use crate::shared::Shared;
use crate::token::Token;
use crate::version::Version;
use arrow::array::{Array, BinaryArray};
use arrow::buffer::BooleanBuffer;
use async_trait::async_trait;
use fluvial_core::{
    Change, Entries, Error, KeyGroup, KeyGroupRange, KeyRange, Prefetch, Result, SealedStore,
    StateStore, StateVersion, StoreId, StoreSize,
};
use fluvial_state::Column;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// What a version was made from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// One snapshot of exactly the store's key groups.
    Exact(Token),
    /// Parts of snapshots, after the number of partitions changed.
    Parts,
}

/// One version being turned into the next.
#[derive(Debug)]
pub(crate) struct LsmStore {
    pub(crate) id: StoreId,
    pub(crate) groups: KeyGroupRange,
    pub(crate) version: StateVersion,
    pub(crate) base: Arc<Version>,
    pub(crate) origin: Origin,
    pub(crate) overlay: Overlay,
    /// Runs that stay in memory as a whole; if all do, nothing need be prefetched.
    pub(crate) whole: Vec<WholeRun>,
    /// Blocks that must stay in memory, and their bytes.
    pub(crate) pins: Vec<Arc<HeldBlock>>,
    pub(crate) pinned: usize,
    /// Values of the version that were copied out of their blocks.
    pub(crate) fetched: Overlay,
    /// The last keys that were read, and which of them had values: those are often written next.
    pub(crate) known: RefCell<Option<(BinaryArray, BooleanBuffer)>>,
    pub(crate) charge: Charge,
    pub(crate) shared: Arc<Shared>,
}

/// The value of a key, by where it lies.
#[derive(Debug, Clone)]
enum Place {
    Nowhere,
    Written,
    Fetched,
    Stored(u32, Range<u32>),
}

pub(crate) fn not_prefetched(id: &StoreId) -> Error {
    Error::invalid(format!(
        "state of {id} was read without being prefetched first: this is a mistake in the operator"
    ))
    .with_condition("STATE_NOT_PREFETCHED")
}

fn same(a: &BinaryArray, b: &BinaryArray) -> bool {
    let bytes = |column: &BinaryArray| {
        let offsets = column.value_offsets();
        (offsets[0] as usize, offsets[offsets.len() - 1] as usize)
    };
    let ((a0, a1), (b0, b1)) = (bytes(a), bytes(b));
    a.len() == b.len()
        && a1 - a0 == b1 - b0
        && (a0 == b0 && a.value_offsets() == b.value_offsets())
        && a.value_data()[a0..a1] == b.value_data()[b0..b1]
}

impl LsmStore {
    fn assert_own(&self, keys: &BinaryArray) {
        for key in keys {
            let key = key.expect("a state key is not null");
            assert!(
                KeyGroup::of(key).is_some_and(|group| self.groups.contains(group)),
                "a key outside of groups {} was written to {}",
                self.groups,
                self.id
            );
        }
    }

    fn assert_values(keys: &BinaryArray, values: &BinaryArray) {
        assert_eq!(keys.len(), values.len(), "every state key needs a value");
        assert_eq!(values.null_count(), 0, "a state value is not null");
    }

    /// Bytes of what the batch wrote and of what was copied out for it.
    fn own(&self) -> usize {
        self.overlay.held() + self.fetched.held()
    }

    /// Takes note of the memory that the batch needs, and looks for room.
    pub(crate) fn weigh(&mut self) -> Result<()> {
        let own = self.own();
        self.charge.resize(own);
        self.shared.budget.check(own + self.pinned, &self.id, &self.shared.owner)
    }

    /// Looks for keys of which the batch says nothing.
    fn look_below(
        &self,
        keys: &BinaryArray,
        hashes: &[u64],
        mut tell: impl FnMut(u32, Answer),
    ) -> Blocks {
        let rows = hashes.iter().enumerate().filter(|(at, hash)| {
            let key = keys.value(*at);
            if self.overlay.has(**hash, key) {
                return false;
            }
            let fetched = self.fetched(**hash, key);
            let is_left = fetched.is_none();
            fetched.into_iter().for_each(|answer| tell(*at as u32, answer));
            is_left
        });
        let asked = Asked::new(keys, rows.map(|(at, hash)| (at as u32, *hash)));
        look_up(&self.base, &self.overlay.gone, asked, OnUnread::Stop, tell)
    }

    /// Whether the version has each of these keys, where the batch says nothing of it.
    fn below(&self, keys: &BinaryArray, hashes: &[u64]) -> Vec<Below> {
        if let Some((known, found)) = &*self.known.borrow()
            && same(known, keys)
        {
            let below = |found| if found { Below::Has } else { Below::HasNot };
            return found.iter().map(below).collect();
        }
        let mut below = vec![Below::HasNot; keys.len()];
        if self.base.runs.is_empty() {
            return below;
        }
        self.look_below(keys, hashes, |at, answer| {
            below[at as usize] = match answer {
                Answer::Value(..) | Answer::Fetched => Below::Has,
                Answer::Absent => Below::HasNot,
                Answer::Unread { .. } => Below::Unknown,
            };
        });
        below
    }

    fn hashes(keys: &BinaryArray) -> Vec<u64> {
        (0..keys.len()).map(|at| hash(keys.value(at))).collect()
    }

    /// Finds out of the keys in `range` whether the version has them.
    fn resolve(&mut self, range: &KeyRange) -> Result<()> {
        let unknown = self.overlay.unknown_in(range);
        if unknown.is_empty() {
            return Ok(());
        }
        let keys: BinaryArray = unknown.iter().map(|key| Some(key.as_slice())).collect();
        let hashes = Self::hashes(&keys);
        let mut answers: Vec<_> =
            (0..keys.len()).map(|at| self.fetched(hashes[at], keys.value(at))).collect();
        let rows = hashes.iter().enumerate().filter(|(at, _)| answers[*at].is_none());
        let asked = Asked::new(&keys, rows.map(|(at, hash)| (at as u32, *hash)));
        look_up(&self.base, &self.overlay.gone, asked, OnUnread::Stop, |at, answer| {
            answers[at as usize] = Some(answer);
        });
        let answers = answers.into_iter().map(|answer| match answer? {
            Answer::Value(..) | Answer::Fetched => Some(true),
            Answer::Absent => Some(false),
            Answer::Unread { .. } => None,
        });
        let answers: Vec<_> = answers.collect();
        for (key, has) in unknown.iter().zip(answers) {
            let has = has.ok_or_else(|| not_prefetched(&self.id))?;
            self.overlay.resolve(hash(key), key, has);
        }
        Ok(())
    }
}

#[async_trait]
impl StateStore for LsmStore {
    fn base(&self) -> StateVersion {
        self.version
    }

    fn groups(&self) -> KeyGroupRange {
        self.groups
    }

    fn is_local(&self) -> bool {
        self.whole.len() == self.base.runs.len()
    }

    async fn prefetch(&mut self, what: &Prefetch) -> Result<()> {
        if self.is_local() {
            return Ok(());
        }
        let brought = self.bring(what).await;
        brought.map_err(|error| error.at(format_args!("state of {}", self.id)))
    }

    fn get_many(&self, keys: &BinaryArray) -> Result<BinaryArray> {
        assert_eq!(keys.null_count(), 0, "a state key is not null");
        let hashes = Self::hashes(keys);
        let mut places = vec![Place::Nowhere; keys.len()];
        if !self.overlay.is_unchanged() {
            for (at, hash) in hashes.iter().enumerate() {
                if self.overlay.has(*hash, keys.value(at)) {
                    places[at] = Place::Written;
                }
            }
        }
        let mut unread = false;
        let blocks = self.look_below(keys, &hashes, |at, answer| match answer {
            Answer::Value(block, value) => places[at as usize] = Place::Stored(block, value),
            Answer::Fetched => places[at as usize] = Place::Fetched,
            Answer::Absent => {}
            Answer::Unread { .. } => unread = true,
        });
        if unread {
            return Err(not_prefetched(&self.id));
        }
        let mut column = Column::new(keys.len(), 0);
        for (at, place) in places.iter().enumerate() {
            let of = |overlay| Overlay::get(overlay, hashes[at], keys.value(at))?.value;
            column.push(match place {
                Place::Nowhere => None,
                Place::Stored(block, value) => Some(blocks.value(*block, value)),
                Place::Written => of(&self.overlay),
                Place::Fetched => of(&self.fetched),
            })?;
        }
        let found = column.finish();
        let valid = found
            .nulls()
            .map_or_else(|| BooleanBuffer::new_set(found.len()), |nulls| nulls.inner().clone());
        *self.known.borrow_mut() = Some((keys.clone(), valid));
        Ok(found)
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        self.entries(range, limit, Way::Up)
    }

    fn scan_back(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        self.entries(range, limit, Way::Down)
    }

    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        Self::assert_values(keys, values);
        self.assert_own(keys);
        let hashes = Self::hashes(keys);
        let below = self.below(keys, &hashes);
        let bytes = |column: &BinaryArray| {
            let offsets = column.value_offsets();
            (offsets[offsets.len() - 1] - offsets[0]) as usize
        };
        self.overlay.reserve(keys.len(), bytes(keys) + bytes(values));
        for at in 0..keys.len() {
            self.overlay.put(hashes[at], keys.value(at), values.value(at), below[at]);
        }
        self.weigh()
    }

    fn put_absent(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<BooleanBuffer> {
        Self::assert_values(keys, values);
        self.assert_own(keys);
        let hashes = Self::hashes(keys);
        let below = self.below(keys, &hashes);
        if below.contains(&Below::Unknown) {
            return Err(not_prefetched(&self.id));
        }
        let written = BooleanBuffer::collect_bool(keys.len(), |at| {
            let (hash, key) = (hashes[at], keys.value(at));
            let is_absent = match self.overlay.get(hash, key) {
                Some(write) => write.value.is_none(),
                None => below[at] == Below::HasNot,
            };
            if is_absent {
                self.overlay.put(hash, key, values.value(at), below[at]);
            }
            is_absent
        });
        self.weigh()?;
        Ok(written)
    }

    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        self.assert_own(keys);
        let hashes = Self::hashes(keys);
        let below = self.below(keys, &hashes);
        self.known.take();
        for at in 0..keys.len() {
            self.overlay.delete(hashes[at], keys.value(at), below[at]);
        }
        self.weigh()
    }

    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        self.delete_ranges(std::slice::from_ref(range))
    }

    fn delete_ranges(&mut self, ranges: &[KeyRange]) -> Result<u64> {
        let mut doomed = Gone::default();
        ranges.iter().for_each(|range| doomed.insert(range));
        let doomed = doomed.within(self.groups);
        let mut total = 0;
        if !self.overlay.is_unchanged() {
            for range in doomed.ranges() {
                self.resolve(&range)?;
                total += self.overlay.count(&range).unwrap_or(0);
            }
        }
        let unseen = doomed.minus(&self.overlay.gone);
        let mut below = vec![0; self.base.rows.len()];
        let counted = self.base.count(&unseen, &mut below);
        counted.map_err(|Unread| not_prefetched(&self.id))?;
        total += below.iter().sum::<i64>();
        if total > 0 {
            self.known.take();
            self.overlay.delete_ranges(&doomed, KeyGroup(self.groups.start), &below);
            // Less is held than before, whatever others hold.
            self.charge.resize(self.own());
        }
        u64::try_from(total).map_err(|_| crate::objects::damaged("keys were counted wrong"))
    }

    fn size(&self) -> StoreSize {
        let memory_bytes = (self.own() + self.pinned) as u64;
        StoreSize { rows: rows(&self.base, &self.overlay), memory_bytes }
    }

    fn seal(self: Box<Self>) -> Result<SealedStore> {
        let rows = rows(&self.base, &self.overlay);
        let is_known = !self.overlay.has_unknown();
        let change = match &self.origin {
            Origin::Exact(token) if self.overlay.is_unchanged() => Change::None(token.to_string()),
            _ if rows == 0 && is_known => Change::None(Token::default().to_string()),
            _ => {
                let _first = self.shared.jobs.pace.first();
                let draft = Draft::new(self.base, self.overlay, &self.shared);
                self.shared.seal(draft, self.pins)
            }
        };
        let (id, groups, base) = (self.id, self.groups, self.version);
        Ok(SealedStore { id, groups, base, rows, change })
    }
}

fn rows(base: &Version, overlay: &Overlay) -> u64 {
    u64::try_from(base.total_rows() as i64 + overlay.delta()).unwrap_or(0)
}
