//! Listeners: told what happens to queries, on their own task and at their own pace.

use crate::event::{QueryEvent, QueryIdle, QueryStarted, QueryTerminated};
use crate::inside::{Scope, enter};
use crate::progress::StreamingQueryProgress;
use crate::spawn::Spawn;
use crate::watch::Watch;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// How many events may wait for a listener before the oldest reports are left out.
const WAITING_MAX: usize = 1000;

/// Is told what happens to the queries of a session.
///
/// The methods run aside, on a task of the listener's own that may block. One that is slow or
/// panics costs itself: reports (progress, idle) that it cannot take in time are left out, oldest first;
/// starts and ends never are.
pub trait StreamingQueryListener: Send + Sync {
    /// A run began.
    fn on_started(&self, event: &QueryStarted);

    /// A batch was committed.
    fn on_progress(&self, progress: &StreamingQueryProgress);

    /// A query has had nothing to do for a while.
    fn on_idle(&self, event: &QueryIdle);

    /// A run ended.
    fn on_terminated(&self, event: &QueryTerminated);
}

/// Names a listener, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(u64);

/// The listeners of a session.
pub(crate) struct Listeners {
    spawner: Arc<dyn Spawn>,
    all: Mutex<Mailboxes>,
}

/// The mailbox of each listener, and the number of the next one.
#[derive(Default)]
struct Mailboxes {
    next: u64,
    of: BTreeMap<ListenerId, Arc<Watch<Mailbox>>>,
}

/// What waits for one listener.
#[derive(Debug, Default)]
struct Mailbox {
    events: VecDeque<Arc<QueryEvent>>,
    closed: bool,
}

impl Mailbox {
    fn put(&mut self, event: Arc<QueryEvent>) {
        if self.events.len() >= WAITING_MAX {
            let is_report =
                |e: &Arc<QueryEvent>| matches!(**e, QueryEvent::Progress(_) | QueryEvent::Idle(_));
            if let Some(oldest) = self.events.iter().position(is_report) {
                self.events.remove(oldest);
            }
        }
        self.events.push_back(event);
    }

    /// The next event; `Some(None)` when there will be no more.
    fn take(&mut self) -> Option<Option<Arc<QueryEvent>>> {
        match self.events.pop_front() {
            Some(event) => Some(Some(event)),
            None => self.closed.then_some(None),
        }
    }
}

impl Listeners {
    pub(crate) fn new(spawner: Arc<dyn Spawn>) -> Self {
        Self { spawner, all: Mutex::default() }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Mailboxes) -> R) -> R {
        f(&mut self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, listener: Arc<dyn StreamingQueryListener>) -> ListenerId {
        let mailbox = Arc::new(Watch::new(Mailbox::default()));
        let id = self.with(|all| {
            let id = ListenerId(all.next);
            all.next += 1;
            all.of.insert(id, Arc::clone(&mailbox));
            id
        });
        self.spawner.spawn_blocking(Box::pin(async move {
            while let Some(event) = mailbox.take_when(Mailbox::take).await {
                tell(listener.as_ref(), &event);
            }
        }));
        id
    }

    /// Removes a listener; what waits for it is still delivered.
    pub(crate) fn remove(&self, id: ListenerId) {
        if let Some(mailbox) = self.with(|all| all.of.remove(&id)) {
            mailbox.change(|mailbox| mailbox.closed = true);
        }
    }

    pub(crate) fn ids(&self) -> Vec<ListenerId> {
        self.with(|all| all.of.keys().copied().collect())
    }

    pub(crate) fn post(&self, event: QueryEvent) {
        let event = Arc::new(event);
        let mailboxes: Vec<_> = self.with(|all| all.of.values().cloned().collect());
        for mailbox in mailboxes {
            mailbox.change(|mailbox| mailbox.put(Arc::clone(&event)));
        }
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.ids().into_iter().for_each(|id| self.remove(id));
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listeners({:?})", self.ids())
    }
}

/// A panicking listener is its own affair: the panic has been printed by the panic hook.
fn tell(listener: &dyn StreamingQueryListener, event: &QueryEvent) {
    let telling = || match event {
        QueryEvent::Started(event) => listener.on_started(event),
        QueryEvent::Progress(progress) => listener.on_progress(progress),
        QueryEvent::Idle(event) => listener.on_idle(event),
        QueryEvent::Terminated(event) => listener.on_terminated(event),
    };
    let _ = catch_unwind(AssertUnwindSafe(|| enter(Scope::Listener, telling)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::{BatchTime, QueryId, RunId};

    fn started(name: u32) -> QueryEvent {
        QueryEvent::Started(QueryStarted {
            id: QueryId::new(format!("q{name}")).unwrap(),
            run_id: RunId::new("r").unwrap(),
            name: None,
            timestamp: BatchTime(0),
        })
    }

    fn idle(at: i64) -> QueryEvent {
        QueryEvent::Idle(QueryIdle {
            id: QueryId::new("q").unwrap(),
            run_id: RunId::new("r").unwrap(),
            timestamp: BatchTime(at),
        })
    }

    #[test]
    fn a_full_mailbox_leaves_out_the_oldest_reports_only() {
        let mut mailbox = Mailbox::default();
        mailbox.put(Arc::new(started(0)));
        for at in 0..5000 {
            mailbox.put(Arc::new(idle(at)));
        }
        mailbox.put(Arc::new(started(1)));
        assert_eq!(mailbox.events.len(), WAITING_MAX);
        assert!(matches!(**mailbox.events.front().unwrap(), QueryEvent::Started(_)));
        assert!(matches!(**mailbox.events.back().unwrap(), QueryEvent::Started(_)));
        let QueryEvent::Idle(newest) = &*mailbox.events[WAITING_MAX - 2] else { panic!() };
        assert_eq!(newest.timestamp, BatchTime(4999));
    }
}
