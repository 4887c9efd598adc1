//! Progress for programs: one line of JSON each.

use super::view::View;
use fluvial_engine::StreamingQueryProgress;
use serde_json::json;

/// A batch, with the fields of Spark's `StreamingQueryProgress`.
pub(super) fn batch(progress: &StreamingQueryProgress) -> String {
    progress.json()
}

/// A query that ended; only if that says more than its batches did.
pub(super) fn ended(view: &View) -> Option<String> {
    view.found_nothing().then(|| json!({"name": view.name, "message": "nothing new"}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::testing::progress;
    use crate::progress::view::{End, Pace};

    #[test]
    fn a_batch_is_one_line() {
        let line = batch(&progress(3, 16, None, Some(2.7)));
        assert!(!line.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["batchId"], &value["numInputRows"]), (&json!(3), &json!(16)));
    }

    #[test]
    fn nothing_new_is_a_line_too() {
        let mut view = View::new("q", Pace::Finite);
        view.ended(End::Done);
        assert_eq!(ended(&view).unwrap(), r#"{"message":"nothing new","name":"q"}"#);
        view.batch(&progress(0, 1, None, None));
        assert_eq!(ended(&view), None);
    }
}
