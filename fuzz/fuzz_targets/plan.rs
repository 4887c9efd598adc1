//! Bytes where a plan should be: read or refused, and what was read can be written and read again.
//!
//! Seeds are bodies of records or whole records.

#![no_main]

use fluvial_checkpoint::format::{FORMAT, parse_plan, plan_bytes};
use fluvial_core::frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = parse_plan(data);
    // No fuzzer finds a checksum, so the bytes are also read as the body of a whole record.
    if let Ok(plan) = parse_plan(&frame::seal("plan", FORMAT, data)) {
        let bytes = plan_bytes(&plan).expect("what was read can be written");
        assert_eq!(parse_plan(&bytes).expect("what was written can be read"), plan);
    }
});
