//! A value that tasks can wait on, without a runtime.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A value behind a lock, and those who wait for it to change.
///
/// A waiter looks at the value under the same lock that changes it, so no change is missed.
#[derive(Debug)]
pub(crate) struct Watch<T>(Mutex<Watched<T>>);

#[derive(Debug)]
struct Watched<T> {
    value: T,
    waiting: Vec<Waker>,
}

impl<T> Watch<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(Watched { value, waiting: Vec::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Watched<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock().value)
    }

    /// Changes the value and wakes everybody who waits.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut watched = self.lock();
        let result = change(&mut watched.value);
        let waiting = std::mem::take(&mut watched.waiting);
        drop(watched); // A waker may run its task on this thread.
        waiting.into_iter().for_each(Waker::wake);
        result
    }

    /// Waits until `look` returns something.
    pub(crate) async fn wait_for<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> R {
        poll_fn(|cx| {
            let mut watched = self.lock();
            if let Some(found) = look(&watched.value) {
                return Poll::Ready(found);
            }
            if !watched.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                watched.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until `take` takes something out of the value; the others are not woken.
    pub(crate) async fn take_when<R>(&self, mut take: impl FnMut(&mut T) -> Option<R>) -> R {
        poll_fn(|cx| {
            let mut watched = self.lock();
            if let Some(taken) = take(&mut watched.value) {
                return Poll::Ready(taken);
            }
            if !watched.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                watched.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_sim::{block_on, yield_now};
    use futures::future::join3;

    #[test]
    fn every_waiter_sees_a_change() {
        let watch = Watch::new(0);
        let at_least = |n| watch.wait_for(move |v| (*v >= n).then_some(*v));
        let changing = async {
            yield_now().await;
            watch.change(|v| *v = 1);
            yield_now().await;
            watch.change(|v| *v = 2);
        };
        assert_eq!(block_on(join3(at_least(1), at_least(2), changing)), (1, 2, ()));
    }

    #[test]
    fn one_taker_takes() {
        let watch = Watch::new(Some(7));
        assert_eq!(block_on(watch.take_when(Option::take)), 7);
        assert_eq!(watch.read(|v| *v), None);
    }
}
