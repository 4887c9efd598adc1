//! Text where a schema should be: read or refused, and a type that was read can be named.

#![no_main]

use fluvial_core::ddl::{ddl_name, parse_ddl, parse_type};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = parse_type(text);
    let Ok(schema) = parse_ddl(text) else { return };
    for field in schema.fields() {
        let name = ddl_name(field.data_type());
        assert_eq!(&parse_type(&name).expect("names of types are types"), field.data_type());
    }
});
