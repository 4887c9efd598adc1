//! Who goes first: while a batch is sealed or committed, merging stands still between two pieces of
//! work, so that it takes neither the processor nor the disk from it.

use crate::budget::lock;
use std::sync::Mutex;
use std::task::{Poll, Waker};

/// Commits under way, and merging that waits for them.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    running: usize,
    ended: u64,
    waiting: Vec<Waker>,
}

/// Merging stands still while this lives.
#[derive(Debug)]
pub(crate) struct First<'p>(&'p Pace);

impl Pace {
    /// What follows goes first.
    pub(crate) fn first(&self) -> First<'_> {
        lock(&self.0).running += 1;
        First(self)
    }

    /// Lets other tasks of the thread go on, and one of the commits that are under way end. With
    /// one always under way merging still gets on, a piece for each.
    pub(crate) async fn breathe(&self) {
        let (mut seen, mut is_new) = (None, true);
        std::future::poll_fn(|cx| {
            let mut inner = lock(&self.0);
            let before = *seen.get_or_insert(inner.ended);
            let is_first = std::mem::take(&mut is_new);
            if inner.running > 0 && inner.ended == before {
                inner.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            if is_first {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut inner = lock(&self.0.0);
            inner.running -= 1;
            inner.ended += 1;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    #[test]
    fn merging_waits_for_the_end_of_a_commit_and_not_for_the_next() {
        let pace = Pace::default();
        let mut cx = Context::from_waker(Waker::noop());
        let first = pace.first();
        let mut breath = pin!(pace.breathe());
        assert!(breath.as_mut().poll(&mut cx).is_pending());
        assert!(breath.as_mut().poll(&mut cx).is_pending());
        let _next = pace.first();
        drop(first);
        assert!(breath.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn without_a_commit_others_go_on_once() {
        let pace = Pace::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut breath = pin!(pace.breathe());
        assert!(breath.as_mut().poll(&mut cx).is_pending());
        assert!(breath.as_mut().poll(&mut cx).is_ready());
    }
}
