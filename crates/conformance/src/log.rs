//! Laws of [`fluvial_core::BatchLog`].
//!
//! ```text
//! batch_log!(my_log, |store| Box::new(MyLog::new(store, "q")));
//! ```
//!
//! The factory makes the log of one process from the process's view of the store. Logs made from
//! views of one disk are logs of one query.

mod cleaning;
mod damage;
mod entries;
mod identity;
mod reading;
mod winning;

pub use cleaning::{removed_is_not_free, truncation_keeps_what_recovery_needs};
pub use damage::damage_is_detected;
pub use identity::{query_id_is_made_once, query_id_is_not_made_up};
pub use reading::{foreign_names_are_ignored, survives_crashes, survives_reopening};
pub use winning::{lost_answers_are_found_again, one_winner, races_have_one_winner};

use fluvial_core::BatchLog;
use fluvial_sim::Process;
use object_store::ObjectStore;
use std::sync::Arc;

/// Makes the log under test over the kit's object store.
pub type Make<'a> = &'a dyn Fn(Arc<dyn ObjectStore>) -> Box<dyn BatchLog>;

/// The log of one process.
fn open(make: Make<'_>, process: &Process) -> Box<dyn BatchLog> {
    make(process.store())
}

/// Stamps the laws of [`fluvial_core::BatchLog`] on an implementation: one `#[test]` per law, in
/// a module of the given name.
#[macro_export]
macro_rules! batch_log {
    ($name:ident, $make:expr) => {
        $crate::batch_log!(@laws $name, $make, [
            one_winner
            races_have_one_winner
            lost_answers_are_found_again
            survives_reopening
            survives_crashes
            foreign_names_are_ignored
            damage_is_detected
            truncation_keeps_what_recovery_needs
            removed_is_not_free
            query_id_is_made_once
            query_id_is_not_made_up
        ]);
    };
    (@laws $name:ident, $make:expr, [$($law:ident)*]) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $law() {
                    $crate::log::$law(&$make);
                }
            )*
        }
    };
}
