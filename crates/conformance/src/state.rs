//! Laws of [`fluvial_core::StateBackend`] and [`fluvial_core::StateStore`].
//!
//! ```text
//! state_backend!(my_state, |store| Box::new(MyBackend::new(store, next_run_id())));
//! ```
//!
//! The factory makes the backend of one process from the process's view of the store; each call
//! is another run. Backends made from views of one disk keep the state of one query.

mod crashes;
mod damage;
mod handles;
mod history;
mod model;
mod retention;
mod world;

pub use crashes::{commit_is_atomic_under_crashes, faults_do_no_damage, is_replayable};
pub use damage::{damage_is_found, gone_is_said, verified_is_readable};
pub use handles::{
    drop_aborts, handles_are_isolated, has_its_groups_only, new_is_new, reads_its_writes,
    scans_in_order, the_first_stays, unchanged_is_free, what_is_taken_is_gone,
};
pub use history::{genesis_is_empty, is_exact, is_exact_under_rescaling};
pub use model::{Contents, ModelBackend, ModelStore};
pub use retention::{retention_deletes, retention_keeps};

use fluvial_core::StateBackend;
use object_store::ObjectStore;
use std::sync::Arc;

/// Makes the backend under test over the kit's object store.
pub type Make<'a> = &'a dyn Fn(Arc<dyn ObjectStore>) -> Box<dyn StateBackend>;

/// Stamps the laws of [`fluvial_core::StateBackend`] and [`fluvial_core::StateStore`] on an
/// implementation: one `#[test]` per law, in a module of the given name.
#[macro_export]
macro_rules! state_backend {
    ($name:ident, $make:expr) => {
        $crate::state_backend!(@laws $name, $make, [
            reads_its_writes
            scans_in_order
            drop_aborts
            handles_are_isolated
            has_its_groups_only
            unchanged_is_free
            the_first_stays
            what_is_taken_is_gone
            new_is_new
            is_exact
            is_exact_under_rescaling
            genesis_is_empty
            commit_is_atomic_under_crashes
            faults_do_no_damage
            is_replayable
            retention_keeps
            retention_deletes
            damage_is_found
            gone_is_said
            verified_is_readable
        ]);
    };
    (@laws $name:ident, $make:expr, [$($law:ident)*]) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $law() {
                    $crate::state::$law(&$make);
                }
            )*
        }
    };
}
