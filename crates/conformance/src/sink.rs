//! Laws of [`fluvial_core::Sink`].
//!
//! ```text
//! sink!(durable: my_sink, || MyPlace::new());      // remembers on the object store
//! sink!(in_process: my_sink, || MyPlace::new());   // forgets with its value
//! ```
//!
//! The expression makes a [`Destination`]: one new, empty place to write to. The kit makes as
//! many as it needs, and one sink per process and place.

mod commits;
mod crashes;
mod owners;
mod races;
mod world;

pub use commits::{
    commit_is_idempotent, complete_replaces, drop_aborts, history_is_kept, note_is_kept,
    staged_is_invisible, told,
};
pub use crashes::{commit_is_atomic_under_crashes, faults_do_no_damage, restarts_end_well};
pub use owners::one_owner;
pub use races::{races_have_one_winner, zombies_change_nothing};

use fluvial_core::{Result, Sink};
use futures::future::{BoxFuture, LocalBoxFuture};
use object_store::ObjectStore;
use std::sync::Arc;

/// How many queries may write to one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// One; every other is refused when it opens the sink.
    One,
    /// Any number; each has batches and notes of its own.
    Many,
}

/// One place to write to, empty at first. The kit writes rows of one column, `value`, 64-bit
/// integers.
pub trait Destination {
    /// The sink of one process. A durable sink keeps everything on `store`; one that forgets
    /// with its value gives out handles of the same value.
    fn sink(&self, store: Arc<dyn ObjectStore>) -> Box<dyn Sink>;

    /// The values that a reader of the destination sees, in any order.
    ///
    /// # Errors
    ///
    /// Any error fails the law.
    fn visible(&self, store: Arc<dyn ObjectStore>) -> BoxFuture<'_, Result<Vec<i64>>>;

    /// How many queries may write here.
    fn owners(&self) -> Owners;

    /// Runs `work` to its end. A sink that needs a runtime of its own brings it here; it must
    /// have one thread, or seeds do not repeat.
    fn drive(&self, work: LocalBoxFuture<'_, ()>) {
        fluvial_sim::block_on(work);
    }
}

/// Stamps the laws of [`fluvial_core::Sink`] on an implementation: one `#[test]` per law, in a
/// module of the given name. See [`Destination`] for what the expression makes.
#[macro_export]
macro_rules! sink {
    (durable: $name:ident, $make:expr) => {
        $crate::sink!(@laws $name, $make, [
            staged_is_invisible
            commit_is_idempotent
            note_is_kept
            told
            drop_aborts
            history_is_kept
            complete_replaces
            one_owner
            commit_is_atomic_under_crashes
            restarts_end_well
            faults_do_no_damage
            races_have_one_winner
            zombies_change_nothing
        ]);
    };
    (in_process: $name:ident, $make:expr) => {
        $crate::sink!(@laws $name, $make, [
            staged_is_invisible
            commit_is_idempotent
            note_is_kept
            told
            drop_aborts
            history_is_kept
            complete_replaces
            one_owner
            races_have_one_winner
            zombies_change_nothing
        ]);
    };
    (@laws $name:ident, $make:expr, [$($law:ident)*]) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $law() {
                    $crate::sink::$law(&|| Box::new($make()) as Box<dyn $crate::sink::Destination>);
                }
            )*
        }
    };
}

/// Makes new destinations.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Destination>;
