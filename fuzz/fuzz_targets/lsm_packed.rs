//! Bytes where a packed block should be: unpacked or refused, in memory that they can account for.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: (usize, Vec<u8>)| {
    // With a checksum that fits, or no input would come past it.
    let (plain, mut bytes) = input;
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let _ = fluvial_state_lsm::inspect_packed(&bytes, plain);
});
