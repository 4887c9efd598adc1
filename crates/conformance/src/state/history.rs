//! Laws about what a version shows, checked against a map for each version.

use super::Make;
use super::world::{ALL, Version, Write, for_all, open, put, seal, show, step, writes};
use fluvial_core::StateBackend;
use fluvial_sim::{Disk, block_on};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Something that happens to a query.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A batch over a version: the newest, or any.
    Batch { at: Option<Index>, cuts: Vec<u16>, writes: Vec<Write>, end: End },
    /// The process ends and another one begins.
    Restart,
    /// Some versions are live from now on.
    Retain(Vec<Index>),
}

/// How a batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Drop,
}

/// Events; batches are cut by one of `cuts`.
pub(super) fn events(
    cuts: impl Strategy<Value = Vec<u16>> + Clone + 'static,
    retains: u32,
) -> impl Strategy<Value = Vec<Event>> {
    let end = prop_oneof![5 => Just(End::Commit), 1 => Just(End::Drop)];
    let at = prop_oneof![4 => Just(None), 1 => any::<Index>().prop_map(Some)];
    let batch = (at, cuts, writes(), end).prop_map(|(at, cuts, writes, end)| Event::Batch {
        at,
        cuts,
        writes,
        end,
    });
    let retain = vec(any::<Index>(), 1..3).prop_map(Event::Retain);
    vec(prop_oneof![9 => batch, 2 => Just(Event::Restart), retains => retain], 1..20)
}

/// A version, and which one it was made from.
struct Made {
    version: Version,
    /// Tells versions of one number apart.
    attempt: usize,
    parent: usize,
}

/// A query's state and all its versions.
struct Query<'a> {
    make: Make<'a>,
    disk: Disk,
    backend: Box<dyn StateBackend>,
    versions: Vec<Made>,
    attempts: usize,
}

impl<'a> Query<'a> {
    fn new(make: Make<'a>) -> Self {
        let disk = Disk::new();
        let backend = make(disk.process().store());
        let genesis = Made { version: Version::genesis(), attempt: 0, parent: 0 };
        Self { make, disk, backend, versions: vec![genesis], attempts: 0 }
    }

    async fn happen(&mut self, event: &Event) {
        match event {
            Event::Batch { at, cuts, writes, end } => {
                let at = at.map_or(self.versions.len() - 1, |at| at.index(self.versions.len()));
                let Made { version: base, attempt: parent, .. } = &self.versions[at];
                if *end == End::Drop {
                    seal(self.backend.as_ref(), base, cuts, writes).await.expect("a batch");
                } else {
                    let next = step(self.backend.as_ref(), base, cuts, writes).await;
                    self.attempts += 1;
                    let (attempt, parent) = (self.attempts, *parent);
                    let version = next.expect("a version");
                    self.versions.push(Made { version, attempt, parent });
                }
            }
            Event::Restart => {
                self.backend = (self.make)(self.disk.process().store());
                self.check().await;
            }
            Event::Retain(live) => self.retain(live).await,
        }
    }

    async fn retain(&mut self, live: &[Index]) {
        let live: Vec<usize> = live.iter().map(|at| at.index(self.versions.len())).collect();
        let live: Vec<usize> =
            live.into_iter().filter(|at| self.versions[*at].version.number.0 > 0).collect();
        let number = |at: &usize| self.versions[*at].version.number;
        let Some(oldest) = live.iter().map(number).min() else { return };
        let snapshots = live.iter().flat_map(|at| self.versions[*at].version.snapshots.clone());
        let snapshots: Vec<_> = snapshots.collect();
        self.backend.retain(&snapshots).await.expect("retaining");
        // What is older and not live may be gone from here on, and so may what was made from it:
        // versions may share files. An attempt in flight is made from what is live.
        let (mut at, mut there) = (0, vec![0]);
        self.versions.retain(|Made { version, attempt, parent }| {
            at += 1;
            let in_flight = version.number >= oldest && there.contains(parent);
            let stays = *attempt == 0 || live.contains(&(at - 1)) || in_flight;
            if stays {
                there.push(*attempt);
            }
            stays
        });
    }

    /// Every version shows what it must.
    async fn check(&self) {
        for Made { version, .. } in &self.versions {
            let number = version.number;
            let shown = show(self.backend.as_ref(), version).await.expect("a version");
            assert_eq!(shown, version.contents, "version {number}");
        }
    }
}

/// Plays events, then checks every version in that process and in a later one.
pub(super) fn hold(make: Make<'_>, events: &[Event]) {
    block_on(async {
        let mut query = Query::new(make);
        for event in events {
            query.happen(event).await;
        }
        query.check().await;
        query.happen(&Event::Restart).await;
    });
}

/// Law 1 of the backend, with a constant number of partitions: every version shows exactly its
/// contents, whatever else was committed or dropped, in this process and in any later one.
///
/// # Panics
///
/// If the law does not hold.
pub fn is_exact(make: Make<'_>) {
    for_all(40, events(Just(vec![4]), 0), |events| hold(make, &events));
    // A long history: whatever a backend does every so often, it does it here.
    block_on(async {
        let mut query = Query::new(make);
        for i in 0..40u8 {
            let at = None;
            let writes = [put(i % 7, i), put(i, i)].concat();
            query.happen(&Event::Batch { at, cuts: vec![1], writes, end: End::Commit }).await;
        }
        query.happen(&Event::Restart).await;
    });
}

/// Law 1 of the backend, while the number of partitions and their bounds change.
///
/// # Panics
///
/// If the law does not hold.
pub fn is_exact_under_rescaling(make: Make<'_>) {
    let cuts = vec(ALL.start..=ALL.end, 0..4);
    for_all(40, events(cuts, 0), |events| hold(make, &events));
    block_on(async {
        let backend = make(Disk::new().process().store());
        let mut version = Version::genesis();
        let keys = (0..8u8).flat_map(|group| (0..3u8).map(move |key| vec![0, group, key]));
        let mut writes = vec![Write::Put(keys.map(|key| (key.clone(), key)).collect())];
        // One partition, then 4, 3, 8, more than there are groups, and one again.
        for cuts in [&[][..], &[2, 4, 6], &[3, 6], &[1, 2, 3, 4, 5, 6, 7], &[1, 1, 8, 8], &[]] {
            version = step(backend.as_ref(), &version, cuts, &writes).await.expect("a version");
            version.snapshots.reverse();
            let shown = show(backend.as_ref(), &version).await.expect("all of it");
            assert_eq!(shown, version.contents, "after cuts at {cuts:?}");
            writes = vec![];
        }
    });
}

/// Law 2 of the backend: without snapshots a store is the empty version 0, also when there is
/// state of later versions.
///
/// # Panics
///
/// If the law does not hold.
pub fn genesis_is_empty(make: Make<'_>) {
    let disk = Disk::new();
    block_on(async {
        let backend = make(disk.process().store());
        let genesis = Version::genesis();
        step(backend.as_ref(), &genesis, &[4], &put(1, 1)).await.expect("a version");
        for backend in [backend, make(disk.process().store())] {
            let store = open(backend.as_ref(), ALL, &genesis).await.expect("version 0");
            assert_eq!(store.size().rows, 0, "version 0 has keys");
            let shown = show(backend.as_ref(), &genesis).await.expect("version 0");
            assert!(shown.is_empty(), "version 0 has keys");
        }
    });
}
