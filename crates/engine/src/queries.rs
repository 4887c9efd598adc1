//! The queries of one session.

use crate::engine::Engine;
use crate::event::{Observe, QueryEvent};
use crate::listener::{ListenerId, Listeners, StreamingQueryListener};
use crate::query::StreamingQuery;
use crate::spawn::Spawn;
use crate::spec::QuerySpec;
use crate::watch::Watch;
use fluvial_core::{Clock, Error, QueryId, Result, RunId};
use futures::future::{Either, select};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The running queries of one session, and its listeners. Clones share them. Nothing is shared
/// between sessions.
#[derive(Clone)]
pub struct Queries(Arc<Session>);

struct Session {
    spawner: Arc<dyn Spawn>,
    clock: Arc<dyn Clock>,
    listeners: Listeners,
    running: Watch<Running>,
}

/// Of a query that ended nothing is kept but how it ended, until somebody asks.
#[derive(Default)]
struct Running {
    queries: BTreeMap<QueryId, StreamingQuery>,
    ended: Vec<(RunId, Option<Arc<Error>>)>,
}

impl Queries {
    /// The queries of a new session, which runs them on `spawner`.
    pub fn new(spawner: Arc<dyn Spawn>, clock: Arc<dyn Clock>) -> Self {
        let listeners = Listeners::new(Arc::clone(&spawner));
        let running = Watch::new(Running::default());
        Self(Arc::new(Session { spawner, clock, listeners, running }))
    }

    /// Starts a query in the background.
    ///
    /// # Errors
    ///
    /// As [`Engine::open`]; `Invalid` if a query with the same id or name is running.
    pub async fn start(&self, spec: QuerySpec) -> Result<StreamingQuery> {
        let observer = Arc::new(Told(Arc::clone(&self.0)));
        let engine = Engine::open(spec, observer).await?;
        let query = engine.query();
        self.0.running.change(|running| {
            refuse_twice(&running.queries, &query)?;
            running.queries.insert(query.id().clone(), query.clone());
            Ok::<_, Error>(())
        })?;
        self.0.spawner.spawn(Box::pin(engine.run()));
        Ok(query)
    }

    /// The running queries, by id.
    pub fn active(&self) -> Vec<StreamingQuery> {
        self.0.running.read(|running| running.queries.values().cloned().collect())
    }

    /// The running query with this id.
    pub fn get(&self, id: &QueryId) -> Option<StreamingQuery> {
        self.0.running.read(|running| running.queries.get(id).cloned())
    }

    /// Waits until some query has ended since [`Self::reset_terminated`] was last called.
    ///
    /// # Errors
    ///
    /// Why a query failed, if one has failed since, also before the call.
    pub async fn await_any_termination(&self) -> Result<()> {
        self.0.running.wait_for(ended).await
    }

    /// As [`Self::await_any_termination`], at most for `timeout`. Returns whether one has ended.
    ///
    /// # Errors
    ///
    /// As [`Self::await_any_termination`].
    pub async fn await_any_termination_within(&self, timeout: Duration) -> Result<bool> {
        let waiting = pin!(self.0.running.wait_for(ended));
        match select(waiting, self.0.clock.sleep(timeout)).await {
            Either::Left((result, _)) => result.map(|()| true),
            Either::Right(_) => Ok(false),
        }
    }

    /// Forgets the queries that have ended.
    pub fn reset_terminated(&self) {
        self.0.running.change(|running| running.ended.clear());
    }

    /// Stops every running query and waits for that.
    ///
    /// # Errors
    ///
    /// As [`StreamingQuery::stop`].
    pub async fn stop_all(&self) -> Result<()> {
        for query in self.active() {
            query.stop().await?;
        }
        Ok(())
    }

    /// Adds a listener.
    pub fn add_listener(&self, listener: Arc<dyn StreamingQueryListener>) -> ListenerId {
        self.0.listeners.add(listener)
    }

    /// Removes a listener; what happened before is still told to it.
    pub fn remove_listener(&self, id: ListenerId) {
        self.0.listeners.remove(id);
    }

    /// The listeners, oldest first.
    pub fn list_listeners(&self) -> Vec<ListenerId> {
        self.0.listeners.ids()
    }
}

impl fmt::Debug for Queries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queries").field(&self.active()).finish()
    }
}

fn ended(running: &Running) -> Option<Result<()>> {
    if running.ended.is_empty() {
        return None;
    }
    let failed = running.ended.iter().find_map(|(_, failure)| failure.as_ref());
    Some(failed.map_or(Ok(()), |error| Err(crate::query::retold(error))))
}

fn refuse_twice(running: &BTreeMap<QueryId, StreamingQuery>, query: &StreamingQuery) -> Result<()> {
    let what = if running.contains_key(query.id()) {
        format!("query {} is running already in this session", query.id())
    } else if let Some(name) = query.name()
        && running.values().any(|other| other.name() == Some(name))
    {
        format!("a query with the name {name:?} is running already in this session")
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("{what}: stop it first")).with_condition("CONCURRENT_QUERY"))
}

/// Passes events on to the listeners, and takes ended queries out of the session.
struct Told(Arc<Session>);

impl Observe for Told {
    fn observe(&self, event: QueryEvent) {
        if let QueryEvent::Terminated(end) = &event {
            self.0.running.change(|running| {
                let mine = running.queries.get(&end.id).is_some_and(|q| *q.run_id() == end.run_id);
                if mine && let Some(query) = running.queries.remove(&end.id) {
                    running.ended.push((end.run_id.clone(), query.failure()));
                }
            });
        }
        self.0.listeners.post(event);
    }
}
