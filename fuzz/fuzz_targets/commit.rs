//! Bytes where a commit should be: read or refused, and what was read can be written and read again.
//!
//! Seeds are bodies of records or whole records.

#![no_main]

use fluvial_checkpoint::format::{FORMAT, commit_bytes, parse_commit};
use fluvial_core::frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = parse_commit(data);
    // No fuzzer finds a checksum, so the bytes are also read as the body of a whole record.
    if let Ok(commit) = parse_commit(&frame::seal("commit", FORMAT, data)) {
        let bytes = commit_bytes(&commit).expect("what was read can be written");
        assert_eq!(parse_commit(&bytes).expect("what was written can be read"), commit);
    }
});
