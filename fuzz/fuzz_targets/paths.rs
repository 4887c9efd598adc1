//! Paths: any text is a place, a pattern or an error, and any folders are columns or not.

#![no_main]

use fluvial_fuzz::File;
use fluvial_sources::{FileFormat, FilePlace};
use object_store::memory::InMemory;
use object_store::path::Path;
use std::sync::Arc;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(place) = FilePlace::new(Arc::new(InMemory::new()), "file:///", text) {
        let _ = place.to_string();
    }
    let name = format!("in/{}/f.json", text.trim_matches('/'));
    if Path::parse(&name).is_err() {
        return;
    }
    let (format, bytes) = (FileFormat::Json, &b"{\"v\":1}\n"[..]);
    let file =
        File { format, schema: None, options: vec![("recursiveFileLookup", "false")], bytes };
    // Folders that are no columns are not looked into.
    let _ = file.read_as(&name);
});
