//! Bytes where an unpacked block of LSM state should be.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = fluvial_state_lsm::inspect_block(data);
});
