//! Laws of [`fluvial_core::Source`].
//!
//! ```text
//! source!(my_source, |disk| Box::new(MyWorld::new(disk)));
//! ```
//!
//! The factory makes the world of one source, with nothing in it yet: what the kit adds with
//! [`SourceWorld::feed`], and what a source reads when it is opened as a new process. Two worlds
//! that are fed as often hold the same data.

mod admission;
mod history;
mod planning;
mod projection;
mod reading;
mod releasing;

pub use admission::admits_within_limits;
pub use planning::{frontier_is_not_passed, makes_progress, planning_is_not_remembering};
pub use projection::projects;
pub use reading::{is_additive, replays, survives_crashes};
pub use releasing::{release_survives_crashes, releases_only_the_past};

use async_trait::async_trait;
use fluvial_core::Source;
use fluvial_sim::Disk;
use futures::future::LocalBoxFuture;
use object_store::ObjectStore;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::fmt::Debug;
use std::sync::Arc;

/// What a source reads, and a way to open it.
#[async_trait]
pub trait SourceWorld: Send + Sync {
    /// Opens the source as a new process does. Everything durable is read and written through
    /// `store`, which may crash.
    async fn open(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn Source>;

    /// Adds the next portion of data: at least two rows.
    fn feed(&self);

    /// The most rows that one indivisible unit has: a file, say. 1 if rows can be told apart.
    fn unit_rows(&self) -> u64;

    /// Whether there is always more to read, however little was fed.
    fn is_endless(&self) -> bool {
        false
    }

    /// Runs `work` to its end. A source that needs a runtime of its own brings it here; it must
    /// have one thread, or seeds do not repeat.
    fn drive(&self, work: LocalBoxFuture<'_, ()>) {
        fluvial_sim::block_on(work);
    }
}

/// Makes the world of a source on a disk.
pub type Make<'a> = &'a dyn Fn(&Disk) -> Box<dyn SourceWorld>;

/// Runs a property on random inputs: always the same ones, so that a failure can be repeated.
fn check<T: Debug>(
    strategy: impl Strategy<Value = T>,
    property: impl Fn(T) -> Result<(), TestCaseError>,
) {
    let config = Config { cases: 32, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(&strategy, property) {
        panic!("{failure}");
    }
}

/// Stamps the laws of [`fluvial_core::Source`] on an implementation: one `#[test]` per law, in a
/// module of the given name.
#[macro_export]
macro_rules! source {
    ($name:ident, $make:expr) => {
        $crate::source!(@laws $name, $make, [
            replays
            makes_progress
            admits_within_limits
            is_additive
            frontier_is_not_passed
            planning_is_not_remembering
            releases_only_the_past
            release_survives_crashes
            projects
            survives_crashes
        ]);
    };
    (@laws $name:ident, $make:expr, [$($law:ident)*]) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $law() {
                    $crate::source::$law(&$make);
                }
            )*
        }
    };
}
