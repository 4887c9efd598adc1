//! Bytes where the index of a run should be, behind blocks of any size.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: (u16, &[u8])| {
    let _ = fluvial_state_lsm::inspect_index(input.1, u64::from(input.0));
});
