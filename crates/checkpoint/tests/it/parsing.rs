//! Nothing that is on a disk makes a parser panic or reserve what it names.

use crate::world::plan;
use fluvial_checkpoint::format::{
    parse_commit, parse_low_water, parse_metadata, parse_plan, plan_bytes,
};
use fluvial_core::{ErrorKind, frame};
use proptest::prelude::*;

fn all(bytes: &[u8]) -> [Option<ErrorKind>; 4] {
    [
        parse_plan(bytes).err().map(|e| e.kind()),
        parse_commit(bytes).err().map(|e| e.kind()),
        parse_metadata(bytes).err().map(|e| e.kind()),
        parse_low_water(bytes).err().map(|e| e.kind()),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_corrupt(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(all(&bytes), [Some(ErrorKind::Corrupt); 4]);
    }

    #[test]
    fn any_framed_bytes_are_corrupt(
        kind in "plan|commit|metadata|lowwater",
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        prop_assert_eq!(all(&frame::seal(&kind, 1, &body)), [Some(ErrorKind::Corrupt); 4]);
    }

    #[test]
    fn any_framed_json_is_refused_or_read(text in "[\\[{\"a-z0-9:,}\\]]{0,60}") {
        for kind in ["plan", "commit", "metadata", "lowwater"] {
            let _ = all(&frame::seal(kind, 1, text.as_bytes()));
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let body = "[".repeat(1 << 20);
    assert_eq!(all(&frame::seal("plan", 1, body.as_bytes()))[0], Some(ErrorKind::Corrupt));
}

#[test]
fn a_later_format_is_said_to_be_one() {
    let whole = plan_bytes(&plan(0, "r")).unwrap();
    let body = frame::open("plan", 1, &whole).unwrap();
    let error = parse_plan(&frame::seal("plan", 2, body)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.condition(), Some("CHECKPOINT_FORMAT_TOO_NEW"));
}
