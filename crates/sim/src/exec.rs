//! Executors without threads: one future, one mortal process, or several in a seeded order.

use crate::process::Process;
use crate::rng::Rng;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// No run needs this many polls; exceeding it means a livelock.
const POLLS_MAX: u64 = 5_000_000;

/// Returns `Pending` once, giving the scheduler a chance to run someone else.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        // Combinators such as `FuturesUnordered` poll only what was woken.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs a future that cannot crash.
///
/// # Panics
///
/// After five million polls: a livelock, or a future that waits for something outside.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..POLLS_MAX {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
    panic!("livelock: no progress after {POLLS_MAX} polls");
}

/// Runs a future inside a process. `None` means the process crashed first; the future is dropped.
///
/// Under another executor (tokio's, for DataFusion) await [`Process::live`] instead.
pub fn run<T>(process: &Process, future: impl Future<Output = T>) -> Option<T> {
    block_on(process.live(future))
}

/// A process and what it is doing.
pub type Task<'a, T> = (Process, Pin<Box<dyn Future<Output = T> + 'a>>);

/// Polls several processes in a random order derived from `rng`, until each ended or crashed.
///
/// Every I/O call yields before its effect, so every interleaving of effects can happen.
///
/// # Panics
///
/// After five million polls.
pub fn interleave<T>(rng: &mut Rng, tasks: Vec<Task<'_, T>>) -> Vec<Option<T>> {
    let mut ended: Vec<Option<T>> = tasks.iter().map(|_| None).collect();
    let mut live: Vec<_> = tasks.into_iter().enumerate().collect();
    let mut polls = 0;
    while !live.is_empty() {
        polls += 1;
        assert!(polls < POLLS_MAX, "livelock: no progress after {POLLS_MAX} polls");
        let pick = rng.index(live.len());
        let (task, (process, future)) = &mut live[pick];
        if process.crashed() {
            drop(live.swap_remove(pick));
            continue;
        }
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            ended[*task] = Some(value);
            drop(live.swap_remove(pick));
        }
    }
    ended
}
