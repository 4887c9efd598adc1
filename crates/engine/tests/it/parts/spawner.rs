//! Tasks under the test's control.

use fluvial_engine::Spawn;
use futures::future::BoxFuture;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// Polls what was spawned beside the test's own future, in turn.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl Spawn for Tasks {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.lock().unwrap().push(task);
    }

    fn spawn_blocking(&self, task: BoxFuture<'static, ()>) {
        self.spawn(task);
    }
}

impl Tasks {
    /// Runs `test` to its end, and the tasks as far as they get meanwhile.
    pub(crate) fn run<T>(&self, test: impl Future<Output = T>) -> T {
        let mut test = pin!(test);
        fluvial_sim::block_on(poll_fn(|cx| {
            if let Poll::Ready(result) = test.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            // Tasks may spawn tasks.
            let mut running = std::mem::take(&mut *self.0.lock().unwrap());
            running.retain_mut(|task| task.as_mut().poll(cx).is_pending());
            self.0.lock().unwrap().extend(running);
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    /// Drops every task, as a runtime does that is shut down.
    pub(crate) fn shut_down(&self) {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap());
        drop(tasks);
    }
}
