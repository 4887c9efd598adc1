//! Listeners cannot stall or break a query.

use fluvial::prelude::*;
use fluvial::{
    QueryIdle, QueryStarted, QueryTerminated, StreamingQueryListener, StreamingQueryProgress,
};
use std::sync::{Arc, Condvar, Mutex};

/// Open or not.
#[derive(Default)]
struct Door(Mutex<bool>, Condvar);

impl Door {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |open| !*open).unwrap());
    }
}

/// Waits at a door, and opens another one when the query has ended.
struct Blocking {
    door: Arc<Door>,
    done: Arc<Door>,
}

impl StreamingQueryListener for Blocking {
    fn on_started(&self, _: &QueryStarted) {
        self.door.wait();
    }
    fn on_progress(&self, _: &StreamingQueryProgress) {
        self.door.wait();
    }
    fn on_idle(&self, _: &QueryIdle) {}
    fn on_terminated(&self, _: &QueryTerminated) {
        self.done.open();
    }
}

/// Does not bear to be told anything.
struct Panicking;

impl StreamingQueryListener for Panicking {
    fn on_started(&self, _: &QueryStarted) {
        panic!("started");
    }
    fn on_progress(&self, _: &StreamingQueryProgress) {
        panic!("progress");
    }
    fn on_idle(&self, _: &QueryIdle) {
        panic!("idle");
    }
    fn on_terminated(&self, _: &QueryTerminated) {
        panic!("terminated");
    }
}

/// On one thread: nothing else could run if a listener had it.
#[tokio::test]
async fn blocked_and_panicking_listeners_cost_only_themselves() {
    let session = Session::new().unwrap();
    let door = Arc::new(Door::default());
    let done: Vec<Arc<Door>> = (0..5).map(|_| Arc::default()).collect();
    session.streams().add_listener(Arc::new(Panicking));
    for done in &done {
        let (door, done) = (Arc::clone(&door), Arc::clone(done));
        session.streams().add_listener(Arc::new(Blocking { door, done }));
    }
    let rows = session.read_stream().format("rate-micro-batch").option("rowsPerBatch", 2);
    let rows = rows.load_options().await.unwrap();
    let writer = rows.write_stream().unwrap().format("memory").query_name("rows");
    let query = writer.trigger(Trigger::Once).start().await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(session.sql("SELECT * FROM rows").await.unwrap().count().await.unwrap(), 2);
    // They are told everything all the same, when they are ready.
    door.open();
    done.iter().for_each(|done| done.wait());
}
