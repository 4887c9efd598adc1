//! Text where the token of a snapshot should be.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = fluvial_state_memory::inspect_token(text);
});
