//! Bytes where an entry or a part of a file source's log should be.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = fluvial_sources::parse_log_object(data);
});
