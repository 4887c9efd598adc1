//! Text where the token of a snapshot of LSM state should be.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = fluvial_state_lsm::inspect_token(text);
});
