//! Scripts of streaming SQL: any text is read or refused, without panic, overflow or hang.
//!
//! The examples are good seeds: copy their `pipeline.sql` to `fuzz/corpus/sql` first.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    // What was read must also be able to show itself: messages do that.
    for statement in fluvial_datafusion::sql::parse_script(text).unwrap_or_default() {
        let _ = format!("{statement:?}");
    }
});
