//! The example that joins impressions with clicks.

use crate::program::{Folder, printed, table_rows};
use std::fs;

/// Ad, when it was shown, when it was clicked, and for how much.
const FIRST: [[&str; 4]; 4] = [
    ["shoes", "2026-06-10 10:00:00", "2026-06-10 10:04:00", "25.0"],
    ["shoes", "2026-06-10 10:00:00", "2026-06-10 10:09:00", "5.0"],
    ["shoes", "2026-06-10 10:01:00", "NULL", "NULL"],
    ["books", "2026-06-10 10:02:00", "NULL", "NULL"],
];

#[test]
fn impressions_meet_their_clicks() {
    let folder = Folder::with_example("ad_clicks");
    let first = printed(&folder.run(&[]));
    assert_eq!(table_rows(&first), FIRST);
    assert!(printed(&folder.run(&[])).contains("nothing new"));

    for name in ["impressions", "clicks"] {
        let later = folder.path().join(format!("later/{name}-2.json"));
        fs::copy(later, folder.path().join(format!("landing/{name}/part-2.json"))).unwrap();
    }
    let third = printed(&folder.run(&[]));
    let clicked = ["books", "2026-06-10 10:30:00", "2026-06-10 10:35:00", "8.0"];
    assert_eq!(table_rows(&third), [&FIRST[..], &[clicked]].concat());
    assert!(third.contains("\"numRowsDroppedByWatermark\":1"), "{third}");
}
