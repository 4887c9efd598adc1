//! Files of lines: any bytes are lines, however the store cuts them.
//!
//! The first byte is the size of the chunks.

#![no_main]

use fluvial_fuzz::File;
use fluvial_sources::FileFormat;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((chunk, bytes)) = data.split_first() else { return };
    let (format, ddl) = (FileFormat::Text, Some("value STRING"));
    let whole = File { format, ddl, options: Vec::new(), bytes, chunk: usize::MAX };
    let cut = File { chunk: usize::from(*chunk).max(1), ..whole.clone() };
    let rows = whole.read().expect("any bytes are lines");
    assert_eq!(cut.read().expect("any bytes are lines"), rows, "the chunks made a difference");
});
