//! Knowing that one is called from within a query or a listener, where waiting for that query
//! would wait for oneself.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;

/// Whose code is running on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The query with this [`crate::query::Shared::key`].
    Query(usize),
    /// Some listener.
    Listener,
}

thread_local! {
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

/// Leaves the scope, also when the code within panics.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        SCOPES.with_borrow_mut(|scopes| scopes.pop());
    }
}

/// Runs `code` within `scope`.
pub(crate) fn enter<R>(scope: Scope, code: impl FnOnce() -> R) -> R {
    SCOPES.with_borrow_mut(|scopes| scopes.push(scope));
    let _leave = Leave;
    code()
}

/// Runs a future whose every poll is within `scope`.
pub(crate) async fn entered<T>(scope: Scope, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| enter(scope, || future.as_mut().poll(cx))).await
}

/// Whether this code was called from within the query with this key, or from within a listener.
pub(crate) fn is_inside(query: usize) -> bool {
    SCOPES.with_borrow(|scopes| {
        scopes.iter().any(|scope| matches!(scope, Scope::Listener) || *scope == Scope::Query(query))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_sim::{block_on, yield_now};

    #[test]
    fn only_polls_are_inside() {
        let mut future = pin!(entered(Scope::Query(1), async {
            assert!(is_inside(1) && !is_inside(2));
            yield_now().await;
            assert!(is_inside(1));
        }));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut cx).is_pending());
        assert!(!is_inside(1));
        block_on(future);
        assert!(!is_inside(1));
    }
}
