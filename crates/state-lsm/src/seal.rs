//! From the writes of a batch to the runs of the next version.

use crate::block::Kind;
use crate::builder::{Built, RunBuilder};
use crate::gone::Gone;
use crate::lookup::hash;
use crate::overlay::{Below, Overlay};
use crate::prefetch::look_up_all;
use crate::run::{HeldBlock, Run};
use crate::shared::Shared;
use crate::version::{Live, Version};
use arrow::array::{Array, BinaryArray};
use bytes::Bytes;
use fluvial_core::{KeyGroupRange, KeyRanges, Result};
use std::sync::{Arc, Mutex};

/// A run of the next version.
#[derive(Debug)]
pub(crate) enum NextRun {
    /// To be stored by this commit.
    New(Box<Built>, Bytes),
    /// Stored before.
    Old(Arc<Run>, KeyGroupRange),
}

/// The next version.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) groups: KeyGroupRange,
    pub(crate) rows: Vec<u64>,
    /// Newest first.
    pub(crate) runs: Vec<NextRun>,
}

/// The next version, or what is left to find out about it.
#[derive(Debug)]
pub(crate) enum Draft {
    Ready(Next),
    /// Of some keys nobody knows whether the version had them.
    Unknown(Arc<Version>, Box<Overlay>),
}

/// A sealed store; it lives as long as the bytes that the engine holds.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) draft: Mutex<Option<Draft>>,
    /// What the commit stores of it, but for the manifest.
    bytes: Bytes,
    /// Blocks stay in memory until the commit.
    _pins: Vec<Arc<HeldBlock>>,
}

impl Sealed {
    pub(crate) fn new(draft: Draft, pins: Vec<Arc<HeldBlock>>) -> Self {
        let bytes = match &draft {
            Draft::Ready(Next { runs, .. }) => match runs.first() {
                Some(NextRun::New(_, bytes)) => bytes.clone(),
                _ => Bytes::new(),
            },
            Draft::Unknown(..) => Bytes::new(),
        };
        Self { draft: Mutex::new(Some(draft)), bytes, _pins: pins }
    }
}

/// Keeps a sealed store for as long as somebody has its bytes.
pub(crate) struct Owner(pub(crate) Arc<Sealed>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Draft {
    /// What a batch makes of a version.
    pub(crate) fn new(base: Arc<Version>, overlay: Overlay, shared: &Shared) -> Self {
        match overlay.has_unknown() {
            true => Self::Unknown(base, Box::new(overlay)),
            false => Self::Ready(next(&base, &overlay, shared)),
        }
    }

    /// Finds out what is left.
    pub(crate) async fn finish(self, shared: &Shared) -> Result<Next> {
        let (base, mut overlay) = match self {
            Self::Ready(next) => return Ok(next),
            Self::Unknown(base, overlay) => (base, overlay),
        };
        let unknown = overlay.unknown_keys();
        let keys: BinaryArray = unknown.iter().map(|key| Some(key.as_slice())).collect();
        let mut has = vec![false; keys.len()];
        look_up_all(shared, &base, &overlay.gone, &keys, |at, value| {
            has[at as usize] = value.is_some();
        })
        .await?;
        for (key, has) in unknown.iter().zip(has) {
            overlay.resolve(hash(key), key, has);
        }
        Ok(next(&base, &overlay, shared))
    }
}

fn next(base: &Version, overlay: &Overlay, shared: &Shared) -> Next {
    let groups = base.groups;
    let all = overlay.all();
    let mut rows = base.rows.clone();
    for (group, delta) in overlay.group_deltas(&all) {
        let rows = &mut rows[usize::from(group.0 - groups.start)];
        *rows = u64::try_from(*rows as i64 + delta).unwrap_or(0);
    }
    let (kept, gone) = keep(base, &overlay.gone);
    let builder = RunBuilder::new(&shared.settings, all.len());
    let mut builder = builder.within(&shared.budget);
    for write in all.iter().filter_map(|at| overlay.entry(*at)) {
        let delta = i64::from(write.value.is_some()) - i64::from(write.below == Below::Has);
        if let Some(kind) = Kind::of(write.value.is_some(), delta) {
            builder.add(write.key, write.hash, kind, write.value.unwrap_or_default());
        }
    }
    let mut runs = Vec::with_capacity(kept.len() + 1);
    if let Some(mut built) = builder.finish(gone) {
        let bytes = Bytes::from(std::mem::take(&mut built.bytes));
        runs.push(NextRun::New(Box::new(built), bytes));
    }
    runs.extend(kept);
    Next { groups, rows, runs }
}

/// The runs that still show something once `gone` is gone, and what of `gone` they must be told.
/// A run that shows nothing is dropped unread.
fn keep(base: &Version, gone: &Gone) -> (Vec<NextRun>, Gone) {
    let mut kept = Vec::new();
    // Neighbours mostly share what hides them.
    let mut hidden: Option<(&Arc<Gone>, Gone)> = None;
    for (at, live) in base.runs.iter().enumerate() {
        let known = hidden.take().filter(|(of, _)| Arc::ptr_eq(of, &live.hidden));
        let (_, hidden) =
            hidden.insert(known.unwrap_or_else(|| (&live.hidden, live.hidden.union(gone))));
        // A run that nobody sees may still hide older ones.
        let hides = || {
            let own = live.gone().minus(hidden);
            base.runs[at + 1..].iter().any(|older| older.may_have_any(&own))
        };
        if !live.is_within(hidden) || hides() {
            kept.push(live);
        }
    }
    let needed = told(gone, &kept);
    let kept = kept.into_iter().map(|live| NextRun::Old(Arc::clone(&live.run), live.clip));
    (kept.collect(), needed)
}

/// What of `gone` some of these runs may have.
pub(crate) fn told(gone: &Gone, runs: &[impl std::borrow::Borrow<Live>]) -> Gone {
    let mut told = Gone::default();
    for (groups, rests) in gone.parts() {
        let mut needed = KeyRanges::default();
        for rest in rests.iter() {
            if runs.iter().any(|live| live.borrow().may_have(&groups, rest)) {
                needed.insert(rest);
            }
        }
        told.add(groups, needed);
    }
    told
}
