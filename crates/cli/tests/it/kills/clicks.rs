//! Two hundred small files of clicks: out of order, some of them late, some without a time.

use crate::program::Folder;
use fluvial_sim::Rng;
use std::fmt::Write;
use std::fs;

const FILES: u64 = 200;
const CLICKS: u64 = 10;
const PAGES: [&str; 7] =
    ["/", "/home", "/pricing", "/docs", "/docs/start", "/about us", "/\u{e4}nderungen"];

/// 10:00 of 10 June 2026, in seconds.
const START: u64 = 1_781_085_600;

/// A folder with the job and its input. The same seed gives the same clicks.
pub(super) fn folder(seed: u64) -> Folder {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/clickstream/pipeline.sql");
    let script = fs::read_to_string(example).unwrap();
    let small = script.replace("maxFilesPerTrigger => 10", "maxFilesPerTrigger => 4");
    assert_ne!(script, small, "batches have to be small");
    let folder = Folder::with(&small);
    let landing = folder.path().join("landing/clicks");
    fs::create_dir_all(&landing).unwrap();
    let mut rng = Rng::new(seed);
    for file in 0..FILES {
        fs::write(landing.join(format!("part-{file:04}.json")), clicks(file, &mut rng)).unwrap();
    }
    folder
}

/// One file: half a minute of clicks, mixed with older ones.
fn clicks(file: u64, rng: &mut Rng) -> String {
    let mut lines = String::new();
    for _ in 0..CLICKS {
        let at = START + 30 * file + rng.below(60);
        let at = match rng.below(20) {
            0 => Some(at - rng.below(3600)),
            1 => None,
            _ => Some(at - rng.below(400)),
        };
        let time = at.map_or("null".to_owned(), |at| {
            let (hour, minute, second) = (at / 3600 % 24, at / 60 % 60, at % 60);
            format!("\"2026-06-10T{hour:02}:{minute:02}:{second:02}Z\"")
        });
        let page = PAGES[rng.index(PAGES.len())];
        // Tenths are not exact in binary: another order of adding shows.
        let (user, tenths) = (rng.below(50), 1 + rng.below(999));
        let (whole, tenth) = (tenths / 10, tenths % 10);
        writeln!(
            lines,
            r#"{{"user_id":"u{user}","page":"{page}","event_time":{time},"duration_s":{whole}.{tenth}}}"#
        )
        .unwrap();
    }
    lines
}
