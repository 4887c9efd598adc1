//! The laws of batch logs, stamped on ours.

use fluvial_checkpoint::ObjectLog;
use object_store::path::Path;

fluvial_conformance::batch_log!(in_a_folder, |store| {
    Box::new(ObjectLog::new(store, Path::from("checkpoints/q"))) as _
});

fluvial_conformance::batch_log!(at_the_root, |store| {
    Box::new(ObjectLog::new(store, Path::default())) as _
});
