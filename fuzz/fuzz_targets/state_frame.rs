//! Bytes where a frame of state should be: read or refused, in memory that they can account for.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = fluvial_state_memory::inspect_frame(data);
});
