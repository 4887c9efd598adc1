//! Bytes where the small records of a checkpoint should be: its metadata, its low-water mark.

#![no_main]

use fluvial_checkpoint::format::{
    FORMAT, low_water_bytes, metadata_bytes, parse_low_water, parse_metadata,
};
use fluvial_core::frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = (parse_metadata(data), parse_low_water(data));
    // No fuzzer finds a checksum, so the bytes are also read as the body of a whole record.
    if let Ok(id) = parse_metadata(&frame::seal("metadata", FORMAT, data)) {
        let bytes = metadata_bytes(&id).expect("what was read can be written");
        assert_eq!(parse_metadata(&bytes).expect("what was written can be read"), id);
    }
    if let Ok(batch) = parse_low_water(&frame::seal("lowwater", FORMAT, data)) {
        let bytes = low_water_bytes(batch).expect("what was read can be written");
        assert_eq!(parse_low_water(&bytes).expect("what was written can be read"), batch);
    }
});
